//! All that is measured, as a file or a command line says it: the hosts, what some of them are called together, what they
//! share, which are measured with which, and the test.
//!
//! ```toml
//! hosts = ["a", "b:5301", "c", "d"]
//! pairs = "bipartite=west/c,d"    # all where nothing is said
//! each_way = true                 # false where nothing is said
//! at_once = true                  # the same; without [share]
//!
//! [groups]
//! west = ["a", "b:5301"]
//!
//! [share]
//! "link:uplink" = ["west"]
//!
//! [test]
//! test = "udp"                    # or tcp, or rr; the rest are its long options, with _ for -
//! rate = "100M"
//! time = "5s"
//! metric = "loss"                 # what is kept of it, as of a campaign
//!
//! [set]                           # on both hosts of a test while it lasts
//! offload.gro = false
//! sysctl.net.core.rmem_max = 8388608
//! ```

use std::collections::BTreeMap;

use linerate_model::setting::{Setting, SettingValue};
use serde::Deserialize;
use toml::{Table, Value};

use crate::plan::{Fleet, Pair, PlanError, Shape};

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The hosts.
    pub hosts: Vec<String>,
    /// What some of them are called together. Members may be groups.
    pub groups: Vec<(String, Vec<String>)>,
    /// What hosts share, by its text.
    pub share: Vec<(String, Vec<String>)>,
    /// Which are measured with which.
    pub pairs: Shape,
    /// Each pair the other way as well.
    pub each_way: bool,
    /// Tests may meet at a server.
    pub may_meet: bool,
    /// The test as words of a command line, without a host.
    pub test: Vec<String>,
    /// The figure that is kept of each test, where it is said.
    pub metric: Option<String>,
    /// What is set on both hosts of a test while it lasts.
    pub set: Vec<Setting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    hosts: Vec<String>,
    #[serde(default = "all")]
    pairs: String,
    #[serde(default)]
    each_way: bool,
    #[serde(default)]
    at_once: bool,
    #[serde(default)]
    groups: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    share: BTreeMap<String, Vec<String>>,
    test: Table,
    #[serde(default)]
    set: Table,
}

fn all() -> String {
    "all".to_owned()
}

/// Understands a file's text.
///
/// # Errors
/// Which line is not understood, and why. The options of the test are words for whoever runs it.
pub fn read(text: &str) -> Result<Written, PlanError> {
    let Text { hosts, pairs, each_way, at_once, groups, share, mut test, set } =
        toml::from_str(text).map_err(|why| fault(&why.to_string()))?;
    let metric = match test.remove("metric") {
        None => None,
        Some(Value::String(metric)) => Some(metric),
        Some(other) => return Err(fault(&format!("`metric = {other}` of the test is no text"))),
    };
    let mut settings = Vec::new();
    flatten("", set, &mut settings)?;
    Ok(Written {
        hosts,
        groups: groups.into_iter().collect(),
        share: share.into_iter().collect(),
        pairs: pairs.parse()?,
        each_way,
        may_meet: at_once,
        test: words(test)?,
        metric,
        set: settings,
    })
}

fn fault(why: &str) -> PlanError {
    PlanError { what: "cannot use the plan".to_owned(), why: why.trim_end().to_owned(), hint: None }
}

/// Settings by their dotted names, of tables in tables.
fn flatten(path: &str, table: Table, settings: &mut Vec<Setting>) -> Result<(), PlanError> {
    for (key, value) in table {
        let name = if path.is_empty() { key } else { format!("{path}.{key}") };
        let value = match value {
            Value::Table(below) => {
                flatten(&name, below, settings)?;
                continue;
            }
            Value::Boolean(switch) => SettingValue::Switch(switch),
            Value::String(text) => SettingValue::Text(text),
            Value::Integer(number) if number >= 0 => SettingValue::Number(number.unsigned_abs()),
            other => {
                return Err(fault(&format!("`{name} = {other}` is no text, count, true or false")));
            }
        };
        let setting = Setting::new(&name, value).map_err(|error| PlanError {
            hint: error.hints.first().cloned(),
            ..fault(&format!("{}: {}", error.what, error.why))
        })?;
        settings.push(setting);
    }
    Ok(())
}

/// A table of options as the words that say the same.
fn words(mut test: Table) -> Result<Vec<String>, PlanError> {
    let Some(Value::String(verb)) = test.remove("test") else {
        let hint = Some("[test] with test = \"udp\", \"tcp\" or \"rr\"".to_owned());
        return Err(PlanError { hint, ..fault("it does not say which test") });
    };
    let mut words = vec![verb];
    for (key, value) in test {
        let option = format!("--{}", key.replace('_', "-"));
        words.extend(match value {
            // As in a plan of a campaign.
            Value::Integer(family @ (4 | 6)) if key == "ip" => Some(format!("--ipv{family}")),
            Value::Boolean(said) => said.then_some(option),
            Value::Integer(number) => Some(format!("{option}={number}")),
            Value::String(text) => Some(format!("{option}={text}")),
            other => {
                let why =
                    format!("`{key} = {other}` of the test is no text, number, true or false");
                return Err(fault(&why));
            }
        });
    }
    Ok(words)
}

