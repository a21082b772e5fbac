//! `linerate netperf` and `linerate netserver`, and linerate under these names: netperf's command line and
//! output. The client runs linerate's test against any netserver; the server is linerate's.

mod figures;
mod server;

pub use server::run as run_server;

use std::ffi::OsString;
use std::io::{Write, stderr};
use std::process::ExitCode;
use std::time::Duration;

use linerate_ask::netperf::{self as ask, Buffers, HELP, Line, Stop, parse};
use linerate_model::record::{ErrorKind, ErrorRecord, Interval, RunRecord, Status};
use linerate_model::test_event::{Start, TestEvent};
use linerate_report::clean::clean;
use linerate_report::netperf::{
    Asked, Confidence, Figures, Interim, Kind, Options, Style, Test, banner, interim, is_selection,
    names, report,
};
use linerate_runner::client::Request;
use linerate_runner::{clock, signals};
use linerate_session::observer::{Observer, Said};

use crate::face::{self, said, write};

/// Of what netperf could not begin.
const UNBEGUN: u8 = 255;

/// Why there is no result, with the exit code.
struct Failed(u8, String);

/// Runs the command; `args` are what follows its name.
pub fn run(args: Vec<OsString>) -> ExitCode {
    let words = face::words(args);
    let failed = match parse(&words) {
        Ok(line) => match run_line(&line, &words) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(failed) => failed,
        },
        // Of help, too, netperf says that nothing was measured.
        Err(Stop::Help) => Failed(1, HELP.to_owned()),
        Err(Stop::Version) => {
            let version = env!("CARGO_PKG_VERSION");
            return said(&format!("Netperf version 2.7.1 (linerate {version})\n"));
        }
        Err(Stop::Usage(text)) => Failed(1, format!("netperf: {text}\n\n{HELP}")),
        Err(Stop::Wrong(text)) => Failed(1, format!("netperf: {text}\n")),
        Err(Stop::Unknown(name)) => Failed(
            1,
            format!(
                "The test you requested ({name}) is unknown to this netperf.\n\
                 Please verify that you have the correct test name, \n\
                 and that test family has been compiled into this netperf.\n"
            ),
        ),
    };
    let _ = write!(stderr(), "{}", clean_lines(&failed.1));
    ExitCode::from(failed.0)
}

/// Each line without what a terminal would act on.
fn clean_lines(text: &str) -> String {
    text.lines().map(|line| clean(line).into_owned() + "\n").collect()
}

/// What this system gives a fresh socket.
fn buffers() -> Buffers {
    let setting = |name: &str, place: usize| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?;
        text.split_whitespace().nth(place)?.parse().ok()
    };
    Buffers {
        // The middle one of three.
        tcp_send: setting("ipv4/tcp_wmem", 1),
        tcp_receive: setting("ipv4/tcp_rmem", 1),
        udp_send: setting("core/wmem_default", 0),
        udp_receive: setting("core/rmem_default", 0),
    }
}

fn run_line(line: &Line, words: &[String]) -> Result<(), Failed> {
    let wrong = |text: String| Failed(1, format!("netperf: {text}\n"));
    for note in &line.notes {
        let _ = writeln!(stderr(), "netperf: {note}");
    }
    let mut options = options(line, words);
    if let Some((style, selection)) = &line.selection {
        if selection == "?" {
            // Without a test, as there.
            return Err(Failed(1, names()));
        }
        options.selection = Some((*shown(style), named(selection)?));
    }
    let mut request = line.request(buffers()).map_err(wrong)?;
    request.command = std::iter::once("netperf".to_owned()).chain(words.to_vec()).collect();
    let stop = signals::Stop::at_signals().map_err(|e| wrong(e.to_string()))?;
    let most = options.confidence.map_or(1, |confidence| confidence.max);
    let mut runs: Vec<Figures> = Vec::new();
    let mut cut = Ok(());
    for _ in 0..most {
        wait(line.wait_s, &stop);
        let first = runs.is_empty();
        let face = Face::new(line, &options, &request, &stop, first);
        let (record, measured) = face.run(&request, &stop);
        if line.json {
            face::document(&record).map_err(wrong)?;
        }
        match outcome(line, &record, measured) {
            Ok((figures, why)) => {
                runs.push(figures);
                cut = why;
            }
            Err(failed) if runs.is_empty() => return Err(failed),
            // What was measured before is shown.
            Err(failed) => {
                cut = Err(failed);
                break;
            }
        }
        let reached = options.confidence.map(|wanted| (wanted, wanted.reached(&options, &runs)));
        if reached.is_some_and(|(wanted, reached)| wanted.suffices(&reached))
            || record.status != Status::Complete
        {
            break;
        }
    }
    if line.json {
        return cut;
    }
    let mut mean = Figures::mean(&runs);
    if let Some(confidence) = options.confidence {
        mean.reached = confidence.reached(&options, &runs);
    }
    write(&report(&options, &mean)).map_err(|e| wrong(e.to_string()))?;
    cut
}

