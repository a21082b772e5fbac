//! A tuning: asks the controller for the next setting, measures it, and says which is best.

mod hand;
mod levels;
mod measure;
mod words;

use std::collections::BTreeMap;

use linerate_analysis::metric::{self, Better};
use linerate_ask::tune::{Level, TuneArgs, TuneAsked};
use linerate_ask::{preset, usage};
use linerate_experiment::doubts;
use linerate_experiment::tune::space::Combination;
use linerate_experiment::tune::{Measured, Settings, Tune};
use linerate_model::record::{
    Doubt, ErrorKind, ErrorRecord, FORMAT, PlanRecord, ProgramFacts, RunRecord, Status,
};
use linerate_model::setting::Setting;
use linerate_model::tune::{Objective, Purpose, Reason, TuneDocument, TuneTrial};
use linerate_runner::agent::DeviceChoice;
use linerate_runner::client::Request;

use crate::doctor::TakeOver;
use crate::doctor::prove::not_back;
use crate::keep::SavedFile;
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
    saved: Option<SavedFile>,
    doubts: Vec<Vec<Doubt>>,
    /// Largest payload that is known to fit into a frame, bytes.
    fits: Option<u32>,
    /// Shares that the default lost, run by run.
    lost: Vec<f64>,
    /// Options of the best setting.
    best: Vec<(String, String)>,
}

/// Why a trial has no figure.
struct Fault {
    why: String,
    /// The levels that are why, by factor, where that is known.
    levels: Option<Vec<(usize, usize)>>,
}