impl Written {
    /// The fleet and its pairs.
    ///
    /// # Errors
    /// Which part makes no sense, and why.
    pub fn fleet(&self) -> Result<(Fleet, Vec<Pair>), PlanError> {
        let mut fleet = Fleet::new(self.hosts.clone())?;
        // Whichever comes first: a file has no order.
        let mut groups: Vec<&(String, Vec<String>)> = self.groups.iter().collect();
        while let Some(first) = groups.first().copied() {
            let known = groups.iter().position(|(name, hosts)| fleet.group(name, hosts).is_ok());
            if let Some(known) = known {
                groups.remove(known);
                continue;
            }
            // What all others wait for is at fault.
            let waits = |host: &String| groups.iter().any(|(name, _)| name == host);
            let at_fault = groups.iter().find(|(_, hosts)| !hosts.iter().any(waits));
            let (name, hosts) = at_fault.copied().unwrap_or(first);
            fleet.group(name, hosts)?;
        }
        if self.may_meet {
            fleet.meet();
        }
        for (resource, hosts) in &self.share {
            if self.may_meet {
                let why = "tests that may all meet share it with any number of others";
                let what = format!("cannot use the resource `{resource}`");
                return Err(PlanError { what, why: why.to_owned(), hint: None });
            }
            fleet.share(resource.parse()?, hosts)?;
        }
        let pairs = fleet.pairs(&self.pairs, self.each_way)?;
        Ok((fleet, pairs))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: &str = r#"
        hosts = ["a", "b:5301", "c", "d"]
        pairs = "bipartite=west/c,d"
        each_way = true
        [groups]
        most = ["west", "c"]
        west = ["a", "b:5301"]
        [share]
        "link:uplink" = ["west"]
        [test]
        test = "udp"
        rate = "100M"
        streams = 2
        no_checksum = true
        reverse = false
        ip = 6
        metric = "loss"
        [set]
        offload.gro = false
        sysctl.net.core.rmem_max = 8388608
    "#;

    #[test]
    fn a_plan_says_what_a_command_line_says() {
        let plan = read(WHOLE).unwrap();
        assert_eq!(plan.test.join(" "), "udp --ipv6 --no-checksum --rate=100M --streams=2");
        assert_eq!((plan.metric.as_deref(), plan.each_way), (Some("loss"), true));
        let set: Vec<String> = plan.set.iter().map(ToString::to_string).collect();
        assert_eq!(set, ["offload.gro = off", "sysctl.net.core.rmem_max = 8388608"]);
        let (fleet, pairs) = plan.fleet().unwrap();
        let name = |host: usize| fleet.hosts()[host].as_str();
        let shown: Vec<_> =
            pairs.iter().map(|pair| [name(pair.from), name(pair.to)].join("/")).collect();
        assert_eq!(shown.join(" "), "a/c b:5301/d a/d b:5301/c c/a d/b:5301 d/a c/b:5301");
        assert!(pairs.iter().all(|pair| fleet.resources(*pair).len() == 3), "all cross the link");
        let least = read("hosts = [\"a\", \"b\"]\n[test]\ntest = \"rr\"").unwrap();
        assert_eq!((least.pairs.clone(), least.each_way), (Shape::All, false));
        assert_eq!((least.test.clone(), least.metric.clone()), (vec!["rr".to_owned()], None));
        assert_eq!(least.fleet().unwrap().1.len(), 1);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let with = |line: &str| format!("hosts = [\"a\", \"b\"]\n{line}\n[test]\ntest = \"tcp\"\n");
        for (text, named) in [
            ("", "missing field"),
            ("hosts = [\"a\", \"b\"]", "missing field `test`"),
            ("hosts = [\"a\", \"b\"]\n[test]\nrate = \"1M\"", "it does not say which test"),
            (&with("host = \"a\""), "unknown field `host`"),
            (&with("pairs = \"mesh\""), "it is no shape"),
            (&with("[groups]\nwest = [\"x\"]"), "there is no host or group `x`"),
            (&with("[groups]\nx = [\"y\"]\ny = [\"x\"]"), "there is no host or group `y`"),
            (&with("[groups]\nx = [\"y\"]\ny = [\"z\"]"), "there is no host or group `z`"),
            (&with("[groups]\na = [\"b\"]"), "a host or group has this name"),
            (&with("[share]\nrouter = [\"a\"]"), "it is none of"),
            (&with("at_once = true\n[share]\n\"nic:x\" = [\"a\"]"), "tests that may all meet"),
            (&(with("") + "time = 1.5"), "`time = 1.5` of the test"),
            (&(with("") + "rate = [\"1M\"]"), "of the test is no text"),
            (&(with("") + "[set]\noffload.nothing-such = true"), "offload.nothing-such"),
            (&(with("") + "[set]\nmtu = 1.5"), "`mtu = 1.5` is no text"),
            (&(with("") + "[set]\nmtu = -1"), "`mtu = -1` is no text"),
            (&(with("") + "metric = 3"), "`metric = 3` of the test"),
        ] {
            let found = read(text).and_then(|plan| plan.fleet()).unwrap_err().to_string();
            assert!(found.contains(named), "{text}: {found}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "(hosts|pairs|test|groups|share|[a-c=\\[\\]\"{}.,\n ])*") {
            if let Ok(plan) = read(&text) {
                let _ = plan.fleet();
            }
        }
    }
}
