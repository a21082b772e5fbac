//! A finding as a check makes it, before it has a name and a host.

use linerate_model::doctor::{Finding, Severity};
use linerate_model::record::TestEnd;
use linerate_model::setting::{Setting, SettingValue};

/// What a check found.
pub(crate) struct Draft(Finding);

/// A finding that matters so much: what is, and why that matters.
pub(crate) fn found(severity: Severity, what: impl Into<String>, why: impl Into<String>) -> Draft {
    Draft(Finding {
        id: String::new(),
        host: TestEnd::Client,
        severity,
        what: what.into(),
        why: why.into(),
        change: Vec::new(),
        undo: Vec::new(),
        setting: None,
        effect: String::new(),
    })
}

impl Draft {
    /// What to run, and what undoes it.
    pub(crate) fn run(mut self, change: impl Into<String>, undo: impl Into<String>) -> Self {
        self.0.change.push(change.into());
        let undo = undo.into();
        if !undo.is_empty() {
            self.0.undo.push(undo);
        }
        self
    }

    /// How linerate sets it itself.
    pub(crate) fn set(mut self, name: &str, value: SettingValue) -> Self {
        self.0.setting = Setting::new(name, value).ok();
        self
    }

    /// A kernel parameter that shall be another.
    pub(crate) fn sysctl(self, name: &str, now: &str, then: &str) -> Self {
        let value =
            then.parse().map_or_else(|_| SettingValue::Text(then.to_owned()), SettingValue::Number);
        self.run(sysctl(name, then), sysctl(name, now)).set(&format!("sysctl.{name}"), value)
    }

    /// Where it stands, by whom; what it is worth is not measured.
    pub(crate) fn source(mut self, source: &str) -> Self {
        self.0.effect = format!("not measured; {source}");
        self
    }

    pub(crate) fn finding(self, id: String, host: TestEnd) -> Finding {
        Finding { id, host, ..self.0 }
    }
}

fn sysctl(name: &str, value: &str) -> String {
    if value.contains(char::is_whitespace) {
        format!("sysctl -w {name}=\"{value}\"")
    } else {
        format!("sysctl -w {name}={value}")
    }
}
