//! What the controller of a campaign asks of a host under test.
//!
//! After the greeting and [`ClientMessage::Agent`](super::message::ClientMessage::Agent) both ends
//! speak [`Request`]s and [`Reply`]s, sealed with the shared key as all that follows a welcome
//! (see [`super::auth`]).

use linerate_model::doctor::HostDetails;
use linerate_model::host::HostFacts;
use linerate_model::plan::{Dialect, IpVersion, TestPlan};
use linerate_model::profile::HostProfile;
use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_model::setting::{Applied, ReadBack, Restoration, Setting, SettingName};
use serde::{Deserialize, Serialize};

/// The feature's name in a welcome. Not one of [`FEATURES`](super::FEATURES): a test is none the
/// poorer without it.
pub const AGENT_FEATURE: &str = "agent";

/// Which interface settings are for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceChoice {
    /// By its name.
    Named(String),
    /// The one that packets to this host name or address leave by.
    Towards(String),
}

/// A test that a host shall run as the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteTest {
    /// Host name or address of the server, as that host knows it.
    pub name: String,
    /// Its port.
    pub port: u16,
    /// What.
    pub plan: TestPlan,
    /// Whether the datagram size is the path's MTU less headers.
    #[serde(default)]
    pub size_from_mtu: bool,
    /// Use only this version of IP.
    #[serde(default)]
    pub ip: Option<IpVersion>,
    /// No server: datagrams to that address, nobody answers.
    #[serde(default)]
    pub discard: bool,
    /// Show that server the key that the host itself has. The key does not travel.
    #[serde(default)]
    pub with_key: bool,
    /// What to speak with that server; where nothing is said, the host finds out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// The command line, for the record.
    #[serde(default)]
    pub command: Vec<String>,
}

/// A command that a host shall run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRequest {
    /// Program and arguments; no shell is between.
    pub argv: Vec<String>,
    /// It is ended after this many milliseconds, with all it started.
    pub limit_ms: u64,
    /// Bytes kept of each of its outputs; what is beyond is read and thrown away.
    #[serde(rename = "keep_octets")]
    pub keep_bytes: u32,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutcome {
    /// Exit code; absent when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It was ended because its time was up.
    pub timed_out: bool,
    /// Standard output as text, bytes that are not UTF-8 replaced.
    pub out: String,
    /// Standard error as text.
    pub err: String,
    /// Some output was beyond what was to be kept.
    pub truncated: bool,
    /// How long it took, in milliseconds of the monotonic clock.
    pub took_ms: u64,
}

/// For how long a controller keeps a host without another word: from when this comes, by the host's
/// own clock. Once it has ended the host puts its settings back, and is not kept again by any lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Which taking over of the host it is of. Of two the later has the higher; one of a lower is
    /// late, and counts for nothing.
    pub epoch: u64,
    /// Milliseconds; [`MOST_LEASE_MS`] where it is more.
    pub ttl_ms: u32,
}

/// What a server lets a controller do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// Settings, and tests as the client.
    pub settings: bool,
    /// Commands of the controller's choice.
    pub commands: bool,
    /// A reboot.
    pub reboot: bool,
    /// Samples of its CPUs' stacks. Servers of before that let nobody say nothing of it.
    #[serde(default)]
    pub profile: bool,
}

/// From the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The controller is there and keeps the host. Wants no reply, and may come at any time.
    Lease(Lease),
    /// Is the host there?
    Ping,
    /// Who it is, and what it lets the controller do.
    Facts,
    /// Looks at it and its path to the controller, as the doctor does; changes nothing.
    Look,
    /// Changes settings, in this order.
    Apply {
        /// For those of an interface.
        device: Option<DeviceChoice>,
        /// What.
        settings: Vec<Setting>,
    },
    /// Reads settings.
    Read {
        /// For those of an interface.
        device: Option<DeviceChoice>,
        /// Which.
        names: Vec<SettingName>,
    },
    /// Puts everything back.
    Restore,
    /// Runs a test as the client.
    Test(Box<RemoteTest>),
    /// Runs a command.
    Command(CommandRequest),
    /// Reboots.
    Reboot {
        /// By this command instead of the host's own.
        command: Option<Vec<String>>,
    },
    /// Samples the stacks of its CPUs from now on. To a host that permits it only: others of before do not know it.
    SampleBegin,
    /// Ends that, and gives what was sampled.
    SampleEnd,
    /// Puts everything back and ends.
    Bye,
}

/// From the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The host is at it. Answers nothing.
    Alive,
    /// Answers a ping, and what has no other answer: a reboot has begun.
    Done,
    /// Who it is.
    Facts {
        /// The host; its interface towards the controller.
        host: Box<HostFacts>,
        /// What it lets the controller do.
        permissions: Permissions,
    },
    /// What was seen of it.
    Looked(Box<HostDetails>),
    /// The settings' results, in the order of the request.
    Applied(Vec<Applied>),
    /// What was read, in the order of the request.
    Read(Vec<ReadBack>),
    /// What was put back.
    Restored(Restoration),
    /// The record of a test, however it ended.
    Record(Box<RunRecord>),
    /// What a command did.
    Command(CommandOutcome),
    /// What was sampled: stacks, not what is computed of them. Other programs have no names in it.
    Sampled(Box<HostProfile>),
    /// Part of a long reply, which is JSON of another [`Reply`].
    Piece(Piece),
    /// It cannot be done.
    Failed(Box<ErrorRecord>),
}

