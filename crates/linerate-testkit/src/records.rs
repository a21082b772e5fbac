//! Made-up run records whose numbers obey the accounting identities, for tests of whatever reads
//! records. Each is whole, as a runner would write it.

use std::collections::BTreeMap;

use linerate_model::host::{HostFacts, NicFacts};
use linerate_model::plan::{
    Dialect, EngineChoice, PlanDirection, Receiving, Sending, Transport, Way,
};
use linerate_model::record::*;
use linerate_model::word::Word;

/// A record of a UDP test that only lacks its figures.
pub fn empty(protocol: &str) -> RunRecord {
    let asked = PlanRecord {
        protocol: Word::of(protocol),
        ip: Some(4),
        direction: PlanDirection::Forward.into(),
        streams: 1,
        duration_s: Some(10.0),
        interval_s: 1.0,
        dialect: Dialect::Native.into(),
        ..Default::default()
    };
    RunRecord {
        format: FORMAT,
        id: "20260102T030405.000000Z-5f2a".into(),
        started: "2026-01-02T03:04:05Z".into(),
        linerate: ProgramFacts { version: "0.1.0".into() },
        command: ["linerate", protocol, "hydra2"].map(String::from).to_vec(),
        target: Some("hydra2".into()),
        label: None,
        title: None,
        profile: None,
        addresses: None,
        summary: None,
        found: None,
        agreed: Some(asked.clone()),
        asked,
        cuts: Vec::new(),
        client: host("hydra1"),
        server: Some(host("hydra2")),
        intervals: Vec::new(),
        events: Vec::new(),
        totals: Figures::default(),
        streams: Vec::new(),
        verdict: None,
        doubts: Vec::new(),
        status: Status::Complete,
        error: None,
    }
}

fn host(name: &str) -> HostFacts {
    HostFacts {
        hostname: name.into(),
        os: Some("Debian GNU/Linux 13 (trixie)".into()),
        kernel: Some("6.12.9".into()),
        cpu_model: Some("Cortex-A57".into()),
        cores: Some(4),
        nic: Some(NicFacts {
            name: "eth0".into(),
            driver: Some("nvgbe".into()),
            speed_mbps: Some(1_000),
            mtu: Some(1_500),
            ..Default::default()
        }),
        rmem_max_bytes: Some(212_992),
        wmem_max_bytes: Some(212_992),
        linerate: "0.1.0".into(),
        ..Default::default()
    }
}

/// CPU figures whose shares add up.
pub fn cpu(core: u32, thread: f64, busy: f64, softirq: f64) -> CpuFigures {
    CpuFigures {
        thread_percent: thread,
        threads_percent: thread,
        core: Some(core),
        core_percent: Some(busy),
        user_percent: Some((busy - softirq) / 4.0),
        system_percent: Some((busy - softirq) * 3.0 / 4.0),
        softirq_percent: Some(softirq),
        steal_percent: Some(0.0),
        irq_cores: Vec::new(),
        ..CpuFigures::default()
    }
}

/// A sender of UDP.
pub fn udp_sender(seconds: f64, size: u64, datagrams: u64, refused: u64) -> SenderFigures {
    let bytes = datagrams * size;
    SenderFigures {
        bytes,
        datagrams: Some(datagrams),
        seconds,
        bits_per_second: bytes as f64 * 8.0 / seconds,
        datagrams_per_second: Some(datagrams as f64 / seconds),
        attempted: Some(datagrams + refused),
        refused_locally: Some(refused),
        late_wakeups: Some(0),
        given_up: Some(0),
        ..Default::default()
    }
}

/// A receiver of UDP, to which `sent` datagrams were sent.
pub fn udp_receiver(
    seconds: f64,
    size: u64,
    sent: u64,
    lost_path: u64,
    dropped: u64,
    unattributed: u64,
) -> ReceiverFigures {
    let lost = lost_path + dropped + unattributed;
    let datagrams = sent - lost;
    let bytes = datagrams * size;
    ReceiverFigures {
        bytes,
        datagrams: Some(datagrams),
        seconds,
        bits_per_second: bytes as f64 * 8.0 / seconds,
        datagrams_per_second: Some(datagrams as f64 / seconds),
        lost: Some(lost),
        lost_ratio: Some(lost as f64 / sent as f64),
        lost_path: Some(lost_path),
        dropped_receiver: Some(dropped),
        unattributed: Some(unattributed),
        socket_drops: Some(dropped),
        duplicates: Some(0),
        reordered: Some(0),
        late: Some(0),
        corrupt: Some(0),
        jitter_s: Some(80e-6),
        ..Default::default()
    }
}

