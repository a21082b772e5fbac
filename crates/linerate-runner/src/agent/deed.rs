//! What a controller did with this host, in words for the log of its owner.

use linerate_wire::native::agent::{Reply, Request};

/// More settings than this are counted.
const MOST_NAMED: usize = 20;

/// Of what may end the server or last for hours, before it is done.
pub(super) fn begins(request: &Request) -> Option<String> {
    match request {
        Request::Command(command) => Some(format!("runs the command `{}`", command.argv.join(" "))),
        Request::Reboot { .. } => Some("asks for a reboot".to_owned()),
        _ => None,
    }
}

/// Nothing of what changes nothing and sends nothing.
pub(super) fn deed(request: &Request, reply: &Reply) -> Option<String> {
    let what = match request {
        Request::Apply { device, settings } => {
            let mut names: Vec<String> =
                settings.iter().take(MOST_NAMED).map(ToString::to_string).collect();
            if let Some(more @ 1..) = settings.len().checked_sub(MOST_NAMED) {
                names.push(format!("{more} more"));
            }
            let device = device.as_ref().map_or(String::new(), |device| format!(" ({device:?})"));
            format!("set {}{device}", names.join(", "))
        }
        Request::Restore => "put all settings back".to_owned(),
        Request::Test(test) => {
            format!(
                "ran a test of {} to {} port {}",
                test.plan.traffic.name(),
                test.name,
                test.port
            )
        }
        Request::Command(command) => format!("ran the command `{}`", command.argv.join(" ")),
        Request::Reboot { .. } => "began a reboot".to_owned(),
        Request::SampleBegin => "samples the stacks of the CPUs".to_owned(),
        _ => return None,
    };
    let came = match reply {
        Reply::Failed(error) => format!(": refused or failed: {}", error.why),
        Reply::Applied(applied) => {
            let outcomes: Vec<String> =
                applied.iter().take(MOST_NAMED).map(|one| format!("{:?}", one.outcome)).collect();
            format!(": {}", outcomes.join(", ").to_lowercase())
        }
        Reply::Record(record) => format!(": {:?}", record.status).to_lowercase(),
        Reply::Command(outcome) => match outcome.code {
            Some(code) => format!(": code {code}"),
            None => ": ended by a signal".to_owned(),
        },
        _ => String::new(),
    };
    Some(format!("{what}{came}"))
}
