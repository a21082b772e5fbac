//! The verdict on made-up records: each limit is named when it is the limit, and not otherwise.

use linerate_model::plan::{Dialect, EngineChoice, PlanDirection, TrafficKind, Transport};
use linerate_model::record::{
    CpuFigures, Figures, HostFigures, Limit, Pair, Quantiles, ReceiverFigures, RrFigures,
    RunRecord, SenderFigures, Status, TcpFigures,
};
use linerate_model::word::Word;
use linerate_session::verdict::judge;
use linerate_testkit::records;

fn cpu(thread: f64, core: f64) -> Option<CpuFigures> {
    Some(CpuFigures {
        thread_percent: thread,
        threads_percent: thread,
        core: Some(1),
        core_percent: Some(core),
        ..CpuFigures::default()
    })
}

/// A thread that ran, stood ready, and had its core taken from under it, on a full core beside other programs.
fn beside_others(ran: f64, ready: f64, others: f64) -> Option<CpuFigures> {
    cpu(ran, 100.0).map(|cpu| CpuFigures {
        ready_percent: Some(ready),
        others_percent: Some(others),
        idle_cores: Some(vec![]),
        ..cpu
    })
}

/// 100 Mbit/s asked, sent and received; 10,000 datagrams.
fn udp() -> RunRecord {
    let mut record = records::udp_receiver_drops();
    record.asked.protocol = TrafficKind::Udp.into();
    record.asked.direction = PlanDirection::Forward.into();
    record.asked.rate_bps = Some(100_000_000);
    record.totals = Figures {
        sender: Some(SenderFigures {
            bytes: 12_500_000,
            datagrams: Some(10_000),
            seconds: 1.0,
            bits_per_second: 100_000_000.0,
            attempted: Some(10_000),
            refused_locally: Some(0),
            cpu: cpu(20.0, 25.0),
            host: Some(HostFigures::default()),
            ..SenderFigures::default()
        }),
        receiver: Some(ReceiverFigures {
            bytes: 12_500_000,
            datagrams: Some(10_000),
            seconds: 1.0,
            bits_per_second: 100_000_000.0,
            lost: Some(0),
            lost_ratio: Some(0.0),
            lost_path: Some(0),
            dropped_receiver: Some(0),
            cpu: cpu(20.0, 25.0),
            host: Some(HostFigures::default()),
            ..ReceiverFigures::default()
        }),
        ..Figures::default()
    };
    record
}

fn with(change: impl FnOnce(&mut RunRecord, &mut SenderFigures, &mut ReceiverFigures)) -> Limit {
    let mut record = udp();
    let mut sender = record.totals.sender.take().unwrap();
    let mut receiver = record.totals.receiver.take().unwrap();
    change(&mut record, &mut sender, &mut receiver);
    record.totals.sender = Some(sender);
    record.totals.receiver = Some(receiver);
    let verdict = judge(&record, false).unwrap();
    assert!(!verdict.because.is_empty() && verdict.advice.len() <= 3);
    assert!(verdict.evidence.values().all(|value| value.is_finite()));
    verdict.limit
}

fn lose(r: &mut ReceiverFigures, path: u64, dropped: u64) {
    r.lost = Some(path + dropped);
    r.lost_ratio = Some((path + dropped) as f64 / 10_000.0);
    r.lost_path = Some(path);
    r.dropped_receiver = Some(dropped);
}

#[test]
fn all_that_was_asked_for_arrived() {
    assert_eq!(with(|_, _, _| {}), Limit::RequestedRate);
    // A spinning pacer fills its core without being the limit.
    assert_eq!(with(|_, s, _| s.cpu = cpu(100.0, 100.0)), Limit::RequestedRate);
}

#[test]
fn a_test_by_count_that_kept_its_schedule_met_its_rate() {
    // 20 Mbit/s. The last datagram has 33 bytes of 1,000 and takes a whole slot: 101 slots.
    let judged = |bytes: u64, datagrams: u64, seconds: f64, streams: u16, by_time: bool| {
        with(|record, s, _| {
            for plan in [Some(&mut record.asked), record.agreed.as_mut()].into_iter().flatten() {
                (plan.datagram_bytes, plan.streams) = (Some(1_000), streams);
                plan.duration_s = by_time.then_some(1.0);
                (plan.bytes, plan.datagrams) = ((!by_time).then_some(bytes), None);
                plan.rate_bps = Some(20_000_000);
            }
            (s.bytes, s.seconds) = (bytes, seconds);
            s.bits_per_second = bytes as f64 * 8.0 / seconds;
            (s.datagrams, s.attempted) = (Some(datagrams), Some(datagrams));
        })
    };
    assert_eq!(judged(100_033, 101, 0.0404, 1, false), Limit::RequestedRate);
    assert_eq!(judged(100_033, 101, 0.0407, 1, false), Limit::SenderHost);
    // Eight streams of 125 begin a slot after each other: 1,007 slots.
    assert_eq!(judged(1_000_000, 1_000, 0.4028, 8, false), Limit::RequestedRate);
    assert_eq!(judged(1_000_000, 1_000, 0.4050, 8, false), Limit::SenderHost);
    // By time there is no such end.
    assert_eq!(judged(1_000_000, 1_000, 0.4028, 8, true), Limit::SenderHost);
}

#[test]
fn no_rate_is_advised_below_nothing() {
    let advice = |arrived: u64| {
        let mut record = udp();
        let receiver = record.totals.receiver.as_mut().unwrap();
        lose(receiver, 10_000, 0);
        (receiver.bytes, receiver.bits_per_second) = (arrived, arrived as f64 * 8.0);
        judge(&record, false).unwrap().advice.join("; ")
    };
    assert!(advice(12_500).contains("near what arrived"));
    assert!(!advice(0).contains("near what arrived"), "{}", advice(0));
}

#[test]
fn a_rate_that_is_advised_is_below_the_measured_one() {
    for (arrived_bps, rate) in
        [(960e6, "940M"), (10.72e6, "10.5M"), (10e6, "9.8M"), (1_550.0, "1.51k")]
    {
        let mut record = udp();
        let receiver = record.totals.receiver.as_mut().unwrap();
        lose(receiver, 1_000, 0);
        receiver.bits_per_second = arrived_bps;
        let advice = judge(&record, false).unwrap().advice;
        assert_eq!(advice[0], format!("--rate {rate}: near what arrived"));
    }
}

