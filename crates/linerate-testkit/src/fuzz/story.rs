//! A hostile server's whole story: whatever it says, the client makes a record of it or refuses.

use linerate_dialect::habits;
use linerate_model::plan::{Direction, End, IpVersion, TestPlan, Traffic, UdpPlan};
use linerate_model::sample::SendReport;
use linerate_model::units::{DatagramSize, Nanos};
use linerate_session::assemble::{HostSamples, Outcome, StreamOutcome, assemble};
use linerate_session::clock::{Exchange, offset};
use linerate_wire::native::frame;
use linerate_wire::native::message::{ServerMessage, StreamReport};

use crate::{plans, records};

fn plan() -> TestPlan {
    TestPlan {
        direction: Direction::Both,
        streams: 2,
        end: End::Time(Nanos::from_secs(10)),
        interval: Nanos::from_secs(1),
        ..plans::plan(Traffic::Udp(UdpPlan {
            size: DatagramSize::MAX,
            burst: Nanos(100_000),
            ..plans::udp()
        }))
    }
}

/// Messages, one a line, of which a client makes a record.
pub fn server_story(data: &[u8]) {
    let mut outcome = Outcome {
        plan: plan(),
        ip: IpVersion::V4,
        streams: (0..4)
            .map(|stream| StreamOutcome {
                index: stream % 2,
                reverse: stream >= 2,
                send: (stream < 2).then(SendReport::default),
                ..Default::default()
            })
            .collect(),
        client: HostSamples::default(),
        server: HostSamples::default(),
        clock: None,
        same_host: data.first().is_some_and(|b| b % 2 == 0),
        habits: habits::NATIVE,
        fragments: false,
        discard: false,
        complete: true,
    };
    let mut exchanges = Vec::new();
    for line in data.split(|b| *b == b'\n').take(64) {
        match frame::decode::<ServerMessage>(line) {
            Ok(ServerMessage::Agreed(agreed)) if agreed.agreed.plan.check().is_ok() => {
                outcome.plan = agreed.agreed.plan;
            }
            Ok(ServerMessage::Pong(pong)) => exchanges.push(Exchange {
                asked_ns: 1_000,
                server_ns: pong.server_ns,
                heard_ns: 2_000,
            }),
            Ok(ServerMessage::Stream(result)) => {
                let Some(stream) = outcome.streams.get_mut(usize::from(result.stream)) else {
                    continue;
                };
                match result.report {
                    StreamReport::Send(report) => stream.send = Some(*report),
                    StreamReport::Recv(report) => stream.recv = Some(*report),
                    StreamReport::Respond(report) => stream.respond = Some(report),
                }
            }
            Ok(ServerMessage::Chunk(chunk)) => {
                let Some(stream) = outcome.streams.get_mut(usize::from(chunk.stream)) else {
                    continue;
                };
                if let Some(report) = &mut stream.send {
                    report.intervals.extend(chunk.send);
                }
                if let Some(report) = &mut stream.recv {
                    report.intervals.extend(chunk.recv);
                }
            }
            Ok(ServerMessage::HostChunk(chunk)) => outcome.server.intervals.extend(chunk.samples),
            Ok(ServerMessage::Results(results)) => {
                outcome.server.total = Some(results.host);
                outcome.server.irq_cores = results.irq_cores;
            }
            _ => {}
        }
    }
    outcome.clock = offset(&exchanges);
    let record = assemble(records::empty("udp"), &outcome);
    serde_json::to_string(&record).expect("a record can be written");
}
