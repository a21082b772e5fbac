//! What a server says while a test runs.

use linerate_wire::native::message::{ServerMessage, StreamReport, StreamResult};

use super::{CLOCK_EXCHANGES, Client, heard, out_of_turn};
use crate::Action;
use crate::ending::Failure;
use crate::stream::{self, Role};

/// Most characters that are kept of a server's reason to end a test.
const MOST_REASON: usize = 500;

impl Client {
    pub(super) fn on_message_of_running(&mut self, now_ns: u64, message: ServerMessage) {
        let most = self.terms.plan.intervals();
        match message {
            ServerMessage::Pong(pong) => {
                if self.exchanges.len() >= CLOCK_EXCHANGES {
                    self.exchanges.remove(0);
                }
                self.exchanges.push(heard(pong, now_ns));
            }
            ServerMessage::Interval(live) => {
                self.live.hear(*live, most);
                self.show();
            }
            ServerMessage::Sent(streams) => {
                self.peer_sent = true;
                let sent = streams.iter().map(|s| Action::PeerSent(s.stream, s.datagrams));
                self.actions.extend(sent);
                let until_ns = now_ns.saturating_add(self.terms.drain_ns);
                self.actions.push_back(Action::DrainUntil(until_ns));
            }
            ServerMessage::Stream(result) if self.is_of_server(&result) => {
                self.remote.insert(result.stream, result.report);
            }
            ServerMessage::Stream(_) => {
                let why = "the server reported on what it did not measure";
                self.abandon(Failure::Server(why.into()));
            }
            ServerMessage::Chunk(chunk) => match self.remote.get_mut(&chunk.stream) {
                Some(StreamReport::Send(report)) => append(&mut report.intervals, chunk.send, most),
                Some(StreamReport::Recv(report)) => append(&mut report.intervals, chunk.recv, most),
                _ => {}
            },
            ServerMessage::HostChunk(chunk) => {
                append(&mut self.remote_samples, chunk.samples, most);
            }
            ServerMessage::Results(results)
                if results.complete && self.remote.len() < self.ids.len() =>
            {
                let why = "the server said nothing of some streams and that all is complete";
                self.abandon(Failure::Server(why.into()));
            }
            ServerMessage::Results(results) => self.results = Some(*results),
            // Said once: a server may repeat itself as often as it likes.
            ServerMessage::Stopping(_) if self.stopping.is_some() => {}
            ServerMessage::Stopping(why) => {
                let why: String = why.chars().take(MOST_REASON).collect();
                let note = format!("the server ends the test: {why}");
                self.actions.extend([Action::Note(note), Action::Stop]);
                self.stopping = Some(why);
            }
            ServerMessage::Refused(refused) => self.abandon(Failure::Server(refused.why)),
            message => self.abandon(out_of_turn(&message)),
        }
    }

    /// Whether it is the report of the server's end of a stream: this end's own figures are not the
    /// server's to report.
    fn is_of_server(&self, result: &StreamResult) -> bool {
        let id = self.ids.iter().find(|id| id.stream == result.stream);
        let role = id.map(|id| stream::role(&self.terms.plan.traffic, id.way, false));
        matches!(
            (role, &result.report),
            (Some(Role::Send), StreamReport::Send(_))
                | (Some(Role::Receive), StreamReport::Recv(_))
                | (Some(Role::Respond), StreamReport::Respond(_))
        )
    }
}

/// What a server reports beyond the intervals that a test can have is not believed.
fn append<T>(known: &mut Vec<T>, rows: Vec<T>, most: u64) {
    let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(known.len());
    known.extend(rows.into_iter().take(room));
}
