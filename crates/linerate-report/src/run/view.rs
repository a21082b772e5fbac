//! What is said before and after the table: the head of a test, and its ending with the facts, the
//! verdict, the advice and the doubts. All computed and worded; a format only places it.

use linerate_model::host::HostFacts;
use linerate_model::plan::{PlanDirection, TrafficKind, Transport};
use linerate_model::record::{PlanRecord, RunRecord, Status};
use linerate_model::word::Word;

use super::facts::{Facts, facts};
use super::headline::{self, Headline};
use super::table::{Row, Table};
use super::words::{self, plural, sentence};
use crate::clean::{clean, shell_word};
use crate::number;

/// What runs where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The command that repeats it.
    pub title: String,
    /// Protocol, sizes, direction, rate and length.
    pub summary: String,
    /// The two hosts.
    pub hosts: String,
}

impl Head {
    /// From a record that has at least its plan and the client's host.
    pub fn new(record: &RunRecord) -> Self {
        let plan = record.agreed.as_ref().unwrap_or(&record.asked);
        let title = if let Some(title) = &record.title {
            clean(title).into_owned()
        } else if record.command.is_empty() {
            let target = record.target.as_deref().unwrap_or("--local");
            format!("linerate {} {}", clean(plan.protocol.name()), clean(target))
        } else {
            command_line(&record.command)
        };
        let far = match &record.server {
            Some(server)
                if record.target.is_none() && server.hostname == record.client.hostname =>
            {
                "itself, over loopback".to_owned()
            }
            Some(server) => host(server),
            None if plan.direction == PlanDirection::Discard => "nobody: send only".to_owned(),
            None => "unknown".to_owned(),
        };
        Self { title, summary: summary(plan), hosts: format!("{} → {far}", host(&record.client)) }
    }
}

/// A command line that can be pasted.
pub(crate) fn command_line(words: &[String]) -> String {
    words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

fn host(facts: &HostFacts) -> String {
    let mut details = Vec::new();
    details.extend(facts.kernel.as_deref().map(|kernel| format!("kernel {}", clean(kernel))));
    details.extend(facts.cores.map(|cores| plural(u64::from(cores), "core")));
    details.extend(facts.nic.as_ref().map(|nic| match nic.mtu {
        Some(mtu) => format!("{} MTU {mtu}", clean(&nic.name)),
        None => clean(&nic.name).into_owned(),
    }));
    let name = clean(&facts.hostname);
    if details.is_empty() { name.into_owned() } else { format!("{name} ({})", details.join(", ")) }
}

fn summary(plan: &PlanRecord) -> String {
    let rr = plan.protocol == TrafficKind::Rr;
    let transport = plan.transport.as_ref().map_or(Transport::Tcp.name(), Word::name);
    let name = if rr { format!("rr over {transport}") } else { plan.protocol.to_string() };
    let name = clean(&name).to_uppercase().replace("OVER", "over");
    let mut parts = vec![match plan.ip {
        Some(ip) => format!("{name} IPv{ip}"),
        None => name,
    }];
    let amount = plan.datagram_bytes.or(plan.block_bytes);
    parts.extend(amount.map(|bytes| match plan.protocol {
        Word::Known(TrafficKind::Tcp) => format!("blocks of {}", number::bytes(u64::from(bytes))),
        _ => format!("{bytes} B"),
    }));
    if let (Some(request), Some(response)) = (plan.request_bytes, plan.response_bytes) {
        parts.push(format!("{request} B / {response} B"));
    }
    parts.push(plural(u64::from(plan.streams), "stream"));
    match &plan.direction {
        Word::Known(PlanDirection::Both) => parts.push("both ways".to_owned()),
        Word::Known(PlanDirection::Discard) => parts.push("send only".to_owned()),
        _ if rr => {}
        direction => parts.push(clean(direction.name()).into_owned()),
    }
    parts.extend(plan.outstanding.filter(|_| rr).map(|n| format!("{n} outstanding")));
    match (plan.rate_pps, plan.rate_bps, plan.rate_tps) {
        (Some(pps), _, _) => parts.push(number_per_second(pps, "datagrams")),
        (_, Some(bps), _) => parts.push(number::rate(bps as f64)),
        (_, _, Some(tps)) => parts.push(number_per_second(tps, "transactions")),
        _ if plan.protocol == TrafficKind::Udp => parts.push("no rate limit".to_owned()),
        _ => {}
    }
    parts.extend(plan.duration_s.map(number::chosen_seconds));
    parts.extend(plan.bytes.map(number::bytes));
    parts.extend(plan.datagrams.map(|datagrams| plural(datagrams, "datagram")));
    parts.join(" · ")
}

fn number_per_second(n: u64, noun: &str) -> String {
    format!("{} {noun}/s", number::short(n as f64))
}

/// What is said when the test is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The whole test, a row a direction.
    pub totals: Vec<Row>,
    /// A row a stream, when there are several.
    pub streams: Vec<Row>,
    /// Streams that got no row.
    pub streams_left_out: usize,
    /// Everything that is known of it.
    pub facts: Facts,
    /// How it ended, unless it is complete: the word for it and the reason.
    pub broken: Option<(&'static str, String)>,
    /// What limited it.
    pub verdict: Option<String>,
    /// What to try.
    pub advice: Vec<String>,
    /// Why the figures may not mean what they seem to.
    pub doubts: Vec<String>,
    /// The answer.
    pub headline: Headline,
    /// The facts that are shown where not all were asked for.
    pub details: Facts,
    /// The doubts that are then shown in full.
    pub worst_doubts: Vec<String>,
    /// Those that every test of this kind has, in a line.
    pub usual_doubts: Option<String>,
}

impl Ending {
    /// From a finished record and the table that showed its intervals.
    pub fn new(record: &RunRecord, table: &Table) -> Self {
        let (streams, streams_left_out) = table.streams(record);
        let verdict = record.verdict.as_ref();
        let (worst_doubts, usual_doubts) = headline::doubts(record);
        Self {
            totals: table.totals(record),
            streams,
            streams_left_out,
            facts: facts(record),
            broken: broken(record),
            verdict: verdict.map(|v| sentence(words::headline(v.limit), &v.because)),
            advice: verdict
                .map(|v| v.advice.iter().map(|a| clean(a).into_owned()).collect())
                .unwrap_or_default(),
            doubts: record.doubts.iter().map(|d| clean(&d.text).into_owned()).collect(),
            headline: Headline::new(record),
            details: headline::details(record),
            worst_doubts,
            usual_doubts,
        }
    }
}

fn broken(record: &RunRecord) -> Option<(&'static str, String)> {
    let word = match record.status {
        Status::Complete => return None,
        Status::Partial => "partial",
        Status::Failed => "failed",
        Status::Invalid => "invalid",
    };
    let text = match (&record.error, record.status) {
        (Some(error), Status::Invalid) => {
            format!("do not use these numbers: {} ({})", clean(&error.what), clean(&error.why))
        }
        (Some(error), _) if !error.why.is_empty() => {
            format!("{} ({})", clean(&error.what), clean(&error.why))
        }
        (Some(error), _) => clean(&error.what).into_owned(),
        (None, Status::Partial) => "it was cut short".to_owned(),
        (None, _) => "no reason was recorded".to_owned(),
    };
    Some((word, text))
}
