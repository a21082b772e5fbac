//! Where a campaign stands.

use std::path::Path;

use linerate_experiment::campaign::control::Pace;
use linerate_model::campaign::{CampaignState, CampaignStatus, Event, StoppedBy};
use linerate_model::record::ErrorRecord;
use linerate_store::Reader;

use super::{Read, store_error};

/// From the store alone.
pub fn status(path: &Path) -> Result<CampaignStatus, ErrorRecord> {
    let running = linerate_store::is_locked(path);
    let reader = Reader::open(path).map_err(store_error)?;
    let meta = reader.meta().map_err(store_error)?;
    let checked = Read::new(meta.plan.clone(), &meta.plan_path)?;
    let plan = &checked.plan;
    let mut controller = super::controller(plan, &reader, Vec::new())?;
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
    let last = last.next();
    // All was run, and a host was not put back.
    let failed = matches!(last, Some(Event::Stopped { by: Some(StoppedBy::Error), .. }));
    let state = match last {
        _ if done && !running && !failed => CampaignState::Done,
        Some(Event::Waiting { what }) if running => {
            waiting_for = Some(what.clone());
            CampaignState::Waiting
        }
        _ if running => CampaignState::Running,
        Some(Event::Restored { .. }) => CampaignState::Restored,
        Some(Event::Stopped { by, why: text }) => {
            why = Some(text.clone());
            match by {
                Some(StoppedBy::User | StoppedBy::Reboot) => CampaignState::Stopped,
                Some(StoppedBy::Error) | None => CampaignState::Failed,
            }
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
    let runs = reader.figures().map_err(store_error)?;
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
                let wait = read.plan.repeat.wait.as_secs_f64();
                let both = began.take().zip(at);
                let took = both.map(|(began, at)| (at.as_second() - began.as_second()) as f64);
                // What took longer than a host is waited for was a pause of the campaign, or a clock that was set.
                let took = took.filter(|took| (0.0..=wait).contains(took));
                pace.boot_s = took.map_or(pace.boot_s, |took| took.max(1.0));
            }
            _ => {}
        }
    }
    Ok(pace)
}