#[test]
fn the_receivers_own_drops_are_not_the_paths() {
    assert_eq!(with(|_, _, r| lose(r, 0, 1_500)), Limit::ReceiverBuffer);
    assert_eq!(with(|_, _, r| lose(r, 100, 1_500)), Limit::ReceiverBuffer);
    let full = |_: &mut RunRecord, _: &mut SenderFigures, r: &mut ReceiverFigures| {
        lose(r, 0, 1_500);
        r.cpu = cpu(99.0, 99.0);
    };
    assert_eq!(with(full), Limit::ReceiverCpu);
    let hog = |_: &mut RunRecord, _: &mut SenderFigures, r: &mut ReceiverFigures| {
        lose(r, 0, 1_500);
        r.cpu = beside_others(48.0, 49.0, 130.0);
    };
    assert_eq!(with(hog), Limit::OtherWork);
    // Asleep beside them it was not held back.
    let asleep = |_: &mut RunRecord, _: &mut SenderFigures, r: &mut ReceiverFigures| {
        lose(r, 0, 1_500);
        r.cpu = beside_others(20.0, 3.0, 180.0);
    };
    assert_eq!(with(asleep), Limit::ReceiverBuffer);
}

#[test]
fn loss_between_the_sockets_is_the_paths() {
    assert_eq!(with(|_, _, r| lose(r, 100, 0)), Limit::Path);
    assert_eq!(with(|_, _, r| lose(r, 100, 90)), Limit::Path);
    // One in a hundred thousand is not what limits a test.
    assert_eq!(
        with(|_, _, r| {
            lose(r, 1, 0);
            r.lost_ratio = Some(1e-5);
        }),
        Limit::RequestedRate
    );
}

#[test]
fn a_sender_that_falls_behind_says_why() {
    let slow = |s: &mut SenderFigures| s.bits_per_second = 64_000_000.0;
    assert_eq!(
        with(|_, s, _| {
            slow(s);
            s.cpu = cpu(100.0, 100.0);
        }),
        Limit::SenderCpu
    );
    assert_eq!(
        with(|_, s, _| {
            slow(s);
            s.cpu = beside_others(40.0, 55.0, 60.0);
        }),
        Limit::OtherWork
    );
    // It waited for half of what is missing, and had time left otherwise: its slots were skipped.
    assert_eq!(
        with(|_, s, _| {
            slow(s);
            s.cpu = beside_others(40.0, 20.0, 60.0);
        }),
        Limit::OtherWork
    );
    // What it was late with it made up, and a queue of the path lost a little of that.
    for (lost, ready, right) in
        [(90, 20.0, Limit::OtherWork), (90, 1.0, Limit::Path), (200, 20.0, Limit::Path)]
    {
        let limit = with(|_, s, r| {
            slow(s);
            s.cpu = beside_others(40.0, ready, 60.0);
            lose(r, lost, 0);
        });
        assert_eq!(limit, right, "{lost} lost, {ready} % ready");
    }
    // A full core that the thread did not want.
    assert_eq!(
        with(|_, s, _| {
            slow(s);
            s.cpu = beside_others(40.0, 1.0, 60.0);
        }),
        Limit::SenderHost
    );
    assert_eq!(with(|_, s, _| slow(s)), Limit::SenderHost);
    assert_eq!(
        with(|_, s, _| {
            s.refused_locally = Some(2_000);
            s.attempted = Some(12_000);
        }),
        Limit::SenderHost
    );
}

#[test]
fn without_a_rate_the_fullest_end_is_the_limit() {
    let max = |record: &mut RunRecord| record.asked.rate_bps = None;
    assert_eq!(
        with(|a, s, _| {
            max(a);
            s.cpu = cpu(99.0, 99.0);
        }),
        Limit::SenderCpu
    );
    assert_eq!(
        with(|a, _, r| {
            max(a);
            r.cpu = cpu(99.0, 99.0);
        }),
        Limit::ReceiverCpu
    );
    assert_eq!(with(|a, _, _| max(a)), Limit::SenderHost);
    // A little loss beside a full sender is a stall of the receiver's host, not its limit …
    assert_eq!(
        with(|a, s, r| {
            max(a);
            s.cpu = cpu(99.0, 99.0);
            lose(r, 0, 50);
        }),
        Limit::SenderCpu
    );
    // … much loss is.
    assert_eq!(
        with(|a, s, r| {
            max(a);
            s.cpu = cpu(99.0, 99.0);
            lose(r, 0, 1_500);
        }),
        Limit::ReceiverBuffer
    );
}

#[test]
fn tcp_limits() {
    let tcp = |change: &dyn Fn(&mut RunRecord, &mut SenderFigures, &mut ReceiverFigures)| {
        with(|record, s, r| {
            record.asked.protocol = TrafficKind::Tcp.into();
            record.asked.rate_bps = None;
            record.asked.window_bytes = None;
            s.tcp = Some(TcpFigures {
                retransmits: Some(0),
                busy_ratio: Some(0.5),
                ..TcpFigures::default()
            });
            change(record, s, r);
        })
    };
    let state = |s: &mut SenderFigures, f: &dyn Fn(&mut TcpFigures)| f(s.tcp.as_mut().unwrap());
    assert_eq!(tcp(&|_, _, _| {}), Limit::Unknown);
    assert_eq!(tcp(&|a, _, _| a.asked.rate_bps = Some(100_000_000)), Limit::RequestedRate);
    assert_eq!(tcp(&|_, s, _| s.cpu = cpu(99.0, 99.0)), Limit::SenderCpu);
    assert_eq!(tcp(&|_, _, r| r.cpu = cpu(99.0, 99.0)), Limit::ReceiverCpu);
    assert_eq!(tcp(&|_, s, _| state(s, &|t| t.rwnd_limited_ratio = Some(0.6))), Limit::TcpWindow);
    assert_eq!(tcp(&|_, s, _| state(s, &|t| t.retransmits = Some(9))), Limit::TcpCongestion);
    assert_eq!(tcp(&|_, s, _| state(s, &|t| t.busy_ratio = Some(1.0))), Limit::Path);
}

