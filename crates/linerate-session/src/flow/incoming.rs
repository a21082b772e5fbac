//! A receiver of datagrams.

use linerate_model::plan::TestPlan;
use linerate_model::sample::RecvReport;

use super::{Alone, Row, Rows, warm_intervals};
use crate::Surroundings;
use crate::habits::Habits;
use crate::receiver::{Message, Receiver, Setup};

/// What arrives on a stream of datagrams. Where only time distinguishes the warm-up, that has an account of its own.
#[derive(Debug)]
pub struct Incoming {
    habits: Habits,
    warmup_ns: u64,
    account: Receiver,
    rows: Rows,
    /// While it lasts.
    warm: Option<Receiver>,
    /// Of the warm-up that is over.
    warmed: RecvReport,
    end_said: bool,
    /// The sender has marked its end.
    ended: bool,
}

/// What is none of a stream's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Apart {
    /// It belongs to the opening of the stream.
    Opening,
    /// Its sender marks its end.
    End,
}

impl Incoming {
    /// Before the first arrival; this makes room for all intervals. `around` is asked for the thread alone.
    pub fn new(plan: &TestPlan, habits: Habits, setup: Setup, around: &dyn Surroundings) -> Self {
        let account = Receiver::new(setup, around.thread());
        let warm = (habits.warm_by_time && plan.warmup.0 > 0).then(|| {
            let intervals = Some(warm_intervals(plan.warmup.0, plan.interval.0));
            Receiver::new(Setup { intervals, ..setup }, around.thread())
        });
        Self {
            habits,
            warmup_ns: plan.warmup.0,
            account: account.ending_after(plan.duration().map(|d| d.0)),
            rows: Rows::default(),
            warm,
            warmed: RecvReport::default(),
            end_said: false,
            ended: false,
        }
    }

    /// What these bytes are, if they are none of its data.
    #[inline]
    pub fn apart(&mut self, bytes: &[u8]) -> Option<Apart> {
        if bytes.is_empty() && self.habits.end_marks > 0 {
            self.ended = true;
            return Some(Apart::End);
        }
        (self.habits.opens)(bytes).then_some(Apart::Opening)
    }

    /// A call into the kernel brought something.
    #[inline]
    pub fn on_call(&mut self) {
        self.warm.as_mut().unwrap_or(&mut self.account).on_call();
    }

    /// One message, of a test that began at `started_ns` if it has begun: whether it is counted as warm-up by its time,
    /// and whether it was one of this test.
    #[inline]
    pub fn on_message(
        &mut self,
        message: &Message<'_>,
        started_ns: Option<u64>,
        around: &dyn Surroundings,
    ) -> (bool, bool) {
        let was_warm = self.warm.is_some();
        match self.warm_at(message.at_ns, started_ns, around) {
            Some(warm) => (true, warm.on_message(message, &Alone(around))),
            None => {
                // The call that brought it counted as one of the warm-up.
                if was_warm {
                    self.account.on_call();
                }
                (false, self.account.on_message(message, around))
            }
        }
    }

    /// All messages of a call were taken in; it returned at `now_ns`.
    #[inline]
    pub fn on_read(&mut self, now_ns: u64) {
        if self.warm.is_none() {
            self.account.on_read(now_ns);
        }
    }

    /// Nothing is queued from before `now_ns`.
    #[inline]
    pub fn on_idle(&mut self, now_ns: u64, started_ns: Option<u64>, around: &dyn Surroundings) {
        match self.warm_at(now_ns, started_ns, around) {
            Some(warm) => warm.on_idle(now_ns, &Alone(around)),
            None => self.account.on_idle(now_ns, around),
        }
    }

    /// Whether anything begins with the test, and not with an arrival on this stream, and may not have begun.
    #[inline]
    pub fn begins_with_test(&self) -> bool {
        self.warm.is_some() || (self.habits.measured_from_start && !self.account.has_begun())
    }

    /// What begins with the test, which began at `started_ns`.
    #[inline]
    pub fn begin(&mut self, started_ns: u64, around: &dyn Surroundings) {
        if let Some(warm) = &mut self.warm {
            warm.begin_at(started_ns, &Alone(around));
        } else if self.habits.measured_from_start {
            self.account.begin_at(started_ns.saturating_add(self.warmup_ns), around);
        }
    }

