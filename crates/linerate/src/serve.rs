//! Runs a server and reports what happens there.

use std::io::{ErrorKind, Write, stderr, stdout};

use jiff::tz::TimeZone;
use linerate_model::record::ErrorRecord;
use linerate_model::served::{ServedResult, ServedTest};
use linerate_report::clean::{clean, clean_json};
use linerate_report::served;
use linerate_runner::server::{self, Event};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::serve::ServeArgs;
use linerate_model::exit::Exit;

/// Serves until Ctrl-C.
pub fn serve(args: &ServeArgs) -> Result<Exit, ErrorRecord> {
    let options = args.options()?;
    let mut closed = false;
    let json_lines = args.json_lines;
    server::serve(&options, move |at, event| {
        if matches!(event, Event::Test { .. }) {
            // For iperf3's screen, which this is not.
            return;
        }
        // A clock that is far from any year of this calendar must not end the log.
        let at = jiff::Timestamp::try_from(at).unwrap_or_default();
        let local = at.to_zoned(TimeZone::system());
        let local = local.strftime("%Y-%m-%d %H:%M:%S").to_string();
        let _ = writeln!(stderr(), "{local} {}", words(&event));
        if json_lines && !closed {
            let Some(told) = ServerLine::new(event, at.to_string()) else { return };
            let written = writeln!(stdout(), "{}", line(told)).and_then(|()| stdout().flush());
            // Who reads the events may leave; the tests of others go on.
            closed = written.is_err_and(|e| e.kind() == ErrorKind::BrokenPipe);
        }
    })?;
    Ok(Exit::Complete)
}

fn line(told: ServerLine) -> String {
    // Nothing in it can fail to become JSON: its keys are names and its values plain.
    clean_json(&serde_json::to_string(&told).unwrap_or_default()).into_owned()
}

fn words(event: &Event) -> String {
    match event {
        Event::Listening(address) => format!("listening on {address}, TCP and UDP"),
        Event::TestStarted(test) => served::started(test),
        Event::TestEnded(test, result) => served::ended(test, result),
        Event::ControlStarted { peer } => format!("{peer} controls this host"),
        Event::ControlEnded { peer, what } => {
            format!("{peer} controls this host no more: {}", clean(what))
        }
        Event::PutBack(what) => format!("from before: {}", clean(what)),
        Event::CannotAccept(why) => format!("cannot take connections: {}", clean(why)),
        Event::Test { peer, .. } => format!("{peer} goes on"),
        Event::Refused { peer, why, .. } => format!("{peer} refused: {}", clean(why)),
        Event::RefusedMore { network, count } => format!("{network} refused {count} times more"),
        Event::LogDropped { events } => {
            format!("{events} events are not in this log, as it was read too slowly")
        }
    }
}

/// A line of `serve --json-lines`: `event` says which.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ServerLine {
    /// The server listens.
    Listening {
        /// RFC 3339, UTC.
        time: String,
        /// Address and port, TCP and UDP.
        address: String,
    },
    /// A test was admitted and its data will begin.
    Started {
        /// RFC 3339, UTC.
        time: String,
        /// What is asked, and by whom.
        #[serde(flatten)]
        test: ServedTest,
    },
    /// A test is over. Each has exactly one such line, also one that ended before its start.
    Ended {
        /// RFC 3339, UTC.
        time: String,
        /// What was asked, and by whom.
        #[serde(flatten)]
        test: ServedTest,
        /// How it ended, and what this end measured.
        #[serde(flatten)]
        result: Box<ServedResult>,
    },
    /// A connection was turned away before it had a test.
    Refused {
        /// RFC 3339, UTC.
        time: String,
        /// Address and port of the client.
        peer: String,
        /// `version`, `key`, `out_of_range`, `policy`, `busy`, `unable` or `protocol`.
        kind: String,
        /// In words.
        why: String,
    },
    /// More connections of a network were turned away, too many to have a line each.
    RefusedMore {
        /// RFC 3339, UTC.
        time: String,
        /// An IPv4 address, or the /64 of an IPv6 address.
        network: String,
        /// So many since the last line about it.
        count: u64,
    },
    /// So many events have no line, as whoever reads them read too slowly.
    LogDropped {
        /// RFC 3339, UTC.
        time: String,
        /// Events of any kind.
        events: u64,
    },
    /// A controller of campaigns took this host over.
    ControlStarted {
        /// RFC 3339, UTC.
        time: String,
        /// Address and port of the controller.
        peer: String,
    },
    /// It is gone, and settings were put back.
    ControlEnded {
        /// RFC 3339, UTC.
        time: String,
        /// Address and port of the controller.
        peer: String,
        /// Why, and what was put back, in words.
        text: String,
    },
    /// Settings that an earlier server had left changed were put back.
    PutBack {
        /// RFC 3339, UTC.
        time: String,
        /// What, in words.
        text: String,
    },
    /// No connection can be taken for now: too many are open. At most one such line in ten seconds.
    CannotAccept {
        /// RFC 3339, UTC.
        time: String,
        /// Why, in words.
        text: String,
    },
}

impl ServerLine {
    /// Nothing for what only iperf3's screen shows.
    fn new(event: Event, time: String) -> Option<Self> {
        Some(match event {
            Event::Listening(address) => Self::Listening { time, address: address.to_string() },
            Event::TestStarted(test) => Self::Started { time, test: *test },
            Event::TestEnded(test, result) => Self::Ended { time, test: *test, result },
            Event::Refused { peer, kind, why } => {
                Self::Refused { time, peer: peer.to_string(), kind: kind.name().to_owned(), why }
            }
            Event::RefusedMore { network, count } => {
                Self::RefusedMore { time, network: network.to_string(), count }
            }
            Event::LogDropped { events } => Self::LogDropped { time, events },
            Event::ControlStarted { peer } => Self::ControlStarted { time, peer: peer.to_string() },
            Event::ControlEnded { peer, what } => {
                Self::ControlEnded { time, peer: peer.to_string(), text: what }
            }
            Event::PutBack(text) => Self::PutBack { time, text },
            Event::CannotAccept(text) => Self::CannotAccept { time, text },
            Event::Test { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use linerate_wire::native::message::RefusalKind;

    use super::*;

    #[test]
    fn events_are_lines_whatever_the_peer_says() {
        let peer = "[2001:db8::7]:40000".parse().unwrap();
        let why = "not spoken here\u{1b}[2J\nfake line".to_owned();
        let refused = Event::Refused { peer, kind: RefusalKind::Protocol, why };
        assert_eq!(words(&refused), "[2001:db8::7]:40000 refused: not spoken here[2J fake line");
        let text = line(ServerLine::new(refused, "2026-01-02T03:04:05Z".into()).unwrap());
        assert!(!text.contains(['\u{1b}', '\n']), "{text}");
        assert!(text.contains("\"kind\":\"protocol\""), "{text}");
        let listening = Event::Listening("0.0.0.0:5201".parse().unwrap());
        assert_eq!(words(&listening), "listening on 0.0.0.0:5201, TCP and UDP");
    }
}