#[test]
fn who_had_the_core_of_a_thread_that_wanted_it() {
    let tcp = |tx: Option<CpuFigures>, state: TcpFigures| {
        with(|record, s, _| {
            (record.asked.protocol, record.asked.rate_bps) = (TrafficKind::Tcp.into(), None);
            record.asked.window_bytes = None;
            (s.cpu, s.tcp) = (tx, Some(state));
        })
    };
    let idle = TcpFigures { retransmits: Some(0), busy_ratio: Some(0.5), ..TcpFigures::default() };
    // A queue of 21 ms and loss: the path had enough to carry all the time.
    let queue = TcpFigures {
        retransmits: Some(2_974),
        busy_ratio: Some(1.0),
        rtt_s: Some(0.021),
        min_rtt_s: Some(0.000_1),
        ..TcpFigures::default()
    };
    // Full cores beside a thread that slept.
    assert_eq!(tcp(beside_others(0.4, 2.0, 200.0), queue.clone()), Limit::TcpCongestion);
    // One that woke late, again and again, before a queue that never ran dry.
    assert_eq!(tcp(beside_others(2.0, 60.0, 200.0), queue.clone()), Limit::TcpCongestion);
    assert_eq!(tcp(beside_others(2.0, 60.0, 200.0), idle.clone()), Limit::OtherWork);
    assert_eq!(tcp(beside_others(50.0, 49.0, 60.0), idle.clone()), Limit::OtherWork);
    // Nothing else ran: this test's own threads waited for each other.
    assert_eq!(tcp(beside_others(50.0, 49.0, 5.0), idle.clone()), Limit::SenderCpu);
    assert_eq!(tcp(beside_others(94.0, 5.0, 150.0), idle.clone()), Limit::SenderCpu);
    // The hypervisor, and interrupts of its own packets, take a core from under a thread.
    let under = |steal: f64, softirq: f64| {
        beside_others(35.0, 1.0, 0.0).map(|cpu| CpuFigures {
            interrupted_percent: Some(64.0),
            steal_percent: Some(steal),
            softirq_percent: Some(softirq),
            ..cpu
        })
    };
    assert_eq!(tcp(under(63.0, 1.0), idle.clone()), Limit::OtherWork);
    assert_eq!(tcp(under(0.0, 64.0), idle), Limit::SenderCpu);
}

#[test]
fn advice_is_possible_on_the_host_it_is_given_for() {
    let advice = |idle: Vec<u32>, change: &dyn Fn(&mut RunRecord)| {
        let mut record = udp();
        record.asked.rate_bps = None;
        let agreed = record.asked.clone();
        record.agreed = Some(linerate_model::record::PlanRecord {
            engine: Some(EngineChoice::Gso.into()),
            window_granted: Some(linerate_model::record::WindowGranted {
                send_bytes: Some(425_984),
                receive_bytes: Some(425_984),
            }),
            ..agreed
        });
        for end in [
            &mut record.totals.sender.as_mut().unwrap().cpu,
            &mut record.totals.receiver.as_mut().unwrap().cpu,
        ] {
            *end = cpu(99.0, 99.0);
            end.as_mut().unwrap().idle_cores = Some(idle.clone());
        }
        change(&mut record);
        judge(&record, false).unwrap().advice.join("\n")
    };
    let full = |_: &mut RunRecord| {};
    assert_eq!(advice(vec![], &full), "");
    assert!(advice(vec![0, 3], &full).contains("--cpu 0"), "{}", advice(vec![0, 3], &full));
    assert!(advice(vec![0, 3], &full).contains("--streams 2"));
    // A thread on a core of the interface's interrupts gets one that takes none, and is told why.
    let interrupts =
        |record: &mut RunRecord| record.client.nic.as_mut().unwrap().irq_cores = vec![0, 1];
    let other = advice(vec![0, 3], &interrupts);
    assert!(other.contains("--cpu 3 (core 1 also takes the NIC's interrupts)"), "{other}");
    let one_host = |record: &mut RunRecord| {
        record.client.boot_id = Some("here".into());
        record.server.as_mut().unwrap().boot_id = Some("here".into());
    };
    // A core that the other end has on the same host is no other core, though it be idle half of the time.
    let beside = |record: &mut RunRecord| {
        one_host(record);
        record.totals.receiver.as_mut().unwrap().cpu.as_mut().unwrap().core = Some(3);
    };
    assert!(advice(vec![2, 3], &beside).contains("--cpu 2"));
    assert!(!advice(vec![3], &beside).contains("--cpu"), "{}", advice(vec![3], &beside));
    // One core for two threads is none.
    assert!(!advice(vec![3], &one_host).contains("--streams"));
    assert!(advice(vec![2, 3], &one_host).contains("--streams 2"));
    // Both ways a stream has two threads at each end, and one core is not for several of them.
    let both = |record: &mut RunRecord| record.asked.direction = PlanDirection::Both.into();
    assert_eq!(advice(vec![3], &both), "");
    assert_eq!(advice(vec![0, 3], &both), "--streams 2: more threads, for the cores that are idle");
    let streams = |streams: u16| {
        advice(vec![0, 3], &move |record: &mut RunRecord| record.asked.streams = streams)
    };
    assert_eq!(streams(2), "--streams 4: more threads, for the cores that are idle");
    assert_eq!(streams(128), "", "no test has more");
    let netperf = |record: &mut RunRecord| record.asked.dialect = Dialect::Netperf.into();
    assert_eq!(advice(vec![0, 3], &netperf), "--cpu 0", "netperf's tests have one stream");
    let overflow = |most: u64| {
        advice(vec![], &move |record: &mut RunRecord| {
            let receiver = record.totals.receiver.as_mut().unwrap();
            lose(receiver, 0, 1_500);
            receiver.cpu = cpu(20.0, 30.0);
            record.server.as_mut().unwrap().rmem_max_bytes = Some(most);
        })
    };
    let small = overflow(212_992);
    assert!(small.starts_with("sysctl -w net.core.rmem_max=8388608 on the server"), "{small}");
    assert!(small.contains("then --window 8Mi"), "{small}");
    // In the words of what is asked for: 425,984 bytes are read back of 208 KiB.
    let large = overflow(1 << 30);
    assert!(large.starts_with("--window 8Mi: a larger receive buffer (208Ki now"), "{large}");
    // A server that was given more than its host allows took that for itself. For a client it goes as far
    // as its owner said, so the host must allow it.
    assert!(overflow(65_536).starts_with("sysctl -w net.core.rmem_max=8388608 on the server"));
    let own = advice(vec![], &|record: &mut RunRecord| {
        let receiver = record.totals.receiver.as_mut().unwrap();
        lose(receiver, 0, 1_500);
        receiver.cpu = cpu(20.0, 30.0);
        record.server.as_mut().unwrap().rmem_max_bytes = Some(65_536);
        record.target = None;
    });
    assert!(own.starts_with("--window 8Mi"), "{own}");
}