    /// Nothing has arrived in the measured time, which began at `at_ns` for all, and it is `now_ns`: there are the rows of
    /// that time, so that what is missing is noticed in the last of them.
    pub fn begin_unheard(&mut self, at_ns: u64, now_ns: u64, around: &dyn Surroundings) {
        if now_ns > at_ns && !self.account.has_begun() {
            self.account.begin_at(at_ns, &Alone(around));
            self.account.on_idle(now_ns, &Alone(around));
        }
    }

    /// The next interval that is over, once.
    #[inline]
    pub fn row(&mut self) -> Option<Row> {
        let warm = self.warm.as_ref().map_or(&self.warmed.intervals[..], Receiver::intervals);
        self.rows.next(warm, self.account.intervals())
    }

    /// How many datagrams the sender says in a datagram of its own that it sent, once.
    #[inline]
    pub fn peer_end(&mut self) -> Option<u64> {
        self.account.peer_end().filter(|_| !std::mem::replace(&mut self.end_said, true))
    }

    /// Different datagrams of the measured time so far.
    #[inline]
    pub fn unique(&self) -> u64 {
        self.account.unique()
    }

    /// Whether the sender has said how many it sent.
    #[inline]
    pub fn has_end(&self) -> bool {
        self.account.peer_end().is_some()
    }

    /// Whether nothing more can come, when its sender says that it sent `reported`.
    #[inline]
    pub fn is_complete(&self, reported: Option<u64>) -> bool {
        self.ended || self.sent(reported).is_some_and(|sent| self.account.has_all(sent))
    }

    /// Whether its warm-up has ended, or never was.
    #[inline]
    pub fn is_measuring(&self) -> bool {
        self.warm.is_none()
    }

    /// Reading ends while up to `datagrams` wait in the socket.
    pub fn leave_unread(&mut self, datagrams: u64) {
        self.account.leave_unread(datagrams);
    }

    /// Closes the account of the warm-up; that of the measured time goes on with the next number.
    #[cold]
    pub fn end_warmup(&mut self, started_ns: Option<u64>, around: &dyn Surroundings) {
        let Some(mut warm) = self.warm.take() else { return };
        self.account.follow(&warm, around.thread());
        if let Some(started) = started_ns {
            warm.begin_at(started, &Alone(around));
            self.account.begin_at(started.saturating_add(self.warmup_ns), around);
        }
        self.warmed = warm.finish(None, None, &Alone(around));
    }

    /// The end, when its sender says that it sent `reported`; `drops` is the socket's counter.
    pub fn finish(
        self,
        reported: Option<u64>,
        drops: Option<u32>,
        around: &dyn Surroundings,
    ) -> RecvReport {
        let sent = self.sent(reported);
        let warmed = self.warmed.counts;
        let report = self.account.finish(sent, drops, around);
        RecvReport {
            warmup: report.warmup.saturating_add(warmed.datagrams),
            warmup_expected: warmed.expected,
            warmup_lost: warmed.lost,
            ..report
        }
    }

    /// Datagrams of the measured time; where time alone divides, peers count those of the warm-up among them.
    #[inline]
    fn sent(&self, reported: Option<u64>) -> Option<u64> {
        Some(reported?.saturating_sub(self.warmed.counts.expected))
    }

