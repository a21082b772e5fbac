//! Runs a search: asks the controller for the next trial, runs it, writes it down.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::path::Path;

use linerate_experiment::doubts;
use linerate_experiment::search::log::{Entry, FORMAT, Facts, Head, Line, Log, read};
use linerate_experiment::search::repeat::Repeated;
use linerate_experiment::search::{Ending, Next};
use linerate_experiment::trial::Trial;
use linerate_model::lines::SearchLine;
use linerate_model::plan::{Dialect, IpVersion};
use linerate_model::record::{ErrorRecord, Limit, ProgramFacts, RunRecord, Status};
use linerate_model::search::{GoalRecord, SearchDocument, TrialPurpose, TrialRecord};
use linerate_report::clean::clean_json;
use linerate_report::live::Live;
use linerate_report::run::json;
use linerate_report::{error, number, search as text};
use linerate_runner::client::{Request, Target};
use linerate_runner::signals::Interrupts;

use crate::args::search::SearchArgs;
use crate::args::target::{Speak, Where};
use crate::args::{Asked, Color};
use crate::exit::Exit;
use crate::keep::SavedFile;
use crate::output::{self, Output};
use crate::status::StatusLine;
use crate::{trial, usage};

/// A log larger than this is none.
const MOST_LOG_BYTES: u64 = 1 << 30;

/// `linerate search`.
pub fn run(args: &SearchArgs, color: Color) -> Result<Exit, ErrorRecord> {
    let screen = Screen::new(args.output.into(), color);
    let saved = args.save.as_deref().map(SavedFile::new).transpose()?;
    if let Some(path) = &args.replay {
        let (log, search) = replayed(path)?;
        return Work {
            search,
            log: None,
            head: log.head,
            facts: log.facts,
            entries: log.entries,
            screen,
            saved,
        }
        .replay();
    }
    if let Some(path) = &args.resume {
        let (log, mut search) = replayed(path)?;
        if let Some(most) = args.max_time {
            search.set_max_time(Some(most));
        }
        let request = request_of(&log.head, args)?;
        let file = go_on(path, &log).map_err(|e| unwritable(path, &e))?;
        return Work {
            search,
            log: Some((path.clone(), file)),
            head: log.head,
            facts: log.facts,
            entries: log.entries,
            screen,
            saved,
        }
        .run(&request);
    }
    let (settings, Asked { request, notes, .. }) = args.asked()?;
    let now = jiff::Timestamp::now();
    let target = match &request.target {
        Target::Host { name, port } | Target::Discard { name, port } => Some((name.clone(), *port)),
        Target::Local => None,
    };
    let head = Head {
        format: FORMAT,
        id: format!("{:012x}-{:08x}", now.as_millisecond(), std::process::id()),
        started: now.to_string(),
        command: request.command.clone(),
        target,
        label: request.label.clone(),
        title: request.title.clone(),
        ip: request.ip,
        bind: request.bind,
        dialect: request.dialect,
        key_file: args.trials.place.key_file.clone(),
        plan: request.plan.clone(),
        size_from_mtu: request.size_from_mtu,
        settings: settings.clone(),
        repeats: args.repeat,
    };
    let log = match &args.log {
        None => None,
        // An older log is somebody's measurements.
        Some(path) => {
            let made = OpenOptions::new().write(true).create_new(true).open(path);
            let mut file = made.map_err(|e| unwritable(path, &e))?;
            put(&mut file, &Line::Search(Box::new(head.clone())))
                .map_err(|e| unwritable(path, &e))?;
            Some((path.clone(), file))
        }
    };
    for note in &notes {
        screen.note(note);
    }
    let search = Repeated::new(settings, args.repeat);
    Work { search, log, head, facts: Facts::default(), entries: Vec::new(), screen, saved }
        .run(&request)
}

fn put(file: &mut File, line: &Line) -> io::Result<()> {
    file.write_all(clean_json(&line.text()).as_bytes())?;
    file.flush()
}

fn unwritable(path: &Path, why: &io::Error) -> ErrorRecord {
    let hints = match why.kind() {
        ErrorKind::AlreadyExists => vec![
            format!("go on with it: linerate search --resume {}", path.display()),
            "choose another file".to_owned(),
        ],
        _ => Vec::new(),
    };
    ErrorRecord {
        kind: "output".into(),
        what: format!("cannot write the log `{}`", path.display()),
        why: why.to_string(),
        hints,
        exit_code: Exit::Failed as u8,
    }
}