/// A record of both directions, each 100 Mbit/s asked, sent and received, before the change.
fn two_ways(
    protocol: &str,
    change: impl FnOnce(&mut Pair, &mut Pair),
) -> linerate_model::record::Verdict {
    let mut record = udp();
    record.asked.protocol = Word::of(protocol);
    record.asked.direction = PlanDirection::Both.into();
    let pair =
        Pair { sender: record.totals.sender.take(), receiver: record.totals.receiver.take() };
    let (mut forward, mut reverse) = (pair.clone(), pair);
    change(&mut forward, &mut reverse);
    record.totals =
        Figures { forward: Some(forward), reverse: Some(reverse), ..Figures::default() };
    judge(&record, false).unwrap()
}

#[test]
fn the_direction_that_falls_short_is_the_limit() {
    for protocol in ["udp", "tcp"] {
        let verdict = two_ways(protocol, |_, _| {});
        assert_eq!(verdict.limit, Limit::RequestedRate, "{protocol}");
        assert_eq!(verdict.because.len(), 2);
    }
    let verdict = two_ways("udp", |_, reverse| {
        let receiver = reverse.receiver.as_mut().unwrap();
        lose(receiver, 100, 0);
        receiver.bits_per_second = 300_000.0;
    });
    assert_eq!(verdict.limit, Limit::Path);
    assert!(verdict.because[0].starts_with("reverse: "), "{:?}", verdict.because);
    assert!(verdict.because[0].contains("client's socket"), "{:?}", verdict.because);
    assert!(verdict.because[1].starts_with("forward: "), "{:?}", verdict.because);
    // A slow path is not told to send more than it carries.
    assert!(verdict.advice[0].starts_with("--rate 294k"), "{:?}", verdict.advice);
    assert_eq!(verdict.evidence["reverse_lost_path_datagrams"], 100.0);
    assert_eq!(verdict.evidence["lost_path_datagrams"], 0.0);

    let slow = |pair: &mut Pair, full: bool| {
        let (sender, receiver) = (pair.sender.as_mut().unwrap(), pair.receiver.as_mut().unwrap());
        receiver.bits_per_second = 50e6;
        sender.tcp = Some(TcpFigures { retransmits: Some(9), ..TcpFigures::default() });
        if full {
            receiver.cpu = cpu(99.0, 99.0);
        }
    };
    let verdict = two_ways("tcp", |_, reverse| slow(reverse, true));
    assert_eq!(verdict.limit, Limit::ReceiverCpu);
    // Both fell short: the forward one is named, the other told.
    let verdict = two_ways("tcp", |forward, reverse| {
        slow(forward, false);
        slow(reverse, true);
    });
    assert_eq!(verdict.limit, Limit::TcpCongestion);
    assert!(verdict.because[1].starts_with("reverse: "));
}

#[test]
fn a_verdict_on_one_of_two_directions_says_whose_it_is() {
    let verdict = two_ways("tcp", |_, reverse| reverse.sender = None);
    assert_eq!(verdict.because, ["forward: 100.0 Mbit/s arrived"]);
    assert!(verdict.evidence.keys().all(|name| !name.starts_with("reverse_")));
    let verdict = two_ways("tcp", |forward, _| forward.sender = None);
    assert_eq!(verdict.because, ["reverse: 100.0 Mbit/s arrived"]);
    assert!(verdict.evidence.keys().all(|name| name.starts_with("reverse_")), "{verdict:?}");
}

#[test]
fn what_a_hypervisor_took_is_not_said_to_be_other_programs() {
    let mut record = udp();
    (record.asked.protocol, record.asked.rate_bps) = (TrafficKind::Tcp.into(), None);
    record.asked.window_bytes = None;
    let held = TcpFigures { rwnd_limited_ratio: Some(0.6), ..TcpFigures::default() };
    record.totals.sender.as_mut().unwrap().tcp = Some(held);
    let stolen = |cpu: CpuFigures| CpuFigures {
        interrupted_percent: Some(40.0),
        steal_percent: Some(40.0),
        ..cpu
    };
    record.totals.receiver.as_mut().unwrap().cpu = beside_others(30.0, 1.0, 0.0).map(stolen);
    let verdict = judge(&record, false).unwrap();
    assert_eq!(verdict.limit, Limit::OtherWork);
    assert!(verdict.because[0].starts_with("the hypervisor took 40 %"), "{verdict:?}");
}

#[test]
fn a_reader_that_was_late_with_time_to_spare_is_no_full_cpu() {
    let late = |thread: f64| {
        with(|_, _, r| {
            (r.overdue, r.read_seconds, r.cpu) = (Some(2_000), Some(1.3), cpu(thread, thread));
        })
    };
    assert_eq!((late(20.0), late(99.0)), (Limit::ReceiverBuffer, Limit::ReceiverCpu));
}

