//! From text to a [`Plan`], with every fault on the way.

mod frame;
mod matrix;
mod setting;
mod value;

use matrix::Draft;
use setting::SETTING_KEYS;

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::meant;
use super::{Fault, MOST_SETTINGS, MOST_SLOTS, Plan, Position, Setting, Vocabulary};

/// No plan written by a person is longer, and every fault of one is looked up in its text.
const MOST_BYTES: usize = 1 << 20;

/// A key with its value.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    /// Of the key.
    pub at: Position,
    pub value: &'a Spanned<DeValue<'a>>,
    /// Where it stands.
    pub by: By,
}

/// Where an entry of a setting stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Setting,
    Defaults,
    Matrix,
}

pub(super) type Entries<'a> = BTreeMap<String, Entry<'a>>;

pub(super) struct Reader<'a> {
    text: &'a str,
    pub faults: Vec<Fault>,
    pub notes: Vec<String>,
    vocabulary: &'a Vocabulary,
}

pub(super) fn read(text: &str, vocabulary: &Vocabulary) -> Result<Plan, Vec<Fault>> {
    if text.len() > MOST_BYTES {
        let what = format!("a plan of {} bytes; at most {MOST_BYTES} are read", text.len());
        return Err(vec![Fault::new(Position { line: 1, column: 1 }, what)]);
    }
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.iter().map(|e| syntax(text, e)).collect());
    }
    let mut reader = Reader { text, faults: Vec::new(), notes: Vec::new(), vocabulary };
    let plan = reader.plan(root.get_ref());
    let Reader { mut faults, .. } = reader;
    faults.sort_by_key(|f| f.at);
    faults.dedup();
    match plan {
        Some(plan) if faults.is_empty() => Ok(plan),
        _ if faults.is_empty() => {
            Err(vec![Fault::new(Position { line: 1, column: 1 }, "this plan has no setting")])
        }
        _ => Err(faults),
    }
}

/// What the TOML parser says, in the words of a plan.
fn syntax(text: &str, error: &toml::de::Error) -> Fault {
    let span = error.span().unwrap_or(0..0);
    let at = Position::start(text, &span);
    let line = text.lines().nth(at.line - 1).unwrap_or_default();
    let found = text.get(span).unwrap_or_default().trim();
    let message = error.message();
    if message.contains("duplicate key") {
        let header = line.trim_start().starts_with("[settings.");
        let what = match found {
            "" => "this key was given before".to_owned(),
            found if header => format!("two settings of the name `{found}`"),
            found => format!("`{found}` was given before"),
        };
        return Fault::new(at, what).hint("a name stands once; give the second another");
    }
    let fault = Fault::new(at, format!("no TOML: {message}"));
    if line.contains(';') && !line.trim_start().starts_with('#') {
        return fault.hint("each key has a line of its own; `;` parts nothing in TOML");
    }
    fault
}

impl<'a> Reader<'a> {
    fn plan(&mut self, root: &'a DeTable<'a>) -> Option<Plan> {
        const KEYS: &[&str] =
            &["name", "baseline", "repeat", "hosts", "defaults", "settings", "matrix"];
        let mut parts: BTreeMap<String, Entry<'a>> = BTreeMap::new();
        for (key, entry) in self.entries(root) {
            if KEYS.contains(&key.as_str()) {
                parts.insert(key, entry);
            } else {
                self.unknown(entry.at, &key, "a plan", KEYS);
            }
        }
        let top = Position { line: 1, column: 1 };
        let name = match parts.get("name") {
            Some(entry) => self.text_of("name", *entry).filter(|name| {
                let good = is_name(name);
                if !good {
                    self.fault(entry.at, format!("the name `{name}` {NAME_RULE}"));
                }
                good
            }),
            None => {
                self.hinted(top, "the plan has no `name`", "name = \"offload-ipv6\"");
                None
            }
        };
        let repeat = self.repeat(parts.get("repeat").copied());
        let hosts = self.hosts(parts.get("hosts").copied());
        let defaults =
            self.setting_entries("defaults", parts.get("defaults").copied(), By::Defaults);
        self.check_defaults(&defaults);
        let drafts = self.drafts(&parts, &defaults);
        let mut settings: Vec<Setting> = Vec::new();
        let mut names: BTreeMap<String, Position> = BTreeMap::new();
        for draft in &drafts {
            if let Some(before) = names.insert(draft.name.clone(), draft.at) {
                let what = format!("two settings of the name `{}`", draft.name);
                self.hinted(draft.at, what, format!("the other one is made at {before}"));
                continue;
            }
            settings.extend(self.setting(draft, &hosts));
        }
        if drafts.is_empty() && !parts.contains_key("settings") && !parts.contains_key("matrix") {
            self.hinted(top, "the plan has no setting", "[settings.NAME] holds each of them");
        }
        let baseline = self.baseline(parts.get("baseline").copied(), &drafts, &settings);
        self.check_reboots(&repeat, &hosts, parts.get("repeat").map_or(top, |e| e.at));
        let slots = u64::from(repeat.boots.max(1))
            * u64::from(repeat.warmup + repeat.runs)
            * settings.len() as u64;
        if slots > MOST_SLOTS {
            let at = parts.get("repeat").map_or(top, |e| e.at);
            self.fault(at, format!("{slots} runs; a campaign has at most {MOST_SLOTS}"));
        }
        Some(Plan {
            name: name?,
            baseline: baseline?,
            repeat,
            hosts,
            settings,
            notes: std::mem::take(&mut self.notes),
        })
    }

