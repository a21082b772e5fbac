//! A sender of datagrams.

use linerate_model::local_errors::{Errno, LocalSendErrors};
use linerate_model::sample::{SendInterval, SendReport};

use crate::Surroundings;
use crate::pacer::{Pace, Pacer};
use crate::sender::{Quota, Sender};

/// The warm-up of a stream of datagrams, or its measured time. All times count from its start.
#[derive(Debug)]
pub struct Outgoing {
    quota: Quota,
    account: Sender,
    pacer: Option<Pacer>,
    /// Of the shorter datagrams that end a test by bytes.
    tails_sent: usize,
    /// When the last call ended.
    last_end_ns: u64,
    /// Of a call whose end is not yet known.
    has_sent: bool,
}

/// What a sender does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing before this time.
    Wait(u64),
    /// One call into the kernel.
    Call(Call),
    /// Its time is up, or all has left.
    Over,
}

/// One call into the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// How many at most.
    pub datagrams: u64,
    /// Bytes of each.
    pub length: usize,
    /// When its first datagram was due; absent without pacing.
    pub due_ns: Option<u64>,
    is_tail: bool,
}

impl Outgoing {
    /// Before its start. Without a `pacer` datagrams leave as fast as the kernel takes them.
    pub fn new(quota: Quota, account: Sender, pacer: Option<Pacer>) -> Self {
        Self { quota, account, pacer, tails_sent: 0, last_end_ns: 0, has_sent: false }
    }

    /// The clock says `now_ns`: the last call has ended, and intervals may be over.
    #[inline]
    pub fn look(&mut self, now_ns: u64, around: &dyn Surroundings) {
        if std::mem::take(&mut self.has_sent) {
            self.last_end_ns = now_ns;
        }
        if self.account.is_due(now_ns) {
            self.count_slots();
            self.account.roll(now_ns, None, around);
        }
    }

    /// The next interval that is over, with its place, once.
    #[inline]
    pub fn row(&mut self) -> Option<(usize, SendInterval)> {
        self.account.row()
    }

    /// Whether its time is up at `now_ns`.
    #[inline]
    pub fn is_over(&self, now_ns: u64) -> bool {
        self.quota.until_ns.is_some_and(|until| now_ns >= until)
    }

    /// What pace and quota allow at `now_ns`: up to `batch` datagrams of `size` bytes.
    #[inline]
    pub fn next(&mut self, now_ns: u64, batch: usize, size: usize) -> Next {
        if self.is_over(now_ns) {
            return Next::Over;
        }
        let mut call = Call { datagrams: batch as u64, length: size, due_ns: None, is_tail: false };
        match self.pacer.as_mut().map(|pacer| pacer.next(now_ns)) {
            Some(Pace::WaitUntil(at)) => {
                // An interval's end or the test's may come first.
                let until_ns = self.quota.until_ns.unwrap_or(u64::MAX);
                return Next::Wait(at.min(self.account.next_boundary_ns()).min(until_ns));
            }
            Some(Pace::Send { datagrams, due_ns }) => {
                call.datagrams = call.datagrams.min(datagrams);
                call.due_ns = Some(due_ns);
            }
            None => {}
        }
        if let Some(full) = self.quota.full {
            let left = full.saturating_sub(self.account.datagrams());
            call.datagrams = call.datagrams.min(left);
            if left == 0 {
                let tail = self.quota.tail.get(self.tails_sent).filter(|length| **length > 0);
                let Some(length) = tail else { return Next::Over };
                let length = usize::from(*length);
                call = Call { datagrams: 1, length, is_tail: true, ..call };
            }
        }
        self.has_sent = true;
        Next::Call(call)
    }

    /// The kernel took `taken` datagrams of a call that began at `begun_ns`.
    #[inline]
    pub fn on_sent(&mut self, call: &Call, taken: u64, begun_ns: u64) {
        self.account.on_sent(begun_ns, taken, taken * call.length as u64, call.due_ns);
        if call.is_tail {
            self.tails_sent += taken as usize;
        }
    }

    /// That call ended because the host dropped `datagrams` of it.
    pub fn on_cut_short(&mut self, datagrams: u64) {
        self.account.on_cut_short(datagrams);
    }

    /// The host dropped `datagrams` in a call that began at `begun_ns` and took nothing.
    pub fn on_refused(&mut self, datagrams: u64, begun_ns: u64, errno: Errno) {
        self.account.on_refused(begun_ns, datagrams, errno);
    }

    /// A call that began at `begun_ns` used so many slots, by what was taken and by what was dropped; `false` without
    /// pacing, where there are none.
    #[inline]
    pub fn took(&mut self, slots: u64, begun_ns: u64) -> bool {
        let Some(pacer) = &mut self.pacer else { return false };
        pacer.taken(slots, begun_ns);
        true
    }

    /// Somebody chose another rate at `now_ns`; `schedule` is that of a stream that had none.
    pub fn turn(
        &mut self,
        bits_per_second: u64,
        batch: usize,
        now_ns: u64,
        schedule: impl FnOnce() -> Option<Pacer>,
    ) {
        match &mut self.pacer {
            Some(pacer) => {
                pacer.turn(bits_per_second);
                pacer.set_batch(batch as u64);
            }
            none => *none = schedule().map(|p| p.going_on(self.account.slots(), now_ns)),
        }
    }

    /// From now on this many datagrams at once, because another engine goes on.
    pub fn set_batch(&mut self, batch: usize) {
        if let Some(pacer) = &mut self.pacer {
            pacer.set_batch(batch as u64);
        }
    }