fn replayed(path: &Path) -> Result<(Log, Repeated), ErrorRecord> {
    let what = || format!("cannot use the log `{}`", path.display());
    let fault = |why: String| {
        usage::error(what(), why, &["it is written by: linerate search HOST --log FILE"])
    };
    let size = std::fs::metadata(path).map_err(|e| fault(e.to_string()))?.len();
    if size > MOST_LOG_BYTES {
        return Err(fault(format!("it has {size} bytes, and no log of a search is so long")));
    }
    let bytes = std::fs::read(path).map_err(|e| fault(e.to_string()))?;
    let log = read(&bytes).map_err(|e| fault(e.to_string()))?;
    let search = log.replay().map_err(|e| fault(e.to_string()))?;
    Ok((log, search))
}

/// Whether bytes begin like the log of a search.
pub fn is_log(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{\"event\":\"search\"")
}

/// What a log holds, as the document that the search would have printed had it ended there.
///
/// # Errors
/// A sentence on why it is no log that this version can go through.
pub fn document_of(bytes: &[u8]) -> Result<SearchDocument, String> {
    let log = read(bytes).map_err(|e| e.to_string())?;
    let search = log.replay().map_err(|e| e.to_string())?;
    let screen = Screen::new(Output::Json, Color::Never);
    let Log { head, facts, entries, .. } = log;
    let mut work = Work { search, log: None, head, facts, entries, screen, saved: None };
    let error = work.ending();
    Ok(work.document(error))
}

/// Opens the log behind its last whole line.
fn go_on(path: &Path, log: &Log) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.set_len(log.whole as u64)?;
    io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
    put(&mut file, &Line::Resumed { at: jiff::Timestamp::now().to_string() })?;
    Ok(file)
}

/// The test that a log's trials are variants of.
fn request_of(head: &Head, args: &SearchArgs) -> Result<Request, ErrorRecord> {
    head.plan.check().map_err(|found| usage::out_of_range(&found))?;
    let host = head.target.as_ref();
    let place = Where {
        host: host.map(|(name, _)| name.clone()),
        local: host.is_none(),
        port: host.map_or(args.trials.place.port, |(_, port)| *port),
        ipv4: head.ip == Some(IpVersion::V4),
        ipv6: head.ip == Some(IpVersion::V6),
        bind: head.bind,
        // The file may have moved since.
        key_file: args.trials.place.key_file.clone().or_else(|| head.key_file.clone()),
        dialect: match head.dialect {
            None => Speak::Auto,
            Some(Dialect::Native) => Speak::Native,
            Some(Dialect::Iperf3) => Speak::Iperf3,
        },
    };
    let found = place.find("search", false)?;
    Ok(Request {
        target: found.target,
        plan: head.plan.clone(),
        size_from_mtu: head.size_from_mtu,
        ip: found.ip,
        bind: found.bind,
        key: found.key,
        command: head.command.clone(),
        label: None,
        title: None,
        dialect: found.dialect,
        iperf3: Default::default(),
    })
}

/// A search at work.
struct Work {
    search: Repeated,
    log: Option<(std::path::PathBuf, File)>,
    head: Head,
    facts: Facts,
    entries: Vec<Entry>,
    screen: Screen,
    saved: Option<SavedFile>,
}

impl Work {
    /// Shows what a log holds.
    fn replay(mut self) -> Result<Exit, ErrorRecord> {
        self.show_known();
        let error = self.ending();
        self.end(error)
    }

    /// What is wrong with the end of a log.
    fn ending(&mut self) -> Option<ErrorRecord> {
        match self.search.next() {
            Next::Done(ending) => self.trouble(ending),
            Next::Run { .. } => Some(self.unfinished()),
        }
    }

    fn run(mut self, request: &Request) -> Result<Exit, ErrorRecord> {
        let interrupts = Interrupts::watch().map_err(|e| ErrorRecord {
            kind: "unable".into(),
            what: "cannot listen for Ctrl-C".into(),
            why: e.to_string(),
            hints: Vec::new(),
            exit_code: Exit::Failed as u8,
        })?;
        self.show_known();
        let error = loop {
            if self.screen.closed() {
                break None;
            }
            let planned = match self.search.next() {
                Next::Done(ending) => break self.trouble(ending),
                Next::Run { trial, purpose, .. } => (trial, purpose),
            };
            if interrupts.seen() {
                break Some(interrupted());
            }
            self.screen.begin(&self.search, self.entries.len(), &planned);
            let ran = {
                let mut status = &self.screen.status;
                trial::run(request, &planned.0, trial::Variation::default(), &mut status)
            };
            match ran {
                Ok((record, outcome)) => {
                    let entry = Entry {
                        purpose: planned.1,
                        trial: planned.0,
                        outcome,
                        doubts: record.doubts.clone(),
                    };
                    if let Err(error) = self.take(entry, &record) {
                        break Some(error);
                    }
                }
                Err(error) if error.kind == "interrupted" => break Some(interrupted()),
                Err(error) => break Some(self.lost(*error)),
            }
        };
        self.end(error)
    }

