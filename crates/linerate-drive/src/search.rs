//! A search: asks the controller for the next trial, runs it, writes it down.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use linerate_ask::search::SearchArgs;
use linerate_ask::target::{Speak, Where};
use linerate_ask::{Asked, usage};
use linerate_experiment::doubts;
use linerate_experiment::search::log::{Entry, FORMAT, Facts, Head, Line, Log, read};
use linerate_experiment::search::repeat::Repeated;
use linerate_experiment::search::{Ending, Next};
use linerate_experiment::trial::Trial;
use linerate_model::clean::{clean_json, shell_word};
use linerate_model::plan::IpVersion;
use linerate_model::record::{
    ErrorKind as Kind, ErrorRecord, Limit, ProgramFacts, RunRecord, Status,
};
use linerate_model::search::{GoalRecord, SearchDocument, TrialPurpose, TrialRecord};
use linerate_runner::client::{Request, Target, stamp};

use crate::keep::alone;
use crate::trial::{self, Variation};
use crate::{Clock, Env};

/// A log larger than this is none.
const MOST_LOG_BYTES: u64 = 1 << 30;

/// How a search goes.
#[derive(Debug)]
pub enum Event<'a> {
    /// For the user, before anything is sent.
    Note(&'a str),
    /// It starts or goes on; the trials of its log follow as [`Event::Ended`].
    Started,
    /// A trial begins.
    Trial {
        /// The search so far.
        search: &'a Repeated,
        /// Number of the trial, from 1.
        number: usize,
        /// What is tried.
        trial: &'a Trial,
        /// What for.
        purpose: TrialPurpose,
    },
    /// It is over.
    Ended {
        /// Number of the trial, from 1.
        number: usize,
        /// What came of it.
        trial: &'a TrialRecord,
    },
}

/// A search on its way.
pub struct Search {
    search: Repeated,
    /// What its trials are variants of; a search that is only gone through again has none.
    request: Option<Request>,
    notes: Vec<String>,
    log: Option<(PathBuf, File)>,
    head: Head,
    facts: Facts,
    entries: Vec<Entry>,
}

impl Search {
    /// What is asked for by `command`: a search of its own, one that goes on, or one that is gone through again.
    ///
    /// # Errors
    /// What makes no sense, and a log that cannot be read or written.
    pub fn new(
        args: &SearchArgs,
        command: Vec<String>,
        clock: &dyn Clock,
    ) -> Result<Self, ErrorRecord> {
        if let Some(path) = &args.replay {
            let (log, search) = replayed(path)?;
            return Ok(Self::of_log(log, search));
        }
        if let Some(path) = &args.resume {
            let opened = OpenOptions::new().write(true).open(path);
            // Before it is read: another process would write between.
            opened.as_ref().map_or(Ok(()), |file| alone(file, cannot_write(path)))?;
            let (log, mut search) = replayed(path)?;
            if let Some(most) = args.max_time {
                search.set_max_time(Some(most));
            }
            let request = Some(request_of(&log.head, args)?);
            let file = opened.and_then(|file| go_on(file, &log, clock.date()));
            let file = file.map_err(|e| unwritable(path, &e))?;
            let log_file = Some((path.clone(), file));
            return Ok(Self { request, log: log_file, ..Self::of_log(log, search) });
        }
        Self::start(args, command)
    }

    fn of_log(log: Log, search: Repeated) -> Self {
        let Log { head, facts, entries, .. } = log;
        Self { search, request: None, notes: Vec::new(), log: None, head, facts, entries }
    }

