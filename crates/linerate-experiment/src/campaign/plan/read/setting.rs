//! One setting of a plan: its ends, its test or command, what is set.

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::units::{NANOS_PER_SECOND, Nanos};

use super::matrix::Draft;
use super::{By, Entries, Entry, Reader};
use crate::campaign::plan::{
    Change, Extract, Host, Scalar, Setting, TestOption, Workload, fault::meant, nearest, words,
};

/// A command that does not say how long it takes is ended after this time.
const COMMAND_TIMEOUT: Nanos = Nanos(10 * 60 * NANOS_PER_SECOND);

/// Keys of a setting that are no options of a test.
pub(super) const SETTING_KEYS: &[&str] =
    &["test", "command", "from", "to", "metric", "unit", "time", "timeout", "set"];

impl<'a> Reader<'a> {
    pub(super) fn setting(&mut self, draft: &Draft<'a>, hosts: &[Host]) -> Option<Setting> {
        let before = self.faults.len();
        let mut entries = draft.entries.clone();
        if let (Some(test), Some(command)) = (entries.get("test"), entries.get("command")) {
            match (test.by, command.by) {
                (By::Defaults, By::Setting | By::Matrix) => drop(entries.remove("test")),
                (By::Setting | By::Matrix, By::Defaults) => drop(entries.remove("command")),
                _ => {
                    let what = format!("`{}` has both `test` and `command`", draft.name);
                    self.fault(command.at.max(test.at), what);
                    return None;
                }
            }
        }
        let (from, to) = self.ends(draft, &entries, hosts)?;
        let workload = if let Some(command) = entries.get("command") {
            self.command(draft, *command, &entries, hosts)
        } else {
            self.test(draft, &entries)
        };
        let changes = self.changes(&entries, hosts);
        let workload = workload?;
        (self.faults.len() == before).then(|| Setting {
            name: draft.name.clone(),
            workload,
            from,
            to,
            changes,
            at: draft.at,
        })
    }

    /// The hosts at both ends. With two hosts or one, what is not said is clear.
    pub(super) fn ends(
        &mut self,
        draft: &Draft<'a>,
        entries: &Entries<'a>,
        hosts: &[Host],
    ) -> Option<(usize, Option<usize>)> {
        let mut end = |key: &str| match entries.get(key) {
            None => Ok(None),
            Some(entry) => self.host_index(key, *entry, hosts).map(Some).ok_or(()),
        };
        let (from, to) = (end("from").ok()?, end("to").ok()?);
        let from = match (from, hosts.len()) {
            (Some(from), _) => from,
            (None, 1) => 0,
            (None, 2) if to.is_some() => 1 - to.unwrap_or(0),
            _ => {
                let what = format!("`{}` does not say on which host it starts", draft.name);
                self.hinted(draft.at, what, "from = \"dut\", here or in [defaults]");
                return None;
            }
        };
        if to.is_none() && entries.contains_key("test") {
            match hosts.len() {
                1 => return Some((from, Some(from))),
                2 => return Some((from, Some(1 - from))),
                _ => {
                    let what = format!("`{}` does not say to which host it sends", draft.name);
                    self.hinted(draft.at, what, "to = \"peer\", here or in [defaults]");
                    return None;
                }
            }
        }
        Some((from, to))
    }

    /// Whether the other name of an option with two says more: the setting's own word goes before a default,
    /// and where both are given at once nobody can say.
    fn says_better(&mut self, key: &str, entry: &Entry<'a>, entries: &Entries<'a>) -> bool {
        let pairs = self.vocabulary.old.iter();
        let other = pairs.filter_map(|(old, name)| match key {
            _ if key == old => Some((name, name)),
            _ if key == name => Some((old, name)),
            _ => None,
        });
        let found =
            other.filter_map(|(other, name)| Some((other, name, entries.get(other)?))).next();
        let Some((other, name, by_other)) = found else { return false };
        if by_other.by == entry.by {
            let what = format!("`{key}` and `{other}` are one option");
            self.hinted(entry.at, what, format!("say `{name}` alone"));
        }
        by_other.by == entry.by || entry.by == By::Defaults
    }