/// A host that is kept from reading its counters for half a second has none.
#[test]
fn the_path_is_not_blamed_where_a_host_does_not_say_what_it_dropped() {
    let unread = |sender: bool, receiver: bool| {
        with(|_, s, r| {
            lose(r, 1_000, 0);
            s.host.take_if(|_| sender);
            r.host.take_if(|_| receiver);
        })
    };
    assert_eq!(unread(false, false), Limit::Path);
    assert_eq!([unread(true, false), unread(false, true)], [Limit::Unknown; 2]);
    let late = |host: Option<HostFigures>| {
        with(|_, s, r| {
            s.host = host;
            r.overdue = Some(2_000);
            (r.seconds, r.read_seconds) = (1.3, Some(1.3));
        })
    };
    let queue = HostFigures { qdisc_dropped: Some(0), ..HostFigures::default() };
    assert_eq!(
        [late(None), late(Some(queue))],
        [Limit::Unknown; 2],
        "its queue may have held them"
    );
    assert_eq!(late(Some(HostFigures::default())), Limit::Path, "it has none");
    // Nor did it name the interface in time, of which then nothing is counted.
    let unnamed = |overdue: Option<u64>| {
        with(|record, _, r| {
            record.client.nic = None;
            if overdue.is_some() {
                (r.overdue, r.seconds, r.read_seconds) = (overdue, 1.3, Some(1.3));
            } else {
                lose(r, 1_000, 0);
            }
        })
    };
    assert_eq!([unnamed(None), unnamed(Some(2_000))], [Limit::Unknown; 2]);
    // Of another program's end nobody expects them.
    let iperf3 = with(|record, s, r| {
        lose(r, 1_000, 0);
        s.host = None;
        record.asked.direction = PlanDirection::Reverse.into();
        record.server = None;
    });
    assert_eq!(iperf3, Limit::Path);
}

#[test]
fn the_senders_own_queue_is_not_the_path() {
    let drops = |dropped: u64, refused: u64| {
        with(|_, s, r| {
            s.host = Some(HostFigures { qdisc_dropped: Some(dropped), ..Default::default() });
            s.refused_locally = Some(refused);
            lose(r, 1_000, 0);
        })
    };
    assert_eq!(drops(900, 0), Limit::SenderHost);
    assert_eq!(drops(0, 0), Limit::Path);
    // What the sender was told of was never sent, and cannot be what was lost.
    assert_eq!(drops(900, 900), Limit::Path);
    let agreed = |record: &mut RunRecord, engine: &str| {
        let agreed = record.agreed.get_or_insert_with(|| record.asked.clone());
        agreed.engine = Some(Word::of(engine));
        agreed.train_datagrams = Some(10);
        agreed.datagram_bytes = Some(1_250);
    };
    let trains = |engine: &'static str| {
        with(|a, s, r| {
            agreed(a, engine);
            s.host = Some(HostFigures { qdisc_dropped: Some(90), ..Default::default() });
            lose(r, 1_000, 0);
        })
    };
    // Ten datagrams a train, each of which the kernel counts as one packet.
    assert_eq!((trains("gso"), trains("mmsg")), (Limit::SenderHost, Limit::Path));
    let late = |waited: u64| {
        with(|a, s, r| {
            agreed(a, "mmsg");
            s.host = Some(HostFigures { qdisc_backlog_bytes: Some(waited), ..Default::default() });
            r.overdue = Some(2_000);
            (r.seconds, r.read_seconds) = (1.3, Some(1.3));
        })
    };
    assert_eq!(late(2_400_000), Limit::SenderHost);
    assert_eq!(late(100_000), Limit::Path);
}

#[test]
fn what_the_own_host_dropped_is_its_limit_with_the_errno() {
    let drops = |errno: &str, dropped: u64, lost: u64| {
        let mut record = udp();
        let sender = record.totals.sender.as_mut().unwrap();
        sender.refused_locally = Some(dropped);
        sender.attempted = Some(10_000 + dropped);
        sender.local_send_errors = [(errno.to_owned(), dropped)].into();
        lose(record.totals.receiver.as_mut().unwrap(), lost, 0);
        judge(&record, false).unwrap()
    };
    for (errno, look_at) in [
        ("EPERM", "nft list ruleset"),
        ("ENETUNREACH", "ip route get"),
        ("ENETDOWN", "ip link show"),
    ] {
        let verdict = drops(errno, 5_000, 0);
        assert_eq!(verdict.limit, Limit::SenderHost);
        assert!(verdict.because[0].contains(&format!("5000 {errno}")), "{verdict:?}");
        assert!(verdict.advice[0].contains(look_at), "{verdict:?}");
    }
    assert_eq!(drops("EPERM", 5, 0).limit, Limit::RequestedRate);
    // Where the path took more, that is the limit; a full queue is the limit only where nothing was lost.
    assert_eq!(drops("EPERM", 100, 1_000).limit, Limit::Path);
    assert_eq!(drops("ENOBUFS", 2_000, 1_000).limit, Limit::Path);
    let verdict = drops("ENOBUFS", 2_000, 0);
    assert_eq!(verdict.limit, Limit::SenderHost);
    assert!(verdict.because[0].contains("2000 of 12000 datagrams (2000 ENOBUFS)"), "{verdict:?}");
}

#[test]
fn one_datagram_that_a_filter_dropped_does_not_make_a_full_queue_one() {
    let drops = |lost: u64| {
        let mut record = udp();
        let sender = record.totals.sender.as_mut().unwrap();
        sender.refused_locally = Some(2_001);
        sender.attempted = Some(12_001);
        sender.local_send_errors = [("ENOBUFS".to_owned(), 2_000), ("EPERM".to_owned(), 1)].into();
        lose(record.totals.receiver.as_mut().unwrap(), lost, 0);
        judge(&record, false).unwrap()
    };
    assert_eq!(drops(1_000).limit, Limit::Path);
    let verdict = drops(0);
    assert_eq!(verdict.limit, Limit::SenderHost);
    assert!(!verdict.because[0].contains("a packet filter"), "{verdict:?}");
    assert!(!verdict.advice.iter().any(|advice| advice.contains("nft")), "{verdict:?}");
}

#[test]
fn what_had_no_room_was_not_dropped_by_the_filter_beside_it() {
    let because = |no_room: (&str, u64)| {
        let mut record = udp();
        let sender = record.totals.sender.as_mut().unwrap();
        (sender.refused_locally, sender.attempted) = (Some(5_100), Some(15_100));
        let errors = [no_room, ("EPERM", 100)].map(|(errno, n)| (errno.to_owned(), n));
        sender.local_send_errors = errors.into();
        judge(&record, false).unwrap().because.join("; ")
    };
    let beside = because(("ENOBUFS", 5_000));
    assert!(beside.contains("(5000 ENOBUFS, 100 EPERM; EPERM: a packet filter"), "{beside}");
    let untold = because(("unknown", 5_000));
    assert!(untold.contains("(5000 unknown, 100 EPERM: a packet filter"), "{untold}");
}

