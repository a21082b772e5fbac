//! Delay against the stamps that the kernel gave the same packets, taken by a packet socket beside the
//! receiver.

use linerate_testkit::peer::LONG;
use std::collections::BTreeSet;
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::support::{Client, Lab, PORT, Server, Urgent, alone, number, real, wait_for};
use linerate_wire::native::datagram::Header;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType,
    recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeVal, TimeValLike};
use serde_json::Value;

/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;
/// The receiver places the kernel's stamps on its monotonic clock, which costs a little; a busy host
/// may stop it between two readings.
const PLACING_NS: f64 = 100_000.0;

/// Arrival (wall clock) less send time (monotonic clock of the same host) of each datagram's first
/// arrival, nanoseconds.
struct Capture {
    stop: Arc<AtomicBool>,
    /// Whether there was one.
    begun: Arc<AtomicBool>,
    thread: JoinHandle<Vec<i64>>,
}

impl Capture {
    fn start(lab: &Lab, space: &str) -> Self {
        let (stop, begun) = (Arc::default(), Arc::default());
        let (stopped, has_begun): (Arc<AtomicBool>, Arc<AtomicBool>) =
            (Arc::clone(&stop), Arc::clone(&begun));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = lab.inside(space, move || {
            let packets = socket(
                AddressFamily::Packet,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC,
                SockProtocol::EthAll,
            )
            .expect("a packet socket");
            setsockopt(&packets, sockopt::RcvBufForce, &(64 << 20)).expect("room");
            setsockopt(&packets, sockopt::ReceiveTimestampns, &true).expect("stamps");
            let patience = TimeVal::milliseconds(50);
            setsockopt(&packets, sockopt::ReceiveTimeout, &patience).expect("a limit");
            ready.send(()).expect("somebody waits");
            let (mut seen, mut transits) = (BTreeSet::new(), Vec::new());
            let mut frame = [0u8; 2_048];
            let mut control = cmsg_space!(TimeSpec);
            loop {
                let mut parts = [IoSliceMut::new(&mut frame)];
                let flags = MsgFlags::empty();
                let got =
                    recvmsg::<LinkAddr>(packets.as_raw_fd(), &mut parts, Some(&mut control), flags);
                let (length, stamp) = match got {
                    Ok(got) => (got.bytes, got.cmsgs().expect("room for it").find_map(stamp_ns)),
                    Err(Errno::EAGAIN) if stopped.load(Ordering::Relaxed) => return transits,
                    Err(Errno::EAGAIN | Errno::EINTR) => continue,
                    Err(e) => panic!("the packet socket: {e}"),
                };
                let payload = frame.get(HEADERS..length).unwrap_or_default();
                if let (Some(header), Some(stamp)) = (Header::read(payload), stamp)
                    && !header.place.warmup
                    && seen.insert(header.number)
                {
                    has_begun.store(true, Ordering::Relaxed);
                    transits.push(stamp - i64::try_from(header.sent_ns).expect("an uptime"));
                }
            }
        });
        is_ready.recv().expect("it captures");
        Self { stop, begun, thread }
    }

    /// In order of size.
    fn sorted(self) -> Vec<i64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut transits = self.thread.join().expect("it captured");
        transits.sort_unstable();
        transits
    }
}

fn stamp_ns(message: ControlMessageOwned) -> Option<i64> {
    match message {
        ControlMessageOwned::ScmTimestampns(at) => Some(at.tv_sec() * 1_000_000_000 + at.tv_nsec()),
        _ => None,
    }
}

/// A test that begins behind a queue, which drains while it runs, and what was captured of it.
fn behind_a_queue(lab: &Lab) -> (Value, Vec<i64>) {
    // The packets are 19.4 Mbit/s. Hardly any of that goes on until those that count stand behind the second of the
    // warm-up, then twice as much. The queue has room for all that is ever sent, so nothing is lost however late the
    // bucket grows.
    let bucket = |mbit: u32| {
        let rest = "burst 3000 limit 16000000";
        lab.run("r", &format!("tc qdisc replace dev right root tbf rate {mbit}mbit {rest}"));
    };
    bucket(1);
    let entered = Capture::start(lab, "r");
    let capture = Capture::start(lab, "b");
    let port = PORT.to_string();
    let args = ["udp", "10.77.2.2", "-p", &port, "--json", "-b", "10kpps", "-l", "200", "-t", "3s"];
    let args = [&args[..], &["--warmup", "1s", "--engine", "send", "-w", "16Mi"]].concat();
    let client = Client::start(Some(&lab.space("a")), &args);
    assert!(wait_for(LONG, || entered.begun.load(Ordering::Relaxed)), "nothing came");
    bucket(40);
    let record = client.end().complete();
    entered.sorted();
    (record, capture.sorted())
}

#[test]
fn the_delay_of_a_queue_that_drains_is_that_of_the_packets() {
    let _alone = alone();
    if !Lab::possible("the_delay_of_a_queue_that_drains_is_that_of_the_packets") {
        return;
    }
    let lab = Lab::routed();
    let _urgent = Urgent::now();
    let _server = Server::on_port(Some(&lab.space("b")), PORT, &["--max-window", "16Mi"]);
    let (record, transits) = behind_a_queue(&lab);
    let receiver = &record["totals"]["receiver"];
    assert_eq!(number(receiver, "lost"), 0, "{receiver}");
    assert!(real(receiver, "delay_variation_s.max") > 0.02, "{receiver}");
    let delay = &record["totals"]["receiver"]["delay_variation_s"];
    assert_eq!(number(delay, "count"), transits.len() as u64, "{record}");
    for (key, per_10_000) in
        [("p50", 5_000), ("p90", 9_000), ("p99", 9_900), ("p999", 9_990), ("max", 10_000)]
    {
        let rank = (transits.len() * per_10_000).div_ceil(10_000);
        let truth = transits[rank - 1].abs_diff(transits[0]) as f64;
        let told = real(delay, key) * 1e9;
        println!("{key}: {:.3} ms, captured {:.3} ms", told / 1e6, truth / 1e6);
        assert!((told - truth).abs() <= truth / 1e3 + PLACING_NS, "{key}: {told} of {truth}");
    }
}
