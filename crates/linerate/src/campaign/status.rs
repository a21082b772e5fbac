//! `campaign status`.

use std::io::Write as _;
use std::path::Path;

use linerate_drive::campaign;
use linerate_model::campaign::{CampaignState, CampaignStatus};
use linerate_model::record::ErrorRecord;
use linerate_report::clean::clean;

use super::show::span;
use linerate_model::exit::Exit;

/// Prints it. A campaign that is not whole is no error of this verb: damage is.
pub fn status(path: &Path, json: bool) -> Result<Exit, ErrorRecord> {
    let status = campaign::status(path)?;
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
