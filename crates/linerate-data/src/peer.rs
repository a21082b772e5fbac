//! Whether the peer is still there, found out by the data threads themselves.
//!
//! The control side ends a test whose peer is silent. If it is held up, or gets no core, what sends
//! must not go on to send to nobody. So a data thread asks the kernel about the control connection ten
//! times a second, on the way past its other checks, and ends the test when the peer is gone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use linerate_engine::sys;

use crate::standstill;

/// One of a test's threads looks this often.
const LOOK_EVERY_NS: u64 = 100_000_000;

/// What counts as a sign of the peer, beside data of its own.
#[derive(Debug, Clone, Copy)]
pub enum Sign {
    /// What it says on the control connection (linerate's clients, twice a second).
    Words,
    /// An answer of its kernel (iperf3's clients, who say nothing while a test runs).
    Answers,
}

/// How the peer of a test is known to be there.
#[derive(Debug)]
pub(super) struct PeerWatch {
    /// Nothing is known of it before it is set.
    link: OnceLock<Link>,
    /// Monotonic time at which a data thread looks after the peer; [`NEVER`] is never.
    look_at_ns: AtomicU64,
    /// One did, and found it gone.
    gone: AtomicBool,
}

#[derive(Debug)]
struct Link {
    /// A copy of the control connection, until the test lets it go.
    control: Mutex<Option<OwnedFd>>,
    sign: Sign,
    limit: Duration,
}

const NEVER: u64 = u64::MAX;