    pub(super) fn test(&mut self, draft: &Draft<'a>, entries: &Entries<'a>) -> Option<Workload> {
        let verbs: Vec<&str> = self.vocabulary.verbs.iter().map(|(verb, _)| verb.name()).collect();
        let Some(entry) = entries.get("test") else {
            let what = format!("`{}` has neither `test` nor `command`", draft.name);
            let hint =
                format!("test = \"tcp\", here or in [defaults]; tests are {}", verbs.join(", "));
            self.hinted(draft.at, what, hint);
            return None;
        };
        let name = self.text_of("test", *entry)?;
        let Some((verb, known)) = self.vocabulary.verb(&name) else {
            let at = self.position(entry.value);
            self.hinted(at, format!("no test `{name}`"), format!("tests are {}", verbs.join(", ")));
            return None;
        };
        let mut options = Vec::new();
        for (key, entry) in entries {
            if key.starts_with("set.")
                || ["test", "from", "to", "metric", "set"].contains(&key.as_str())
            {
                continue;
            }
            let today = self.vocabulary.today(key).to_owned();
            if known.contains(&today) {
                if self.says_better(key, entry, entries) {
                    continue;
                }
                let value = self.scalar(key, entry.value)?;
                options.push(TestOption { key: today, value, at: entry.at });
            } else if entry.by == By::Defaults {
                let note = format!("{}: the default `{key}` means nothing to {name}", draft.name);
                self.notes.push(note);
            } else {
                let all: Vec<&str> =
                    known.iter().map(String::as_str).chain(SETTING_KEYS.iter().copied()).collect();
                let hint = meant(key, all.iter().copied(), || {
                    format!("`linerate {name} --help` lists the options of a {name} test")
                });
                let what = format!("unknown key `{key}` in a setting with test = \"{name}\"");
                self.hinted(entry.at, what, hint);
            }
        }
        options.sort_by_key(|o| o.at);
        let metric = match entries.get("metric") {
            None => None,
            Some(entry) => {
                let at = self.position(entry.value);
                let Some(name) = entry.value.get_ref().as_str() else {
                    let what = "the metric of a test is a name in quotes";
                    let hint = format!("one of {}", self.vocabulary.metrics.join(", "));
                    self.hinted(at, what, hint);
                    return None;
                };
                if !self.vocabulary.metrics.iter().any(|m| m == name) {
                    let known = self.vocabulary.metrics.iter().map(String::as_str);
                    let hint = match nearest(name, known) {
                        Some(near) => format!("did you mean \"{near}\"?"),
                        None => format!("one of {}", self.vocabulary.metrics.join(", ")),
                    };
                    self.hinted(at, format!("no metric `{name}`"), hint);
                }
                Some((name.to_owned(), at))
            }
        };
        Some(Workload::Test { verb: *verb, options, metric })
    }