impl Course {
    /// What is asked for by `command`.
    ///
    /// # Errors
    /// What makes no sense, and a profile or file that cannot be kept.
    pub fn new(args: &TuneArgs, command: Vec<String>) -> Result<Self, ErrorRecord> {
        let mut asked = args.asked()?;
        let Some(metric) = metric::find(asked.aim.metric) else {
            return Err(usage::error("cannot tune", "there is no such metric", &[]));
        };
        let profile =
            asked.test.request.profile.take().map(|name| profile_file(&name)).transpose()?;
        let saved = asked.test.save.as_deref().map(SavedFile::new).transpose()?;
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
        let (factors, doubts, best) = (Vec::new(), Vec::new(), Vec::new());
        let (fits, lost) = (None, Vec::new());
        Ok(Self { asked, measure, factors, document, profile, saved, doubts, fits, lost, best })
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
        let spent = env.clock.elapsed().saturating_sub(begun);
        let settings = Settings {
            width: self.asked.width,
            lower: self.measure.metric.better == Better::Lower,
            max_s: Some(self.asked.max_time.as_secs_f64() - spent.as_secs_f64()),
            trial_s: took.as_secs_f64(),
            seed: self.document.seed,
        };
        let levels = self.factors.iter().map(|factor| factor.levels.len() + 1).collect();
        let mut tune = Tune::new(levels, settings);
        env.watcher.tune(&Event::Started(&self.document));
        let mut trouble = None;
        while let Some((combination, purpose)) = tune.next() {
            let (combination, purpose) = (combination.clone(), purpose);
            let done = match env.stop.seen() {
                true => Err(interrupted()),
                false => self.trial(env, &mut tune, &combination, purpose, &mut hand),
            };
            if let Err(error) = done {
                tune.stop();
                trouble = Some(error);
            }
        }
        let left = hand.put_back();
        trouble = trouble.or_else(|| not_back(&left));
        self.document.left = left;
        self.document.seconds = env.clock.elapsed().saturating_sub(begun).as_secs_f64();
        self.fill(&tune, trouble);
        self.keep();
        Ok(self.document)
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
        self.document.factors = factors.iter().map(Factor::told).collect();
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
        let value = seen.value.filter(|_| fault.is_none());
        if combination.changed().is_empty() {
            self.lost.extend(seen.lost);
        }
        let (failed, at_fault) = fault.map(|fault| (fault.why, fault.levels)).unzip();
        let runs = seen.runs;
        self.document.trials.push(TuneTrial { purpose, levels, value, took_s, runs, failed });
        tune.take(Measured { value, at_fault: at_fault.flatten(), took_s });
        self.note_left_out(tune);
        self.doubts.push(seen.doubts);
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
            return Some(Fault { why: seen.failed.clone().unwrap_or_default(), levels });
        }
        let record = seen.record.as_ref();
        let not_had: Vec<((usize, usize), NotHad)> = levels
            .filter_map(|(at, level)| Some((at, not_had(level, record?, self.fits)?)))
            .collect();
        if not_had.is_empty() {
            let failed = seen.failed.clone().map(|why| Fault { why, levels: None });
            // Other levels beside it may keep the loss down.
            let changed = !combination.changed().is_empty();
            let lossy = seen.lost.filter(|_| changed).and_then(|lost| loses_more(lost, &self.lost));
            return failed.or(lossy.map(|why| Fault { why, levels: Some(Vec::new()) }));
        }
        let why: Vec<&str> = not_had.iter().map(|(_, found)| found.why.as_str()).collect();
        let why = why.join("; ");
        let always = not_had.iter().filter(|(_, found)| found.always);
        Some(Fault { why, levels: Some(always.map(|(at, _)| *at).collect()) })
    }

    /// Says of the levels that the controller gave up why: by the last test that failed with no other of these.
    fn note_left_out(&mut self, tune: &Tune) {
        let TuneDocument { factors, trials, .. } = &mut self.document;
        let name = |factor: &usize| factors.get(*factor).map(|told| told.name.clone());
        let gone: Vec<(String, u64)> = tune
            .space()
            .left_out()
            .iter()
            .filter_map(|(factor, level)| Some((name(factor)?, *level as u64)))
            .collect();
        for (factor, number) in tune.space().left_out() {
            let Some(told) = factors.get_mut(*factor) else { continue };
            let number_told = Some(*number as u64);
            let with_it: Vec<&TuneTrial> = trials
                .iter()
                .filter(|t| t.failed.is_some() && t.levels.get(&told.name).copied() == number_told)
                .collect();
            let is_gone = |(f, l): &(&String, &u64)| gone.contains(&((*f).clone(), **l));
            let alone = |t: &&&TuneTrial| t.levels.iter().filter(is_gone).count() == 1;
            let last = with_it.iter().rfind(alone).or(with_it.last());
            if let Some(level) = told.levels.get_mut(*number).filter(|l| l.left_out.is_none()) {
                level.left_out = last.and_then(|trial| trial.failed.clone());
            }
        }
    }

    /// What the first test says of the hosts.
    fn learn(&mut self, record: &RunRecord) {
        self.document.client = Some(record.client.clone());
        self.document.server.clone_from(&record.server);
        let shared = record.agreed.as_ref().unwrap_or(&record.asked);
        self.document.plan = Some(PlanRecord { duration_s: None, ..shared.clone() });
    }

    /// The document at the end.
    fn fill(&mut self, tune: &Tune, trouble: Option<ErrorRecord>) {
        let found = tune.found();
        let document = &mut self.document;
        for (told, about) in document.factors.iter_mut().zip(&found.factors) {
            told.best = about.best as u64;
            told.worth_percent = about.worth.filter(|_| about.best > 0);
            told.others_most_percent = about.others_most;
            for (level, known) in told.levels.iter_mut().zip(&about.levels) {
                if let Some((gain, runs)) = known {
                    (level.gain_percent, level.runs) = (Some(*gain), *runs as u64);
                }
            }
        }
        document.gain_percent = found.gain;
        document.pairs = found.pairs as u64;
        (document.default_mean, document.best_mean) = (found.default_mean, found.candidate_mean);
        document.recommended = found.recommended;
        document.reason = if trouble.is_some() { Reason::Stopped } else { found.reason };
        document.doubts = doubts::summed(self.doubts.iter().map(Vec::as_slice));
        let changed = found.candidate.changed();
        let name = |f: usize| {
            Some((document.factors.get(f)?.name.clone(), found.candidate.level(f) as u64))
        };
        document.candidate = changed.into_iter().filter_map(name).collect();
        let candidate = words::combination(&self.factors, &found.candidate);
        document.because = words::because(document, &candidate);
        let levels: Vec<Level> = {
            let levels = self.factors.iter().zip(&found.best.0);
            levels.filter_map(|(factor, number)| factor.level(*number)).cloned().collect()
        };
        let plan = self.request(&levels.iter().collect::<Vec<_>>()).plan;
        self.best = words::options(&levels, &plan);
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
        let kept = self.saved.as_ref().map(|file| file.keep(crate::document(&self.document)));
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

fn interrupted() -> ErrorRecord {
    ErrorRecord::new(ErrorKind::Interrupted, "the tuning was ended early", "Ctrl-C or SIGTERM", &[])
}