/// A board that is asked for 160 Mbit/s and whose core 2 also takes the card's interrupts: every
/// lost datagram was dropped by the receiver's socket.
pub fn udp_receiver_drops() -> RunRecord {
    const SIZE: u64 = 1472;
    const SENT: u64 = 13_587;
    let drops = [912, 1_840, 2_214, 2_230, 2_225, 2_251, 2_240, 2_263, 2_281, 2_281];
    let mut record = empty("udp");
    record.command.extend(["--rate".into(), "160M".into()]);
    record.asked.datagram_bytes = Some(SIZE as u32);
    record.asked.rate_bps = Some(160_000_000);
    record.asked.engine = Some(EngineChoice::Auto.into());
    record.asked.checksum = Some(true);
    record.asked.burst_s = Some(100e-6);
    let mut agreed = record.asked.clone();
    agreed.engine = Some(EngineChoice::Gso.into());
    agreed.train_datagrams = Some(1);
    agreed.window_granted =
        Some(WindowGranted { send_bytes: Some(212_992), receive_bytes: Some(212_992) });
    agreed.cpu = Some(CpuPlan { sender: vec![1], receiver: vec![2] });
    record.agreed = Some(agreed);
    for (i, &dropped) in drops.iter().enumerate() {
        let mut sender = udp_sender(1.0, SIZE, SENT, 0);
        sender.cpu = Some(cpu(1, 12.1, 12.3, 0.4));
        let mut receiver = udp_receiver(1.0, SIZE, SENT, 0, dropped, 0);
        receiver.cpu = Some(cpu(2, 28.4, if i == 0 { 100.0 } else { 98.9 }, 71.2));
        receiver.jitter_s = Some((80 + 7 * i) as f64 * 1e-6);
        record.intervals.push(Interval {
            start_s: i as f64,
            end_s: (i + 1) as f64,
            figures: Figures {
                sender: Some(sender),
                receiver: Some(receiver),
                ..Default::default()
            },
        });
    }
    let dropped = drops.iter().sum();
    let mut sender = udp_sender(10.0, SIZE, SENT * 10, 0);
    sender.cpu = Some(cpu(1, 12.1, 12.3, 0.4));
    sender.pacing = Some(PacingFigures {
        mean_error_ppm: Some(2.4),
        gap_p50_ns: 73_598,
        gap_p99_ns: 74_911,
        gap_max_ns: 201_330,
        gap_nominal_ns: Some(73_600),
        lateness_p99_ns: Some(1_310),
    });
    let mut receiver = udp_receiver(10.0, SIZE, SENT * 10, 0, dropped, 0);
    receiver.cpu = Some(cpu(2, 28.4, 99.0, 71.2));
    receiver.jitter_s = Some(143e-6);
    receiver.delay_variation_s = Some(Quantiles {
        count: receiver.datagrams.unwrap_or(0),
        p50: 81e-6,
        p90: 410e-6,
        p99: 1.212e-3,
        p999: 2.9e-3,
        p9999: Some(3.01e-3),
        max: 3.104e-3,
        ..Default::default()
    });
    receiver.loss_runs = Some(LossRuns {
        count: 3_410,
        longest: 31,
        mean: dropped as f64 / 3_410.0,
        least_distance: Some(2),
        lengths: vec![412, 609, 1_020, 1_112, 222, 35],
    });
    record.totals =
        Figures { sender: Some(sender), receiver: Some(receiver), ..Default::default() };
    record.verdict = Some(Verdict {
        limit: Limit::ReceiverCpu,
        direction: None,
        because: vec![
            "core 2 was 99 % busy (71 % softirq)".into(),
            "all 20 737 lost datagrams were dropped by its socket buffer (SO_RXQ_OVFL), none on \
             the path"
                .into(),
        ],
        advice: vec![
            "--cpu /3 (core 2 also serves the NIC's interrupts)".into(),
            "--window 4M (now 208 KiB)".into(),
        ],
        evidence: BTreeMap::from([("receiver_core_percent".into(), 99.0)]),
    });
    record
}