#[test]
fn drops_of_the_own_interface_are_not_the_paths() {
    let drops = |device: u64, errno: &str, dropped: u64| {
        with(|_, s, r| {
            s.host = Some(HostFigures { nic_tx_dropped: Some(device), ..Default::default() });
            s.refused_locally = Some(dropped);
            s.local_send_errors = [(errno.to_owned(), dropped)].into();
            lose(r, 1_000, 0);
        })
    };
    assert_eq!(drops(900, "ENOBUFS", 0), Limit::SenderHost);
    assert_eq!(drops(400, "ENOBUFS", 0), Limit::Path);
    // What the sender was told of is in the interface's count; what a filter dropped never came so far.
    assert_eq!(drops(900, "ENOBUFS", 900), Limit::Path);
    assert_eq!(drops(900, "EPERM", 900), Limit::SenderHost);
}

#[test]
fn a_cgroup_that_throttles_an_end_is_its_cpu() {
    fn by(seconds: f64) -> Option<HostFigures> {
        Some(HostFigures { throttled_s: Some(seconds), ..HostFigures::default() })
    }
    let receiver = |seconds: f64| {
        with(|_, _, r| {
            lose(r, 0, 1_500);
            r.host = by(seconds);
        })
    };
    assert_eq!((receiver(0.9), receiver(0.01)), (Limit::ReceiverCpu, Limit::ReceiverBuffer));
    let sender = |seconds: f64, sent: f64| {
        with(|_, s, _| {
            s.bits_per_second = sent;
            s.host = by(seconds);
        })
    };
    assert_eq!((sender(0.8, 5e7), sender(0.01, 5e7)), (Limit::SenderCpu, Limit::SenderHost));
    assert_eq!(sender(0.8, 1e8), Limit::RequestedRate);
    // A window that the receiver had no time to open is not too small.
    let tcp = |sender: f64, receiver: f64| {
        with(|a, s, r| {
            (a.asked.protocol, a.asked.rate_bps) = (TrafficKind::Tcp.into(), None);
            s.tcp = Some(TcpFigures { rwnd_limited_ratio: Some(0.7), ..TcpFigures::default() });
            (s.host, r.host) = (by(sender), by(receiver));
        })
    };
    assert_eq!((tcp(0.01, 0.8), tcp(0.8, 0.01)), (Limit::ReceiverCpu, Limit::SenderCpu));
    assert_eq!(tcp(0.01, 0.01), Limit::TcpWindow);
    // 600 Mbit/s in round trips of 56 us are 4,200 bytes: a window of 4 KiB, and a tenth of 40.
    let filled = |window: u64| {
        with(|a, s, r| {
            (a.asked.protocol, a.asked.rate_bps) = (TrafficKind::Tcp.into(), None);
            a.asked.window_bytes = Some(window);
            let (rtt_s, retransmits) = (Some(56e-6), Some(4));
            s.tcp = Some(TcpFigures { rtt_s, retransmits, ..TcpFigures::default() });
            (s.bits_per_second, r.bits_per_second) = (6e8, 6e8);
        })
    };
    assert_eq!((filled(4_096), filled(40_960)), (Limit::TcpWindow, Limit::TcpCongestion));
    // 43 % of it in each round trip, and held by it for 21 % of the time.
    let tiny = |held: f64| {
        with(|a, s, r| {
            (a.asked.protocol, a.asked.rate_bps) = (TrafficKind::Tcp.into(), None);
            a.asked.window_bytes = Some(4_096);
            let (rtt_s, rwnd_limited_ratio, retransmits) = (Some(21e-6), Some(held), Some(3));
            s.tcp = Some(TcpFigures {
                rtt_s,
                rwnd_limited_ratio,
                retransmits,
                ..TcpFigures::default()
            });
            (s.bits_per_second, r.bits_per_second) = (664e6, 664e6);
        })
    };
    assert_eq!((tiny(0.21), tiny(0.01)), (Limit::TcpWindow, Limit::TcpCongestion));
    // Some of its cgroup was throttled, and not the thread that carried the test.
    let other = with(|_, s, _| {
        (s.bits_per_second, s.host, s.cpu) = (5e7, by(0.8), beside_others(20.0, 1.0, 0.0));
    });
    assert_eq!(other, Limit::SenderHost);
    // Others fill the cores meanwhile: the end that may not run is the limit all the same.
    let beside_others = with(|a, s, r| {
        (a.asked.protocol, a.asked.rate_bps) = (TrafficKind::Tcp.into(), None);
        (s.host, s.cpu, r.cpu) = (by(0.9), cpu(5.0, 97.0), cpu(3.0, 98.0));
    });
    assert_eq!(beside_others, Limit::SenderCpu);
}

/// 100 Mbit/s in round trips of 84 ms are 1 MiB, and in such of 1 ms 12.5 kB.
#[test]
fn a_window_that_stands_in_a_queue_is_not_the_limit() {
    let asked = |min_ms: f64, varies_ms: f64, mss: u64, window: u64| {
        with(|a, s, _| {
            (a.asked.protocol, a.asked.rate_bps) = (TrafficKind::Tcp.into(), None);
            a.asked.window_bytes = Some(window);
            s.tcp = Some(TcpFigures {
                rtt_s: Some(0.084),
                min_rtt_s: Some(min_ms / 1e3),
                rtt_variation_s: Some(varies_ms / 1e3),
                mss_bytes: Some(mss),
                busy_ratio: Some(1.0),
                rwnd_limited_ratio: Some(0.9),
                ..TcpFigures::default()
            });
        })
    };
    assert_eq!(asked(1.0, 2.0, 1_448, 1 << 20), Limit::Path);
    // No queue; a reader that stops now and then; acknowledgements that are late; one seen many times over.
    assert_eq!(asked(80.0, 2.0, 1_448, 1 << 20), Limit::TcpWindow);
    assert_eq!(asked(1.0, 60.0, 1_448, 1 << 20), Limit::TcpWindow);
    assert_eq!(asked(1.0, 2.0, 524_288, 1 << 20), Limit::TcpWindow);
    assert_eq!(asked(1.0, 2.0, 1_448, 1 << 18), Limit::TcpWindow);
}

