//! From text to a [`Plan`], with every fault on the way.

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::units::{NANOS_PER_SECOND, Nanos};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::matrix::{self, Draft};
use super::{
    Change, Extract, Fault, Host, MOST_BOOTS, MOST_RUNS, MOST_SETTINGS, MOST_SLOTS, Order, Plan,
    Position, Repeat, Scalar, Setting, TestOption, Vocabulary, Workload, nearest, words,
};

/// No plan written by a person is longer, and every fault of one is looked up in its text.
const MOST_OCTETS: usize = 1 << 20;

/// The port of `linerate serve`.
const PORT: u16 = 5201;

/// How long a host is waited for: a server with much memory and many disks boots in ten minutes.
const WAIT: Nanos = Nanos(15 * 60 * NANOS_PER_SECOND);

/// A command that does not say how long it takes is ended after this time.
const COMMAND_TIMEOUT: Nanos = Nanos(10 * 60 * NANOS_PER_SECOND);

/// Keys of a setting that are no options of a test.
const SETTING_KEYS: &[&str] =
    &["test", "command", "from", "to", "metric", "unit", "time", "timeout", "set"];

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
    if text.len() > MOST_OCTETS {
        let what = format!("a plan of {} bytes; at most {MOST_OCTETS} are read", text.len());
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
    pub(super) fn position(&self, spanned: &Spanned<impl Sized>) -> Position {
        Position::start(self.text, &spanned.span())
    }

    pub(super) fn fault(&mut self, at: Position, what: impl Into<String>) {
        self.faults.push(Fault::new(at, what));
    }

    fn hinted(&mut self, at: Position, what: impl Into<String>, hint: impl Into<String>) {
        self.faults.push(Fault::new(at, what).hint(hint));
    }

    fn unknown(&mut self, at: Position, key: &str, place: &str, known: &[&str]) {
        let hint = match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("{place} takes {}", known.join(", ")),
        };
        self.hinted(at, format!("unknown key `{key}` in {place}"), hint);
    }

    /// The entries of a table in the order of the text.
    pub(super) fn entries(&self, table: &'a DeTable<'a>) -> Vec<(String, Entry<'a>)> {
        let mut found: Vec<_> = table
            .iter()
            .map(|(key, value)| {
                let entry = Entry { at: self.position(key), value, by: By::Setting };
                (key.get_ref().to_string(), entry)
            })
            .collect();
        found.sort_by_key(|(_, entry)| entry.at);
        found
    }

    fn table(&mut self, place: &str, entry: Entry<'a>) -> Option<&'a DeTable<'a>> {
        let found = entry.value.get_ref().as_table();
        if found.is_none() {
            self.fault(self.position(entry.value), format!("`{place}` is a table"));
        }
        found
    }

    fn text_of(&mut self, key: &str, entry: Entry<'a>) -> Option<String> {
        match entry.value.get_ref().as_str() {
            Some(text) if !text.trim().is_empty() => Some(text.to_owned()),
            Some(_) => {
                self.fault(self.position(entry.value), format!("`{key}` is empty"));
                None
            }
            None => {
                let what = format!("`{key}` is a text in quotes");
                self.fault(self.position(entry.value), what);
                None
            }
        }
    }

    fn whole(&mut self, key: &str, entry: Entry<'a>, least: u64, most: u64) -> Option<u64> {
        let value = entry.value.get_ref().as_integer();
        let digits = value.map(|i| (i.as_str().replace('_', ""), i.radix()));
        let number = digits.and_then(|(d, radix)| u64::from_str_radix(&d, radix).ok());
        match number.filter(|n| (least..=most).contains(n)) {
            Some(number) => Some(number),
            None => {
                let what = format!("`{key}` is a whole number from {least} to {most}");
                self.fault(self.position(entry.value), what);
                None
            }
        }
    }

    fn time(&mut self, key: &str, entry: Entry<'a>) -> Option<Nanos> {
        let text = entry.value.get_ref().as_str();
        match text.and_then(|t| t.parse::<Nanos>().ok()) {
            Some(time) => Some(time),
            None => {
                let what = format!("`{key}` is a time in quotes, such as \"10s\" or \"2m\"");
                self.fault(self.position(entry.value), what);
                None
            }
        }
    }

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

    fn repeat(&mut self, entry: Option<Entry<'a>>) -> Repeat {
        const KEYS: &[&str] =
            &["boots", "warmup", "runs", "order", "seed", "retries", "wait", "pause"];
        let mut repeat = Repeat {
            boots: 0,
            warmup: 1,
            runs: 10,
            order: Order::Shuffled,
            seed: None,
            retries: 2,
            wait: WAIT,
            pause: Nanos(0),
        };
        let Some(table) = entry.and_then(|entry| self.table("repeat", entry)) else {
            return repeat;
        };
        for (key, entry) in self.entries(table) {
            // In range of u32 by the limits given.
            let mut count = |most: u32, least: u32| {
                self.whole(&key, entry, u64::from(least), u64::from(most)).map(|n| n as u32)
            };
            match key.as_str() {
                "boots" => repeat.boots = count(MOST_BOOTS, 0).unwrap_or(0),
                "warmup" => repeat.warmup = count(MOST_RUNS, 0).unwrap_or(0),
                "runs" => repeat.runs = count(MOST_RUNS, 1).unwrap_or(1),
                "retries" => repeat.retries = count(100, 0).unwrap_or(0),
                // TOML has 64 bits with a sign.
                "seed" => repeat.seed = self.whole(&key, entry, 0, i64::MAX as u64),
                "wait" => repeat.wait = self.time(&key, entry).unwrap_or(repeat.wait),
                "pause" => repeat.pause = self.time(&key, entry).unwrap_or(repeat.pause),
                "order" => {
                    let orders = [Order::Shuffled, Order::AsWritten, Order::Grouped];
                    let word = entry.value.get_ref().as_str().unwrap_or_default();
                    match orders.into_iter().find(|o| o.name() == word) {
                        Some(order) => repeat.order = order,
                        None => {
                            let names = orders.map(Order::name);
                            let at = self.position(entry.value);
                            let hint = match nearest(word, names) {
                                Some(near) => format!("did you mean \"{near}\"?"),
                                None => "order = \"shuffled\"".to_owned(),
                            };
                            let what = "`order` is \"shuffled\", \"as-written\" or \"grouped\"";
                            self.hinted(at, what, hint);
                        }
                    }
                }
                _ => self.unknown(entry.at, &key, "[repeat]", KEYS),
            }
        }
        repeat
    }

    fn hosts(&mut self, entry: Option<Entry<'a>>) -> Vec<Host> {
        const KEYS: &[&str] = &["address", "port", "key_file", "reboot", "test_address", "device"];
        let Some(entry) = entry else {
            // A campaign of this machine alone.
            return vec![Host {
                name: "local".into(),
                address: None,
                port: PORT,
                test_address: None,
                key_file: None,
                reboot: None,
                device: None,
                at: Position { line: 1, column: 1 },
            }];
        };
        let mut hosts = Vec::new();
        let Some(table) = self.table("hosts", entry) else { return hosts };
        for (name, entry) in self.entries(table) {
            let place = format!("[hosts.{name}]");
            if !is_name(&name) {
                self.fault(entry.at, format!("the host's name `{name}` {NAME_RULE}"));
            }
            let Some(fields) = self.table(&place, entry) else { continue };
            let mut host = Host {
                name,
                address: None,
                port: PORT,
                test_address: None,
                key_file: None,
                reboot: None,
                device: None,
                at: entry.at,
            };
            let mut addressed = false;
            for (key, entry) in self.entries(fields) {
                match key.as_str() {
                    "address" => {
                        addressed = true;
                        host.address = self.address(&key, entry).filter(|a| a != "local");
                    }
                    "test_address" => host.test_address = self.address(&key, entry),
                    "port" => {
                        let port = self.whole(&key, entry, 1, 65_535);
                        host.port = port.map_or(PORT, |p| p as u16);
                    }
                    "key_file" => host.key_file = self.text_of(&key, entry),
                    "device" => host.device = self.text_of(&key, entry),
                    "reboot" => {
                        host.reboot = self.text_of(&key, entry).filter(|text| {
                            let split = words::split(text);
                            if let Err(why) = &split {
                                let at = self.position(entry.value);
                                self.fault(at, format!("`reboot` is no command: {why}"));
                            }
                            split.is_ok()
                        });
                    }
                    _ => self.unknown(entry.at, &key, &place, KEYS),
                }
            }
            if !addressed {
                let what = format!("the host `{}` has no `address`", host.name);
                self.hinted(host.at, what, "a host name, an address, or \"local\"");
            }
            if host.address.is_none() && addressed && host.key_file.is_some() {
                let what = format!("the host `{}` is local and needs no `key_file`", host.name);
                self.fault(host.at, what);
            }
            hosts.push(host);
        }
        let locals: Vec<&Host> = hosts.iter().filter(|h| h.address.is_none()).collect();
        if let [first, second, ..] = locals.as_slice() {
            let what = format!("`{}` and `{}` are both local", first.name, second.name);
            let at = second.at;
            self.hinted(at, what, "there is one machine here: give the other an address");
        }
        if hosts.is_empty() {
            self.fault(entry.at, "[hosts] has no host");
        }
        hosts
    }

    fn address(&mut self, key: &str, entry: Entry<'a>) -> Option<String> {
        let text = self.text_of(key, entry)?;
        let odd = |c: char| c.is_control() || c.is_whitespace() || "/[]@".contains(c);
        if text.len() > 255 || text.contains(odd) {
            let what = format!("`{key}` is a host name or an address, and the port stands apart");
            self.fault(self.position(entry.value), what);
            return None;
        }
        Some(text)
    }

    fn check_reboots(&mut self, repeat: &Repeat, hosts: &[Host], at: Position) {
        let reboots = hosts.iter().any(|h| h.reboot.is_some());
        if repeat.boots > 0 && !reboots && !hosts.is_empty() {
            self.hinted(
                at,
                format!("`boots = {}`, but no host has a `reboot` command", repeat.boots),
                "give the host under test one (reboot = \"systemctl reboot\"), or boots = 0",
            );
        }
        if repeat.boots == 0 && reboots {
            self.notes.push(
                "boots = 0: no host reboots, so a boot effect cannot be told from a difference"
                    .into(),
            );
        }
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
        let mut drafts = match parts.get("matrix") {
            None => bases,
            Some(entry) => match self.table("matrix", *entry) {
                None => bases,
                Some(table) => matrix::expand(self, bases, table, entry.at),
            },
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
            // Its own faults are told.
            return None;
        }
        let names: BTreeSet<&str> = drafts.iter().map(|d| d.name.as_str()).collect();
        let hint = match nearest(&name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let shown: Vec<&str> = drafts.iter().take(8).map(|d| d.name.as_str()).collect();
                format!("the settings are {}", shown.join(", "))
            }
        };
        let at = self.position(entry.value);
        self.hinted(at, format!("the baseline `{name}` is no setting of this plan"), hint);
        None
    }

    fn host_index(&mut self, key: &str, entry: Entry<'a>, hosts: &[Host]) -> Option<usize> {
        let name = self.text_of(key, entry)?;
        let found = hosts.iter().position(|h| h.name == name);
        if found.is_none() {
            let at = self.position(entry.value);
            self.no_host(at, &name, hosts);
        }
        found
    }

    fn no_host(&mut self, at: Position, name: &str, hosts: &[Host]) {
        let names = hosts.iter().map(|h| h.name.as_str());
        let hint = match nearest(name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("[hosts] has {}", names.collect::<Vec<_>>().join(", ")),
        };
        self.hinted(at, format!("no host `{name}` in this plan"), hint);
    }

    fn setting(&mut self, draft: &Draft<'a>, hosts: &[Host]) -> Option<Setting> {
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
    fn ends(
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

    fn test(&mut self, draft: &Draft<'a>, entries: &Entries<'a>) -> Option<Workload> {
        let verbs: Vec<&str> = self.vocabulary.verbs.iter().map(|(v, _)| v.as_str()).collect();
        let Some(entry) = entries.get("test") else {
            let what = format!("`{}` has neither `test` nor `command`", draft.name);
            let hint =
                format!("test = \"tcp\", here or in [defaults]; tests are {}", verbs.join(", "));
            self.hinted(draft.at, what, hint);
            return None;
        };
        let verb = self.text_of("test", *entry)?;
        let Some(known) = self.vocabulary.options(&verb) else {
            let at = self.position(entry.value);
            self.hinted(at, format!("no test `{verb}`"), format!("tests are {}", verbs.join(", ")));
            return None;
        };
        let mut options = Vec::new();
        for (key, entry) in entries {
            if key.starts_with("set.")
                || ["test", "from", "to", "metric", "set"].contains(&key.as_str())
            {
                continue;
            }
            if known.iter().any(|k| k == key) {
                let value = self.scalar(key, entry.value)?;
                options.push(TestOption { key: key.clone(), value, at: entry.at });
            } else if entry.by == By::Defaults {
                let note = format!("{}: the default `{key}` means nothing to {verb}", draft.name);
                self.notes.push(note);
            } else {
                let all: Vec<&str> =
                    known.iter().map(String::as_str).chain(SETTING_KEYS.iter().copied()).collect();
                let hint = match nearest(key, all.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("`linerate {verb} --help` lists the options of a {verb} test"),
                };
                let what = format!("unknown key `{key}` in a setting with test = \"{verb}\"");
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
        Some(Workload::Test { verb, options, metric })
    }

    fn command(
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

    fn extract(&mut self, entry: Entry<'a>) -> Option<Extract> {
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

    fn changes(&mut self, entries: &Entries<'a>, hosts: &[Host]) -> Vec<Change> {
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

    pub(super) fn scalar(&mut self, key: &str, value: &'a Spanned<DeValue<'a>>) -> Option<Scalar> {
        let at = self.position(value);
        match value.get_ref() {
            DeValue::Boolean(b) => Some(Scalar::Bool(*b)),
            DeValue::String(text) => Some(Scalar::Text(text.to_string())),
            DeValue::Integer(i) => {
                let number = i64::from_str_radix(&i.as_str().replace('_', ""), i.radix());
                if number.is_err() {
                    self.fault(at, format!("`{key}` does not fit into 64 bits"));
                }
                number.ok().map(Scalar::Integer)
            }
            DeValue::Float(x) => {
                let number = x.as_str().replace('_', "").parse().ok();
                let number = number.filter(|x: &f64| x.is_finite());
                if number.is_none() {
                    self.fault(at, format!("`{key}` is not a finite number"));
                }
                number.map(Scalar::Float)
            }
            DeValue::Array(items) => {
                let items: Option<Vec<Scalar>> =
                    items.iter().map(|item| self.scalar(key, item)).collect();
                items.map(Scalar::List)
            }
            DeValue::Table(_) => {
                self.fault(at, format!("`{key}` is no table"));
                None
            }
            DeValue::Datetime(_) => {
                self.fault(at, format!("`{key}` is no date"));
                None
            }
        }
    }
}

pub(super) const NAME_RULE: &str =
    "is not made of 1 to 64 letters, digits, `_`, `-`, `.` and `+` (it becomes a file's name)";

/// Whether `name` may be that of a file, in any folder and on any file system.
pub(super) fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(good) && !name.starts_with(['.', '-'])
}
