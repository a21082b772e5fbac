//! What every engine must do, run against each of them over loopback.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use linerate_model::local_errors::Errno;
use linerate_model::plan::EngineChoice;
use socket2::Socket;

use super::{RecvBatch, SendBatch, receiver, sender};
use crate::sys;

fn pair(v6: bool, merge: bool) -> (Socket, Socket) {
    let any: SocketAddr =
        if v6 { (Ipv6Addr::LOCALHOST, 0).into() } else { (Ipv4Addr::LOCALHOST, 0).into() };
    let (tx, rx) = (sys::udp_socket(any).unwrap(), sys::udp_socket(any).unwrap());
    tx.connect(&rx.local_addr().unwrap()).unwrap();
    rx.connect(&tx.local_addr().unwrap()).unwrap();
    sys::set_buffers(&rx, None, Some(4 << 20), None);
    rx.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    sys::describe_messages(&rx).unwrap();
    if merge {
        sys::merge_on_receive(&rx).unwrap();
    }
    (tx, rx)
}

/// Sends `count` datagrams of `size` bytes, each filled with its own number, in batches of `train`
/// and checks that exactly these arrive, in order and with their borders.
fn borders(choice: EngineChoice, v6: bool, size: usize, count: usize, train: usize, last: usize) {
    let merge = choice == EngineChoice::Gso;
    let (tx, rx) = pair(v6, merge);
    let mut engine = sender(choice);
    let mut payload = Vec::new();
    for i in 0..count {
        let length = if i + 1 == count { last } else { size };
        payload.extend(std::iter::repeat_n(i as u8, length));
    }
    let mut sent = 0;
    let mut got = Vec::new();
    let mut receiving = receiver(choice);
    let mut batch = RecvBatch::new(65_536);
    while sent < count {
        let end = ((sent + train) * size).min(payload.len());
        let bytes = &payload[sent * size..end];
        let n = engine.send(&tx, &SendBatch { bytes, segment: size, train }).unwrap();
        assert!(n >= 1 && n <= engine.max_batch());
        sent += n;
        while got.len() < sent {
            let messages = receiving.recv(&rx, &mut batch).expect("everything sent arrives");
            assert!(messages >= 1);
            for message in batch.messages() {
                assert!(!message.truncated);
                let now = crate::clock::realtime_ns();
                let stamp = message.realtime_ns.expect("a time stamp");
                assert!(stamp <= now && now - stamp < 10_000_000_000);
                got.extend(message.bytes.chunks(message.segment).map(<[u8]>::to_vec));
            }
        }
    }
    assert_eq!(got.len(), count);
    for (i, datagram) in got.iter().enumerate() {
        let length = if i + 1 == count { last } else { size };
        assert_eq!(datagram.len(), length, "datagram {i}");
        assert!(datagram.iter().all(|b| *b == i as u8));
    }
}

/// A receiver that reads nothing loses what does not fit, and the kernel's counter says how much.
fn drops_are_counted(choice: EngineChoice) {
    let (tx, rx) = pair(false, false);
    sys::set_buffers(&rx, None, Some(8_192), None);
    let mut engine = sender(choice);
    let bytes = [0u8; 1_000];
    for _ in 0..200 {
        let mut left = 1;
        while left > 0 {
            left -=
                engine.send(&tx, &SendBatch { bytes: &bytes, segment: 1_000, train: 1 }).unwrap();
        }
    }
    let mut receiving = receiver(choice);
    let mut batch = RecvBatch::new(2_048);
    let mut got = 0;
    while let Ok(n) = receiving.recv(&rx, &mut batch) {
        got += n;
    }
    let drops = sys::socket_drops(&rx).expect("SO_MEMINFO");
    assert!(drops > 0);
    assert_eq!(got as u32 + drops, 200);
}

macro_rules! engine_conformance {
    ($module:ident, $choice:expr) => {
        mod $module {
            use super::*;

            #[test]
            fn keeps_datagram_borders() {
                for v6 in [false, true] {
                    borders($choice, v6, 1_448, 90, 45, 1_448);
                    borders($choice, v6, 64, 256, 128, 64);
                    borders($choice, v6, 64, 1, 1, 64);
                    borders($choice, v6, 65_000, 3, 1, 65_000);
                }
            }

            #[test]
            fn a_shorter_last_datagram_stays_short() {
                borders($choice, false, 1_448, 46, 46.min(45), 100);
                borders($choice, true, 100, 7, 7, 33);
            }

            #[test]
            fn an_empty_batch_is_harmless() {
                let (tx, _rx) = pair(false, false);
                let mut engine = sender($choice);
                let _ = engine.send(&tx, &SendBatch { bytes: &[], segment: 100, train: 1 });
            }

            #[test]
            fn waiting_ends_with_the_time_out() {
                let (_tx, rx) = pair(false, false);
                let error = receiver($choice).recv(&rx, &mut RecvBatch::new(100)).unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            }

            #[test]
            fn socket_drops_are_counted() {
                drops_are_counted($choice);
            }
        }
    };
}

engine_conformance!(send, EngineChoice::Send);
engine_conformance!(mmsg, EngineChoice::Mmsg);
engine_conformance!(gso, EngineChoice::Gso);

#[test]
fn segmentation_without_checksum_is_refused_as_such() {
    let (tx, _rx) = pair(false, false);
    sys::without_checksum(&tx).unwrap();
    let mut engine = sender(EngineChoice::Gso);
    let bytes = [0u8; 1_000];
    let error =
        engine.send(&tx, &SendBatch { bytes: &bytes, segment: 100, train: 10 }).unwrap_err();
    assert!(super::is_refusal(&error), "{error}");
    // The socket is left usable.
    let sent = sender(EngineChoice::Send)
        .send(&tx, &SendBatch { bytes: &bytes, segment: 1_000, train: 1 });
    assert_eq!(sent.unwrap(), 1);
}

#[test]
fn what_the_path_or_the_far_end_says_is_no_drop_of_this_host() {
    let of = |errno| super::local_errno(&std::io::Error::from_raw_os_error(errno));
    for errno in [libc::EINTR, libc::ECONNREFUSED, libc::EMSGSIZE, libc::EPROTO, libc::EBADF] {
        assert_eq!(of(errno), None);
    }
    let known = [
        (libc::EPERM, Errno::Eperm),
        (libc::ENETDOWN, Errno::Enetdown),
        (libc::ENOBUFS, Errno::Enobufs),
        (libc::EHOSTDOWN, Errno::Other),
    ];
    assert!(known.into_iter().all(|(raw, errno)| of(raw) == Some(errno)));
    // ICMP brings these for earlier datagrams, too.
    for errno in [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES] {
        assert!(of(errno).is_some_and(Errno::may_answer_earlier));
    }
}
