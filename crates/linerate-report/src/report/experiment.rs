//! What sweeps, searches and tunings have in common in a report.

use linerate_model::host::HostFacts;
use linerate_model::plan::PlanDirection;
use linerate_model::record::{Doubt, ErrorRecord, PlanRecord, Status};

use super::builder::Builder;
use super::head::{self, Subject};
use super::view::Section;
use super::words::settings;
use crate::clean::clean;
use crate::run::view::command_line;

/// The fields that their documents have.
pub(super) struct Experiment<'a> {
    /// sweep, search or tuning.
    pub kind: &'static str,
    pub label: Option<&'a str>,
    pub title: Option<&'a str>,
    pub target: Option<&'a str>,
    pub client: Option<&'a HostFacts>,
    pub server: Option<&'a HostFacts>,
    pub plan: Option<&'a PlanRecord>,
    pub started: &'a str,
    pub command: &'a [String],
    pub status: Status,
    pub error: Option<&'a ErrorRecord>,
    pub because: &'a [String],
    pub advice: &'a [String],
    pub doubts: &'a [Doubt],
}

/// Those of a document.
macro_rules! experiment {
    ($kind:literal, $document:expr) => {
        Experiment {
            kind: $kind,
            label: $document.label.as_deref(),
            title: $document.title.as_deref(),
            target: $document.target.as_deref(),
            client: $document.client.as_ref(),
            server: $document.server.as_ref(),
            plan: $document.plan.as_ref(),
            started: &$document.started,
            command: &$document.command,
            status: $document.status,
            error: $document.error.as_ref(),
            because: &$document.because,
            advice: &$document.advice,
            doubts: &$document.doubts,
        }
    };
}
pub(super) use experiment;

impl Experiment<'_> {
    /// Names it and its hosts; gives back its section, which says so where it is not complete.
    /// `heading` and `what` stand for the user's title where there is none.
    pub fn begin(
        &self,
        builder: &mut Builder,
        source: &str,
        (heading, what): (&str, &str),
        direction: PlanDirection,
    ) -> Section {
        for facts in [self.client, self.server].into_iter().flatten() {
            builder.host(facts, &format!("{} {source}", self.kind));
        }
        let called = |otherwise| head::called(self.label, self.title, otherwise);
        builder.subjects.push(Subject {
            what: called(what),
            between: head::between(self.client, self.server, self.target, Some(direction)),
            when: self.started.to_owned(),
            kind: self.kind.to_owned(),
        });
        let mut section = Section {
            title: format!("{} ({source})", called(heading)),
            command: (!self.command.is_empty()).then(|| command_line(self.command)),
            ..Section::default()
        };
        if self.status != Status::Complete {
            let why = self.error.map_or("it was cut short".into(), |e| clean(&e.what));
            section.words.push(format!("This {} did not come to its end: {why}", self.kind));
        }
        section
    }

    /// Says what was found, what to try and what to doubt, and with which settings.
    pub fn conclude(&self, builder: &mut Builder, source: &str, section: &mut Section) {
        section.words.extend(self.because.iter().map(|b| clean(b).into_owned()));
        builder.found(source, &mut section.words);
        section.words.extend(self.advice.iter().map(|a| format!("Try: {}", clean(a))));
        section.words.extend(self.doubts.iter().map(|d| format!("Doubt: {}", clean(&d.text))));
        section.facts = self.plan.map(settings).unwrap_or_default();
        section.facts.push(("started".into(), clean(self.started).into_owned()));
    }
}
