//! `campaign status`.

use std::io::Write as _;
use std::path::Path;

use linerate_experiment::campaign::control::{Controller, Pace};
use linerate_model::campaign::{CampaignState, CampaignStatus, Event};
use linerate_model::record::ErrorRecord;
use linerate_report::clean::clean;
use linerate_store::Reader;

use super::show::span;
use super::{Read, store_error};
use crate::exit::Exit;

/// Prints it. A campaign that is not whole is no error of this verb: damage is.
pub fn status(path: &Path, json: bool) -> Result<Exit, ErrorRecord> {
    let status = read(path)?;
    let mut text = if json {
        serde_json::to_string_pretty(&status).unwrap_or_default()
    } else {
        words(&status)
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(if status.lost + status.doubled == 0 { Exit::Complete } else { Exit::Invalid })
}

/// From the store alone.
pub fn read(path: &Path) -> Result<CampaignStatus, ErrorRecord> {
    let running = linerate_store::is_locked(path);
    let reader = Reader::open(path).map_err(store_error)?;
    let meta = reader.meta().map_err(store_error)?;
    let checked = Read::from(meta.plan.clone(), &meta.plan_path)?;
    let plan = &checked.plan;
    let rebooted = plan.rebooted().iter().map(|&h| plan.hosts[h].name.clone()).collect();
    let slots = reader.slots().map_err(store_error)?;
    let mut controller = Controller::new(slots, rebooted, Vec::new(), plan.repeat.retries);
    let (lost, doubled) = reader.lost_and_doubled();
    let events = reader.events().map_err(store_error)?;
    if lost == 0 {
        super::replay(&mut controller, &reader)?;
    } else {
        for (_, event) in &events {
            controller.observe(event, None);
        }
    }
    let last = events.iter().rev().map(|(_, e)| e);
    let mut last = last.skip_while(|e| matches!(e, Event::Restored { .. }) && running);
    let (mut waiting_for, mut why) = (None, None);
    let done = controller.open().next().is_none();
    let state = match last.next() {
        _ if done && !running => CampaignState::Done,
        Some(Event::Waiting { what }) if running => {
            waiting_for = Some(what.clone());
            CampaignState::Waiting
        }
        _ if running => CampaignState::Running,
        Some(Event::Restored { .. }) => CampaignState::Restored,
        Some(Event::Stopped { why: text }) => {
            why = Some(text.clone());
            let chosen = text == "interrupted" || text.contains("reboots");
            if chosen { CampaignState::Stopped } else { CampaignState::Failed }
        }
        _ => CampaignState::Stopped,
    };
    if let (CampaignState::Stopped, None) = (state, &why) {
        why = Some("its controller ended without a word: `linerate campaign resume`".to_owned());
    }
    let filled = controller.filled();
    let pace = pace(&checked, &reader)?;
    let eta_s =
        (filled > 0 && !done).then(|| super::left(plan, &checked.prepared, &controller, pace));
    let (cut, failed) = controller.cut_and_failed();
    let (boots_done, boots) = controller.boots_done();
    Ok(CampaignStatus {
        format: 1,
        name: meta.name,
        state,
        done: filled,
        total: controller.slots().len() as u64,
        lost,
        doubled,
        cut,
        failed,
        boots_done,
        boots,
        waiting_for,
        eta_s,
        short: controller.short(),
        why,
    })
}

/// What runs and reboots have taken so far.
fn pace(read: &Read, reader: &Reader) -> Result<Pace, ErrorRecord> {
    let mut pace = Pace::default();
    let runs = reader.runs_briefly().map_err(store_error)?;
    let over: Vec<f64> = runs
        .iter()
        .filter(|run| run.error.is_none())
        .filter_map(|run| {
            let at = read.plan.settings.iter().position(|s| s.name == run.setting)?;
            Some((run.seconds - read.prepared[at].seconds).max(0.0))
        })
        .collect();
    if !over.is_empty() {
        pace.overhead_s = over.iter().sum::<f64>() / over.len() as f64;
    }
    let mut began = None;
    for (at, event) in reader.events().map_err(store_error)? {
        let at = at.parse::<jiff::Timestamp>().ok();
        match event {
            Event::BootBegan { .. } => began = at,
            Event::BootProved { .. } => {
                if let (Some(began), Some(at)) = (began.take(), at) {
                    pace.boot_s = (at.as_second() - began.as_second()).max(1) as f64;
                }
            }
            _ => {}
        }
    }
    Ok(pace)
}

fn words(status: &CampaignStatus) -> String {
    let state = match (&status.state, &status.waiting_for) {
        (CampaignState::Waiting, Some(what)) => format!("waits for {what}"),
        (CampaignState::Running, _) => "running".into(),
        (CampaignState::Done, _) => "done".into(),
        (CampaignState::Stopped, _) => "stopped".into(),
        (CampaignState::Failed, _) => "failed".into(),
        (CampaignState::Restored, _) => "stopped; its hosts were put back".into(),
        (CampaignState::Waiting, None) => "waits".into(),
    };
    let mut lines = vec![format!("{}: {state}", status.name)];
    let percent = 100.0 * status.done as f64 / status.total.max(1) as f64;
    let boots = match status.boots {
        0 => String::new(),
        n => format!(" · {} of {n} boots", status.boots_done),
    };
    let left = status.eta_s.map(|s| format!(" · about {} left", span(s))).unwrap_or_default();
    lines
        .push(format!("runs    {} of {} ({percent:.0} %){boots}{left}", status.done, status.total));
    lines.push(format!(
        "kept    {} lost · {} doubled · {} cut and repeated · {} failed",
        status.lost, status.doubled, status.cut, status.failed
    ));
    if let Some(why) = &status.why {
        lines.push(format!("why     {why}"));
    }
    for cell in &status.short {
        lines.push(format!(
            "short   {} boot {}: {} of {} runs: {}",
            cell.setting, cell.boot, cell.have, cell.want, cell.why
        ));
    }
    lines.iter().map(|l| clean(l).into_owned()).collect::<Vec<_>>().join("\n")
}
