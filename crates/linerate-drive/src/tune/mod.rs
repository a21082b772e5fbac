//! A tuning: asks the controller for the next setting, measures it, and says which is best.

mod hand;
mod keep;
mod levels;
mod measure;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use linerate_analysis::metric::{self, Better};
use linerate_ask::tune::{Level, TuneArgs, TuneAsked};
use linerate_ask::{preset, usage};
use linerate_experiment::doubts;
use linerate_experiment::tune::space::Combination;
use linerate_experiment::tune::{Made, Measured, Settings, Tune};
use linerate_model::clean::shell_word;
use linerate_model::record::{ErrorRecord, FORMAT, PlanRecord, ProgramFacts, RunRecord, Status};
use linerate_model::setting::Setting;
use linerate_model::tune::{Objective, Purpose, Reason, TuneDocument, TuneFactor, TuneTrial};
use linerate_runner::agent::DeviceChoice;
use linerate_runner::client::Request;

use crate::doctor::TakeOver;
use crate::doctor::prove::not_back;
use crate::keep::{GrowingFile, SavedFile};
use crate::{Env, sweep, trial};
use hand::Hand;
use levels::{Factor, Ground};
use measure::{Measure, NotHad, Seen, loses_more, not_had};

/// How a tuning goes.
#[derive(Debug)]
pub enum Event<'a> {
    /// What the user should know.
    Note(&'a str),
    /// The factors and their levels are known.
    Started(&'a TuneDocument),
    /// A trial begins: its number from 1, what for, and what differs from the default.
    Trial(usize, Purpose, &'a str),
    /// It is over: the last of the document's trials.
    Ended(&'a TuneDocument, &'a str),
}

/// A tuning on its way.
pub struct Course {
    asked: TuneAsked,
    measure: Measure,
    factors: Vec<Factor>,
    document: TuneDocument,
    /// Where the profile and the document are kept.
    profile: Option<SavedFile>,
    saved: Option<GrowingFile>,
    /// What came before, where it goes on.
    earlier: Option<Earlier>,
    /// That the document cannot be kept was said.
    said_unkept: bool,
    /// Largest payload that is known to fit into a frame, bytes.
    fits: Option<u32>,
    /// Shares that the default lost, run by run.
    lost: Vec<f64>,
    /// Options of the best setting.
    best: Vec<(String, String)>,
}

/// What an earlier tuning left in its file.
struct Earlier {
    path: PathBuf,
    /// Its factors, with the levels that its trials are of.
    factors: Vec<TuneFactor>,
    trials: Vec<TuneTrial>,
}

/// Why a trial has no figure.
struct Fault {
    why: String,
    /// The levels that are why, by factor, where that is known.
    levels: Option<Vec<(usize, usize)>>,
    /// It is not the combination's doing.
    void: bool,
}

impl Course {
    /// What is asked for by `command`, or where an earlier tuning ended.
    ///
    /// # Errors
    /// What makes no sense, a profile or file that cannot be kept, and what cannot be resumed.
    pub fn new(args: &TuneArgs, command: Vec<String>) -> Result<Self, ErrorRecord> {
        if let Some(path) = &args.resume {
            return Self::resume(path);
        }
        let mut course = Self::begin(args, command)?;
        let saved = course.asked.test.save.as_deref();
        course.saved = saved.map(GrowingFile::new).transpose()?;
        Ok(course)
    }

    /// It goes on in the file that it is read from.
    fn resume(path: &Path) -> Result<Self, ErrorRecord> {
        let (document, args) = keep::read(path)?;
        let mut course = Self::begin(&args, document.command.clone())?;
        course.saved = Some(GrowingFile::own(path)?);
        let blank = course.document;
        course.document = TuneDocument {
            id: document.id,
            started: document.started,
            seed: document.seed,
            look_s: document.look_s,
            plan: document.plan,
            client: document.client,
            server: document.server,
            seconds: document.seconds,
            ..blank
        };
        let (factors, trials) = (document.factors, document.trials);
        course.earlier = Some(Earlier { path: path.to_owned(), factors, trials });
        Ok(course)
    }

    fn begin(args: &TuneArgs, command: Vec<String>) -> Result<Self, ErrorRecord> {
        let mut asked = args.asked()?;
        let Some(metric) = metric::find(asked.aim.metric) else {
            return Err(usage::error("cannot tune", "there is no such metric", &[]));
        };
        let profile =
            asked.test.request.profile.take().map(|name| profile_file(&name)).transpose()?;
        let request = &mut asked.test.request;
        request.command = command;
        let time = request.plan.duration().unwrap_or_default();
        let measure = Measure { metric, loss: asked.aim.loss, width: asked.width, time };
        let mut document = blank(&asked);
        document.objective = Objective {
            name: asked.aim.name.clone(),
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            better: metric.better.name().to_owned(),
            loss_at_most_ratio: asked.aim.loss,
        };
        document.profile = profile.as_ref().map(|file| file.path().display().to_string());
        Ok(Self {
            asked,
            measure,
            factors: Vec::new(),
            document,
            profile,
            saved: None,
            earlier: None,
            said_unkept: false,
            fits: None,
            lost: Vec::new(),
            best: Vec::new(),
        })
    }

    /// Seconds that are left for trials, before the first one of this process.
    pub fn left_s(&self) -> f64 {
        let trials = self.earlier.iter().flat_map(|earlier| &earlier.trials);
        let spent: f64 = trials.map(|trial| trial.took_s).sum();
        (self.asked.max_time.as_secs_f64() - spent).max(0.0)
    }

    /// To its end, or to where it must stop.
    ///
    /// # Errors
    /// Why nothing at all was measured.
    pub fn run(
        mut self,
        env: &mut Env<'_>,
        take_over: TakeOver<'_>,
    ) -> Result<TuneDocument, ErrorRecord> {
        let begun = env.clock.elapsed();
        for note in &self.asked.test.notes {
            env.watcher.tune(&Event::Note(note));
        }
        let mut hand = Hand { host: None, device: None, now: Some(Vec::new()) };
        if self.asked.settings {
            hand.host = Some(take_over()?);
        }
        let (look, took) = trial::whole(env, &self.request(&[])).map_err(|error| *error)?;
        hand.device = look.client.nic.as_ref().map(|nic| DeviceChoice::Named(nic.name.clone()));
        self.learn(&look);
        self.lost.extend(self.measure.lost(&look));
        let notes = self.choose(&look, &mut hand)?;
        for note in &notes {
            env.watcher.tune(&Event::Note(note));
        }
        let spent = env.clock.elapsed().saturating_sub(begun).as_secs_f64();
        let mut tune = self.controller(env, spent, took.as_secs_f64())?;
        let before_s = self.document.seconds;
        env.watcher.tune(&Event::Started(&self.document));
        let mut trouble = None;
        while let Some((combination, purpose)) = tune.next() {
            let (combination, purpose) = (combination.clone(), purpose);
            let done = match env.stop.seen() {
                true => Err(keep::interrupted()),
                false => self.trial(env, &mut tune, &combination, purpose, &mut hand),
            };
            let spent = env.clock.elapsed().saturating_sub(begun);
            self.document.seconds = before_s + spent.as_secs_f64();
            match done {
                Ok(()) => self.keep_so_far(env, &tune),
                Err(error) => {
                    tune.stop();
                    trouble = Some(error);
                }
            }
        }
        let left = hand.put_back();
        trouble = trouble.or_else(|| not_back(&left));
        let trials = &self.document.trials;
        trouble = trouble.or_else(|| tune.is_cut_short().then(|| keep::cut_short(trials)));
        self.document.left = left;
        let spent = env.clock.elapsed().saturating_sub(begun);
        self.document.seconds = before_s + spent.as_secs_f64();
        self.fill(&tune, trouble.map(|error| self.go_on_later(error)));
        self.keep();
        Ok(self.document)
    }

    /// The controller of these levels; of a tuning that goes on, after the trials that were made.
    fn controller(
        &mut self,
        env: &mut Env<'_>,
        spent_s: f64,
        trial_s: f64,
    ) -> Result<Tune, ErrorRecord> {
        let levels: Vec<usize> =
            self.factors.iter().map(|factor| factor.levels.len() + 1).collect();
        let look_s = *self.document.look_s.get_or_insert(spent_s);
        let settings = Settings {
            width: self.asked.width,
            lower: self.measure.metric.better == Better::Lower,
            max_s: Some(self.asked.max_time.as_secs_f64() - look_s),
            trial_s,
            seed: self.document.seed,
        };
        let earlier = self.earlier.take().filter(|earlier| !earlier.trials.is_empty());
        let Some(Earlier { path, factors, mut trials }) = earlier else {
            return Ok(Tune::new(levels, settings));
        };
        keep::same_levels(&path, &factors, &self.document.factors)?;
        let all = trials.len();
        let other = |trial: usize| {
            let why = format!("trial {trial} of {all} is not one that its plan leads to");
            keep::unusable(&path, &why)
        };
        let made: Vec<Made> = (1..)
            .zip(&trials)
            .map(|(number, trial)| keep::made(&factors, trial).ok_or_else(|| other(number)))
            .collect::<Result<_, _>>()?;
        // There was time for the trials that were made.
        let settings = Settings { trial_s: 0.0, ..settings };
        let (tune, whole) =
            Tune::replay(&levels, &settings, &made).map_err(|found| other(found.trial))?;
        env.watcher.tune(&Event::Note(&keep::goes_on(all, whole)));
        trials.truncate(whole);
        let defaults = trials.iter().filter(|trial| trial.levels.is_empty());
        self.lost.extend(defaults.filter_map(|trial| trial.lost_ratio));
        self.document.trials = trials;
        self.note_left_out(&tune);
        Ok(tune)
    }

    /// The document as it would be if this process were killed now.
    fn keep_so_far(&mut self, env: &mut Env<'_>, tune: &Tune) {
        if self.saved.is_none() {
            return;
        }
        self.fill(tune, Some(keep::unfinished()));
        let text = crate::document(&self.document);
        let kept = self.saved.as_mut().map_or(Ok(()), |file| file.keep(text));
        if let Err(error) = kept
            && !std::mem::replace(&mut self.said_unkept, true)
        {
            let note = format!(
                "{}: {}; the tuning goes on and shows its result at its end",
                error.what, error.why
            );
            env.watcher.tune(&Event::Note(&note));
        }
    }

    /// The same error, with the way to go on.
    fn go_on_later(&self, mut error: ErrorRecord) -> ErrorRecord {
        if let Some(file) = &self.saved {
            let path = shell_word(&file.path().to_string_lossy());
            error.hints.push(format!("linerate tune --resume {path}"));
        }
        error
    }

    /// The test of a combination, its settings of hosts aside.
    fn request(&self, levels: &[&Level]) -> Request {
        let mut request = self.asked.test.request.clone();
        // The names are those of the experiment.
        (request.label, request.title) = (None, None);
        for level in levels {
            level.apply(&mut request);
        }
        request
    }

    fn choose(&mut self, look: &RunRecord, hand: &mut Hand) -> Result<Vec<String>, ErrorRecord> {
        let this_machine = look.client.boot_id.is_some()
            && look.server.as_ref().is_some_and(|s| s.boot_id == look.client.boot_id);
        let mut host = hand.host.take();
        let mut ground = Ground {
            asked: &self.asked,
            look,
            host: host.as_mut(),
            device: hand.device.as_ref(),
            this_machine,
        };
        let (fits, found) = (ground.fits(), ground.factors());
        hand.host = host;
        let (factors, notes) = found?;
        self.fits = fits;
        self.document.factors = factors.iter().map(Factor::document).collect();
        self.factors = factors;
        Ok(notes)
    }

    fn levels(&self, combination: &Combination) -> Vec<&Level> {
        let levels = self.factors.iter().zip(&combination.0);
        levels.filter_map(|(factor, number)| factor.level(*number)).collect()
    }

    /// Measures a combination and gives it to the controller.
    fn trial(
        &mut self,
        env: &mut Env<'_>,
        tune: &mut Tune,
        combination: &Combination,
        purpose: Purpose,
        hand: &mut Hand,
    ) -> Result<(), ErrorRecord> {
        let what = words::combination(&self.factors, combination);
        let number = self.document.trials.len() + 1;
        env.watcher.tune(&Event::Trial(number, purpose, &what));
        let begun = env.clock.elapsed();
        let levels = self.levels(combination);
        let wanted: Vec<Setting> = levels.iter().filter_map(|l| l.setting()).cloned().collect();
        let seen = match hand.set(&wanted)? {
            Some((refused, failed)) => {
                Seen { failed: Some(failed), refused: Some(refused), ..Seen::default() }
            }
            None => {
                let seen = self.measure.run(env, &self.request(&levels))?;
                hand.holds()?;
                seen
            }
        };
        let took_s = env.clock.elapsed().saturating_sub(begun).as_secs_f64();
        let levels =
            self.document.factors.iter().zip(&combination.0).filter(|(_, level)| **level > 0);
        let levels = levels.map(|(factor, level)| (factor.name.clone(), *level as u64)).collect();
        let fault = self.fault(combination, &seen);
        let void = fault.as_ref().is_some_and(|fault| fault.void);
        let value = seen.value.filter(|_| fault.is_none());
        if combination.changed().is_empty() {
            self.lost.extend(seen.lost);
        }
        let (failed, blamed) = fault.map(|fault| (fault.why, fault.levels)).unzip();
        let blamed: Option<Vec<(usize, usize)>> = blamed.flatten();
        let named = |(factor, level): &(usize, usize)| {
            Some((self.document.factors.get(*factor)?.name.clone(), *level as u64))
        };
        let at_fault = blamed.as_ref().map(|levels| levels.iter().filter_map(named).collect());
        let Seen { runs, doubts, lost: lost_ratio, .. } = seen;
        self.document.trials.push(TuneTrial {
            purpose,
            levels,
            value,
            took_s,
            runs,
            failed,
            at_fault,
            void,
            lost_ratio,
            doubts,
        });
        tune.take(Measured { value, at_fault: blamed, void, took_s });
        self.note_left_out(tune);
        env.watcher.tune(&Event::Ended(&self.document, &what));
        Ok(())
    }

    /// Why a trial counts as one without a figure, if it does.
    fn fault(&self, combination: &Combination, seen: &Seen) -> Option<Fault> {
        let levels = self.factors.iter().zip(&combination.0).enumerate();
        let levels = levels.filter_map(|(f, (factor, n))| Some(((f, *n), factor.level(*n)?)));
        if let Some(refused) = &seen.refused {
            let of_it = levels.filter(|(_, level)| level.setting() == Some(refused));
            let levels = Some(of_it.map(|(at, _)| at).collect());
            let why = seen.failed.clone().unwrap_or_default();
            return Some(Fault { why, levels, void: false });
        }
        let record = seen.record.as_ref();
        let not_had: Vec<((usize, usize), NotHad)> = levels
            .filter_map(|(at, level)| Some((at, not_had(level, record?, self.fits)?)))
            .collect();
        if not_had.is_empty() {
            let void = seen.is_void(&self.levels(combination));
            let failed = seen.failed.clone().map(|why| Fault { why, levels: None, void });
            // Other levels beside it may keep the loss down.
            let changed = !combination.changed().is_empty();
            let lossy = seen.lost.filter(|_| changed).and_then(|lost| loses_more(lost, &self.lost));
            let levels = Some(Vec::new());
            return failed.or(lossy.map(|why| Fault { why, levels, void: false }));
        }
        let why: Vec<&str> = not_had.iter().map(|(_, found)| found.why.as_str()).collect();
        let why = why.join("; ");
        let always = not_had.iter().filter(|(_, found)| found.always);
        let levels = Some(always.map(|(at, _)| *at).collect());
        Some(Fault { why, levels, void: false })
    }

    /// Says of the levels that the controller gave up why: by the last test that failed with no other of these.
    fn note_left_out(&mut self, tune: &Tune) {
        let TuneDocument { factors, trials, .. } = &mut self.document;
        let name = |factor: &usize| factors.get(*factor).map(|row| row.name.clone());
        let gone: Vec<(String, u64)> = tune
            .space()
            .left_out()
            .iter()
            .filter_map(|(factor, level)| Some((name(factor)?, *level as u64)))
            .collect();
        for (factor, number) in tune.space().left_out() {
            let Some(row) = factors.get_mut(*factor) else { continue };
            let number_there = Some(*number as u64);
            let with_it: Vec<&TuneTrial> = trials
                .iter()
                .filter(|t| t.failed.is_some() && !t.void)
                .filter(|t| t.levels.get(&row.name).copied() == number_there)
                .collect();
            let is_gone = |(f, l): &(&String, &u64)| gone.contains(&((*f).clone(), **l));
            let alone = |t: &&&TuneTrial| t.levels.iter().filter(is_gone).count() == 1;
            let last = with_it.iter().rfind(alone).or(with_it.last());
            if let Some(level) = row.levels.get_mut(*number).filter(|l| l.left_out.is_none()) {
                level.left_out = last.and_then(|trial| trial.failed.clone());
            }
        }
    }

    /// What the first test says of the hosts; of a tuning that goes on the first of all.
    fn learn(&mut self, record: &RunRecord) {
        let document = &mut self.document;
        if document.client.is_some() {
            return;
        }
        document.client = Some(record.client.clone());
        document.server.clone_from(&record.server);
        let shared = record.agreed.as_ref().unwrap_or(&record.asked);
        document.plan = Some(PlanRecord { duration_s: None, ..shared.clone() });
    }

    /// The document as of now.
    fn fill(&mut self, tune: &Tune, trouble: Option<ErrorRecord>) {
        let found = tune.found();
        let document = &mut self.document;
        for (row, about) in document.factors.iter_mut().zip(&found.factors) {
            row.best = about.best as u64;
            row.worth_percent = about.worth.filter(|_| about.best > 0);
            row.others_most_percent = about.others_most;
            for (level, known) in row.levels.iter_mut().zip(&about.levels) {
                // It was another one before the search moved on.
                (level.gain_percent, level.runs) =
                    known.map_or((None, 0), |(gain, runs)| (Some(gain), runs as u64));
            }
        }
        document.gain_percent = found.gain;
        document.pairs = found.pairs as u64;
        (document.default_mean, document.best_mean) = (found.default_mean, found.candidate_mean);
        document.recommended = found.recommended;
        document.reason = if trouble.is_some() { Reason::Stopped } else { found.reason };
        document.doubts =
            doubts::summed(document.trials.iter().map(|trial| trial.doubts.as_slice()));
        let changed = found.candidate.changed();
        let name = |f: usize| {
            Some((document.factors.get(f)?.name.clone(), found.candidate.level(f) as u64))
        };
        document.candidate = changed.into_iter().filter_map(name).collect();
        let candidate = words::combination(&self.factors, &found.candidate);
        document.because = words::because(document, &candidate, found.missed);
        let levels: Vec<Level> = {
            let levels = self.factors.iter().zip(&found.best.0);
            levels.filter_map(|(factor, number)| factor.level(*number)).cloned().collect()
        };
        let plan = self.request(&levels.iter().collect::<Vec<_>>()).plan;
        self.best = words::options(&levels, &plan);
        let kept_to_loss = found.candidate_mean.filter(|_| found.recommended);
        self.best.extend(kept_to_loss.filter(|_| self.measure.loss.is_some()).map(words::rate));
        let document = &mut self.document;
        document.best_settings = levels.iter().filter_map(Level::setting).cloned().collect();
        document.best_command = words::command(&document.command, &self.best);
        document.status = if trouble.is_some() { Status::Partial } else { Status::Complete };
        document.error = trouble;
    }

    /// The files of `--profile` and `--save`. What cannot be kept is shown all the same, with the error.
    fn keep(&mut self) {
        let profile = self.profile.as_ref().filter(|_| self.document.recommended);
        // A profile of the default says nothing.
        let kept = profile.map(|file| {
            let remark = words::remark(&self.document);
            let options = words::profile(&self.document.command, &self.best);
            let text = preset::text(self.asked.verb, &options, &remark);
            file.keep(text.map_err(std::io::Error::other))
        });
        if !matches!(kept, Some(Ok(()))) {
            self.document.profile = None;
        }
        self.failed_to_keep(kept);
        let text = crate::document(&self.document);
        let kept = self.saved.as_mut().map(|file| file.keep(text));
        self.failed_to_keep(kept);
    }

    fn failed_to_keep(&mut self, kept: Option<Result<(), ErrorRecord>>) {
        if let Some(Err(error)) = kept {
            self.document.error.get_or_insert(error);
        }
    }
}

fn profile_file(name: &str) -> Result<SavedFile, ErrorRecord> {
    let path = preset::path(name)?;
    if let Some(folder) = path.parent() {
        // What is wrong with it is said of the file.
        let _ = std::fs::create_dir_all(folder);
    }
    SavedFile::new(&path)
}

fn blank(asked: &TuneAsked) -> TuneDocument {
    let (id, started) = linerate_runner::client::stamp();
    let request = &asked.test.request;
    TuneDocument {
        format: FORMAT,
        kind: "tune".to_owned(),
        id,
        started,
        linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
        command: request.command.clone(),
        label: request.label.clone(),
        title: request.title.clone(),
        target: request.target.name().map(str::to_owned),
        protocol: asked.verb,
        objective: Objective {
            name: String::new(),
            metric: String::new(),
            unit: String::new(),
            better: String::new(),
            loss_at_most_ratio: None,
        },
        width_percent: asked.width * 100.0,
        seed: asked.seed.unwrap_or_else(sweep::chance),
        factors: Vec::new(),
        candidate: BTreeMap::new(),
        gain_percent: None,
        pairs: 0,
        default_mean: None,
        best_mean: None,
        recommended: false,
        reason: Reason::Stopped,
        because: Vec::new(),
        best_command: Vec::new(),
        best_settings: Vec::new(),
        profile: None,
        look_s: None,
        trials: Vec::new(),
        plan: None,
        client: None,
        server: None,
        seconds: 0.0,
        doubts: Vec::new(),
        left: Vec::new(),
        status: Status::Complete,
        error: None,
    }
}