/// `-s`; a signal ends it.
fn wait(seconds: u64, stop: &signals::Stop) {
    for _ in 0..seconds.saturating_mul(10) {
        if stop.seen() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn shown(style: &ask::Style) -> &'static Style {
    match style {
        ask::Style::Columns => &Style::Columns,
        ask::Style::Csv => &Style::Csv,
        ask::Style::Keys => &Style::Keys,
    }
}

/// The names that are asked for, which may stand in a file.
fn named(selection: &str) -> Result<String, Failed> {
    if is_selection(selection) {
        return Ok(selection.to_owned());
    }
    std::fs::read_to_string(selection).map_err(|e| {
        let errno = e.raw_os_error().unwrap_or(0);
        let text = format!("Could not open output selection file '{selection}' errno {errno}\n");
        Failed(UNBEGUN, text)
    })
}

fn options(line: &Line, words: &[String]) -> Options {
    let kind = match line.way {
        ask::Way::Sends => Kind::Sends,
        ask::Way::Receives => Kind::Receives,
        ask::Way::Asks => Kind::Asks,
    };
    let end = |index: usize, core, tos, port| {
        let (send_buffer, receive_buffer) = line.buffers[index];
        Asked { send_buffer, receive_buffer, tos, core, port }
    };
    let confidence = line.confidence.map(|(level, width)| {
        let (min, max) = line.runs;
        Confidence { level, width, min, max, rate_only: line.rate_only }
    });
    Options {
        test: match line.test {
            ask::Test::TcpStream => Test::TcpStream,
            ask::Test::TcpMaerts => Test::TcpMaerts,
            ask::Test::TcpSendfile => Test::TcpSendfile,
            ask::Test::UdpStream => Test::UdpStream,
            ask::Test::TcpRr => Test::TcpRr,
            ask::Test::UdpRr => Test::UdpRr,
            ask::Test::TcpCrr => Test::TcpCrr,
            ask::Test::TcpCc => Test::TcpCc,
            ask::Test::Omni => Test::Omni(kind),
        },
        udp: line.udp,
        connections: line.connections,
        host: line.host.clone(),
        local: line.local.clone(),
        headers: line.headers,
        verbosity: line.verbosity,
        format: line.format,
        brand: line.brand.clone(),
        cpu_here: line.cpu_here,
        cpu_there: line.cpu_there,
        here: end(0, line.cores.0, line.services.0, line.ports.0),
        there: end(1, line.cores.1, line.services.1, line.ports.1),
        sizes: line.sizes,
        burst: line.burst,
        nodelay: line.nodelay,
        confidence,
        command: format!("netperf {}", words.join(" ")),
        id: line.uuid.clone().unwrap_or_else(|| linerate_runner::client::stamp().0),
        ..Options::default()
    }
}

/// One test, on standard output as far as it shows while it runs.
struct Face<'a> {
    line: &'a Line,
    options: &'a Options,
    block: u32,
    stop: signals::Stop,
    /// The banner is still to come.
    first: bool,
    /// When data began, in seconds since 1970.
    began_s: f64,
    shown: usize,
    start: Option<Box<Start>>,
    figures: Option<Figures>,
}

impl<'a> Face<'a> {
    fn new(
        line: &'a Line,
        options: &'a Options,
        request: &Request,
        stop: &signals::Stop,
        first: bool,
    ) -> Self {
        let block = match &request.plan.traffic {
            linerate_model::plan::Traffic::Udp(udp) => u32::from(udp.size.bytes()),
            linerate_model::plan::Traffic::Tcp(tcp) => tcp.block,
            linerate_model::plan::Traffic::Rr(rr) => rr.request,
        };
        Self {
            line,
            options,
            block,
            stop: stop.clone(),
            first,
            began_s: 0.0,
            shown: 0,
            start: None,
            figures: None,
        }
    }

