//! Runs a server and reports what happens there.

use std::io::{ErrorKind, Write, stderr, stdout};
use std::net::SocketAddr;
use std::time::SystemTime;

use jiff::tz::TimeZone;
use linerate_model::plan::Dialect;
use linerate_model::record::ErrorRecord;
use linerate_model::served::ServerLine;
use linerate_report::clean::clean;
use linerate_report::served;
use linerate_runner::clock;
use linerate_runner::server::{self, Event, Keeper};

use crate::args::serve::ServeArgs;
use crate::audit::line;
use crate::output;
use crate::pages::Pages;
use linerate_model::exit::Exit;

/// Serves until Ctrl-C.
pub fn serve(args: &ServeArgs) -> Result<Exit, ErrorRecord> {
    let mut audit = args.audit.open()?;
    let mut options = args.options()?;
    let mut pages = Pages::open(&args.pages, &args.allow, &mut options)?;
    for words in pages.words() {
        let _ = writeln!(stderr(), "{} {words}", local(clock::wall()));
    }
    let (shown, left_out) = (pages.shown(), pages.left_out());
    if audit.is_some() || shown.is_some() {
        options.keeper = Some(Keeper::new(move |at, event| {
            let time = stamp(at).to_string();
            let left_out = match &event {
                Event::LogDropped { events } => Some(format!(
                    "{events} events are neither in the audit log nor on the page, as they came faster than they were written"
                )),
                _ => None,
            };
            let event = line_of(event, time.clone())?;
            shown.iter().for_each(|show| show(&event));
            let of_audit = audit.as_mut().and_then(|log| log.write(&event, &time));
            let said: Vec<_> = left_out.into_iter().chain(of_audit).collect();
            (!said.is_empty()).then(|| said.join("; "))
        }));
    }
    let stop = || {
        let stop = output::stop_at_signals()?;
        // Within the sandbox, as what else reads strangers' bytes is.
        pages.begin()?;
        Ok(stop)
    };
    let mut closed = false;
    let json_lines = args.json_lines;
    server::serve(&options, stop, move |at, event| {
        left_out(&event);
        let at = stamp(at);
        let _ = writeln!(stderr(), "{} {}", local(at), words(&event));
        if let Some(event) = line_of(event, at.to_string()).filter(|_| json_lines && !closed) {
            let written = writeln!(stdout(), "{}", line(&event)).and_then(|()| stdout().flush());
            // Who reads the events may leave; the tests of others go on.
            closed = written.is_err_and(|e| e.kind() == ErrorKind::BrokenPipe);
        }
    })?;
    Ok(Exit::Complete)
}

/// A clock that is far from any year of this calendar must not end the log.
fn stamp(at: SystemTime) -> jiff::Timestamp {
    jiff::Timestamp::try_from(at).unwrap_or_default()
}

