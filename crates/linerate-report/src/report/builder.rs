//! What the parts of a report are gathered in.

use linerate_model::host::HostFacts;

use super::head::{Headline, Subject};
use super::view::{HostView, Row, RunView, Section};
use crate::clean::clean;

/// What the parts of a report add to.
#[derive(Default)]
pub(super) struct Builder {
    pub words: Vec<String>,
    pub sections: Vec<Section>,
    pub runs: Vec<RunView>,
    pub hosts: Vec<HostView>,
    pub rows: Vec<Row>,
    pub overview: Vec<Overview>,
    pub subjects: Vec<Subject>,
    pub headlines: Vec<Headline>,
    /// Whether the report is on one thing, of which its top says everything.
    pub alone: bool,
    /// Of what it is, and how many of each.
    pub kinds: Vec<(&'static str, usize)>,
}

impl Builder {
    /// What a section has found stands at the top of the report; where there are several, with its
    /// source, and in the section as well.
    pub fn found(&mut self, source: &str, words: &mut Vec<String>) {
        if self.alone {
            self.words.append(words);
        } else {
            self.words.extend(words.iter().map(|w| format!("{source}: {w}")));
        }
    }

    /// Notes a host and during what it was so; gives back which it is.
    pub fn host(&mut self, facts: &HostFacts, during: &str) -> usize {
        let view = HostView {
            name: clean(&facts.hostname).into_owned(),
            facts: host_facts(facts),
            during: Vec::new(),
        };
        let known = self.hosts.iter().position(|h| h.name == view.name && h.facts == view.facts);
        let index = known.unwrap_or_else(|| {
            self.hosts.push(view);
            self.hosts.len() - 1
        });
        if let Some(host) = self.hosts.get_mut(index)
            && !during.is_empty()
            && !host.during.iter().any(|d| d == during)
        {
            host.during.push(during.to_owned());
        }
        index
    }

    /// One more of a kind.
    pub fn count(&mut self, kind: &'static str) {
        match self.kinds.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, n)) => *n += 1,
            None => self.kinds.push((kind, 1)),
        }
    }
}

/// What the overview of all runs needs of one.
pub(super) struct Overview {
    pub sent: Option<f64>,
    pub received: Option<f64>,
    pub lost: Option<f64>,
    /// Of the run, from 1.
    pub number: usize,
}

fn host_facts(facts: &HostFacts) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut add = |label: &str, text: Option<String>| {
        out.extend(text.map(|text| (label.to_owned(), clean(&text).into_owned())));
    };
    add("system", facts.os.clone());
    add("kernel", facts.kernel.clone());
    add("processor", facts.cpu_model.clone());
    add("cores", facts.cores.map(|c| c.to_string()));
    add("boot", facts.boot_id.clone());
    add("receive buffer at most", facts.rmem_max_bytes.map(crate::number::bytes));
    add("send buffer at most", facts.wmem_max_bytes.map(crate::number::bytes));
    if let Some(nic) = &facts.nic {
        add("interface", Some(nic.name.clone()));
        add("driver", nic.driver.clone());
        add("speed", nic.speed_mbps.map(|s| format!("{s} Mbit/s")));
        add("MTU", nic.mtu.map(|m| m.to_string()));
        for (label, on) in [("offloads on", true), ("offloads off", false)] {
            let names: Vec<&str> =
                nic.offloads.iter().filter(|o| o.on == on).map(|o| o.name.as_str()).collect();
            // All of them are more than `clean` lets pass as one text.
            for names in names.chunks(30) {
                add(label, Some(names.join(", ")));
            }
        }
        let cores: Vec<String> = nic.irq_cores.iter().map(u32::to_string).collect();
        add("its interrupts on cores", (!cores.is_empty()).then(|| cores.join(", ")));
    }
    add("linerate", Some(facts.linerate.clone()));
    out
}