/// UDP both ways at 500 Mbit/s; a little is lost on the path on the way back, and of the drops at
/// the client some may be the path's, because the kernel counts a merged train as one.
pub fn udp_both() -> RunRecord {
    const SIZE: u64 = 1472;
    const SENT: u64 = 42_459;
    let mut record = empty("udp");
    record.command.extend(["--both", "-b", "500M", "-t", "3"].map(String::from));
    record.asked.direction = PlanDirection::Both.into();
    record.asked.duration_s = Some(3.0);
    record.asked.datagram_bytes = Some(SIZE as u32);
    record.asked.rate_bps = Some(500_000_000);
    record.agreed = Some(record.asked.clone());
    let pair = |seconds: f64, sent: u64, path: u64, host: u64, either: u64| {
        let mut sender = udp_sender(seconds, SIZE, sent, 0);
        sender.cpu = Some(cpu(0, 21.0, 24.0, 1.0));
        let mut receiver = udp_receiver(seconds, SIZE, sent, path, host, either);
        receiver.cpu = Some(cpu(1, 33.0, 41.0, 9.0));
        Some(Pair { sender: Some(sender), receiver: Some(receiver) })
    };
    for i in 0..3 {
        record.intervals.push(Interval {
            start_s: f64::from(i),
            end_s: f64::from(i + 1),
            figures: Figures {
                forward: pair(1.0, SENT, 0, 0, 0),
                reverse: pair(1.0, SENT, 4, if i == 1 { 12 } else { 0 }, u64::from(i == 1) * 30),
                ..Default::default()
            },
        });
    }
    record.totals.forward = pair(3.0, SENT * 3, 0, 0, 0);
    record.totals.reverse = pair(3.0, SENT * 3, 12, 12, 30);
    record.verdict = Some(Verdict {
        limit: Limit::RequestedRate,
        direction: None,
        because: vec!["everything asked for was sent, and 0.0424 % at most was lost".into()],
        advice: vec!["--rate max".into()],
        evidence: BTreeMap::new(),
    });
    record.doubts.push(Doubt::new(
        DoubtKind::OffloadMerging,
        "one kernel packet stood for up to 45 datagrams, so 30 losses have two possible places",
    ));
    record
}

/// Two streams of UDP that the sender's own core cannot fill.
pub fn udp_streams() -> RunRecord {
    const SIZE: u64 = 1448;
    let mut record = empty("udp");
    record.command = ["linerate", "udp", "--local", "-P", "2", "-t", "2", "-b", "max"]
        .map(String::from)
        .to_vec();
    record.target = None;
    record.server = Some(record.client.clone());
    record.asked.streams = 2;
    record.asked.duration_s = Some(2.0);
    record.asked.datagram_bytes = Some(SIZE as u32);
    record.agreed = Some(record.asked.clone());
    let figures = |seconds: f64, sent: u64| {
        let mut sender = udp_sender(seconds, SIZE, sent, 3);
        sender.cpu = Some(cpu(0, 99.0, 100.0, 38.0));
        let mut receiver = udp_receiver(seconds, SIZE, sent, 0, 0, 0);
        receiver.cpu = Some(cpu(1, 74.0, 75.0, 2.0));
        Figures { sender: Some(sender), receiver: Some(receiver), ..Default::default() }
    };
    for i in 0..2u32 {
        record.intervals.push(Interval {
            start_s: f64::from(i),
            end_s: f64::from(i + 1),
            figures: figures(1.0, 7_000_000 + u64::from(i) * 100_000),
        });
    }
    record.totals = figures(2.0, 14_100_000);
    for (stream, sent) in [(0, 7_050_001), (1, 7_049_999)] {
        record.streams.push(StreamRecord {
            stream,
            direction: Way::Forward.into(),
            figures: figures(2.0, sent),
        });
    }
    record.verdict = Some(Verdict {
        limit: Limit::SenderCpu,
        direction: None,
        because: vec!["core 0 was 100 % busy".into()],
        advice: vec!["--cpu 2,3".into()],
        evidence: BTreeMap::new(),
    });
    let text = "sender and receiver shared this host, so both took from the same cores";
    record.doubts.push(Doubt::new(DoubtKind::SharedHost, text));
    record
}