    fn run(mut self, request: &Request, stop: &signals::Stop) -> (RunRecord, Option<Figures>) {
        let record = linerate_runner::run(request, &mut self, stop);
        (record, self.figures)
    }

    fn print(&self, text: &str) {
        if !self.line.json && write(text).is_err() {
            // Without a reader the test has no purpose.
            self.stop.now();
        }
    }
}

impl Observer for Face<'_> {
    fn event(&mut self, event: &TestEvent) {
        let TestEvent::Start(start) = event else { return };
        self.began_s = clock::wall().as_microsecond() as f64 / 1e6;
        if std::mem::take(&mut self.first) {
            let options = Options { v6: start.control.peer.is_ipv6(), ..self.options.clone() };
            self.print(&banner(&options));
        }
        self.start = Some(start.clone());
    }

    fn interval(&mut self, interval: &Interval) {
        if self.line.interim_s.is_none() {
            return;
        }
        let figures = &interval.figures;
        let sent = figures.sender.as_ref().map(|sender| sender.bytes);
        let received = figures.receiver.as_ref().map(|receiver| receiver.bytes);
        let bytes = match self.line.way {
            ask::Way::Sends => sent,
            ask::Way::Receives => received,
            ask::Way::Asks => None,
        };
        let transactions = figures.rr.as_ref().map_or(0, |rr| rr.transactions);
        let (request, response) = self.line.sizes.unwrap_or_default();
        let both = transactions.saturating_mul(u64::from(request) + u64::from(response));
        let row = Interim {
            bytes: bytes.unwrap_or(both) as f64,
            transactions: transactions as f64,
            seconds: interval.end_s - interval.start_s,
            at_s: self.began_s + interval.end_s,
        };
        self.print(&interim(self.options, self.shown, &row));
        self.shown += 1;
    }

    fn said(&mut self, said: &Said<'_>) {
        // Without the server's totals there is no result of what this end sends: what is unknown is not 0. What it
        // received or was answered it knows itself.
        if said.results.is_some() || self.line.way != ask::Way::Sends {
            self.figures = Some(figures::of(self.line, self.block, self.start.as_deref(), said));
        }
    }
}

/// The figures, and why they are not of the whole test; or why there are none.
fn outcome(
    line: &Line,
    record: &RunRecord,
    figures: Option<Figures>,
) -> Result<(Figures, Result<(), Failed>), Failed> {
    match (&record.error, figures) {
        (None, Some(figures)) => Ok((figures, Ok(()))),
        // What was measured until then is shown.
        (Some(error), Some(figures)) if error.kind == ErrorKind::Interrupted => {
            Ok((figures, Ok(())))
        }
        // Each transaction was whole, whatever became of the next.
        (Some(error), Some(figures)) if figures.transactions > 0.0 => {
            Ok((figures, Err(failed(line, error))))
        }
        (Some(error), _) => Err(failed(line, error)),
        (None, None) => Err(Failed(1, "netperf: nothing was measured\n".into())),
    }
}

fn failed(line: &Line, error: &ErrorRecord) -> Failed {
    let (host, port) = (&line.host, line.port);
    let why = format!("{}: {}", error.what, error.why);
    match error.kind {
        ErrorKind::Refused
        | ErrorKind::NoRoute
        | ErrorKind::NoPermission
        | ErrorKind::Reset
        | ErrorKind::TimedOut
        | ErrorKind::Connect => Failed(
            UNBEGUN,
            format!(
                "establish control: are you sure there is a netserver listening on {host} at port {port}?\n\
                 establish_control could not establish the control connection: {why}\n"
            ),
        ),
        ErrorKind::NoAddress | ErrorKind::UnknownHost => {
            Failed(UNBEGUN, format!("{why}\nNetperf could not resolve {host} as a host name\n"))
        }
        _ => Failed(1, format!("netperf: {why}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_the_wait_before_a_test() {
        let stop = signals::Stop::default();
        stop.now();
        wait(u64::MAX, &stop);
    }
}