#[test]
fn a_congestion_window_that_nobody_reported_is_not_said_to_be_0() {
    let because = |cwnd_bytes: Option<u64>| {
        let mut record = udp();
        (record.asked.protocol, record.asked.rate_bps) = (TrafficKind::Tcp.into(), None);
        let tcp = TcpFigures { retransmits: Some(4), cwnd_bytes, ..TcpFigures::default() };
        record.totals.sender.as_mut().unwrap().tcp = Some(tcp);
        judge(&record, false).unwrap().because.join("; ")
    };
    let known = because(Some(9_000));
    assert!(known.contains("the congestion window was 9000 bytes in the mean"), "{known}");
    assert!(because(None).starts_with("4 segments were retransmitted; "), "{}", because(None));
}

#[test]
fn rr_limits() {
    let rr = |rate: Option<u64>, client: f64, server: f64| {
        let mut record = udp();
        record.asked.protocol = TrafficKind::Rr.into();
        record.asked.rate_tps = rate;
        record.totals = Figures {
            rr: Some(RrFigures {
                transactions: 1_000,
                seconds: 1.0,
                transactions_per_second: 1_000.0,
                cpu: cpu(client, client),
                server_cpu: cpu(server, server),
                ..RrFigures::default()
            }),
            ..Figures::default()
        };
        judge(&record, false).unwrap().limit
    };
    assert_eq!(rr(None, 30.0, 30.0), Limit::RoundTrip);
    assert_eq!(rr(Some(1_000), 30.0, 30.0), Limit::RequestedRate);
    assert_eq!(rr(Some(9_000), 99.0, 30.0), Limit::SenderCpu);
    assert_eq!(rr(None, 30.0, 99.0), Limit::ReceiverCpu);
    // No more in flight than the program takes.
    let advice = |outstanding: u32, response: u32| {
        let mut record = udp();
        record.asked.protocol = TrafficKind::Rr.into();
        record.asked.rate_bps = None;
        (record.asked.outstanding, record.asked.response_bytes) =
            (Some(outstanding), Some(response));
        record.totals = Figures {
            rr: Some(RrFigures { seconds: 1.0, ..RrFigures::default() }),
            ..Figures::default()
        };
        judge(&record, false).unwrap().advice
    };
    assert_eq!(advice(1, 1), ["--outstanding 8: more requests in flight"]);
    assert_eq!(advice(40, 1_400), ["--outstanding 46: more requests in flight"]);
    assert!(advice(46, 1_400).is_empty());
    // Both ends wait for a core in turn, and each wait is in every round trip.
    let beside = |client: f64, server: f64, throttled: f64| {
        let mut record = udp();
        record.asked.protocol = TrafficKind::Rr.into();
        record.asked.rate_bps = None;
        record.totals = Figures {
            rr: Some(RrFigures {
                transactions: 1_000,
                seconds: 1.0,
                transactions_per_second: 1_000.0,
                cpu: beside_others(10.0, client, 150.0),
                server_cpu: beside_others(10.0, server, 150.0),
                server_host: Some(HostFigures {
                    throttled_s: Some(throttled),
                    ..HostFigures::default()
                }),
                ..RrFigures::default()
            }),
            ..Figures::default()
        };
        judge(&record, false).unwrap().limit
    };
    assert_eq!(beside(15.0, 15.0, 0.0), Limit::OtherWork);
    assert_eq!(beside(2.0, 2.0, 0.0), Limit::RoundTrip);
    assert_eq!(beside(2.0, 60.0, 0.7), Limit::ReceiverCpu);
    // A fifth of the requests was on its way when the time ended: as it must be where an answer takes a
    // fifth of it, and not where one takes less.
    let on_the_way = |least: f64| {
        let mut record = udp();
        record.asked.protocol = TrafficKind::Rr.into();
        record.asked.rate_tps = Some(1_000);
        record.totals = Figures {
            rr: Some(RrFigures {
                transactions: 800,
                unfinished: Some(200),
                seconds: 1.0,
                transactions_per_second: 800.0,
                latency_s: Some(Quantiles { min: Some(least), ..Quantiles::default() }),
                ..RrFigures::default()
            }),
            ..Figures::default()
        };
        judge(&record, false).unwrap().limit
    };
    assert_eq!(on_the_way(0.2), Limit::RequestedRate);
    assert_eq!(on_the_way(0.01), Limit::RoundTrip);
}

#[test]
fn an_open_loop_is_not_judged_as_if_one_request_were_in_flight() {
    // 1,000 a second were asked for.
    let judged = |transactions: u64, lost: u64, dropped: Option<u64>, outstanding: u32| {
        let mut record = udp();
        record.asked.protocol = TrafficKind::Rr.into();
        record.asked.transport = Some(Transport::Udp.into());
        (record.asked.request_bytes, record.asked.response_bytes) = (Some(100), Some(100));
        (record.asked.rate_tps, record.asked.outstanding) = (Some(1_000), Some(outstanding));
        record.asked.streams = 1;
        let host = HostFigures { udp_receive_buffer_errors: dropped, ..HostFigures::default() };
        record.totals = Figures {
            rr: Some(RrFigures {
                transactions,
                unanswered: Some(lost),
                seconds: 1.0,
                transactions_per_second: transactions as f64,
                host: Some(host.clone()),
                server_host: Some(host),
                ..RrFigures::default()
            }),
            ..Figures::default()
        };
        let verdict = judge(&record, false).unwrap();
        (verdict.limit, verdict.because.join("; "), verdict.advice)
    };
    let (limit, because, _) = judged(950, 50, Some(0), 1);
    assert_eq!(limit, Limit::Path);
    assert!(because.starts_with("50 requests were never answered"), "{because}");
    assert_eq!(judged(950, 50, Some(20), 1).0, Limit::Unknown);
    assert_eq!(judged(950, 50, None, 1).0, Limit::Unknown);
    // Most of what is missing was not lost.
    let (limit, because, advice) = judged(500, 50, Some(0), 1);
    assert_eq!(limit, Limit::RoundTrip);
    assert!(because.contains("with up to 65536 in flight"), "{because}");
    assert!(!advice.iter().any(|advice| advice.contains("--outstanding")), "{advice:?}");
    let (_, because, advice) = judged(500, 0, None, 4);
    assert!(because.contains("with up to 4 in flight"), "{because}");
    assert!(advice.contains(&"--outstanding 32: more requests in flight".into()), "{advice:?}");
}