/// As the log has it.
fn local(at: jiff::Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn words(event: &Event) -> String {
    match event {
        Event::Listening(Dialect::Native, address) => {
            format!("listening on {address}, TCP and UDP")
        }
        Event::Listening(dialect, address) => {
            format!("listening on {address} for {}", dialect.program())
        }
        Event::Sandboxed(sandboxed) => served::sandboxed(sandboxed),
        Event::TestStarted(test) => served::started(test),
        Event::TestEnded(test, result) => served::ended(test, result),
        Event::KeysRead { keys, networks, why } => {
            served::keys_read(*keys, *networks, why.as_deref())
        }
        Event::BudgetState { file, days, why } => {
            served::budget_state(file.as_deref(), *days, why.as_deref())
        }
        Event::ControlStarted { peer, key } => format!("{} controls this host", who(peer, key)),
        Event::Controlled { peer, key, text } => format!("{} {}", who(peer, key), clean(text)),
        Event::ControlEnded { peer, key, text, .. } => {
            format!("{} controls this host no more: {}", who(peer, key), clean(text))
        }
        Event::PutBack { text, .. } => format!("from before: {}", clean(text)),
        Event::CannotAccept(why) => format!("cannot take connections: {}", clean(why)),
        Event::Test { peer, .. } => format!("{peer} goes on"),
        Event::Refused { peer, key, why, .. } => {
            format!("{} refused: {}", who(peer, key), clean(why))
        }
        Event::RefusedMore { network, count } => format!("{network} refused {count} times more"),
        Event::LogDropped { events } => {
            format!("{events} events are not in this log, as it was read too slowly")
        }
        Event::Keeper(text) => clean(text).into_owned(),
    }
}

fn who(peer: &SocketAddr, key: &Option<String>) -> String {
    served::who(&peer.to_string(), key.as_deref())
}

/// Nothing for what only iperf3's screen shows.
fn line_of(event: Event, time: String) -> Option<ServerLine> {
    Some(match event {
        Event::Listening(dialect, address) => {
            let dialect = Some(dialect).filter(|dialect| *dialect != Dialect::Native);
            ServerLine::Listening { time, address: address.to_string(), dialect }
        }
        Event::Sandboxed(sandboxed) => ServerLine::Sandboxed { time, sandboxed: *sandboxed },
        Event::TestStarted(test) => ServerLine::Started { time, test: *test },
        Event::TestEnded(test, result) => ServerLine::Ended { time, test: *test, result },
        Event::Refused { peer, key, asked, kind, why } => {
            ServerLine::Refused { time, peer: peer.to_string(), key, kind, why, asked }
        }
        Event::RefusedMore { network, count } => {
            ServerLine::RefusedMore { time, network: network.to_string(), count }
        }
        Event::LogDropped { events } => ServerLine::LogDropped { time, events, why: None },
        Event::KeysRead { keys, networks, why } => {
            ServerLine::KeysRead { time, keys: keys as u64, networks: networks as u64, why }
        }
        Event::BudgetState { file, days, why } => {
            ServerLine::BudgetState { time, file, days: days as u64, why }
        }
        Event::ControlStarted { peer, key } => {
            ServerLine::ControlStarted { time, peer: peer.to_string(), key }
        }
        Event::Controlled { peer, key, text } => {
            ServerLine::Controlled { time, peer: peer.to_string(), key, text }
        }
        Event::ControlEnded { peer, key, settings, text } => {
            ServerLine::ControlEnded { time, peer: peer.to_string(), key, settings, text }
        }
        Event::PutBack { settings, text } => {
            ServerLine::PutBack { time, settings: Some(settings), text }
        }
        Event::CannotAccept(text) => ServerLine::CannotAccept { time, text },
        Event::Test { .. } | Event::Keeper(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use linerate_model::served::{PutBack, RefusalKind};

    use super::*;

    #[test]
    fn events_are_lines_whatever_the_peer_says() {
        let peer = "[2001:db8::7]:40000".parse().unwrap();
        let why = "not spoken here\u{1b}[2J\nfake line".to_owned();
        let (key, kind) = (Some("ci".to_owned()), RefusalKind::Protocol);
        let refused = Event::Refused { peer, key, asked: None, kind, why };
        let said = "[2001:db8::7]:40000 (ci) refused: not spoken here[2J fake line";
        assert_eq!(words(&refused), said);
        let text = line(&line_of(refused, "2026-01-02T03:04:05Z".into()).unwrap());
        assert!(!text.contains(['\u{1b}', '\n']), "{text}");
        assert!(text.contains("\"kind\":\"protocol\""), "{text}");
        let settings = PutBack { restored: 2, failed: 1, ..PutBack::default() };
        let put_back = Event::PutBack { settings, text: "2 settings put back".into() };
        assert_eq!(words(&put_back), "from before: 2 settings put back");
        let text = line(&line_of(put_back, "2026-01-02T03:04:05Z".into()).unwrap());
        let counts = r#"{"restored":2,"changed_by_others":0,"gone":0,"failed":1}"#;
        assert!(text.contains(counts), "{text}");
        let listening = Event::Listening(Dialect::Native, "0.0.0.0:5201".parse().unwrap());
        assert_eq!(words(&listening), "listening on 0.0.0.0:5201, TCP and UDP");
    }
}
