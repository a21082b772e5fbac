//! iperf3's `-J` documents as run records: what they hold, and nothing made up. Both ends' hosts are
//! their names alone.

use linerate_model::host::HostFacts;
use linerate_model::plan::Dialect;
use linerate_model::record::{
    Figures, Interval, Pair, PlanRecord, ProgramFacts, ReceiverFigures, RunRecord, SenderFigures,
    Status, TcpFigures,
};
use linerate_model::word::Word;
use serde_json::Value;

/// The record of an `iperf3 -J` document; an error is the end of a sentence.
pub(super) fn record(document: &Value) -> Result<RunRecord, String> {
    if let Some(error) = document.get("error").and_then(Value::as_str) {
        return Err(format!("an iperf3 test that failed: {}", linerate_model::clean::clean(error)));
    }
    let start = &document["start"];
    let test = &start["test_start"];
    let way = match (flag(&test["bidir"]), flag(&test["reverse"])) {
        (true, _) => "both",
        (_, true) => "reverse",
        _ => "forward",
    };
    let end = &document["end"];
    let sum = |name: &str| end.get(name).filter(|_| !is_unknown(document, name));
    let totals = match way {
        "both" => Figures {
            forward: Some(pair(sum("sum_sent"), sum("sum_received"))),
            reverse: Some(pair(sum("sum_sent_bidir_reverse"), sum("sum_received_bidir_reverse"))),
            ..Figures::default()
        },
        // Older ones of UDP have but one sum, of what was sent.
        _ if end.get("sum_sent").is_none() => one_sum(&end["sum"]),
        _ => {
            let pair = pair(sum("sum_sent"), sum("sum_received"));
            Figures { sender: pair.sender, receiver: pair.receiver, ..Figures::default() }
        }
    };
    if totals == Figures::default() {
        return Err("an iperf3 document without sums at its end".to_owned());
    }
    let rows = document["intervals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let peer =
        start["connecting_to"]["host"].as_str().or(start["accepted_connection"]["host"].as_str());
    let own = start["system_info"].as_str().and_then(|s| s.split_whitespace().nth(1));
    let of_server = is_of_server(document);
    let (client, server) = if of_server { (peer, own) } else { (own, peer) };
    let target = server.filter(|_| !of_server);
    let command: Vec<String> = match of_server {
        true => vec!["iperf3".into(), "-s".into()],
        false => vec!["iperf3".into(), "-c".into(), target.unwrap_or("HOST").into()],
    };
    let seconds = start["timestamp"]["timesecs"].as_u64();
    // Whether it is of the end that sent.
    let sent = (way == "forward") == start.get("connecting_to").is_some();
    Ok(RunRecord {
        format: 1,
        id: text(&start["cookie"]),
        started: seconds.map_or_else(|| text(&start["timestamp"]["time"]), rfc3339),
        linerate: ProgramFacts { version: text(&start["version"]) },
        command,
        target: target.map(str::to_owned),
        label: None,
        title: None,
        profile: None,
        addresses: None,
        summary: None,
        asked: plan(test, start, way),
        found: None,
        agreed: None,
        cuts: Vec::new(),
        client: HostFacts {
            hostname: client.unwrap_or("client").to_owned(),
            linerate: "none: iperf3".to_owned(),
            ..HostFacts::default()
        },
        server: server.map(|name| HostFacts {
            hostname: name.to_owned(),
            linerate: "none: iperf3".to_owned(),
            ..HostFacts::default()
        }),
        intervals: rows.iter().filter_map(|row| interval(row, way == "both", sent)).collect(),
        events: Vec::new(),
        totals,
        streams: Vec::new(),
        verdict: None,
        doubts: Vec::new(),
        status: Status::Complete,
        error: None,
    })
}

fn flag(value: &Value) -> bool {
    value.as_u64().is_some_and(|v| v > 0) || value.as_bool() == Some(true)
}

fn plan(test: &Value, start: &Value, way: &str) -> PlanRecord {
    let protocol = test["protocol"].as_str().unwrap_or_default().to_lowercase();
    let size = test["blksize"].as_u64().and_then(|b| u32::try_from(b).ok());
    let udp = protocol == "udp";
    let rate = test["target_bitrate"].as_u64().or(start["target_bitrate"].as_u64());
    let streams = test["num_streams"].as_u64().and_then(|n| u16::try_from(n).ok()).unwrap_or(1);
    PlanRecord {
        protocol: Word::of(&protocol),
        direction: Word::of(way),
        streams,
        datagram_bytes: size.filter(|_| udp),
        block_bytes: size.filter(|_| !udp),
        // iperf3 asks it of each stream.
        rate_bps: rate.filter(|r| *r > 0).and_then(|r| r.checked_mul(u64::from(streams))),
        duration_s: test["duration"].as_f64().filter(|d| *d > 0.0),
        bytes: test["bytes"].as_u64().filter(|b| *b > 0),
        warmup_s: test["omit"].as_f64().unwrap_or(0.0),
        interval_s: 1.0,
        dialect: Dialect::Iperf3.into(),
        ..PlanRecord::default()
    }
}

/// Before 3.7 an interval does not say whose it is: it is of the end whose document this is, which `sent` or did not.
fn interval(row: &Value, both: bool, sent: bool) -> Option<Interval> {
    let sum = &row["sum"];
    if flag(&sum["omitted"]) {
        return None;
    }
    let figures = |sum: &Value| match sum.get("sender").map_or(sent, flag) {
        true => Pair { sender: sender(sum), receiver: None },
        false => Pair { sender: None, receiver: receiver(sum) },
    };
    let pair = figures(sum);
    let figures = if both {
        let reverse = Some(figures(&row["sum_bidir_reverse"]));
        Figures { forward: Some(pair), reverse, ..Figures::default() }
    } else {
        Figures { sender: pair.sender, receiver: pair.receiver, ..Figures::default() }
    };
    Some(Interval { start_s: sum["start"].as_f64()?, end_s: sum["end"].as_f64()?, figures })
}

fn pair(sent: Option<&Value>, received: Option<&Value>) -> Pair {
    Pair { sender: sent.and_then(sender), receiver: received.and_then(receiver) }
}

/// Whether a document is of a server.
pub(crate) fn is_of_server(document: &Value) -> bool {
    document["start"].get("accepted_connection").is_some()
}

/// Whether a sum at a document's end is of the client's end and the document of a server, which has zeros of it.
pub(crate) fn is_unknown(document: &Value, sum: &str) -> bool {
    let reverse = flag(&document["start"]["test_start"]["reverse"]);
    let of_client = match sum {
        "sum_sent" => !reverse,
        "sum_received" => reverse,
        "sum_received_bidir_reverse" => true,
        _ => false,
    };
    of_client && is_of_server(document) && document["end"][sum]["bytes"] == 0
}

/// Share of what the one sum of an older UDP document says that arrived.
pub(crate) fn arrived(sum: &Value) -> Option<f64> {
    sum["lost_percent"].as_f64().map(|percent| 1.0 - percent / 100.0)
}

/// The one sum of an older UDP document: bytes sent, and how many datagrams did not arrive.
fn one_sum(sum: &Value) -> Figures {
    let receiver = receiver(sum).zip(arrived(sum)).map(|(receiver, arrived)| ReceiverFigures {
        bits_per_second: receiver.bits_per_second * arrived,
        bytes: (receiver.bytes as f64 * arrived) as u64,
        ..receiver
    });
    Figures { sender: sender(sum), receiver, ..Figures::default() }
}

fn sender(sum: &Value) -> Option<SenderFigures> {
    let retransmits = sum["retransmits"].as_u64();
    Some(SenderFigures {
        bytes: sum["bytes"].as_u64()?,
        datagrams: sum["packets"].as_u64(),
        seconds: sum["seconds"].as_f64()?,
        bits_per_second: rate(sum)?,
        tcp: retransmits.map(|n| TcpFigures { retransmits: Some(n), ..TcpFigures::default() }),
        ..SenderFigures::default()
    })
}

fn receiver(sum: &Value) -> Option<ReceiverFigures> {
    let (sent, lost) = (sum["packets"].as_u64(), sum["lost_packets"].as_u64());
    Some(ReceiverFigures {
        bytes: sum["bytes"].as_u64()?,
        datagrams: sent.zip(lost).and_then(|(sent, lost)| sent.checked_sub(lost)),
        seconds: sum["seconds"].as_f64()?,
        bits_per_second: rate(sum)?,
        lost,
        lost_ratio: sent.zip(lost).filter(|(s, _)| *s > 0).map(|(s, l)| l as f64 / s as f64),
        jitter_s: sum["jitter_ms"].as_f64().map(|ms| ms / 1e3),
        ..ReceiverFigures::default()
    })
}

fn rate(sum: &Value) -> Option<f64> {
    sum["bits_per_second"].as_f64().filter(|r| r.is_finite() && *r >= 0.0)
}

/// Seconds since 1970 in words, UTC; nothing for what no calendar holds.
fn rfc3339(seconds: u64) -> String {
    let at = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    at.map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_709_164_799), "2024-02-28T23:59:59Z");
        assert_eq!(rfc3339(1_709_164_800), "2024-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_795_393_982), "2026-11-23T00:33:02Z");
        assert_eq!(rfc3339(u64::MAX), "");
    }

    #[test]
    fn an_interval_that_says_no_end_is_of_the_end_that_wrote_it() {
        let sum = serde_json::json!({
            "start": 0, "end": 1, "seconds": 1, "bytes": 1, "bits_per_second": 8, "retransmits": 3
        });
        for (end, reverse, sends) in [
            ("connecting_to", 0, true),
            ("connecting_to", 1, false),
            ("accepted_connection", 0, false),
            ("accepted_connection", 1, true),
        ] {
            let document = serde_json::json!({
                "start": { end: { "host": "h" }, "test_start": { "reverse": reverse } },
                "intervals": [{ "sum": sum }],
                "end": { "sum_sent": sum, "sum_received": sum }
            });
            let intervals = record(&document).unwrap().intervals;
            let figures = &intervals[0].figures;
            let got = (figures.sender.is_some(), figures.receiver.is_some());
            assert_eq!(got, (sends, !sends), "{end}, reverse {reverse}");
        }
    }

    /// As 3.12 writes them.
    #[test]
    fn what_a_server_does_not_know_is_absent() {
        use crate::metric::find;
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let received = read(include_str!("../../../linerate/tests/iperf3-3.12/server-udp.json"));
        let sent = read(include_str!("../../../linerate/tests/iperf3-3.12/server-udp-R.json"));
        let of = |document: &Value, name: &str| find(name).unwrap().of_document(document, true);
        for (document, known, unknown) in [
            (&received, ["received_bps", "loss", "jitter"], ["sent_bps", "retransmits"]),
            (&sent, ["sent_bps"; 3], ["received_bps", "loss"]),
        ] {
            let record = record(document).unwrap();
            let client = document["start"]["accepted_connection"]["host"].as_str().unwrap();
            assert_eq!((record.client.hostname.as_str(), record.command.len()), (client, 2));
            for name in known {
                assert!(of(document, name).is_some(), "{name}");
                assert!(find(name).unwrap().of(&record).is_some(), "{name}");
            }
            for name in unknown {
                assert_eq!(of(document, name), None, "{name}");
                assert_eq!(find(name).unwrap().of(&record), None, "{name}");
            }
        }
        assert_eq!((of(&sent, "jitter"), of(&sent, "sender_cpu")), (None, None));
        // Its own share of a core is that of the server.
        let host = sent["end"]["cpu_utilization_percent"]["host_total"].as_f64();
        assert_eq!(of(&sent, "receiver_cpu"), host);
    }

    #[test]
    fn nonsense_is_an_error_and_no_panic() {
        for text in ["{\"start\":1,\"end\":[]}", "{\"start\":{},\"end\":{\"sum\":{\"bytes\":-1}}}"]
        {
            assert!(record(&serde_json::from_str(text).unwrap()).is_err(), "{text}");
        }
    }
}