impl Link {
    fn control(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        // A panic elsewhere leaves it whole.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it closed, or gave no sign for longer than the limit. `no_data` is how long none of its
    /// data came.
    fn is_gone(&self, no_data: Duration) -> bool {
        // What this kernel does not say, the control side has to find out.
        let Some(peer) = self.control().as_ref().and_then(sys::tcp_peer) else { return false };
        let silence = match self.sign {
            Sign::Words => peer.no_data,
            Sign::Answers => peer.silence(),
        };
        // All of a process ask for the last, under a lock.
        let is_silent = silence.min(no_data) > self.limit;
        !peer.is_open || (is_silent && standstill::ran_for() > self.limit)
    }
}

impl Default for PeerWatch {
    fn default() -> Self {
        let look_at_ns = AtomicU64::new(NEVER);
        Self { link: OnceLock::new(), look_at_ns, gone: AtomicBool::new(false) }
    }
}

impl PeerWatch {
    /// From now on the peer is gone when it closes its control connection, or gives no sign for longer
    /// than `limit`.
    ///
    /// # Errors
    /// When there is no descriptor for a copy of the connection.
    pub(super) fn watch(&self, control: &impl AsFd, sign: Sign, limit: Duration) -> io::Result<()> {
        let control = Mutex::new(Some(control.as_fd().try_clone_to_owned()?));
        if self.link.set(Link { control, sign, limit }).is_ok() {
            self.look_at_ns.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The test is over: its control connection may close.
    pub(super) fn let_go(&self) {
        self.look_at_ns.store(NEVER, Ordering::Relaxed);
        if let Some(link) = self.link.get() {
            link.control().take();
        }
    }

    /// Whether a data thread found the peer gone.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.look_at_ns.load(Ordering::Relaxed)
    }

    /// Looks, when that is due, and says whether the peer was found gone now.
    #[cold]
    pub(super) fn look(&self, now_ns: u64, no_data: Duration) -> bool {
        let due_ns = self.look_at_ns.load(Ordering::Relaxed);
        let next_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        // The first of the threads looks for all.
        let mine = now_ns >= due_ns
            && self
                .look_at_ns
                .compare_exchange(due_ns, next_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !mine || !self.link.get().is_some_and(|link| link.is_gone(no_data)) {
            return false;
        }
        self.gone.store(true, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};
    use std::time::Instant;

    use linerate_engine::clock;
    use linerate_model::plan::{Direction, EngineChoice, Traffic, Transport, UdpPlan};
    use linerate_model::units::Nanos;
    use linerate_testkit::plans;

    use super::*;
    use crate::alone::{Alone, HANGS, of_an_hour, pair, udp_pair};
    use crate::{Report, Role, Shared};

    fn udp() -> Traffic {
        Traffic::Udp(UdpPlan {
            size: serde_json::from_str("200").unwrap(),
            rate: Some(serde_json::from_str(r#"{"datagrams":1000}"#).unwrap()),
            burst: Nanos(0),
            engine: EngineChoice::Send,
            checksum: true,
        })
    }

    fn rr() -> Traffic {
        Traffic::Rr(plans::rr(Transport::Udp))
    }

    /// A thread that looks after its client, and its peer.
    fn alone(
        (traffic, role): (Traffic, Role),
        control: &TcpStream,
        sign: Sign,
        ms: u64,
    ) -> (Alone, UdpSocket) {
        let (near, far) = udp_pair();
        let shared = Shared::new(1);
        shared.watch_peer(control, sign, Duration::from_millis(ms)).unwrap();
        (Alone::start(&of_an_hour(traffic, Direction::Reverse), shared, role, far), near)
    }

    /// It ends by itself, as its client is gone.
    fn gone(thread: Alone) -> Report {
        thread.waits_for("it goes on", |it| it.shared.peer_gone());
        thread.ends()
    }

    #[test]
    fn a_sender_ends_by_itself_when_its_client_is_killed() {
        let (client, control) = pair();
        let (sender, _near) = alone((udp(), Role::Send), &control, Sign::Answers, 3_600_000);
        sender
            .waits_for("nothing is sent", |it| it.shared.carried_away.load(Ordering::Relaxed) > 0);
        assert!(!sender.thread.is_finished());
        drop(client);
        let Report::Send(report) = gone(sender) else { panic!("no sender") };
        assert_eq!(report.error, None);
    }

    #[test]
    fn a_sender_ends_by_itself_when_its_client_says_nothing() {
        let (client, control) = pair();
        // Its kernel is there all the time, and that is no word of its own.
        let (sender, _near) = alone((udp(), Role::Send), &control, Sign::Words, 300);
        assert!(matches!(gone(sender), Report::Send(_)));
        drop(client);
    }

    #[test]
    fn a_sender_goes_on_while_its_client_speaks() {
        let (client, control) = pair();
        let (sender, _near) = alone((udp(), Role::Send), &control, Sign::Words, 2_000);
        // Nobody reads it.
        let until = Instant::now() + Duration::from_secs(3);
        let (mut spoke, mut longest) = (Instant::now(), Duration::ZERO);
        while Instant::now() < until {
            std::io::Write::write_all(&mut &client, b"alive").unwrap();
            longest = longest.max(spoke.elapsed());
            spoke = Instant::now();
            std::thread::sleep(Duration::from_millis(20));
        }
        // On a host so busy that this thread was silent itself, nothing is shown.
        let speaks = longest < Duration::from_secs(1);
        assert!(!speaks || (!sender.shared.peer_gone() && !sender.thread.is_finished()));
        drop(client);
        gone(sender);
    }

    #[test]
    fn who_answers_and_who_receives_end_by_themselves() {
        for (traffic, role) in [(rr(), Role::Respond), (udp(), Role::Receive)] {
            let (client, control) = pair();
            let (thread, _near) = alone((traffic, role), &control, Sign::Answers, 3_600_000);
            drop(client);
            gone(thread);
        }
    }

    #[test]
    fn a_test_that_is_over_holds_no_connection() {
        let (client, control) = pair();
        let shared = Shared::new(1);
        shared.watch_peer(&control, Sign::Words, Duration::from_secs(3)).unwrap();
        drop(control);
        shared.let_peer_go();
        client.set_read_timeout(Some(HANGS)).unwrap();
        assert_eq!(std::io::Read::read(&mut &client, &mut [0]).unwrap(), 0);
        shared.look_after_peer(clock::monotonic_ns());
        assert!(!shared.peer_gone());
    }
}
