//! The document's end: a stream's and a sum's figures of the whole test.

use linerate_model::test_event::{Cpu, End, Side, Start};

use crate::iperf3::node::Node;
use crate::iperf3::{Final, Group, Half, finals, groups, is_udp, percent, round_trips, sum_finals};

fn half(socket: Option<i32>, half: &Half, seconds: f64) -> Vec<(&'static str, Node)> {
    let mut members = Vec::new();
    members.extend(socket.map(|socket| ("socket", Node::Int(socket.into()))));
    members.extend([
        ("start", Node::Int(0)),
        ("end", Node::Real(half.seconds)),
        ("seconds", Node::Real(seconds)),
        ("bytes", Node::int(half.bytes)),
        ("bits_per_second", Node::Real(half.bits_per_second())),
    ]);
    members
}

pub(super) fn datagrams(jitter_s: f64, lost: i64, packets: u64) -> Vec<(&'static str, Node)> {
    vec![
        ("jitter_ms", Node::Real(jitter_s * 1e3)),
        ("lost_packets", Node::Int(lost)),
        ("packets", Node::int(packets)),
        ("lost_percent", Node::Real(percent(lost, packets))),
    ]
}

pub(super) fn ended(start: &Start, end: &End, linerate: Option<serde_json::Value>) -> Node {
    if end.streams.is_empty() {
        return Node::Map(vec![]);
    }
    let mut streams = Vec::new();
    let mut sums = Vec::new();
    for group in groups(start) {
        let all = finals(start, end, group);
        let ends = start.streams.iter().zip(&end.streams).filter(|(s, _)| s.sends == group.sends);
        for (f, (_, of)) in all.iter().zip(ends) {
            streams.push(if is_udp(start) {
                udp_stream(group, f)
            } else {
                tcp_stream(end, group, f, &of.here)
            });
        }
        let back = groups(start).len() == 2 && group.reverse;
        sums.extend(group_sums(start, group, back, &sum_finals(&all)));
    }
    let far = |figure: fn(&Cpu) -> f64| {
        end.far_cpu.as_ref().map_or(Node::Null, |cpu| Node::Real(figure(cpu)))
    };
    let mut members = vec![("streams", Node::List(streams))];
    members.extend(sums);
    members.push((
        "cpu_utilization_percent",
        Node::Map(vec![
            ("host_total", Node::Real(end.cpu.total)),
            ("host_user", Node::Real(end.cpu.user)),
            ("host_system", Node::Real(end.cpu.system)),
            ("remote_total", far(|cpu| cpu.total)),
            ("remote_user", far(|cpu| cpu.user)),
            ("remote_system", far(|cpu| cpu.system)),
        ]),
    ));
    if !is_udp(start) {
        let sends = groups(start).iter().any(|group| group.sends);
        let far = end.far_congestion.as_ref().filter(|_| start.client);
        let (sender, receiver) =
            if sends { (end.congestion.as_ref(), far) } else { (far, end.congestion.as_ref()) };
        for (name, value) in
            [("sender_tcp_congestion", sender), ("receiver_tcp_congestion", receiver)]
        {
            members.extend(value.map(|value| (name, Node::text(value.as_str()))));
        }
    }
    members.extend(linerate.map(|exact| ("linerate", Node::Value(exact))));
    Node::Map(members)
}

fn tcp_stream(end: &End, group: Group, f: &Final, here: &Side) -> Node {
    let sender_flag = ("sender", Node::Bool(group.sends));
    let mut sender = half(Some(f.socket), &f.sent, f.sent.seconds);
    if let Some(again) = f.sent.retransmits {
        let (cwnd, max, min, mean) = match here {
            Side::Send(sent) => round_trips(sent),
            // The peer does not report them.
            Side::Recv(_) => (0, 0, 0, 0),
        };
        sender.extend([
            ("retransmits", Node::int(again)),
            ("max_snd_cwnd", Node::int(cwnd)),
            ("max_snd_wnd", Node::Int(0)),
            ("max_rtt", Node::int(max)),
            ("min_rtt", Node::int(min)),
            ("mean_rtt", Node::int(mean)),
        ]);
    }
    sender.push(sender_flag.clone());
    // iperf3 gives this end's time here, and the receiver's as its end.
    let mut receiver = half(Some(f.socket), &f.received, end.span_ns as f64 / 1e9);
    receiver.push(sender_flag);
    Node::Map(vec![("sender", Node::Map(sender)), ("receiver", Node::Map(receiver))])
}

/// Bytes and rate are the sender's; a server that only received knows none.
fn udp_stream(group: Group, f: &Final) -> Node {
    let packets = if f.sent.known { f.sent.packets } else { f.received.packets };
    let mut members = half(Some(f.socket), &f.sent, f.sent.seconds);
    members.extend(datagrams(f.jitter_s, f.lost, packets));
    let out_of_order = if group.sends { 0 } else { f.out_of_order };
    members
        .extend([("out_of_order", Node::int(out_of_order)), ("sender", Node::Bool(group.sends))]);
    Node::Map(vec![("udp", Node::Map(members))])
}

fn group_sums(start: &Start, group: Group, back: bool, f: &Final) -> Vec<(&'static str, Node)> {
    let name = |one: &'static str, reverse: &'static str| if back { reverse } else { one };
    let sent_name = name("sum_sent", "sum_sent_bidir_reverse");
    let received_name = name("sum_received", "sum_received_bidir_reverse");
    let mut sent = half(None, &f.sent, f.sent.seconds);
    let mut received = half(None, &f.received, f.received.seconds);
    if !is_udp(start) {
        sent.extend(f.sent.retransmits.map(|again| ("retransmits", Node::int(again))));
        sent.push(("sender", Node::Bool(group.sends)));
        received.push(("sender", Node::Bool(group.sends)));
        return vec![(sent_name, Node::Map(sent)), (received_name, Node::Map(received))];
    }
    let packets = if f.sent.known { f.sent.packets } else { f.received.packets };
    let mixed = Half { seconds: f.received.seconds, ..f.sent };
    let mut sum = half(None, &mixed, f.received.seconds);
    // The sender's bytes over the sender's time, beside the receiver's duration.
    for (key, value) in &mut sum {
        if *key == "bits_per_second" {
            *value = Node::Real(f.sent.bits_per_second());
        }
    }
    sum.extend(datagrams(f.jitter_s, f.lost, packets));
    sum.push(("sender", Node::Bool(group.sends)));
    sent.extend(datagrams(0.0, 0, f.sent.packets));
    sent.push(("sender", Node::Bool(true)));
    received.extend(datagrams(f.jitter_s, f.lost, f.received.packets));
    received.push(("sender", Node::Bool(false)));
    vec![
        (name("sum", "sum_bidir_reverse"), Node::Map(sum)),
        (sent_name, Node::Map(sent)),
        (received_name, Node::Map(received)),
    ]
}
