//! What a fleet of agents is held to, with a real nats-server and a real PostgreSQL. Agents and coordinators are tasks here,
//! or processes that are killed, that speak as those of the program do; no data is sent. Prints each target beside what
//! was reached; fails where something was lost, doubled or granted twice, and not by how long something took. What is kept
//! is kept in `TMPDIR`, by whose disk most of it is bound.
//!
//! ```text
//! cargo run --release -p linerate --features nats,postgres --example fleet_targets [connected|rate|lost]
//!     [--agents 10000] [--seconds 60] [--results 100000]
//! ```

mod agents;
mod connected;
mod lost;
mod rate;
mod world;

use std::process::ExitCode;
use std::time::Duration;

/// How much of it.
struct Sizes {
    agents: usize,
    seconds: u64,
    results: u32,
}

/// A row of the table.
fn row(what: &str, target: &str, reached: &str) {
    println!("| {what} | {target} | {reached} |");
}

/// The largest of all but the worst of a hundred.
fn p99(mut all: Vec<Duration>) -> Duration {
    all.sort();
    let at = all.len().saturating_mul(99).div_ceil(100).saturating_sub(1);
    all.get(at).copied().unwrap_or_default()
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["as-agents", folder, first, last] => return lost::agents(folder.as_ref(), first, last),
        ["as-coordinator", folder] => return lost::coordinator(folder.as_ref()),
        _ => {}
    }
    let mut sizes = Sizes { agents: 10_000, seconds: 60, results: 100_000 };
    let mut parts = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let number = |text: Option<&String>| text.and_then(|text| text.parse::<u32>().ok());
        match word.as_str() {
            "connected" | "rate" | "lost" => parts.push(word.as_str()),
            "--agents" => sizes.agents = number(rest.next()).expect("a number") as usize,
            "--seconds" => sizes.seconds = number(rest.next()).expect("a number").into(),
            "--results" => sizes.results = number(rest.next()).expect("a number"),
            other => {
                panic!("`{other}` is none of connected, rate, lost, --agents, --seconds, --results")
            }
        }
    }
    if parts.is_empty() {
        parts = vec!["connected", "rate", "lost"];
    }
    world::raise_descriptors();
    println!("| what | target | reached |\n|---|---|---|");
    let disk = std::env::temp_dir().display().to_string();
    row(
        &format!("fsyncs of {disk} in a second, one after the other"),
        "",
        &world::syncs().to_string(),
    );
    for part in parts {
        match part {
            "connected" => connected::measure(&sizes),
            "rate" => rate::measure(&sizes),
            _ => lost::measure(&sizes),
        }
    }
    ExitCode::SUCCESS
}