    fn start(args: &SearchArgs, command: Vec<String>) -> Result<Self, ErrorRecord> {
        let (settings, Asked { request, notes, .. }) = args.asked()?;
        let request = Request { command, ..request };
        let (id, started) = stamp();
        let target = match &request.target {
            Target::Host { name, port } | Target::Discard { name, port } => {
                Some((name.clone(), *port))
            }
            Target::Local => None,
        };
        let head = Head {
            format: FORMAT,
            id,
            started,
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
                alone(&file, cannot_write(path))?;
                put(&mut file, &Line::Search(Box::new(head.clone())))
                    .map_err(|e| unwritable(path, &e))?;
                Some((path.clone(), file))
            }
        };
        let search = Repeated::new(settings, args.repeat);
        let (facts, entries) = (Facts::default(), Vec::new());
        Ok(Self { search, request: Some(request), notes, log, head, facts, entries })
    }

    /// To its end, or to where it must stop; the document's error says why that is not the end.
    pub fn run(mut self, env: &mut Env<'_>) -> SearchDocument {
        for note in &self.notes {
            env.watcher.search(&Event::Note(note));
        }
        env.watcher.search(&Event::Started);
        for (number, trial) in (1..).zip(&self.search.trials()) {
            env.watcher.search(&Event::Ended { number, trial });
        }
        let error = match self.request.take() {
            None => self.ending(),
            Some(request) => self.trials(&request, env),
        };
        self.document(error)
    }

    /// Runs what is to be tried; what keeps the search from being complete.
    fn trials(&mut self, request: &Request, env: &mut Env<'_>) -> Option<ErrorRecord> {
        loop {
            let (trial, purpose) = match self.search.next() {
                Next::Done(ending) => return self.trouble(ending),
                Next::Run { trial, purpose, .. } => (trial, purpose),
            };
            if env.stop.seen() {
                return Some(interrupted());
            }
            env.watcher.search(&Event::Trial {
                search: &self.search,
                number: self.entries.len() + 1,
                trial: &trial,
                purpose,
            });
            match trial::run(env, request, &trial, Variation::default()) {
                Ok((record, outcome)) => {
                    let doubts = record.doubts.clone();
                    if let Err(error) =
                        self.take(Entry { purpose, trial, outcome, doubts }, &record)
                    {
                        return Some(error);
                    }
                    if let Some(trial) = self.search.trials().last() {
                        let number = self.entries.len();
                        env.watcher.search(&Event::Ended { number, trial });
                    }
                }
                Err(error) if error.kind == Kind::Interrupted => return Some(interrupted()),
                Err(error) => return Some(self.lost(*error)),
            }
        }
    }

    /// What is wrong with the end of a log.
    fn ending(&mut self) -> Option<ErrorRecord> {
        match self.search.next() {
            Next::Done(ending) => self.trouble(ending),
            Next::Run { .. } => Some(self.unfinished()),
        }
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
        if let Some((path, file)) = &mut self.log {
            for line in &lines {
                put(file, line).map_err(|e| unwritable(path, &e))?;
            }
        }
        Ok(())
    }

    /// What keeps a search from being complete although it has ended by itself.
    fn trouble(&self, ending: Ending) -> Option<ErrorRecord> {
        let reason = || {
            let goals = self.search.goals();
            goals.first().and_then(|g| g.irregular.clone()).unwrap_or_default()
        };
        match ending {
            Ending::Settled => None,
            Ending::OutOfTime => Some(ErrorRecord::new(
                Kind::OutOfTime,
                "the time allowed was over before the search was",
                format!(
                    "{:.1} s were spent, and the next trial would have passed --max-time",
                    self.search.seconds()
                ),
                &["a longer --max-time", "--preset quick needs less time"],
            )),
            Ending::GeneratorTooSlow => Some(ErrorRecord::new(
                Kind::Generator,
                "the sender does not reach the least rate that was to be tried",
                reason(),
                &["a lower --min", "what limits the sender: linerate udp HOST --rate max"],
            )),
            Ending::NoValidTrial => Some(ErrorRecord::new(
                Kind::Invalid,
                "the first trial said nothing, however often it was made",
                reason(),
                &["end other work on both hosts"],
            )),
        }
    }

    fn unfinished(&self) -> ErrorRecord {
        ErrorRecord::new(
            Kind::Unfinished,
            "the log ends before the search does",
            "it was interrupted or lost its server",
            &["go on with it: linerate search --resume FILE"],
        )
    }

    /// The same error, with the way to go on.
    fn lost(&self, mut error: ErrorRecord) -> ErrorRecord {
        if let Some((path, _)) = &self.log {
            let path = shell_word(&path.to_string_lossy());
            error.hints.push(format!("go on later: linerate search --resume {path}"));
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
            doubts: doubts::summed(self.entries.iter().map(|entry| entry.doubts.as_slice())),
            status,
            error,
        }
    }
}

fn put(file: &mut File, line: &Line) -> io::Result<()> {
    file.write_all(clean_json(&line.text()).as_bytes())?;
    file.flush()
}

fn unwritable(path: &Path, why: &io::Error) -> ErrorRecord {
    let place = shell_word(&path.to_string_lossy());
    let hints = match why.kind() {
        ErrorKind::AlreadyExists => vec![
            format!("go on with it: linerate search --resume {place}"),
            "choose another file".to_owned(),
        ],
        _ => Vec::new(),
    };
    ErrorRecord::new(Kind::Output, cannot_write(path), why.to_string(), &[]).with_hints(hints)
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the log `{}`", path.display())
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
    let mut search = Search::of_log(log, search);
    let error = search.ending();
    Ok(search.document(error))
}

/// The log behind its last whole line.
fn go_on(mut file: File, log: &Log, date: String) -> io::Result<File> {
    file.set_len(log.whole as u64)?;
    io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
    put(&mut file, &Line::Resumed { at: date })?;
    Ok(file)
}

/// The test that a log's trials are variants of.
fn request_of(head: &Head, args: &SearchArgs) -> Result<Request, ErrorRecord> {
    head.plan.check().map_err(|found| usage::out_of_range(&found))?;
    let host = head.target.as_ref();
    let place = Where {
        host: host.map(|(name, _)| name.clone()),
        local: host.is_none(),
        port: host.map(|(_, port)| *port).or(args.trials.place.port),
        ipv4: head.ip == Some(IpVersion::V4),
        ipv6: head.ip == Some(IpVersion::V6),
        bind: head.bind,
        // The file may have moved since.
        key_file: args.trials.place.key_file.clone().or_else(|| head.key_file.clone()),
        dialect: Speak(head.dialect),
    };
    let found = place.find("search", false)?;
    Ok(Request {
        size_from_mtu: head.size_from_mtu,
        ip: found.ip,
        bind: found.bind,
        key: found.key,
        command: head.command.clone(),
        dialect: found.dialect,
        ..Request::new(found.target, head.plan.clone())
    })
}

fn interrupted() -> ErrorRecord {
    ErrorRecord::new(Kind::Interrupted, "the search was interrupted", "SIGINT or SIGTERM", &[])
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
    let nearest = entries
        .iter()
        .filter(|entry| entry.outcome.limit == Some(limit))
        .min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let given = nearest.map_or(&[][..], |entry| &entry.outcome.advice);
    let other_test = |a: &str| ["--rate ", "tcp", "udp"].iter().any(|start| a.starts_with(start));
    let mut advice: Vec<_> = given.iter().filter(|a| !other_test(a)).cloned().collect();
    if limit == Limit::Path && advice.is_empty() {
        advice.push("--reverse: whether the other direction has the same limit".to_owned());
    }
    advice
}