/// Part of a document that does not fit one frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// None follows.
    pub last: bool,
}

/// Bytes of text in one [`Piece`]: quoting makes at most twice as many of JSON.
pub const PIECE_BYTES: usize = 24 << 10;
/// Most bytes of a document in pieces: the record of the longest test that limits allow is less.
pub const MOST_DOCUMENT_BYTES: usize = 256 << 20;
/// Most settings in one request.
pub const MOST_SETTINGS: usize = 256;
/// Most words of a command, and bytes of all of them.
pub const MOST_WORDS: usize = 256;
/// Bytes of a command's words.
pub const MOST_WORD_BYTES: usize = 32 << 10;
/// Longest time of a command, in milliseconds: one day, as a test.
pub const MOST_COMMAND_MS: u64 = 86_400_000;
/// Longest lease, in milliseconds.
pub const MOST_LEASE_MS: u32 = 60_000;
/// Most bytes kept of an output.
pub const MOST_OUTPUT_BYTES: u32 = 16 << 20;

/// Cuts a document into pieces at characters.
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let mut at = PIECE_BYTES.min(rest.len());
        while !rest.is_char_boundary(at) {
            at = at.saturating_sub(1);
        }
        let (piece, more) = rest.split_at(at);
        pieces.push(Piece { text: piece.to_owned(), last: more.is_empty() });
        rest = more;
        if rest.is_empty() {
            return pieces;
        }
    }
}

/// Why a request is refused before anything is done.
pub fn check(request: &Request) -> Result<(), String> {
    let at_most = |what: &str, count: usize, most: usize| {
        if count > most { Err(format!("{count} {what} are more than {most}")) } else { Ok(()) }
    };
    let words = |argv: &[String]| {
        at_most("words of a command", argv.len(), MOST_WORDS)?;
        at_most("bytes of a command", argv.iter().map(String::len).sum(), MOST_WORD_BYTES)?;
        match argv.first() {
            Some(program) if !program.is_empty() => Ok(()),
            _ => Err("a command without a program".to_owned()),
        }
    };
    match request {
        Request::Apply { settings, .. } => at_most("settings", settings.len(), MOST_SETTINGS),
        Request::Read { names, .. } => at_most("settings", names.len(), MOST_SETTINGS),
        Request::Command(command) => {
            words(&command.argv)?;
            if !(1..=MOST_COMMAND_MS).contains(&command.limit_ms) {
                return Err(format!(
                    "a command's limit of {} ms is outside 1 to {MOST_COMMAND_MS}",
                    command.limit_ms
                ));
            }
            if command.keep_bytes > MOST_OUTPUT_BYTES {
                return Err(format!(
                    "{} bytes of output are more than {MOST_OUTPUT_BYTES}",
                    command.keep_bytes
                ));
            }
            Ok(())
        }
        Request::Reboot { command: Some(argv) } => words(argv),
        Request::Test(test) => test.plan.check().map_err(|e| e.to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::auth::tests::pair;
    use super::super::frame::PREFIX_BYTES;
    use super::*;

    #[test]
    fn documents_of_any_length_travel_in_frames() {
        let (mut there, mut here) = pair();
        for text in ["", "\"", &"\"é".repeat(40_000)] {
            let mut whole = String::new();
            let pieces = pieces(text);
            assert_eq!(pieces.iter().filter(|p| p.last).count(), 1);
            for piece in pieces {
                let frame = here.ours.seal(&Reply::Piece(piece)).unwrap();
                let Reply::Piece(piece) = there.theirs.open(&frame[PREFIX_BYTES..]).unwrap() else {
                    panic!()
                };
                whole.push_str(&piece.text);
            }
            assert_eq!(whole, text);
        }
    }

    #[test]
    fn requests_beyond_the_limits_are_refused() {
        let command = |argv: &[&str], limit_ms, keep_bytes| {
            let argv = argv.iter().map(|w| (*w).to_owned()).collect();
            check(&Request::Command(CommandRequest { argv, limit_ms, keep_bytes }))
        };
        assert!(command(&["true"], 1, 0).is_ok());
        assert!(command(&["true"], 0, 0).is_err());
        assert!(command(&["true"], MOST_COMMAND_MS + 1, 0).is_err());
        assert!(command(&["true"], 1, u32::MAX).is_err());
        assert!(command(&[], 1, 0).is_err());
        assert!(command(&[""], 1, 0).is_err());
        assert!(command(&["x"; 257], 1, 0).is_err());
        assert!(check(&Request::Reboot { command: Some(vec![]) }).is_err());
    }
}