    pub(super) fn command(
        &mut self,
        draft: &Draft<'a>,
        command: Entry<'a>,
        entries: &Entries<'a>,
        hosts: &[Host],
    ) -> Option<Workload> {
        const KEYS: &[&str] =
            &["command", "metric", "unit", "time", "timeout", "from", "to", "set"];
        let known = |key: &str| KEYS.contains(&key) || key.starts_with("set.");
        let mut values = BTreeMap::new();
        for (key, entry) in entries {
            match entry.by {
                By::Matrix => {
                    let last = key.rsplit('.').next().unwrap_or(key);
                    let value = self.scalar(key, entry.value)?.to_string();
                    values.insert(last.to_owned(), (value, known(key), entry.at));
                }
                By::Setting if !known(key) => {
                    self.unknown(entry.at, key, "a setting with a command", KEYS);
                }
                By::Setting | By::Defaults => {}
            }
        }
        let at = self.position(command.value);
        let words = match self.scalar("command", command.value)? {
            Scalar::Text(text) => match words::split(&text) {
                Ok(words) => words,
                Err(why) => {
                    self.fault(at, format!("`command` cannot be split into words: {why}"));
                    return None;
                }
            },
            Scalar::List(items) => items.iter().map(Scalar::to_string).collect(),
            _ => {
                self.fault(at, "`command` is a text, or a list of words");
                return None;
            }
        };
        if words.first().is_none_or(|w| w.trim().is_empty()) {
            self.fault(at, "`command` is empty");
        }
        if words.iter().any(|w| w.contains('\0')) {
            self.fault(at, "`command` has a zero character");
        }
        let mut used = BTreeSet::new();
        let mut filled = Vec::new();
        for word in &words {
            let lookup = |name: &str| {
                let host = |name: &str| hosts.iter().find(|h| h.name == name);
                if let Some((value, ..)) = values.get(name) {
                    return Some(value.clone());
                }
                let end = || entries.get(name)?.value.get_ref().as_str().and_then(host);
                let end = ["from", "to"].contains(&name).then(end).flatten();
                end.or_else(|| host(name)).map(|h| h.target().to_owned())
            };
            used.extend(values.keys().filter(|key| word.contains(&format!("{{{key}}}"))).cloned());
            match words::fill(word, lookup) {
                words::Filled::Text(text) => filled.push(text),
                words::Filled::Unknown(name) => self.no_host(at, &name, hosts),
            }
        }
        for (key, (_, known, at)) in &values {
            if !known && !used.contains(key) {
                let what =
                    format!("the matrix varies `{key}`, which `{}` does not use", draft.name);
                self.hinted(*at, what, format!("put {{{key}}} into its command"));
            }
        }
        let words = filled;
        let Some(metric) = entries.get("metric").copied() else {
            let what = format!("`{}` does not say where the number of its command is", draft.name);
            self.hinted(
                draft.at,
                what,
                "metric = { column = 5 }, { regex = \"…(…)\" } or { json_path = \"$.a.b\" }",
            );
            return None;
        };
        let extract = self.extract(metric)?;
        let time_of = |reader: &mut Self, key: &str| match entries.get(key).copied() {
            Some(entry) => reader.time(key, entry).map(Some).ok_or(()),
            None => Ok(None),
        };
        let (time, timeout) = (time_of(self, "time").ok()?, time_of(self, "timeout").ok()?);
        let unit = match entries.get("unit").copied() {
            Some(entry) => Some(self.text_of("unit", entry)?),
            None => None,
        };
        let usual = time.unwrap_or(Nanos(10 * NANOS_PER_SECOND));
        let timeout = timeout.unwrap_or(Nanos(COMMAND_TIMEOUT.0.max(usual.0.saturating_mul(3))));
        Some(Workload::Command { words, extract, unit, time: usual, timeout })
    }

    pub(super) fn extract(&mut self, entry: Entry<'a>) -> Option<Extract> {
        const KEYS: &[&str] = &["regex", "json_path", "column"];
        let at = self.position(entry.value);
        let Some(table) = entry.value.get_ref().as_table() else {
            let hint = "metric = { column = 5 }";
            self.hinted(
                at,
                "the metric of a command is one of { regex }, { json_path }, { column }",
                hint,
            );
            return None;
        };
        let mut found = None;
        for (key, entry) in self.entries(table) {
            let made = match key.as_str() {
                "regex" => Extract::regex(&self.text_of(&key, entry)?),
                "json_path" => Extract::json_path(&self.text_of(&key, entry)?),
                "column" => Extract::column(self.whole(&key, entry, 1, 1_000)? as i64),
                _ => {
                    self.unknown(entry.at, &key, "a metric", KEYS);
                    return None;
                }
            };
            match made {
                Ok(made) if found.is_none() => found = Some(made),
                Ok(_) => self.fault(entry.at, "a metric is one of regex, json_path and column"),
                Err(why) => self.fault(self.position(entry.value), format!("`{key}` is {why}")),
            }
        }
        if found.is_none() && table.is_empty() {
            self.fault(at, "a metric is one of { regex }, { json_path }, { column }");
        }
        found
    }

    pub(super) fn changes(&mut self, entries: &Entries<'a>, hosts: &[Host]) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut missing = BTreeSet::new();
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.at);
        for (key, entry) in entries {
            let Some(path) = key.strip_prefix("set.") else {
                if key == "set" {
                    self.hinted(
                        entry.at,
                        "`set` names a host",
                        "set.dut = { offload.tso = false }",
                    );
                }
                continue;
            };
            let (name, path) = path.split_once('.').unwrap_or((path, ""));
            let Some(host) = hosts.iter().position(|h| h.name == name) else {
                if missing.insert(name.to_owned()) {
                    self.no_host(entry.at, name, hosts);
                }
                continue;
            };
            if path.is_empty() {
                let what = format!("`set.{name}` is a table of what is set on `{name}`");
                self.hinted(entry.at, what, format!("set.{name} = {{ offload.tso = false }}"));
                continue;
            }
            if let Some(value) = self.scalar(path, entry.value) {
                changes.push(Change { host, path: path.to_owned(), value, at: entry.at });
            }
        }
        changes
    }
}
