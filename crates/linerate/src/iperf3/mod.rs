//! `linerate iperf3`, and linerate under the name `iperf3`: its command line, its output, its exit
//! codes. The client runs linerate's test against any iperf3 server; the server is linerate's, with
//! iperf3's screen.

mod client;
mod screen;
mod server;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write, stderr, stdout};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use linerate_ask::iperf3::{Line, Stop, parse};
use linerate_model::record::{ErrorKind as Kind, ErrorRecord};
use linerate_report::iperf3::{Format, Options, RELEASE};
use linerate_runner::clock;

use crate::face::{self, said};

/// Runs the command; `args` are what follows its name.
pub fn run(args: Vec<OsString>) -> ExitCode {
    let words = face::words(args);
    let line = match parse(&words) {
        Ok(line) => line,
        Err(stop) => return reported_why(&stop),
    };
    for note in &line.notes {
        let _ = writeln!(stderr(), "iperf3: note - {note}");
    }
    let out = match Out::open(&line) {
        Ok(out) => out,
        Err(e) => return fail(&format!("unable to open log file: {e}")),
    };
    if line.host.is_none() && line.daemon {
        // Before any thread exists; the folder stays, so that relative names keep their meaning.
        if let Err(e) = crate::face::daemon(out.is_file) {
            return fail(&format!("unable to become a daemon: {e}"));
        }
    }
    let pidfile = match write_pid(&line) {
        Ok(file) => file,
        Err(e) => return fail(&format!("unable to write PID file: {e}")),
    };
    let out = Arc::new(Mutex::new(out));
    let done = match line.host {
        Some(_) => client::run(&line, &mut out.lock().unwrap_or_else(PoisonError::into_inner)),
        None => server::run(&line, &out),
    };
    if let Some(path) = pidfile {
        let _ = std::fs::remove_file(path);
    }
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            // A server's log may still be held by whoever does not read it.
            if let (Some(text), Ok(mut out)) = (text, out.try_lock()) {
                out.error(&text);
            }
            ExitCode::FAILURE
        }
    }
}

/// Nothing is said, or one line.
type Done = Result<(), Option<String>>;

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(stderr(), "iperf3: error - {text}");
    ExitCode::FAILURE
}

fn reported_why(stop: &Stop) -> ExitCode {
    let _ = match stop {
        Stop::Help => return said(&linerate_ask::help::iperf3()),
        Stop::Version => {
            let features = "Optional features available: CPU affinity setting, TCP congestion algorithm setting, sendfile / zerocopy, socket pacing";
            return said(&format!("{}\n{}\n{features}\n", version(), system()));
        }
        Stop::Parameter(text) => writeln!(
            stderr(),
            "iperf3: parameter error - {text}\n\nUsage: iperf3 [-s|-c host] [options]\n       iperf3 [-h|--help] [-v|--version]"
        ),
        Stop::Unknown(text) => writeln!(
            stderr(),
            "iperf3: {text}\nUsage: iperf3 [-s|-c host] [options]\n       iperf3 [-h|--help] [-v|--version]"
        ),
        Stop::Refused(text) => writeln!(stderr(), "iperf3: parameter error - {text}"),
    };
    ExitCode::FAILURE
}

/// The release whose output this is, and whose program prints it.
fn version() -> String {
    format!("iperf {RELEASE} (linerate {})", env!("CARGO_PKG_VERSION"))
}

/// The fields of uname(2).
fn system() -> String {
    let field = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        text.unwrap_or_default().trim().to_owned()
    };
    format!(
        "{} {} {} {} {}",
        field("ostype"),
        field("hostname"),
        field("osrelease"),
        field("version"),
        std::env::consts::ARCH
    )
}

fn options(line: &Line) -> Options {
    Options {
        host: line.host.clone().unwrap_or_default(),
        port: line.port,
        verbose: line.verbose,
        format: line.format.and_then(Format::from_letter).unwrap_or_default(),
        version: version(),
        system: system(),
    }
}

fn write_pid(line: &Line) -> io::Result<Option<&std::path::Path>> {
    let Some(path) = line.pidfile.as_deref() else { return Ok(None) };
    std::fs::write(path, format!("{}\n", std::process::id()))?;
    Ok(Some(path))
}

/// Where output goes, with what each line begins with.
struct Out {
    file: Box<dyn Write + Send>,
    is_file: bool,
    timestamps: Option<String>,
    title: Option<String>,
    json: bool,
    /// Nobody reads any more.
    closed: bool,
}

impl Out {
    fn open(line: &Line) -> io::Result<Self> {
        let file: Box<dyn Write + Send> = match &line.logfile {
            Some(path) => Box::new(open_log(path)?),
            None => Box::new(stdout()),
        };
        Ok(Self {
            file,
            is_file: line.logfile.is_some(),
            timestamps: line.timestamps.clone().filter(|_| !line.json),
            title: line.title.clone().filter(|_| !line.json),
            json: line.json,
            closed: false,
        })
    }

    /// Whole lines of text output, or JSON as it stands.
    fn write(&mut self, text: &str) {
        if self.closed || text.is_empty() {
            return;
        }
        let written = if self.timestamps.is_none() && self.title.is_none() {
            self.file.write_all(text.as_bytes())
        } else {
            let prefix = self.prefix();
            let lines: String = text.lines().map(|line| format!("{prefix}{line}\n")).collect();
            self.file.write_all(lines.as_bytes())
        };
        self.closed = written.and_then(|()| self.file.flush()).is_err();
    }

    fn prefix(&self) -> String {
        let time = self.timestamps.as_ref().map(|pattern| {
            let now = clock::local_date();
            // iperf3's pattern is the C library's; what jiff does not know stays as it is.
            let pattern = pattern.replace("%c", "%a %b %e %H:%M:%S %Y");
            jiff::fmt::strtime::format(&pattern, &now).unwrap_or(pattern)
        });
        let title = self.title.as_ref().map(|title| format!("{title}:  "));
        format!("{}{}", time.unwrap_or_default(), title.unwrap_or_default())
    }

    /// One line for standard error, or the log. In JSON it is a member of the document.
    fn error(&mut self, text: &str) {
        if self.json {
            return;
        }
        let line = format!("{}\n", linerate_report::clean::clean(text));
        if self.is_file {
            self.write(&line);
        } else {
            let _ = stderr().write_all(line.as_bytes());
        }
    }
}

fn open_log(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// RFC 1123 in Greenwich's time, and seconds since 1970.
fn now() -> (String, i64) {
    let now = clock::wall();
    (now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(), now.as_second())
}

/// A failure in iperf3's words, where it has any.
fn words(error: &ErrorRecord) -> String {
    // The system's own words, without the number that Rust adds.
    let why = error.why.split(" (os error").next().unwrap_or(&error.why);
    match error.kind {
        Kind::Busy => "the server is busy running a test. try again later".to_owned(),
        Kind::Refused
        | Kind::NoRoute
        | Kind::NoPermission
        | Kind::TimedOut
        | Kind::Reset
        | Kind::Connect
        | Kind::Bind
        | Kind::NoAddress => format!("unable to connect to server: {why}"),
        Kind::UnknownHost => {
            let why = why.strip_prefix("failed to lookup address information: ").unwrap_or(why);
            format!("unable to connect to server: {why}")
        }
        _ => format!("{}: {why}", error.what),
    }
}