    /// Whether a clock says when datagrams are due.
    #[inline]
    pub fn is_paced(&self) -> bool {
        self.pacer.is_some()
    }

    /// Whether it ends by its time.
    pub fn ends_by_time(&self) -> bool {
        self.quota.until_ns.is_some()
    }

    /// Datagrams that left; the next one has this number.
    #[inline]
    pub fn datagrams(&self) -> u64 {
        self.account.datagrams()
    }

    /// What the host dropped so far.
    pub fn local_errors(&self) -> LocalSendErrors {
        self.account.local_errors()
    }

    /// Whether all has left that a test by count asks for.
    fn is_all_sent(&self) -> bool {
        let tails = self.quota.tail.iter().filter(|length| **length > 0).count();
        self.quota
            .full
            .is_some_and(|full| self.account.datagrams() >= full.saturating_add(tails as u64))
    }

    /// Nothing more leaves after `now_ns`, or after `stopped_ns`, where somebody ended it then: how long it was.
    pub fn end(&mut self, now_ns: u64, stopped_ns: Option<u64>) -> u64 {
        self.count_slots();
        match (self.quota.until_ns, &self.pacer) {
            // A paced sender's last slot ends with the time.
            (Some(until), _) if now_ns >= until => until.max(self.last_end_ns),
            (None, Some(pacer)) if self.is_all_sent() => {
                self.last_end_ns.max(pacer.due_ns(pacer.slot()))
            }
            // A thread that waits for its next slot sees later that it was stopped.
            (_, Some(_)) => stopped_ns.map_or(now_ns, |at| at.max(self.last_end_ns).min(now_ns)),
            _ => now_ns,
        }
    }

    /// Its report, after `span_ns`. Where no rate was `asked` for at first, none can be missed.
    pub fn finish(self, span_ns: u64, asked: bool, around: &dyn Surroundings) -> SendReport {
        let pacer = self.pacer.as_ref();
        let pacing_error_ppb =
            pacer.filter(|_| asked).and_then(|pacer| self.account.pacing_error_ppb(pacer, span_ns));
        let nominal_gap_ns = pacer.and_then(Pacer::nominal_gap_ns);
        SendReport {
            pacing_error_ppb,
            nominal_gap_ns,
            ..self.account.finish(span_ns, None, around)
        }
    }

    fn count_slots(&mut self) {
        if let Some(pacer) = &self.pacer {
            self.account.on_pacer(pacer.late(), pacer.given_up());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_test_by_count_that_is_stopped_lasts_until_then() {
        // One datagram a second, and two that are shorter at the end.
        let flow = |full: u64, tail: [u16; 2], sent: u64| {
            let pacer = Pacer::new(8_000, 8_000, 0, 1, 1, 0);
            let quota = Quota { until_ns: None, full: Some(full), tail };
            let mut flow = Outgoing::new(quota, Sender::new(1_000 * MS, None), pacer);
            for slot in 0..sent {
                let now_ns = slot * 1_000 * MS;
                let Next::Call(call) = flow.next(now_ns, 1, 1_000) else { panic!("{slot}") };
                flow.on_sent(&call, 1, now_ns);
                flow.took(1, now_ns);
                flow.look(now_ns + MS, &crate::Quiet);
            }
            flow
        };
        assert_eq!(flow(10, [0; 2], 3).end(2_520 * MS, Some(2_500 * MS)), 2_500 * MS);
        // A call that began before lasted longer.
        assert_eq!(flow(10, [0; 2], 3).end(2_520 * MS, Some(1_900 * MS)), 2_001 * MS);
        // Nobody stopped it: its port failed.
        assert_eq!(flow(10, [0; 2], 3).end(2_520 * MS, None), 2_520 * MS);
        // All has left, and the last slot ends with its time.
        assert_eq!(flow(3, [0; 2], 3).end(2_002 * MS, Some(2_001 * MS)), 3_000 * MS);
        assert_eq!(flow(1, [500, 32], 3).end(2_002 * MS, None), 3_000 * MS);
        assert_eq!(flow(1, [500, 32], 2).end(1_502 * MS, Some(1_500 * MS)), 1_500 * MS);
    }

    #[test]
    fn what_is_slowed_down_from_as_fast_as_it_goes_ends_in_time() {
        let quota = Quota { until_ns: Some(6_000 * MS), full: None, tail: [0; 2] };
        let mut flow = Outgoing::new(quota, Sender::new(10_000 * MS, None), None);
        for now_ns in 0..1_000 {
            let Next::Call(call) = flow.next(now_ns * MS, 64, 1_000) else { panic!("{now_ns}") };
            flow.on_sent(&call, 64, now_ns * MS);
            flow.took(64, now_ns * MS);
        }
        // A datagram each ten seconds, of which none is due any more.
        flow.turn(800, 1, 1_000 * MS, || Pacer::new(800, 8_000, 0, 1, 1, 0));
        let mut now_ns = 1_000 * MS;
        let mut sent = 0;
        loop {
            match flow.next(now_ns, 1, 1_000) {
                Next::Call(call) => {
                    flow.on_sent(&call, 1, now_ns);
                    flow.took(1, now_ns);
                    sent += 1;
                }
                Next::Wait(at_ns) => now_ns = at_ns,
                Next::Over => break,
            }
        }
        assert_eq!(now_ns, 6_000 * MS);
        assert!(sent <= 1, "{sent}");
    }
}