#[test]
fn a_closed_loop_that_waited_for_what_was_lost_is_not_limited_by_round_trips() {
    // Ten seconds of answers within 50 µs; each request that is lost takes a second of its place in flight.
    let judged = |transactions: u64, lost: u64, outstanding: u32, no_room: &[(String, u64)]| {
        let mut record = udp();
        record.asked.protocol = TrafficKind::Rr.into();
        record.asked.transport = Some(Transport::Udp.into());
        (record.asked.request_bytes, record.asked.response_bytes) = (Some(100), Some(100));
        record.asked.outstanding = Some(outstanding);
        let dropped = Some(0);
        let host = HostFigures { udp_receive_buffer_errors: dropped, ..HostFigures::default() };
        let latency = Quantiles { p50: 50e-6, mean: Some(50e-6), ..Quantiles::default() };
        record.totals = Figures {
            rr: Some(RrFigures {
                transactions,
                unanswered: Some(lost),
                seconds: 10.0,
                transactions_per_second: transactions as f64 / 10.0,
                latency_s: Some(latency),
                host: Some(host.clone()),
                server_host: Some(host),
                local_send_errors: no_room.iter().cloned().collect(),
                ..RrFigures::default()
            }),
            ..Figures::default()
        };
        judge(&record, false).unwrap()
    };
    let verdict = judged(1_000, 9, 1, &[]);
    assert_eq!(verdict.limit, Limit::Path);
    assert!(verdict.because[0].contains("its place in flight for a second"), "{verdict:?}");
    // Lost at the very end, or of one place of four.
    assert_eq!(judged(190_000, 9, 1, &[]).limit, Limit::RoundTrip);
    assert_eq!(judged(1_000, 9, 4, &[]).limit, Limit::RoundTrip);
    // The path did not lose what this host had no room for.
    assert_eq!(judged(1_000, 9, 1, &[("ENOBUFS".to_owned(), 9)]).limit, Limit::Unknown);
}

#[test]
fn what_was_never_answered_has_no_round_trip() {
    let judged = |unanswered: Option<u64>| {
        let mut record = udp();
        record.asked.protocol = TrafficKind::Rr.into();
        record.asked.transport = Some(Transport::Udp.into());
        record.asked.outstanding = Some(1);
        let dropped = Some(0);
        let host = HostFigures { udp_receive_buffer_errors: dropped, ..HostFigures::default() };
        record.totals = Figures {
            rr: Some(RrFigures {
                unanswered,
                seconds: 10.0,
                host: Some(host.clone()),
                server_host: Some(host),
                ..RrFigures::default()
            }),
            ..Figures::default()
        };
        judge(&record, false).unwrap()
    };
    let verdict = judged(Some(10));
    assert_eq!(verdict.limit, Limit::Path);
    assert!(verdict.because[0].starts_with("10 requests were never answered"), "{verdict:?}");
    let verdict = judged(None);
    assert_eq!(verdict.limit, Limit::RoundTrip);
    assert!(verdict.because[0].starts_with("no answer was timed, with 1 in flight"), "{verdict:?}");
}

#[test]
fn a_full_queue_at_one_end_hides_no_filter_at_the_other() {
    let judged = |client: &[(&str, u64)], server: &[(&str, u64)]| {
        let table = |errors: &[(&str, u64)]| {
            errors.iter().map(|(errno, n)| ((*errno).to_owned(), *n)).collect()
        };
        let mut record = udp();
        record.asked.protocol = TrafficKind::Rr.into();
        record.totals = Figures {
            rr: Some(RrFigures {
                transactions: 10_000,
                seconds: 1.0,
                local_send_errors: table(client),
                server_local_send_errors: table(server),
                ..RrFigures::default()
            }),
            ..Figures::default()
        };
        judge(&record, false).unwrap()
    };
    for client in [("ENOBUFS", 500), ("unknown", 500)] {
        let verdict = judged(&[client], &[("EPERM", 100)]);
        assert_eq!(verdict.limit, Limit::SenderHost);
        assert!(verdict.because[0].starts_with("the server's own host dropped 100 answers"));
    }
    // One in ten thousand is not what limits a test, whatever there was no room for beside it.
    assert_eq!(judged(&[("ENOBUFS", 500), ("EPERM", 1)], &[]).limit, Limit::RoundTrip);
}

#[test]
fn nothing_measured_is_not_judged() {
    let mut record = udp();
    record.status = Status::Failed;
    assert_eq!(judge(&record, false), None);
}

#[test]
fn what_nobody_received_was_not_all_that_was_asked_for() {
    let mut record = udp();
    record.status = Status::Partial;
    record.totals.receiver = None;
    assert_eq!(judge(&record, false).unwrap().limit, Limit::Unknown);
    // Where no receiver was meant, sending is all there is.
    assert_eq!(judge(&record, true).unwrap().limit, Limit::RequestedRate);
    record.asked.protocol = TrafficKind::Tcp.into();
    let tcp = TcpFigures { retransmits: Some(1), ..TcpFigures::default() };
    record.totals.sender.as_mut().unwrap().tcp = Some(tcp);
    let verdict = judge(&record, false).unwrap();
    assert_eq!(verdict.limit, Limit::Unknown, "{verdict:?}");
    assert!(verdict.because[0].contains("the server has not reported"), "{verdict:?}");
    // What nobody reports to have come is not said to have come.
    record.asked.rate_bps = None;
    let verdict = judge(&record, false).unwrap();
    assert_eq!(verdict.limit, Limit::TcpCongestion);
    assert!(verdict.because[0].ends_with("; 100.0 Mbit/s was sent"), "{verdict:?}");
}
