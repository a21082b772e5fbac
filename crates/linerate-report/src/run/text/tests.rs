use linerate_model::record::RunRecord;
use linerate_testkit::records;

use super::*;
use crate::run::live::render;

fn terminal(record: &RunRecord, width: usize) -> String {
    let room = Room { width: Some(width), spark: true };
    render(record, Layout { room, paint: Paint { colour: false } }, Detail::Some)
}

#[test]
fn udp_with_drops_at_the_receiver() {
    insta::assert_snapshot!(terminal(&records::udp_receiver_drops(), 80), @"
    linerate udp hydra2 --rate 160M
    UDP IPv4 · 1472 B · 1 stream · forward · 160.0 Mbit/s · 10 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → hydra2 (kernel 6.12.9, 4 cores,
      eth0 MTU 1500)
                       bit/s                     lost on             cpu own/core %
     time  offered  received      loss     path   rcvbuf   jitter       tx       rx
      1 s  160.0 M   149.3 M    6.71 %        0      912  80.0 µs    12/12   28/100
      2 s  160.0 M   138.3 M   13.54 %        0    1 840  87.0 µs    12/12    28/99
      3 s  160.0 M   133.9 M   16.29 %        0    2 214  94.0 µs    12/12    28/99
      4 s  160.0 M   133.7 M   16.41 %        0    2 230   101 µs    12/12    28/99
      5 s  160.0 M   133.8 M   16.38 %        0    2 225   108 µs    12/12    28/99
      6 s  160.0 M   133.5 M   16.57 %        0    2 251   115 µs    12/12    28/99
      7 s  160.0 M   133.6 M   16.49 %        0    2 240   122 µs    12/12    28/99
      8 s  160.0 M   133.4 M   16.66 %        0    2 263   129 µs    12/12    28/99
      9 s  160.0 M   133.1 M   16.79 %        0    2 281   136 µs    12/12    28/99
     10 s  160.0 M   133.1 M   16.79 %        0    2 281   143 µs    12/12    28/99
    total  160.0 M   135.6 M   15.26 %        0   20 737   143 µs    12/12    28/99

    datagrams  135 870 sent · 115 133 received
    delay      variation p50 81.0 µs · p99 1.21 ms · max 3.10 ms · jitter 143 µs
    cpu        client 12 % of core 1 · server 28 % of core 2 (71 % softirq)
    sockets    gso · sndbuf 208 KiB · rcvbuf 208 KiB

    135.6 Mbit/s received of 160.0 offered · 15.26 % lost (20 737: all dropped by
      the server's rcvbuf)
    limited by the receiver's CPU: core 2 was 99 % busy (71 % softirq).
    try: --cpu /3 (core 2 also serves the NIC's interrupts)
    ");
    insta::assert_snapshot!(terminal(&records::udp_receiver_drops(), 200), @"
    linerate udp hydra2 --rate 160M                                                             UDP IPv4 · 1472 B · 1 stream · forward · 160.0 Mbit/s · 10 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → hydra2 (kernel 6.12.9, 4 cores, eth0 MTU 1500)
                       bit/s      per s                     lost on                                           cpu own/core %
     time  offered  received  datagrams      loss     path   rcvbuf  local err  reordered     dup   jitter       tx       rx
      1 s  160.0 M   149.3 M    12.68 k    6.71 %        0      912          0          0       0  80.0 µs    12/12   28/100  █
      2 s  160.0 M   138.3 M    11.75 k   13.54 %        0    1 840          0          0       0  87.0 µs    12/12    28/99  █▇
      3 s  160.0 M   133.9 M    11.37 k   16.29 %        0    2 214          0          0       0  94.0 µs    12/12    28/99  █▇▇
      4 s  160.0 M   133.7 M    11.36 k   16.41 %        0    2 230          0          0       0   101 µs    12/12    28/99  █▇▇▇
      5 s  160.0 M   133.8 M    11.36 k   16.38 %        0    2 225          0          0       0   108 µs    12/12    28/99  █▇▇▇▇
      6 s  160.0 M   133.5 M    11.34 k   16.57 %        0    2 251          0          0       0   115 µs    12/12    28/99  █▇▇▇▇▇
      7 s  160.0 M   133.6 M    11.35 k   16.49 %        0    2 240          0          0       0   122 µs    12/12    28/99  █▇▇▇▇▇▇
      8 s  160.0 M   133.4 M    11.32 k   16.66 %        0    2 263          0          0       0   129 µs    12/12    28/99  █▇▇▇▇▇▇▇
      9 s  160.0 M   133.1 M    11.31 k   16.79 %        0    2 281          0          0       0   136 µs    12/12    28/99  █▇▇▇▇▇▇▇▇
     10 s  160.0 M   133.1 M    11.31 k   16.79 %        0    2 281          0          0       0   143 µs    12/12    28/99  █▇▇▇▇▇▇▇▇▇
    total  160.0 M   135.6 M    11.51 k   15.26 %        0   20 737          0          0       0   143 µs    12/12    28/99  █▇▇▇▇▇▇▇▇▇

    datagrams  135 870 sent · 115 133 received
    delay      variation p50 81.0 µs · p99 1.21 ms · max 3.10 ms · jitter 143 µs
    cpu        client 12 % of core 1 · server 28 % of core 2 (71 % softirq)
    sockets    gso · sndbuf 208 KiB · rcvbuf 208 KiB

    135.6 Mbit/s received of 160.0 offered · 15.26 % lost (20 737: all dropped by the server's rcvbuf)
    limited by the receiver's CPU: core 2 was 99 % busy (71 % softirq).
    try: --cpu /3 (core 2 also serves the NIC's interrupts)
    ");
    insta::assert_snapshot!(render(&records::udp_receiver_drops(), PLAIN, Detail::All), @"
    linerate udp hydra2 --rate 160M                             UDP IPv4 · 1472 B · 1 stream · forward · 160.0 Mbit/s · 10 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → hydra2 (kernel 6.12.9, 4 cores, eth0 MTU 1500)
                       bit/s      per s                     lost on                                           cpu own/core %
     time  offered  received  datagrams      loss     path   rcvbuf  local err  reordered     dup   jitter       tx       rx
      1 s  160.0 M   149.3 M    12.68 k    6.71 %        0      912          0          0       0  80.0 µs    12/12   28/100
      2 s  160.0 M   138.3 M    11.75 k   13.54 %        0    1 840          0          0       0  87.0 µs    12/12    28/99
      3 s  160.0 M   133.9 M    11.37 k   16.29 %        0    2 214          0          0       0  94.0 µs    12/12    28/99
      4 s  160.0 M   133.7 M    11.36 k   16.41 %        0    2 230          0          0       0   101 µs    12/12    28/99
      5 s  160.0 M   133.8 M    11.36 k   16.38 %        0    2 225          0          0       0   108 µs    12/12    28/99
      6 s  160.0 M   133.5 M    11.34 k   16.57 %        0    2 251          0          0       0   115 µs    12/12    28/99
      7 s  160.0 M   133.6 M    11.35 k   16.49 %        0    2 240          0          0       0   122 µs    12/12    28/99
      8 s  160.0 M   133.4 M    11.32 k   16.66 %        0    2 263          0          0       0   129 µs    12/12    28/99
      9 s  160.0 M   133.1 M    11.31 k   16.79 %        0    2 281          0          0       0   136 µs    12/12    28/99
     10 s  160.0 M   133.1 M    11.31 k   16.79 %        0    2 281          0          0       0   143 µs    12/12    28/99
    total  160.0 M   135.6 M    11.51 k   15.26 %        0   20 737          0          0       0   143 µs    12/12    28/99

    datagrams        135 870 sent · 115 133 received · 20 737 lost (0 on the path, 20 737 in the receiver's rcvbuf)
    loss runs        3 410, mean 6.1 and longest 31 datagrams
    jitter           143.0 µs
    delay variation  p50 81.00 µs · p90 410.0 µs · p99 1.212 ms · p99.9 2.900 ms · p99.99 3.010 ms · max 3.104 ms
    pacing           mean rate +2.4 ppm from the asked · gaps p50 73.60 µs, p99 74.91 µs, max 201.3 µs (nominal 73.60 µs)
    sender           thread 12 % of core 1 · that core 12 % busy (user 3.0 %, system 8.9 %, softirq 0.4 %, steal 0 %)
    receiver         thread 28 % of core 2 · that core 99 % busy (user 6.9 %, system 21 %, softirq 71 %, steal 0 %)
    sockets          gso, one datagram at a time · sndbuf 208 KiB · rcvbuf 208 KiB
    or try: --window 4M (now 208 KiB)

    135.6 Mbit/s received of 160.0 offered · 15.26 % lost (20 737: all dropped by the server's rcvbuf)
    limited by the receiver's CPU: core 2 was 99 % busy (71 % softirq); all 20 737 lost datagrams were dropped by its socket buffer (SO_RXQ_OVFL), none on the path.
    try: --cpu /3 (core 2 also serves the NIC's interrupts)
    ");
}

#[test]
fn what_follows_the_table_fits_a_terminal() {
    for record in [
        records::udp_receiver_drops(),
        records::udp_both(),
        records::udp_streams(),
        records::tcp(),
        records::rr(),
        records::discard(),
        records::partial(),
        records::invalid(),
        records::hostile(),
    ] {
        let room = Room { width: Some(80), spark: true };
        let layout = Layout { room, paint: Paint { colour: false } };
        for detail in [Detail::Headline, Detail::Some] {
            let table = Table::new(&record, layout.room);
            let text = ending(&Ending::new(&record, &table), &table, layout, detail);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() < 24, "{}\n{text}", lines.len());
            assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
            assert!(!text.contains("\n\n\n") && !text.ends_with("\n\n"), "{text:?}");
            let last = lines.last().unwrap();
            let wanted = record.verdict.as_ref().is_some_and(|v| !v.advice.is_empty());
            assert!(!wanted || text.contains("\ntry: ") || last.starts_with("try: "), "{text}");
        }
    }
}

#[test]
fn only_the_headline() {
    let quiet = |record: &RunRecord| {
        let room = Room { width: Some(80), spark: true };
        let layout = Layout { room, paint: Paint { colour: false } };
        render(record, layout, Detail::Headline)
    };
    insta::assert_snapshot!(quiet(&records::udp_receiver_drops()), @"
    135.6 Mbit/s received of 160.0 offered · 15.26 % lost (20 737: all dropped by
      the server's rcvbuf)
    limited by the receiver's CPU: core 2 was 99 % busy (71 % softirq).
    try: --cpu /3 (core 2 also serves the NIC's interrupts)
    ");
    insta::assert_snapshot!(quiet(&records::udp_both()), @"
    forward: 500.0 Mbit/s received of 500.0 offered · nothing lost
    reverse: 499.8 Mbit/s received of 500.0 offered · 0.0424 % lost (54: 12 lost on
      the path, 12 dropped by the client's rcvbuf, 30 at one of the two)
    limited by the rate that was asked for: everything asked for was sent, and
      0.0424 % at most was lost.
    try: --rate max
    ");
    insta::assert_snapshot!(quiet(&records::tcp()), @"
    926.1 Mbit/s received · 17 retransmits · RTT 12.4 ms (min 11.9 ms)
    limited by loss and TCP's congestion control: 17 segments were retransmitted and
      the congestion window stayed at 1.48 MB while 98 % of the time the receiver
      had room.
    try: --congestion bbr
    ");
    insta::assert_snapshot!(quiet(&records::rr()), @"
    19 872 transactions/s · p50 48.2 µs · p99 91.4 µs · 1 never answered
    limited by the time of a round trip: one request was in flight at a time and
      each took 50.2 µs.
    try: --outstanding 8
    ");
    insta::assert_snapshot!(quiet(&records::partial()), @"
    partial: the server hydra2 fell silent 2.1 s into the test (nothing was heard
      from it for 3 s)
    160.0 Mbit/s sent, what arrived of it is not known
    ");
}

#[test]
fn udp_both_ways() {
    insta::assert_snapshot!(terminal(&records::udp_both(), 80), @"
    linerate udp hydra2 --both -b 500M -t 3
    UDP IPv4 · 1472 B · 1 stream · both ways · 500.0 Mbit/s · 3 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → hydra2 (kernel 6.12.9, 4 cores,
      eth0 MTU 1500)
                            bit/s                     lost on    cpu own/core %
     time  way  offered  received      loss     path   rcvbuf       tx       rx
      1 s  fwd  500.0 M   500.0 M       0 %        0        0    21/24    33/41
      1 s  rev  500.0 M   500.0 M  0.0094 %        4        0    21/24    33/41
      2 s  fwd  500.0 M   500.0 M       0 %        0        0    21/24    33/41
      2 s  rev  500.0 M   499.5 M   0.108 %       ≥4      ≥12    21/24    33/41
      3 s  fwd  500.0 M   500.0 M       0 %        0        0    21/24    33/41
      3 s  rev  500.0 M   500.0 M  0.0094 %        4        0    21/24    33/41
    total  fwd  500.0 M   500.0 M       0 %        0        0    21/24    33/41
    total  rev  500.0 M   499.8 M  0.0424 %      ≥12      ≥12    21/24    33/41

    forward datagrams  127 377 sent · 127 377 received
    forward delay      jitter 80.0 µs
    reverse datagrams  127 377 sent · 127 323 received
    reverse delay      jitter 80.0 µs
    doubt: one kernel packet stood for up to 45 datagrams, so 30 losses have two
           possible places

    forward: 500.0 Mbit/s received of 500.0 offered · nothing lost
    reverse: 499.8 Mbit/s received of 500.0 offered · 0.0424 % lost (54: 12 lost on
      the path, 12 dropped by the client's rcvbuf, 30 at one of the two)
    limited by the rate that was asked for: everything asked for was sent, and
      0.0424 % at most was lost.
    try: --rate max
    ");
}

#[test]
fn udp_of_several_streams() {
    insta::assert_snapshot!(terminal(&records::udp_streams(), 80), @"
    linerate udp --local -P 2 -t 2 -b max
    UDP IPv4 · 1448 B · 2 streams · forward · no rate limit · 2 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → itself, over loopback
                       bit/s                     lost on             cpu own/core %
     time  offered  received      loss     path   rcvbuf   jitter       tx       rx
      1 s  81.09 G   81.09 G       0 %        0        0  80.0 µs   99/100    74/75
      2 s  82.25 G   82.25 G       0 %        0        0  80.0 µs   99/100    74/75
    total  81.67 G   81.67 G       0 %        0        0  80.0 µs   99/100    74/75
       #0  40.83 G   40.83 G       0 %        0        0  80.0 µs   99/100    74/75
       #1  40.83 G   40.83 G       0 %        0        0  80.0 µs   99/100    74/75

    datagrams  14 100 000 sent · 14 100 000 received
    delay      jitter 80.0 µs
    cpu        client 99 % of core 0 (38 % softirq) · server 74 % of core 1
    note: both ends on one host: no network

    81.67 Gbit/s received of 81.67 offered · nothing lost · 3 local send errors
    limited by the sender's CPU: core 0 was 100 % busy.
    try: --cpu 2,3
    ");
}

#[test]
fn streams_that_get_no_row_are_counted() {
    let mut record = records::udp_streams();
    let hidden = |record: &RunRecord| {
        let shown = terminal(record, 80);
        shown.lines().find(|line| line.contains(" more ")).map(str::to_owned)
    };
    for (streams, line) in [
        (4, None),
        (5, Some("1 more stream is in -v and --json")),
        (6, Some("2 more streams are in -v and --json")),
    ] {
        record.streams.resize(streams, record.streams[0].clone());
        assert_eq!(hidden(&record).as_deref(), line);
    }
}

#[test]
fn tcp() {
    insta::assert_snapshot!(terminal(&records::tcp(), 80), @"
    linerate tcp hydra2 -t 3
    TCP IPv4 · blocks of 128 KiB · 1 stream · forward · 3 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → hydra2 (kernel 6.12.9, 4 cores,
      eth0 MTU 1500)
                        bit/s                                cpu own/core %
     time  received  delivery  retrans      RTT      cwnd       tx       rx
      1 s   896.0 M   941.0 M       14  12.4 ms  1.477 MB      8/9    31/44  █
      2 s   940.8 M   941.0 M        0  12.4 ms  1.477 MB      8/9    31/44  ██
      3 s   941.6 M   941.0 M        3  12.4 ms  1.477 MB      8/9    31/44  ███
    total   926.1 M   941.0 M       17  12.4 ms  1.477 MB      8/9    31/44  ███

    tcp  cubic · RTT max 13.1 ms · cwnd 1.477 MB · 2.0 % of the time limited by the
         receiver's window
    cpu  client 8.0 % of core 0 · server 31 % of core 3 (12 % softirq)

    926.1 Mbit/s received · 17 retransmits · RTT 12.4 ms (min 11.9 ms)
    limited by loss and TCP's congestion control: 17 segments were retransmitted and
      the congestion window stayed at 1.48 MB while 98 % of the time the receiver
      had room.
    try: --congestion bbr
    ");
    insta::assert_snapshot!(terminal(&records::tcp(), 120), @"
    linerate tcp hydra2 -t 3                                         TCP IPv4 · blocks of 128 KiB · 1 stream · forward · 3 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → hydra2 (kernel 6.12.9, 4 cores, eth0 MTU 1500)
                                 bit/s                                                   cpu own/core %
     time     sent  received  delivery  retrans      RTT  min RTT      cwnd  rwnd lim       tx       rx
      1 s  905.6 M   896.0 M   941.0 M       14  12.4 ms  11.9 ms  1.477 MB     2.0 %      8/9    31/44  █
      2 s  950.4 M   940.8 M   941.0 M        0  12.4 ms  11.9 ms  1.477 MB     2.0 %      8/9    31/44  ██
      3 s  951.2 M   941.6 M   941.0 M        3  12.4 ms  11.9 ms  1.477 MB     2.0 %      8/9    31/44  ███
    total  929.3 M   926.1 M   941.0 M       17  12.4 ms  11.9 ms  1.477 MB     2.0 %      8/9    31/44  ███

    tcp  cubic · RTT max 13.1 ms · cwnd 1.477 MB · 2.0 % of the time limited by the receiver's window
    cpu  client 8.0 % of core 0 · server 31 % of core 3 (12 % softirq)

    926.1 Mbit/s received · 17 retransmits · RTT 12.4 ms (min 11.9 ms)
    limited by loss and TCP's congestion control: 17 segments were retransmitted and the congestion window stayed at 1.48 MB
      while 98 % of the time the receiver had room.
    try: --congestion bbr
    ");
}

#[test]
fn requests_and_responses() {
    insta::assert_snapshot!(terminal(&records::rr(), 80), @"
    linerate rr hydra2 --udp -t 2
    RR over UDP IPv4 · 1 B / 1 B · 1 stream · 1 outstanding · 2 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → hydra2 (kernel 6.12.9, 4 cores,
      eth0 MTU 1500)
             per s                             latency            cpu own/core %
     time     done      p50      p99    p99.9      max    lost   client   server
      1 s  19.87 k  48.2 µs  91.4 µs   402 µs  2.10 ms       0    31/62    29/58
      2 s  19.87 k  48.2 µs  91.4 µs   402 µs  2.10 ms       1    31/62    29/58
    total  19.87 k  48.2 µs  91.4 µs   402 µs  2.10 ms       1    31/62    29/58

    latency  p50 48.2 µs · p99 91.4 µs · max 2.10 ms
    cpu      client 31 % of core 0 (11 % softirq) · server 29 % of core 2 (12 %
             softirq)

    19 872 transactions/s · p50 48.2 µs · p99 91.4 µs · 1 never answered
    limited by the time of a round trip: one request was in flight at a time and
      each took 50.2 µs.
    try: --outstanding 8
    ");
}

#[test]
fn send_only() {
    insta::assert_snapshot!(terminal(&records::discard(), 80), @"
    linerate udp 192.0.2.7 --send-only -l 64 -t 2
    UDP IPv4 · 64 B · 1 stream · send only · no rate limit · 2 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → nobody: send only
             bit/s      per s           cpu own/core %
     time     sent  datagrams  local err       tx
      1 s  974.9 M    1.904 M        512   99/100  █
      2 s  974.9 M    1.904 M        512   99/100  ██
    total  974.9 M    1.904 M      1 024   99/100  ██

    datagrams  3 808 244 sent
    cpu        client 99 % of core 0 (21 % softirq)
    sockets    mmsg

    974.9 Mbit/s sent · 1 024 local send errors
    limited by the sender's CPU: core 0 was 100 % busy.
    try: --streams 2
    ");
}

#[test]
fn a_test_that_lost_its_server() {
    insta::assert_snapshot!(terminal(&records::partial(), 80), @"
    linerate udp hydra2 --rate 160M
    UDP IPv4 · 1472 B · 1 stream · forward · 160.0 Mbit/s · 10 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → hydra2 (kernel 6.12.9, 4 cores,
      eth0 MTU 1500)
                       bit/s                     lost on             cpu own/core %
     time  offered  received      loss     path   rcvbuf   jitter       tx       rx
      1 s  160.0 M   149.3 M    6.71 %        0      912  80.0 µs    12/12   28/100
      2 s  160.0 M   138.3 M   13.54 %        0    1 840  87.0 µs    12/12    28/99
    total  160.0 M         -         -        -        -        -        -        -

    datagrams  27 174 sent
    sockets    gso · sndbuf 208 KiB · rcvbuf 208 KiB

    partial: the server hydra2 fell silent 2.1 s into the test (nothing was heard
      from it for 3 s)
    160.0 Mbit/s sent, what arrived of it is not known
    ");
}

#[test]
fn a_test_that_contradicts_itself() {
    insta::assert_snapshot!(terminal(&records::invalid(), 80), @"
    linerate udp hydra2 --rate 160M
    UDP IPv4 · 1472 B · 1 stream · forward · 160.0 Mbit/s · 10 s
    hydra1 (kernel 6.12.9, 4 cores, eth0 MTU 1500) → hydra2 (kernel 6.12.9, 4 cores,
      eth0 MTU 1500)
                       bit/s                     lost on             cpu own/core %
     time  offered  received      loss     path   rcvbuf   jitter       tx       rx
      1 s  160.0 M   149.3 M    6.71 %        0      912  80.0 µs    12/12   28/100
      2 s  160.0 M   138.3 M   13.54 %        0    1 840  87.0 µs    12/12    28/99
      3 s  160.0 M   133.9 M   16.29 %        0    2 214  94.0 µs    12/12    28/99
      4 s  160.0 M   133.7 M   16.41 %        0    2 230   101 µs    12/12    28/99
      5 s  160.0 M   133.8 M   16.38 %        0    2 225   108 µs    12/12    28/99
      6 s  160.0 M   133.5 M   16.57 %        0    2 251   115 µs    12/12    28/99
      7 s  160.0 M   133.6 M   16.49 %        0    2 240   122 µs    12/12    28/99
      8 s  160.0 M   133.4 M   16.66 %        0    2 263   129 µs    12/12    28/99
      9 s  160.0 M   133.1 M   16.79 %        0    2 281   136 µs    12/12    28/99
     10 s  160.0 M   133.1 M   16.79 %        0    2 281   143 µs    12/12    28/99
    total  160.0 M   135.6 M   15.26 %        0   20 737   143 µs    12/12    28/99

    datagrams  135 870 sent · 115 133 received
    delay      variation p50 81.0 µs · p99 1.21 ms · max 3.10 ms · jitter 143 µs
    cpu        client 12 % of core 1 · server 28 % of core 2 (71 % softirq)
    sockets    gso · sndbuf 208 KiB · rcvbuf 208 KiB

    invalid: do not use these numbers: the counts of this test contradict each other
      (sender.datagrams 135870 is not receiver.datagrams 115132 + lost 20737)
    ");
}

#[test]
fn a_failed_test_has_no_text_but_its_error() {
    assert_eq!(render(&records::failed(), PLAIN, Detail::Some), "");
}

#[test]
fn a_hostile_peer_cannot_speak_to_the_terminal() {
    let mut record = records::hostile();
    for layout in [PLAIN, Layout { room: Room { width: Some(80), spark: true }, ..PLAIN }] {
        record.command.clear();
        let text = render(&record, layout, Detail::Some);
        let error = crate::error::text(record.error.as_ref().unwrap(), layout.paint);
        for shown in [text, error] {
            assert!(shown.contains("owned"), "{shown}");
            assert!(
                !shown.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')),
                "{shown:?}"
            );
        }
        record = records::hostile();
    }
}

#[test]
fn no_number_from_a_peer_makes_it_panic() {
    use linerate_model::record::{CpuFigures, Quantiles};
    for value in [f64::MAX, f64::MIN, -1.0, 1e-320, 0.0, f64::NAN, f64::INFINITY] {
        let mut record = records::udp_receiver_drops();
        record.asked.duration_s = Some(value);
        record.asked.interval_s = value;
        record.agreed = None;
        for interval in &mut record.intervals {
            interval.end_s = value;
            let receiver = interval.figures.receiver.as_mut().unwrap();
            receiver.bits_per_second = value;
            receiver.lost_ratio = Some(value);
            receiver.jitter_s = Some(value);
            receiver.lost_path = Some(u64::MAX);
            receiver.unattributed = Some(u64::MAX);
            receiver.cpu = Some(CpuFigures { thread_percent: value, ..Default::default() });
        }
        let totals = record.totals.receiver.as_mut().unwrap();
        totals.delay_variation_s = Some(Quantiles { p50: value, max: value, ..Default::default() });
        for width in [None, Some(0), Some(1), Some(80), Some(usize::MAX)] {
            let room = Room { width, spark: true };
            assert!(!render(&record, Layout { room, ..PLAIN }, Detail::Some).is_empty());
        }
    }
}