/// TCP with retransmissions.
pub fn tcp() -> RunRecord {
    let mut record = empty("tcp");
    record.command.extend(["-t", "3"].map(String::from));
    record.asked.duration_s = Some(3.0);
    record.asked.block_bytes = Some(131_072);
    record.asked.nodelay = Some(false);
    record.asked.receive = Some(Receiving::Copy.into());
    record.asked.send = Some(Sending::Copy.into());
    let mut agreed = record.asked.clone();
    agreed.congestion = Some("cubic".into());
    agreed.mss_bytes = Some(1_448);
    record.agreed = Some(agreed);
    let figures = |seconds: f64, received: u64, retransmits: u64| {
        let sent = received + 1_200_000;
        let sender = SenderFigures {
            bytes: sent,
            seconds,
            bits_per_second: sent as f64 * 8.0 / seconds,
            cpu: Some(cpu(0, 8.0, 9.0, 2.0)),
            tcp: Some(TcpFigures {
                bytes_acked: Some(received),
                retransmits: Some(retransmits),
                rtt_s: Some(12.41e-3),
                rtt_variation_s: Some(310e-6),
                min_rtt_s: Some(11.9e-3),
                cwnd_bytes: Some(1_448 * 1_020),
                mss_bytes: Some(1_448),
                pmtu_bytes: Some(1_500),
                delivery_rate_bps: Some(941_000_000),
                busy_ratio: Some(1.0),
                rwnd_limited_ratio: Some(0.02),
                sndbuf_limited_ratio: Some(0.0),
                congestion: Some("cubic".into()),
                ..Default::default()
            }),
            ..Default::default()
        };
        let receiver = ReceiverFigures {
            bytes: received,
            seconds,
            bits_per_second: received as f64 * 8.0 / seconds,
            cpu: Some(cpu(3, 31.0, 44.0, 12.0)),
            ..Default::default()
        };
        Figures { sender: Some(sender), receiver: Some(receiver), ..Default::default() }
    };
    let spans = [(112_000_000, 14), (117_600_000, 0), (117_700_000, 3)];
    for (i, &(received, retransmits)) in spans.iter().enumerate() {
        record.intervals.push(Interval {
            start_s: i as f64,
            end_s: (i + 1) as f64,
            figures: figures(1.0, received, retransmits),
        });
    }
    record.totals = figures(3.0, spans.iter().map(|s| s.0).sum(), 17);
    if let Some(tcp) = record.totals.sender.as_mut().and_then(|s| s.tcp.as_mut()) {
        tcp.rtt_max_s = Some(13.07e-3);
        (tcp.cwnd_min_bytes, tcp.cwnd_max_bytes) = (Some(1_448 * 710), Some(1_448 * 1_190));
    }
    record.verdict = Some(Verdict {
        limit: Limit::TcpCongestion,
        direction: None,
        because: vec![
            "17 segments were retransmitted and the congestion window stayed at 1.48 MB \
                       while 98 % of the time the receiver had room"
                .into(),
        ],
        advice: vec!["--congestion bbr".into(), "--streams 4".into()],
        evidence: BTreeMap::new(),
    });
    record
}

/// Requests and responses over UDP.
pub fn rr() -> RunRecord {
    let mut record = empty("rr");
    record.command.extend(["--udp", "-t", "2"].map(String::from));
    record.asked.duration_s = Some(2.0);
    record.asked.transport = Some(Transport::Udp.into());
    record.asked.request_bytes = Some(1);
    record.asked.response_bytes = Some(1);
    record.asked.outstanding = Some(1);
    record.agreed = Some(record.asked.clone());
    let figures = |seconds: f64, transactions: u64, unanswered: u64| Figures {
        rr: Some(RrFigures {
            transactions,
            seconds,
            transactions_per_second: transactions as f64 / seconds,
            unanswered: Some(unanswered),
            latency_s: Some(Quantiles {
                upper_bounds: false,
                count: transactions,
                min: Some(41e-6),
                p50: 48.21e-6,
                p90: 55.1e-6,
                p99: 91.4e-6,
                p999: 402.0e-6,
                p9999: Some(1.31e-3),
                max: 2.104e-3,
                mean: Some(50.2e-6),
            }),
            latency_histogram: None,
            cpu: Some(cpu(0, 31.0, 62.0, 11.0)),
            server_cpu: Some(cpu(2, 29.0, 58.0, 12.0)),
            ..RrFigures::default()
        }),
        ..Default::default()
    };
    for i in 0..2u32 {
        record.intervals.push(Interval {
            start_s: f64::from(i),
            end_s: f64::from(i + 1),
            figures: figures(1.0, 19_871 + u64::from(i), u64::from(i)),
        });
    }
    record.totals = figures(2.0, 39_743, 1);
    record.verdict = Some(Verdict {
        limit: Limit::RoundTrip,
        direction: None,
        because: vec!["one request was in flight at a time and each took 50.2 µs".into()],
        advice: vec!["--outstanding 8".into()],
        evidence: BTreeMap::new(),
    });
    record
}

