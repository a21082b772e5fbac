//! A receiver of datagrams.

use linerate_model::plan::TestPlan;
use linerate_model::sample::RecvReport;

use super::{Alone, Row, warm_intervals};
use crate::Surroundings;
use crate::habits::Habits;
use crate::receiver::{Message, Receiver, Setup};

/// What arrives on a stream of datagrams. Where only time distinguishes the warm-up, that has an account of its own.
#[derive(Debug)]
pub struct Incoming {
    habits: Habits,
    warmup_ns: u64,
    account: Receiver,
    reported: usize,
    /// While it lasts.
    warm: Option<Receiver>,
    /// Of the warm-up that is over.
    warmed: RecvReport,
    warm_reported: usize,
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
            reported: 0,
            warm,
            warmed: RecvReport::default(),
            warm_reported: 0,
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
        match self.warm_at(message.at_ns, started_ns, around) {
            Some(warm) => (true, warm.on_message(message, &Alone(around))),
            None => (false, self.account.on_message(message, around)),
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

    /// Whether anything begins with the test, and not with an arrival on this stream.
    #[inline]
    pub fn begins_with_test(&self) -> bool {
        self.habits.measured_from_start || self.warm.is_some()
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

    /// The next interval that is over, once.
    #[inline]
    pub fn row(&mut self) -> Option<Row> {
        let warm = self.warm.as_ref().map_or(&self.warmed.intervals[..], Receiver::intervals);
        if let Some(counted) = warm.get(self.warm_reported).copied() {
            self.warm_reported += 1;
            return Some(Row { warm: true, index: self.warm_reported - 1, counted });
        }
        let counted = *self.account.intervals().get(self.reported)?;
        self.reported += 1;
        Some(Row { warm: false, index: self.reported - 1, counted })
    }

    /// How many datagrams the sender says in a datagram of its own that it sent, once.
    #[inline]
    pub fn peer_end(&mut self) -> Option<u64> {
        self.account.peer_end().filter(|_| !std::mem::replace(&mut self.end_said, true))
    }

    /// Whether nothing more can come, when its sender says that it sent `told`.
    #[inline]
    pub fn is_complete(&self, told: Option<u64>) -> bool {
        self.ended || self.sent(told).is_some_and(|sent| self.account.has_all(sent))
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

    /// The end, when its sender says that it sent `told`; `drops` is the socket's counter.
    pub fn finish(
        self,
        told: Option<u64>,
        drops: Option<u32>,
        around: &dyn Surroundings,
    ) -> RecvReport {
        let sent = self.sent(told);
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
    fn sent(&self, told: Option<u64>) -> Option<u64> {
        Some(told?.saturating_sub(self.warmed.counts.expected))
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