    fn take(&mut self, entry: Entry, record: &RunRecord) -> Result<(), ErrorRecord> {
        let mut lines = Vec::new();
        if self.facts == Facts::default() {
            let plan = record.agreed.clone().unwrap_or_else(|| record.asked.clone());
            self.facts = Facts {
                plan: Some(plan),
                client: Some(record.client.clone()),
                server: record.server.clone(),
            };
            lines.push(Line::Facts(Box::new(self.facts.clone())));
        }
        lines.push(Line::Trial(Box::new(entry.clone())));
        self.search.take(entry.outcome.clone());
        self.entries.push(entry);
        if let Some(trial) = self.search.trials().last() {
            self.screen.trial(self.entries.len(), trial);
        }
        if let Some((path, file)) = &mut self.log {
            for line in &lines {
                put(file, line).map_err(|e| unwritable(path, &e))?;
            }
        }
        Ok(())
    }

    /// The trials of the log.
    fn show_known(&mut self) {
        self.screen.head();
        for (number, trial) in (1..).zip(&self.search.trials()) {
            self.screen.trial(number, trial);
        }
    }

    /// What keeps a search from being complete although it has ended by itself.
    fn trouble(&self, ending: Ending) -> Option<ErrorRecord> {
        let failed = |kind: &str, what: &str, why: String, hints: &[&str]| ErrorRecord {
            kind: kind.into(),
            what: what.into(),
            why,
            hints: hints.iter().map(|h| (*h).to_owned()).collect(),
            exit_code: Exit::Failed as u8,
        };
        let reason = || {
            let goals = self.search.goals();
            goals.first().and_then(|g| g.irregular.clone()).unwrap_or_default()
        };
        match ending {
            Ending::Settled => None,
            Ending::OutOfTime => Some(failed(
                "out_of_time",
                "the time allowed was over before the search was",
                format!(
                    "{:.1} s were spent, and the next trial would have passed --max-time",
                    self.search.seconds()
                ),
                &["a longer --max-time", "--preset quick needs less time"],
            )),
            Ending::GeneratorTooSlow => Some(failed(
                "generator",
                "the sender does not reach the least rate that was to be tried",
                reason(),
                &["a lower --min", "what limits the sender: linerate udp HOST --rate max"],
            )),
            Ending::NoValidTrial => Some(failed(
                "invalid",
                "the first trial said nothing, however often it was made",
                reason(),
                &["end other work on both hosts"],
            )),
        }
    }

    fn unfinished(&self) -> ErrorRecord {
        ErrorRecord {
            kind: "unfinished".into(),
            what: "the log ends before the search does".into(),
            why: "it was interrupted or lost its server".into(),
            hints: vec!["go on with it: linerate search --resume FILE".into()],
            exit_code: Exit::Failed as u8,
        }
    }

    /// The same error, with the way to go on.
    fn lost(&self, mut error: ErrorRecord) -> ErrorRecord {
        if let Some((path, _)) = &self.log {
            error.hints.push(format!("go on later: linerate search --resume {}", path.display()));
        }
        error
    }

    fn document(&self, error: Option<ErrorRecord>) -> SearchDocument {
        let searches = self.search.searches();
        let settings = &self.head.settings;
        let goals = self.search.goals();
        let status = match &error {
            None => Status::Complete,
            Some(_) if self.entries.is_empty() => Status::Failed,
            Some(_) => Status::Partial,
        };
        SearchDocument {
            format: linerate_model::record::FORMAT,
            kind: "search".into(),
            id: self.head.id.clone(),
            started: self.head.started.clone(),
            linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
            command: self.head.command.clone(),
            target: self.head.target.as_ref().map(|(name, _)| name.clone()),
            label: self.head.label.clone(),
            title: self.head.title.clone(),
            plan: self.facts.plan.clone(),
            direction: settings.way,
            client: self.facts.client.clone(),
            server: self.facts.server.clone(),
            min_bps: settings.min.bits_per_second() as f64,
            max_bps: searches.first().and_then(|s| s.max_bps()),
            generator_bps: searches.iter().filter_map(|s| s.generator_bps()).reduce(f64::max),
            advice: advice(&goals, &self.entries),
            goals,
            repeats: self.search.each(),
            trials: self.search.trials(),
            seconds: self.search.seconds(),
            because: self.search.because(),
            doubts: doubts::told(self.entries.iter().map(|entry| entry.doubts.as_slice())),
            status,
            error,
        }
    }

