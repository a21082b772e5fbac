//! Runs the far end and tells what happens there.

use std::io::{ErrorKind, Write, stderr, stdout};

use linerate_model::record::ErrorRecord;
use linerate_report::clean::{clean, clean_json};
use linerate_runner::server::{self, Event};

use crate::args::serve::ServeArgs;
use crate::exit::Exit;

/// Serves until Ctrl-C.
pub fn serve(args: &ServeArgs) -> Result<Exit, ErrorRecord> {
    let options = args.options()?;
    let mut closed = false;
    server::serve(&options, &mut |event| {
        if matches!(event, Event::Told { .. }) {
            // For iperf3's screen, which this is not.
            return;
        }
        let now = jiff::Zoned::now();
        let local = now.strftime("%Y-%m-%d %H:%M:%S").to_string();
        let _ = writeln!(stderr(), "{local} {}", words(&event));
        if args.json_lines && !closed {
            let line = json(&event, &now.timestamp().to_string());
            let written = writeln!(stdout(), "{}", clean_json(&line.to_string()))
                .and_then(|()| stdout().flush());
            // Who reads the events may leave; the tests of others go on.
            closed = written.is_err_and(|e| e.kind() == ErrorKind::BrokenPipe);
        }
    })?;
    Ok(Exit::Complete)
}

fn words(event: &Event) -> String {
    match event {
        Event::Listening(address) => format!("listening on {address}, TCP and UDP"),
        Event::TestStarted { peer, what } => format!("{peer} started {}", clean(what)),
        Event::TestEnded { peer, what } => format!("{peer} ended: {}", clean(what)),
        Event::ControlStarted { peer } => format!("{peer} controls this host"),
        Event::ControlEnded { peer, what } => {
            format!("{peer} controls this host no more: {}", clean(what))
        }
        Event::PutBack(what) => format!("from before: {}", clean(what)),
        Event::Told { peer, .. } => format!("{peer} goes on"),
        Event::Refused { peer, why } => format!("{peer} refused: {}", clean(why)),
    }
}

fn json(event: &Event, time: &str) -> serde_json::Value {
    let no_text = String::new();
    let (name, peer, text) = match event {
        Event::Listening(address) => {
            return serde_json::json!({
                "event": "listening", "time": time, "address": address.to_string()
            });
        }
        Event::TestStarted { peer, what } => ("started", peer, what),
        Event::TestEnded { peer, what } => ("ended", peer, what),
        Event::ControlStarted { peer } => ("control_started", peer, &no_text),
        Event::ControlEnded { peer, what } => ("control_ended", peer, what),
        Event::PutBack(text) => {
            return serde_json::json!({ "event": "put_back", "time": time, "text": text });
        }
        Event::Told { .. } => return serde_json::Value::Null,
        Event::Refused { peer, why } => ("refused", peer, why),
    };
    serde_json::json!({ "event": name, "time": time, "peer": peer.to_string(), "text": text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines_whatever_the_peer_says() {
        let peer = "[2001:db8::7]:40000".parse().unwrap();
        let started = Event::TestStarted { peer, what: "udp forward\u{1b}[2J\nfake line".into() };
        assert_eq!(words(&started), "[2001:db8::7]:40000 started udp forward[2J fake line");
        let text = clean_json(&json(&started, "2026-01-02T03:04:05Z").to_string()).into_owned();
        assert!(!text.contains(['\u{1b}', '\n']), "{text}");
        let listening = Event::Listening("0.0.0.0:5201".parse().unwrap());
        assert_eq!(words(&listening), "listening on 0.0.0.0:5201, TCP and UDP");
        assert_eq!(json(&listening, "t")["address"], "0.0.0.0:5201");
    }
}
