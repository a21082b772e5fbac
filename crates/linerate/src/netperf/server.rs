//! netserver's command line.

use std::ffi::OsString;
use std::io::{Write, stderr};
use std::process::ExitCode;

use linerate_ask::netperf::{SERVER_HELP, Server, Stop, parse_server};
use linerate_model::plan::{Dialect, IpVersion};
use linerate_report::clean::clean;
use linerate_runner::server::{self, Event};
use linerate_runner::signals;

use crate::face;

/// Runs the command; `args` are what follows its name.
pub fn run(args: Vec<OsString>) -> ExitCode {
    let words = face::words(args);
    let text = match parse_server(&words) {
        Ok(asked) => match serve(&asked) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(text) => text,
        },
        Err(Stop::Help) => SERVER_HELP.to_owned(),
        Err(Stop::Version) => {
            let version = env!("CARGO_PKG_VERSION");
            return face::said(&format!("Netperf version 2.7.1 (linerate {version})\n"));
        }
        Err(Stop::Usage(text)) => format!("netserver: {text}\n\n{SERVER_HELP}"),
        Err(Stop::Wrong(text) | Stop::Unknown(text)) => format!("netserver: {text}\n"),
    };
    let _ = write!(stderr(), "{}", super::clean_lines(&text));
    ExitCode::FAILURE
}

/// Where it listens, in netserver's words.
fn place(asked: &Server) -> String {
    let name = asked.name.as_deref().unwrap_or("IN(6)ADDR_ANY");
    let family = match asked.ip {
        None => "AF_UNSPEC",
        Some(IpVersion::V4) => "AF_INET",
        Some(IpVersion::V6) => "AF_INET6",
    };
    format!("'{name}' port '{}' and family {family}", asked.port)
}

fn serve(asked: &Server) -> Result<(), String> {
    let place = place(asked);
    let unable = |why: &str| format!("Unable to start netserver with  {place}\n{why}\n");
    let starting = format!("Starting netserver with host {place}\n");
    if asked.daemon {
        face::is_free(asked.bind, asked.port).map_err(|e| unable(&e.to_string()))?;
        let _ = face::write(&starting);
        face::to_background().map_err(|why| unable(&why))?;
    }
    let at = (asked.bind, asked.port);
    let wanted = server::Options::of_program(Dialect::Netperf, at, asked.one_at_a_time);
    let stop = signals::Stop::at_signals().map_err(|e| unable(&e.to_string()))?;
    let foreground = !asked.daemon;
    let served = server::serve(
        &wanted,
        || Ok(stop),
        move |_, event| match event {
            Event::Listening(..) if foreground => _ = face::write(&starting),
            Event::Refused { peer, why, .. } => {
                let _ = writeln!(stderr(), "netserver: {}: {}", peer.ip(), clean(&why));
            }
            _ => {}
        },
    );
    served.map_err(|error| unable(&format!("{}: {}", error.what, error.why)))
}