    fn end(mut self, error: Option<ErrorRecord>) -> Result<Exit, ErrorRecord> {
        let document = self.document(error);
        self.screen.end(&document);
        if let Some(saved) = &self.saved {
            saved.keep(json::document(&document))?;
        }
        match self.screen.failure.take() {
            Some(why) => Err(ErrorRecord {
                kind: "output".into(),
                what: "cannot write the result to standard output".into(),
                why: why.to_string(),
                hints: Vec::new(),
                exit_code: Exit::Failed as u8,
            }),
            None if self.screen.closed => Ok(Exit::Complete),
            None => Ok(document.error.map_or(Exit::Complete, |e| Exit::from_code(e.exit_code))),
        }
    }
}

fn interrupted() -> ErrorRecord {
    ErrorRecord {
        kind: "interrupted".into(),
        what: "the search was interrupted".into(),
        why: "SIGINT or SIGTERM".into(),
        hints: Vec::new(),
        exit_code: Exit::Interrupted as u8,
    }
}

/// What to try against a goal's limit: what the verdict advised of the trial at the upper bound, for
/// only it saw which cores were idle and which buffers were granted. What is another test than a search's is left out.
fn advice(goals: &[GoalRecord], entries: &[Entry]) -> Vec<String> {
    let Some((limit, upper)) = goals.iter().find_map(|g| Some((g.limit?, g.upper_bps))) else {
        return Vec::new();
    };
    let distance = |entry: &&Entry| {
        let asked = entry.trial.rate.map(|r| r.bits_per_second() as f64);
        upper.zip(asked).map_or(f64::INFINITY, |(upper, asked)| (upper - asked).abs())
    };
    let told = entries
        .iter()
        .filter(|entry| entry.outcome.limit == Some(limit))
        .min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let told = told.map_or(&[][..], |entry| &entry.outcome.advice);
    let other_test = |a: &str| ["--rate ", "tcp", "udp"].iter().any(|start| a.starts_with(start));
    let mut advice: Vec<_> = told.iter().filter(|a| !other_test(a)).cloned().collect();
    if limit == Limit::Path && advice.is_empty() {
        advice.push("--reverse: whether the other direction has the same limit".to_owned());
    }
    advice
}

/// Shows a search in the form that was asked for.
struct Screen {
    output: Output,
    layout: linerate_report::run::text::Layout,
    side: linerate_report::style::Paint,
    status: StatusLine,
    closed: bool,
    failure: Option<io::Error>,
}

impl Screen {
    fn new(output: Output, color: Color) -> Self {
        Self {
            output,
            layout: output::layout(color),
            side: output::side_paint(color),
            status: StatusLine::new(),
            closed: false,
            failure: None,
        }
    }

    fn closed(&self) -> bool {
        self.closed
    }

    fn note(&self, note: &str) {
        let _ = writeln!(stderr(), "note: {note}");
    }

    /// Without a reader the search has no purpose.
    fn put(&mut self, text: &str) {
        if self.closed {
            return;
        }
        let write = || stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush());
        let written = self.status.above(write);
        if let Err(error) = written {
            self.closed = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.failure = Some(error);
            }
        }
    }

    fn head(&mut self) {
        if self.output == Output::Text {
            self.put(&text::head(self.layout.room.width, self.layout.paint));
        }
    }

    /// A trial begins after `done` others.
    fn begin(&self, search: &Repeated, done: usize, (trial, purpose): &(Trial, TrialPurpose)) {
        if !self.status.is_shown() {
            return;
        }
        let goals = search.searches().last().map(|s| s.goals()).unwrap_or_default();
        let rate =
            trial.rate.map_or("max".to_owned(), |r| number::rate(r.bits_per_second() as f64));
        let what = match purpose {
            TrialPurpose::WarmUp => "warm-up".to_owned(),
            _ => rate,
        };
        self.status.begin(Live {
            unit: "trial",
            number: done + 1,
            what,
            length_s: Some(trial.time.as_secs_f64()),
            bounds: text::bounds(&goals),
            left_s: Some(search.left_s()),
            ..Live::default()
        });
    }

    fn trial(&mut self, number: usize, trial: &TrialRecord) {
        match self.output {
            Output::Text => {
                let layout = self.layout;
                self.put(&text::row(number, trial, layout.room.width, layout.paint));
            }
            Output::Json => {}
            Output::JsonLines => {
                let line = json::line(&SearchLine::Trial { trial });
                self.put(&line.unwrap_or_default());
            }
        }
    }

    fn end(&mut self, document: &SearchDocument) {
        self.status.clear();
        let shown = match self.output {
            Output::Text => {
                format!("\n{}", text::end(document, self.layout.room.width, self.layout.paint))
            }
            Output::Json => json::document(document).unwrap_or_default(),
            Output::JsonLines => {
                let line = json::line(&SearchLine::End { search: Some(document), error: None });
                line.unwrap_or_default()
            }
        };
        self.put(&shown);
        if let Some(found) = &document.error
            && !self.closed
        {
            let _ = stderr().write_all(error::text(found, self.side).as_bytes());
        }
    }
}
