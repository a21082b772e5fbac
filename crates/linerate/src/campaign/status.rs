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
    // 100 % only of all.
    let percent = status.done.saturating_mul(100) / status.total.max(1);
    let boots = match status.boots {
        0 => String::new(),
        n => format!(" · {} of {n} boots", status.boots_done),
    };
    let left = status.eta_s.map(|s| format!(" · about {} left", span(s))).unwrap_or_default();
    lines.push(format!("runs    {} of {} ({percent} %){boots}{left}", status.done, status.total));
    lines.push(format!(
        "kept    {} lost · {} doubled · {} cut and repeated · {} failed",
        status.lost, status.doubled, status.cut, status.failed
    ));
    if let Some(why) = &status.why {
        lines.push(format!("why     {why}"));
    }
    for cell in &status.short {
        let boot = if cell.boot > 0 { format!(" boot {}", cell.boot) } else { String::new() };
        lines.push(format!(
            "short   {}{boot}: {} of {} runs: {}",
            cell.setting, cell.have, cell.want, cell.why
        ));
    }
    lines.iter().map(|l| clean(l).into_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use linerate_model::campaign::ShortCell;

    use super::*;

    #[test]
    fn nearly_all_is_not_all_and_what_reboots_nothing_has_no_boots() {
        let short = |boot| ShortCell {
            setting: "off".into(),
            boot,
            have: 2,
            want: 3,
            why: "made up".into(),
        };
        let status = |done, boots| CampaignStatus {
            format: 1,
            name: "c".into(),
            state: CampaignState::Stopped,
            done,
            total: 3_000,
            lost: 0,
            doubled: 0,
            cut: 0,
            failed: 0,
            boots_done: 0,
            boots,
            waiting_for: None,
            eta_s: None,
            short: vec![short(boots)],
            why: None,
        };
        let said = words(&status(2_999, 0));
        assert!(said.contains("2999 of 3000 (99 %)\n"), "{said}");
        assert!(said.contains("short   off: 2 of 3 runs: made up"), "{said}");
        let said = words(&status(3_000, 1));
        assert!(said.contains("3000 of 3000 (100 %) · 0 of 1 boots"), "{said}");
        assert!(said.contains("short   off boot 1: 2 of 3 runs"), "{said}");
    }
}