    /// The entries of `[defaults]` or of one setting, `set` flattened to dotted paths.
    fn setting_entries(&mut self, place: &str, entry: Option<Entry<'a>>, by: By) -> Entries<'a> {
        let mut found = Entries::new();
        let Some(table) = entry.and_then(|entry| self.table(place, entry)) else { return found };
        for (key, entry) in self.entries(table) {
            self.flatten(&key, Entry { by, ..entry }, &mut found);
        }
        found
    }

    /// A default that no kind of setting has is a slip of the pen; one that some have means nothing to the
    /// others.
    fn check_defaults(&mut self, defaults: &Entries<'a>) {
        let vocabulary = self.vocabulary;
        let options = vocabulary.verbs.iter().flat_map(|(_, options)| options);
        let options = options.chain(vocabulary.old.iter().map(|(old, _)| old));
        let mut known: Vec<&str> = options.map(String::as_str).collect();
        known.extend(SETTING_KEYS);
        known.sort_unstable();
        known.dedup();
        for (key, entry) in defaults {
            if !key.starts_with("set.") && !known.contains(&key.as_str()) {
                self.unknown(entry.at, key, "[defaults]", &known);
            }
        }
    }

    /// Tables below `set` become dotted paths; `metric` keeps its own.
    pub(super) fn flatten(&self, path: &str, entry: Entry<'a>, into: &mut Entries<'a>) {
        match entry.value.get_ref() {
            DeValue::Table(table) if path == "set" || path.starts_with("set.") => {
                for (key, below) in self.entries(table) {
                    let below = Entry { by: entry.by, ..below };
                    self.flatten(&format!("{path}.{key}"), below, into);
                }
            }
            _ => {
                into.insert(path.to_owned(), entry);
            }
        }
    }

    fn drafts(
        &mut self,
        parts: &BTreeMap<String, Entry<'a>>,
        defaults: &Entries<'a>,
    ) -> Vec<Draft<'a>> {
        let mut bases = Vec::new();
        if let Some(entry) = parts.get("settings")
            && let Some(table) = self.table("settings", *entry)
        {
            for (name, entry) in self.entries(table) {
                if !is_name(&name) {
                    self.fault(entry.at, format!("the setting's name `{name}` {NAME_RULE}"));
                }
                let place = format!("settings.{name}");
                let own = self.setting_entries(&place, Some(entry), By::Setting);
                bases.push(Draft { name, at: entry.at, entries: own });
            }
        }
        let matrix = parts.get("matrix").and_then(|e| Some((self.table("matrix", *e)?, e.at)));
        let mut drafts = match matrix {
            Some((table, at)) => matrix::expand(self, bases, table, at),
            None => bases,
        };
        if drafts.len() > MOST_SETTINGS {
            let at = drafts[MOST_SETTINGS].at;
            let what = format!("{} settings; at most {MOST_SETTINGS}", drafts.len());
            self.fault(at, what);
            drafts.truncate(MOST_SETTINGS);
        }
        for draft in &mut drafts {
            for (path, entry) in defaults {
                // A leaf that the setting has itself, or that stands below or above one of its own.
                let taken = draft.entries.keys().any(|own| {
                    own == path
                        || own.strip_prefix(path.as_str()).is_some_and(|r| r.starts_with('.'))
                        || path.strip_prefix(own.as_str()).is_some_and(|r| r.starts_with('.'))
                });
                if !taken {
                    draft.entries.insert(path.clone(), *entry);
                }
            }
        }
        drafts
    }

    fn baseline(
        &mut self,
        entry: Option<Entry<'a>>,
        drafts: &[Draft<'a>],
        settings: &[Setting],
    ) -> Option<usize> {
        let Some(entry) = entry else { return (!settings.is_empty()).then_some(0) };
        let name = self.text_of("baseline", entry)?;
        if let Some(found) = settings.iter().position(|s| s.name == name) {
            return Some(found);
        }
        if drafts.iter().any(|d| d.name == name) {
            // Its own faults are reported.
            return None;
        }
        let names: BTreeSet<&str> = drafts.iter().map(|d| d.name.as_str()).collect();
        let hint = meant(&name, names.iter().copied(), || {
            let shown: Vec<&str> = drafts.iter().take(8).map(|d| d.name.as_str()).collect();
            format!("the settings are {}", shown.join(", "))
        });
        let at = self.position(entry.value);
        self.hinted(at, format!("the baseline `{name}` is no setting of this plan"), hint);
        None
    }
}

pub(super) const NAME_RULE: &str =
    "is not made of 1 to 64 letters, digits, `_`, `-`, `.` and `+` (it becomes a file's name)";

/// Whether `name` may be that of a file, in any folder and on any file system.
pub(super) fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(good) && !name.starts_with(['.', '-'])
}
