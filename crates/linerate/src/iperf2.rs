//! `linerate iperf`, and linerate under the name `iperf`: iperf 2's command line and output. The client runs
//! linerate's test against any server of iperf 2's; the server is linerate's, with iperf 2's screen.

use std::ffi::OsString;
use std::io::{Write, stderr};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use linerate_ask::iperf2::{Back, HELP, Line, Role, Server, Stop, parse};
use linerate_model::plan::{Dialect, Direction, Traffic, Transport};
use linerate_model::test_event::TestEvent;
use linerate_report::clean::clean;
use linerate_report::iperf2::{Options, Text, When};
use linerate_runner::client::{Request, Target};
use linerate_runner::server::{self, Event, Sockets};
use linerate_runner::{clock, signals};
use linerate_session::observer::Observer;

use crate::face::{self, outcome, said, write};

/// Runs the command; `args` are what follows its name.
pub fn run(args: Vec<OsString>) -> ExitCode {
    let words = face::words(args);
    let line = match parse(&words) {
        Ok(line) => line,
        // As there: programs that look for an option of a release look here.
        Err(Stop::Help) => {
            let _ = write!(stderr(), "{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(Stop::Version) => {
            return said(&format!(
                "iperf version 2.1.8 (linerate {})\n",
                env!("CARGO_PKG_VERSION")
            ));
        }
        Err(Stop::Wrong(text)) => {
            let usage =
                "Usage: iperf [-s|-c host] [options]\nTry `iperf --help' for more information.";
            return fail(&format!("{}\n{usage}", clean(&text)));
        }
    };
    for note in &line.notes {
        let _ = writeln!(stderr(), "{note}");
    }
    let done = match &line.role {
        Role::Client(request) => run_client(&line, request, words),
        Role::Server(server) => serve(&line, server),
    };
    done.map_or_else(|text| fail(&clean(&text)), |()| ExitCode::SUCCESS)
}

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(stderr(), "iperf: {text}");
    ExitCode::FAILURE
}

fn options(line: &Line) -> Options {
    let Line { csv, enhanced, format, intervals, .. } = *line;
    Options { csv, enhanced, format, intervals, pid: std::process::id(), ..Options::default() }
}

/// The buffer of a fresh socket, by this system's settings.
fn buffer_bytes(udp: bool, sends: bool) -> Option<u64> {
    let name = match (udp, sends) {
        (true, true) => "core/wmem_default",
        (true, false) => "core/rmem_default",
        (false, true) => "ipv4/tcp_wmem",
        (false, false) => "ipv4/tcp_rmem",
    };
    let text = std::fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?;
    // Of TCP the middle one of three.
    text.split_whitespace().nth(usize::from(!udp))?.parse().ok()
}

fn congestion(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| format!("TCP congestion control set to {}\n", clean(name)))
}

/// What a server sets of its clients' sockets.
fn settings(sockets: &Sockets) -> String {
    let mut text = congestion(sockets.congestion.as_deref());
    if let Some(mss) = sockets.mss {
        text.push_str(&format!("MSS req size {mss} bytes (per TCP_MAXSEG)\n"));
    }
    if let Some(dscp) = sockets.dscp {
        text.push_str(&format!("TOS will be set to 0x{:x}\n", u16::from(dscp) << 2));
    }
    text
}

/// Why `-r` has no second test; the first has shown that the server is there.
fn no_way_back(why: String, udp: bool) -> String {
    if !udp {
        return why;
    }
    format!(
        "{why}: over UDP servers up to 2.1.8 send nothing once they have received, and linerate's never do; \
         start the server anew for -R"
    )
}

fn now(enhanced: bool) -> When {
    let now = clock::local_date();
    let digits = if enhanced { "%Y%m%d%H%M%S%.3f" } else { "%Y%m%d%H%M%S" };
    When {
        digits: now.strftime(digits).to_string(),
        words: now.strftime("%Y-%m-%d %H:%M:%S (%Z)").to_string(),
    }
}

/// A test's text on standard output.
struct Face<'a> {
    text: &'a Mutex<Text>,
    enhanced: bool,
    /// The record is shown instead.
    json: bool,
    /// Which test of this client's.
    test: SocketAddr,
    stop: signals::Stop,
}

