//! The control connection: states, failures and results, each bounded in time and length.

use std::time::Duration;

use linerate_model::record::ErrorRecord;
use linerate_wire::iperf3::frame::{self, MAX_SERVER_RESULTS, PREFIX_BYTES};
use linerate_wire::iperf3::{FAILURE_BYTES, Failure, Results, State};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::client::ClientTest;
use crate::errors;

/// How long the numbers of a failure may take to follow their state.
const REASON_LIMIT: Duration = Duration::from_secs(1);

/// The control connection's two halves, and a state that came before it was waited for.
pub(super) struct Control {
    pub(super) read: OwnedReadHalf,
    pub(super) write: OwnedWriteHalf,
    pub(super) early: Option<State>,
    pub(super) patience: Duration,
    /// Bytes of a failure whose state has come, and when no more of them are waited for.
    failing: Option<(Vec<u8>, Instant)>,
}

/// What a control connection brought.
pub(super) enum Heard {
    State(State),
    Failed(ErrorRecord),
}

impl Control {
    pub(super) fn new(stream: TcpStream, patience: Duration) -> Self {
        let (read, write) = stream.into_split();
        Self { read, write, early: None, patience, failing: None }
    }

    pub(super) async fn say(&mut self, bytes: &[u8]) -> Result<(), String> {
        match timeout(self.patience, self.write.write_all(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("the server does not read its control connection".into()),
        }
    }

    /// The next state, whenever it comes. Can be dropped at any time without losing one.
    pub(super) async fn state(&mut self, near: &ClientTest<'_>, doing: &str) -> Heard {
        if let Some(state) = self.early.take() {
            return Heard::State(state);
        }
        if self.failing.is_some() {
            return Heard::Failed(self.failure(near).await);
        }
        let mut byte = [0];
        match self.read.read(&mut byte).await {
            Ok(1) => {}
            Ok(_) => return Heard::Failed(near.lost(doing, "it closed the control connection")),
            Err(e) => return Heard::Failed(near.lost(doing, &e.to_string())),
        }
        match State::from_byte(byte[0]) {
            Some(State::AccessDenied) => Heard::Failed(errors::iperf3_busy(&near.name)),
            Some(State::ServerTerminate) => {
                Heard::Failed(errors::server_stopped(&near.name, "it was told to stop"))
            }
            Some(State::ServerError) => {
                let deadline = Instant::now() + REASON_LIMIT;
                self.failing = Some((Vec::with_capacity(FAILURE_BYTES), deadline));
                Heard::Failed(self.failure(near).await)
            }
            Some(state) => Heard::State(state),
            None => Heard::Failed(near.lost(
                doing,
                &format!("a byte {} that no iperf3 sends came on its control connection", byte[0]),
            )),
        }
    }

    /// What follows [`State::ServerError`]: some releases send one number, some two. What has come of
    /// it is kept, should the caller give up in the middle.
    async fn failure(&mut self, near: &ClientTest<'_>) -> ErrorRecord {
        let Self { read, failing, .. } = self;
        let (bytes, deadline) = failing.get_or_insert_with(|| (Vec::new(), Instant::now()));
        while bytes.len() + 1 < FAILURE_BYTES {
            let mut byte = [0];
            match timeout_at(*deadline, read.read(&mut byte)).await {
                Ok(Ok(1)) => bytes.push(byte[0]),
                _ => break,
            }
        }
        match Failure::decode(bytes) {
            Some(failure) => {
                let number = failure.number;
                let words = number.words().unwrap_or("an error of a number not known here");
                errors::iperf3_error(&near.name, number.0, words, failure.errno)
            }
            None => errors::iperf3_error(&near.name, 0, "it did not say why", 0),
        }
    }

    /// The state that must come now, at the latest after the patience.
    pub(super) async fn expect(
        &mut self,
        near: &ClientTest<'_>,
        wanted: State,
        doing: &str,
    ) -> Result<(), ErrorRecord> {
        let limit = self.patience;
        let heard = timeout(limit, self.state(near, doing)).await;
        match heard {
            Ok(Heard::State(state)) if state == wanted => Ok(()),
            Ok(Heard::State(state)) => {
                Err(near.lost(doing, &format!("it said {state:?} where {wanted:?} was due")))
            }
            Ok(Heard::Failed(error)) => Err(error),
            Err(_) => Err(near.lost(doing, &format!("no answer within {limit:?}"))),
        }
    }

    /// The server's results, of bounded length and within the patience.
    pub(super) async fn results(&mut self, near: &ClientTest<'_>) -> Result<Results, ErrorRecord> {
        let doing = "exchanging results";
        let reading = async {
            let mut prefix = [0; PREFIX_BYTES];
            self.read.read_exact(&mut prefix).await.map_err(|e| e.to_string())?;
            let length =
                frame::body_length(prefix, MAX_SERVER_RESULTS).map_err(|e| e.to_string())?;
            // Grows with what comes, so that a length alone costs nothing.
            let mut body = Vec::with_capacity(length.min(64 << 10));
            while body.len() < length {
                let mut part = [0; 16 << 10];
                let most = (length - body.len()).min(part.len());
                let part = part.get_mut(..most).unwrap_or_default();
                let got = self.read.read(part).await.map_err(|e| e.to_string())?;
                if got == 0 {
                    return Err("it closed the control connection".to_owned());
                }
                body.extend_from_slice(part.get(..got).unwrap_or_default());
            }
            Results::decode_server(&body).map_err(|e| e.to_string())
        };
        match timeout(self.patience, reading).await {
            Ok(Ok(results)) => Ok(results),
            Ok(Err(why)) => Err(near.lost(doing, &why)),
            Err(_) => Err(near.lost(doing, "its results did not come in time")),
        }
    }
}