    /// The account of the warm-up, if what happens at `at_ns` belongs to it; once it does not, it is over.
    #[inline]
    fn warm_at(
        &mut self,
        at_ns: u64,
        started_ns: Option<u64>,
        around: &dyn Surroundings,
    ) -> Option<&mut Receiver> {
        self.warm.as_ref()?;
        if started_ns.is_some_and(|start| at_ns >= start.saturating_add(self.warmup_ns)) {
            self.end_warmup(started_ns, around);
        }
        self.warm.as_mut()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;

    use linerate_model::plan::{Traffic, UdpPlan};
    use linerate_model::sample::ThreadUse;
    use linerate_model::units::{DatagramSize, Nanos};
    use linerate_wire::framing::{Framing, Mark};

    use super::*;
    use crate::habits::IPERF3;

    const MS: u64 = 1_000_000;

    /// Streams that share when their measured time begins.
    #[derive(Default)]
    struct Together(Cell<Option<u64>>);

    impl Surroundings for Together {
        fn origin(&self, first_arrival_ns: u64) -> u64 {
            let origin = self.0.get().unwrap_or(first_arrival_ns);
            self.0.set(Some(origin));
            origin
        }

        fn thread(&self) -> ThreadUse {
            ThreadUse::default()
        }
    }

    fn plan() -> TestPlan {
        let udp = UdpPlan::new(DatagramSize::new(100).unwrap());
        TestPlan {
            warmup: Nanos(200 * MS),
            interval: Nanos(100 * MS),
            ..TestPlan::new(Traffic::Udp(udp))
        }
    }

    /// Datagrams of these numbers and times.
    fn heard(flow: &mut Incoming, all: &[(u64, u64)], started: Option<u64>, around: &Together) {
        let framing = Framing::Iperf3 { wide: true };
        for (number, at_ns) in all {
            let mark = Mark {
                number: *number,
                sent_ns: *at_ns,
                warmup: false,
                position: 0,
                train: std::num::NonZeroU8::MIN,
            };
            let mut bytes = [0; 100];
            framing.write(&mark, &mut bytes);
            let message = Message {
                bytes: &bytes,
                segment: 100,
                at_ns: *at_ns,
                stamped: true,
                socket_drops: None,
            };
            flow.on_call();
            flow.on_message(&message, started, around);
        }
    }

    #[test]
    fn what_is_lost_of_a_stream_on_which_nothing_came_is_noticed_at_the_end() {
        let around = Together::default();
        let setup = Setup {
            framing: Framing::Native { token: 1, stream: 0 },
            first_number: 0,
            interval_ns: 100 * MS,
            intervals: Some(10),
            merging: false,
        };
        let plan = TestPlan { warmup: Nanos(0), ..plan() };
        let lost = |begun: Option<u64>, now_ns: u64| {
            let mut flow = Incoming::new(&plan, crate::habits::NATIVE, setup, &around);
            if let Some(at_ns) = begun {
                flow.begin_unheard(at_ns, now_ns, &around);
            }
            let report = flow.finish(Some(5_000), None, &around);
            assert_eq!((report.counts.lost, report.first_ns), (5_000, None));
            report.intervals.iter().map(|row| row.counts.lost).collect::<Vec<_>>()
        };
        let last = |rows: usize| [vec![0; rows - 1], vec![5_000]].concat();
        // The drain belongs to the last row, and a test that was cut short has fewer.
        assert_eq!(lost(Some(1_000 * MS), 2_300 * MS), last(10));
        assert_eq!(lost(Some(1_000 * MS), 1_350 * MS), last(4));
        assert_eq!((lost(Some(1_000 * MS), 900 * MS), lost(None, 0)), (last(1), last(1)));
        assert_eq!(around.0.get(), None, "nothing arrived that would begin the time of others");
    }

    #[test]
    fn a_warm_up_by_time_has_its_own_account_whenever_its_first_datagram_comes() {
        let around = Together::default();
        let setup = Setup {
            framing: Framing::Iperf3 { wide: true },
            first_number: 0,
            interval_ns: 100 * MS,
            intervals: Some(10),
            merging: false,
        };
        let mut flow = Incoming::new(&plan(), IPERF3, setup, &around);
        // Before this end knows of the start.
        heard(&mut flow, &[(0, 990 * MS)], None, &around);
        assert_eq!(around.0.get(), None);
        let started = 1_000 * MS;
        flow.begin(started, &around);
        heard(&mut flow, &[(1, 1_050 * MS), (2, 1_150 * MS)], Some(started), &around);
        assert!(!flow.is_measuring());
        heard(&mut flow, &[(3, 1_250 * MS), (5, 1_260 * MS)], Some(started), &around);
        assert!(flow.is_measuring());
        assert_eq!(around.0.get(), Some(1_200 * MS));
        let rows: Vec<Row> = std::iter::from_fn(|| flow.row()).collect();
        let rows: Vec<_> =
            rows.iter().map(|r| (r.warm, r.index, r.counted.counts.datagrams)).collect();
        assert_eq!(rows, [(true, 0, 2), (true, 1, 1)]);
        let report = flow.finish(Some(6), None, &around);
        assert_eq!((report.warmup, report.warmup_expected, report.warmup_lost), (3, 3, 0));
        let counts = report.counts;
        assert_eq!((counts.datagrams, counts.expected, counts.lost, counts.calls), (2, 3, 1, 2));
    }
}
