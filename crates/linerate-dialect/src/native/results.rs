//! What a server's streams and host measured, as messages that each fit one frame.

use std::collections::{BTreeMap, VecDeque};

use linerate_session::assemble::HostSamples;
use linerate_wire::native::message::{
    CHUNK_INTERVALS, Chunk, HostChunk, Results, ServerMessage, StreamReport, StreamResult,
};

use crate::stream::{Report, StreamId};

/// All of them, in order. The reports give up their intervals. `complete` where nothing ended the test
/// before its time.
pub(super) fn messages(
    reports: &mut BTreeMap<u16, Report>,
    ids: &[StreamId],
    host: HostSamples,
    mut complete: bool,
) -> VecDeque<ServerMessage> {
    let mut all = VecDeque::new();
    for (&stream, report) in reports {
        let Some(id) = ids.iter().find(|id| id.stream == stream) else { continue };
        let (mut send, mut recv) = (vec![], vec![]);
        let (report, error) = match report {
            Report::Send(report) => {
                send = std::mem::take(&mut report.intervals);
                (StreamReport::Send(Box::new(report.clone())), &report.error)
            }
            Report::Recv(report) => {
                recv = std::mem::take(&mut report.intervals);
                (StreamReport::Recv(Box::new(report.clone())), &report.error)
            }
            Report::Respond(report) => (StreamReport::Respond(report.clone()), &report.error),
            Report::Rr(_) => continue,
        };
        complete &= error.is_none();
        let result = StreamResult { stream, way: id.way, report };
        all.push_back(ServerMessage::Stream(Box::new(result)));
        let chunk = |(first, send, recv)| ServerMessage::Chunk(Chunk { stream, first, send, recv });
        all.extend(chunks(send).map(|(first, send)| chunk((first, send, vec![]))));
        all.extend(chunks(recv).map(|(first, recv)| chunk((first, vec![], recv))));
    }
    let HostSamples { intervals, total, irq_cores } = host;
    all.extend((0..).zip(intervals).map(|(first, sample)| {
        ServerMessage::HostChunk(HostChunk { first, samples: vec![sample] })
    }));
    let results = Results { host: total.unwrap_or_default(), irq_cores, complete };
    all.push_back(ServerMessage::Results(Box::new(results)));
    all
}

/// Rows by as many as fit one message, each time with the index of the first.
fn chunks<T>(rows: Vec<T>) -> impl Iterator<Item = (u64, Vec<T>)> {
    let mut rows = rows.into_iter();
    (0..).step_by(CHUNK_INTERVALS).map_while(move |first| {
        let chunk: Vec<T> = rows.by_ref().take(CHUNK_INTERVALS).collect();
        (!chunk.is_empty()).then_some((first, chunk))
    })
}