/// Send only: datagrams of 64 bytes into a dummy device.
pub fn discard() -> RunRecord {
    const SIZE: u64 = 64;
    let mut record = empty("udp");
    record.command = ["linerate", "udp", "192.0.2.7", "--send-only", "-l", "64", "-t", "2"]
        .map(String::from)
        .to_vec();
    record.target = Some("192.0.2.7".into());
    record.server = None;
    record.asked.direction = PlanDirection::Discard.into();
    record.asked.duration_s = Some(2.0);
    record.asked.datagram_bytes = Some(SIZE as u32);
    let mut agreed = record.asked.clone();
    agreed.engine = Some(EngineChoice::Mmsg.into());
    record.agreed = Some(agreed);
    let figures = |seconds: f64, sent: u64, refused: u64| {
        let mut sender = udp_sender(seconds, SIZE, sent, refused);
        sender.cpu = Some(cpu(0, 99.0, 100.0, 21.0));
        Figures { sender: Some(sender), ..Default::default() }
    };
    for i in 0..2 {
        record.intervals.push(Interval {
            start_s: f64::from(i),
            end_s: f64::from(i + 1),
            figures: figures(1.0, 1_904_122, 512),
        });
    }
    record.totals = figures(2.0, 3_808_244, 1_024);
    if let Some(sender) = &mut record.totals.sender {
        sender.host = Some(HostFigures {
            nic_tx_packets: Some(3_808_244),
            nic_tx_dropped: Some(0),
            qdisc_dropped: Some(0),
            ..Default::default()
        });
    }
    record.verdict = Some(Verdict {
        limit: Limit::SenderCpu,
        direction: None,
        because: vec!["core 0 was 100 % busy".into()],
        advice: vec!["--streams 2".into(), "--engine gso".into()],
        evidence: BTreeMap::new(),
    });
    record
}

/// The server went away after two of ten seconds.
pub fn partial() -> RunRecord {
    let mut record = udp_receiver_drops();
    record.intervals.truncate(2);
    record.totals = record.intervals[1].figures.clone();
    let size = u64::from(record.asked.datagram_bytes.unwrap_or(1));
    record.totals.sender = Some(udp_sender(2.0, size, 27_174, 0));
    record.totals.receiver = None;
    record.verdict = None;
    record.status = Status::Partial;
    record.error = Some(ErrorRecord::new(
        ErrorKind::ServerLost,
        "the server hydra2 fell silent 2.1 s into the test",
        "nothing was heard from it for 3 s",
        &["see whether `linerate serve` still runs there"],
    ));
    record
}

/// Nobody listens.
pub fn failed() -> RunRecord {
    let mut record = empty("udp");
    record.server = None;
    record.agreed = None;
    record.status = Status::Failed;
    record.error = Some(ErrorRecord::new(
        ErrorKind::Refused,
        "cannot reach a linerate server at hydra2 port 5201",
        "Connection refused (os error 111)",
        &["start one there: linerate serve", "if it listens on another port: --port N"],
    ));
    record
}

/// An accounting identity broke.
pub fn invalid() -> RunRecord {
    let mut record = udp_receiver_drops();
    record.status = Status::Invalid;
    record.verdict = None;
    record.error = Some(ErrorRecord::new(
        ErrorKind::Accounting,
        "the counts of this test contradict each other",
        "sender.datagrams 135870 is not receiver.datagrams 115132 + lost 20737",
        &["do not use these numbers; please report the record"],
    ));
    record
}

/// A peer that tries to speak to the terminal through every string it may fill.
pub fn hostile() -> RunRecord {
    let evil = |text: &str| format!("{text}\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}\u{9b}31m\r\n");
    let mut record = udp_receiver_drops();
    record.target = Some(evil("host"));
    record.command = vec!["linerate".into(), "udp".into(), evil("host")];
    if let Some(server) = &mut record.server {
        server.hostname = evil("name");
        server.kernel = Some(evil("6.1"));
        server.os = Some(evil("os"));
    }
    if let Some(verdict) = &mut record.verdict {
        verdict.because = vec![evil("because")];
        verdict.advice = vec![evil("advice")];
    }
    record.doubts = vec![Doubt::new(DoubtKind::HostBusy, evil("doubt"))];
    record.status = Status::Partial;
    record.error = Some(
        ErrorRecord::new(ErrorKind::Other(evil("kind")), evil("what"), evil("why"), &[])
            .hint(evil("hint")),
    );
    record
}

#[cfg(test)]
mod tests {
    use linerate_model::exit::Exit;

    use super::*;

    #[test]
    fn a_record_says_how_the_command_ends() {
        assert_eq!(Exit::of(&tcp()), Exit::Complete);
        assert_eq!(Exit::of(&partial()), Exit::Failed);
        assert_eq!(Exit::of(&failed()), Exit::Unreachable);
        assert_eq!(Exit::of(&invalid()), Exit::Invalid);
        let mut record = partial();
        record.error.as_mut().unwrap().exit_code = 130;
        assert_eq!(Exit::of(&record), Exit::Interrupted);
        record.error = None;
        assert_eq!(Exit::of(&record), Exit::Failed);
    }
}
