//! Whether the owner of a host allows a test.

use std::path::Path;

use linerate_fleet::message::Prepare;
use linerate_fleet::policy::{Asked, Policy};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_runner::clock;

/// A lease may be longer than its test by this, in nanoseconds: two minutes.
const SLACK_NS: u64 = 120 * 1_000_000_000;

/// A test that is not run here.
pub fn refused(kind: ErrorKind, why: impl Into<String>, hint: &str) -> ErrorRecord {
    ErrorRecord::new(kind, "this agent refuses the test", why, &[hint])
}

/// What the owner allows, as the file says it now.
pub fn policy(file: &Path) -> Result<Policy, String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string());
    text.and_then(|text| Policy::read(&text)).map_err(|why| {
        format!("it has no policy, so nothing is allowed: {}: {why}", file.display())
    })
}

/// The policy, where it allows this test now.
pub fn permitted(file: &Path, prepare: &Prepare) -> Result<Policy, ErrorRecord> {
    let plan = &prepare.test.plan;
    plan.check().map_err(|e| refused(ErrorKind::OutOfRange, e.to_string(), "ask for less"))?;
    let hint = "its owner says in the file of --policy what is allowed";
    let denied = |why: String| refused(ErrorKind::Policy, why, hint);
    let policy = policy(file).map_err(denied)?;
    let date = clock::local_date();
    let minute =
        u16::try_from(date.hour()).unwrap_or(0) * 60 + u16::try_from(date.minute()).unwrap_or(0);
    policy
        .allows(&Asked {
            peer: &prepare.peer,
            plan,
            size_from_mtu: prepare.test.size_from_mtu,
            set: &prepare.set,
            minute,
        })
        .map_err(|why| denied(why.to_string()))?;
    let time = plan.duration().map_or(0, |time| time.0.saturating_add(plan.warmup.0));
    if prepare.length_ns > time.saturating_add(SLACK_NS) {
        return Err(denied("the lease is longer than its test needs".to_owned()));
    }
    Ok(policy)
}