impl Observer for Face<'_> {
    fn event(&mut self, event: &TestEvent) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = text.event((self.test, self.test), event, &now(self.enhanced));
        if !self.json && write(&lines).is_err() {
            // Without a reader the test has no purpose.
            self.stop.now();
        }
    }
}

fn run_client(line: &Line, request: &Request, words: Vec<String>) -> Result<(), String> {
    let mut request = request.clone();
    request.command = std::iter::once("iperf".to_owned()).chain(words).collect();
    let udp = request.plan.traffic.transport() == Transport::Udp;
    let mut options = Options { udp, ..options(line) };
    if let Target::Host { name, port } = &request.target {
        options.host = Some(name.clone());
        options.port = *port;
    }
    options.buffer_bytes = buffer_bytes(udp, true);
    if let Traffic::Tcp(tcp) = &request.plan.traffic {
        options.settings = congestion(tcp.congestion.as_deref());
    }
    let stop = signals::Stop::at_signals().map_err(|e| e.to_string())?;
    let mut reversed = request.clone();
    reversed.plan.direction = Direction::Reverse;
    let text = Mutex::new(Text::new(options));
    let test = |request: &Request, number| {
        // Its number is all that distinguishes it.
        let test = SocketAddr::from((Ipv4Addr::UNSPECIFIED, number));
        let (enhanced, json) = (line.enhanced, line.json);
        let mut shown = Face { text: &text, enhanced, json, test, stop: stop.clone() };
        let record = linerate_runner::run(request, &mut shown, &stop);
        if json {
            face::document(&record)?;
        }
        outcome(&record)
    };
    match line.back {
        None => test(&request, 0),
        Some(Back::After) => {
            let forth = test(&request, 0);
            // Whoever ends the first wants no second.
            if forth.is_err() || stop.seen() {
                return forth;
            }
            test(&reversed, 1).map_err(|why| no_way_back(why, udp))
        }
        Some(Back::Beside) => std::thread::scope(|scope| {
            let back = scope.spawn(|| test(&reversed, 1));
            let forth = test(&request, 0);
            forth.and(back.join().unwrap_or_else(|_| Err("the way back broke off".into())))
        }),
    }
}

fn serve(line: &Line, asked: &Server) -> Result<(), String> {
    if asked.daemon {
        face::to_background()?;
    }
    let at = (asked.bind, asked.port);
    let mut wanted = server::Options::of_program(Dialect::Iperf2, at, asked.one_at_a_time);
    wanted.one_off = asked.one_off;
    wanted.rows = true;
    wanted.sockets = asked.sockets.clone();
    if let Some(interval) = asked.interval {
        wanted.interval = interval;
    }
    let buffer_bytes = buffer_bytes(asked.udp, false);
    let window = asked.sockets.granted().map_err(|e| e.to_string())?;
    let Server { port, udp, .. } = *asked;
    let settings = settings(&asked.sockets);
    let options = Options { port, udp, buffer_bytes, window, settings, ..options(line) };
    let mut text = Text::new(options);
    let enhanced = line.enhanced;
    let stop = signals::Stop::at_signals().map_err(|e| e.to_string())?;
    if let Some(time) = asked.time {
        let stop = stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_nanos(time.0));
            stop.now();
        });
    }
    let served = server::serve(
        &wanted,
        || Ok(stop),
        move |_, event| {
            let lines = match event {
                Event::Listening(..) => text.listening(),
                Event::Test { peer, local, event } => {
                    text.event((local, peer), &event, &now(enhanced))
                }
                Event::Refused { peer, why, .. } => {
                    let _ = writeln!(stderr(), "iperf: {}: {}", peer.ip(), clean(&why));
                    return;
                }
                Event::LogDropped { events } => {
                    let _ = writeln!(
                        stderr(),
                        "iperf: {events} lines are not shown: this output was read too slowly"
                    );
                    return;
                }
                _ => return,
            };
            // Whoever reads may leave; the tests of others go on.
            let _ = write(&lines);
        },
    );
    served.map_err(|error| format!("{}: {}", error.what, error.why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_udp_servers_do_not_send_explains_no_fault_of_tcp() {
        assert_eq!(no_way_back("refused".into(), false), "refused");
        assert!(no_way_back("silent".into(), true).contains("start the server anew"));
    }
}
