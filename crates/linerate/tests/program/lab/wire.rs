//! What really was on the wire: a packet socket in the bridge's namespace, outside both machines.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use linerate_lab::Lab;
use linerate_wire::native::datagram::Header;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// Ethernet, IPv4 and UDP.
const HEADERS: usize = 14 + 20 + 8;

/// Sequence numbers of linerate's datagrams of one size, in the order in which they came by.
pub struct Wire {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

impl Wire {
    /// Looks at what leaves the bridge for the machine with this number.
    pub fn watch(lab: &Lab, number: u8, bytes: usize) -> Self {
        let space =
            std::fs::File::open(format!("/run/netns/{}", lab.space())).expect("a namespace");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            nix::sched::setns(space, nix::sched::CloneFlags::CLONE_NEWNET).expect("entered");
            let device = format!("tap{number}");
            let index = nix::net::if_::if_nametoindex(&*device).expect("a tap device") as usize;
            let packets = socket(
                AddressFamily::Packet,
                SockType::Raw,
                SockFlag::SOCK_CLOEXEC,
                SockProtocol::EthAll,
            )
            .expect("a packet socket");
            setsockopt(&packets, sockopt::RcvBufForce, &(64 << 20)).expect("room");
            let patience = TimeVal::milliseconds(50);
            setsockopt(&packets, sockopt::ReceiveTimeout, &patience).expect("a limit");
            ready.send(()).expect("somebody waits");
            let mut seen = Vec::new();
            let mut frame = [0u8; 2048];
            loop {
                match recvfrom::<LinkAddr>(packets.as_raw_fd(), &mut frame) {
                    Ok((length, Some(from))) if from.ifindex() == index => {
                        let payload = frame.get(HEADERS..length).unwrap_or_default();
                        if payload.len() == bytes
                            && let Some(header) = Header::read(payload)
                        {
                            seen.push(header.number);
                        }
                    }
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) if stopped.load(Ordering::Relaxed) => return seen,
                    Err(Errno::EAGAIN) => {}
                    Err(e) => panic!("the packet socket: {e}"),
                }
            }
        });
        is_ready.recv().expect("it watches");
        Self { stop, thread }
    }

    /// What it saw of a test that is over.
    pub fn truth(self, sent: u64) -> Truth {
        self.stop.store(true, Ordering::Relaxed);
        Truth::of(&self.thread.join().expect("it watched"), sent)
    }
}

/// What a receiver behind this wire must report.
#[derive(Debug, PartialEq, Eq)]
pub struct Truth {
    /// All, with copies.
    pub datagrams: u64,
    pub lost: u64,
    pub duplicates: u64,
    /// First copies with a number below one that came before (RFC 4737, section 3.3).
    pub reordered: u64,
}

impl Truth {
    fn of(numbers: &[u64], sent: u64) -> Self {
        let mut seen = BTreeSet::new();
        let (mut duplicates, mut reordered, mut next) = (0, 0, 0);
        for &number in numbers {
            if !seen.insert(number) {
                duplicates += 1;
            } else if number < next {
                reordered += 1;
            } else {
                next = number + 1;
            }
        }
        Self {
            datagrams: numbers.len() as u64,
            lost: sent - seen.len() as u64,
            duplicates,
            reordered,
        }
    }
}

#[test]
#[ignore = "long"]
fn the_rules_of_the_wire() {
    let truth = |numbers: &[u64]| Truth::of(numbers, 6);
    let clean = Truth { datagrams: 6, lost: 0, duplicates: 0, reordered: 0 };
    assert_eq!(truth(&[0, 1, 2, 3, 4, 5]), clean);
    let mixed = Truth { datagrams: 7, lost: 1, duplicates: 2, reordered: 2 };
    assert_eq!(truth(&[3, 0, 3, 1, 0, 4, 5]), mixed);
}
