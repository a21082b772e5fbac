//! What holds a host back on one path: facts and a goal in, findings out.
//!
//! Nothing here looks at a host: `linerate-host` does, and the far host's server tells some. So each check
//! can be tried on hosts that are made up. A check is a function and a line in the list of its family
//! (`checks/`); `docs/doctor.md` has a row for each, with its source and threshold.
//!
//! ```
//! use linerate_doctor::{Case, judge};
//! use linerate_model::doctor::{Fact, Goal, HostDetails};
//! use linerate_model::record::TestEnd;
//! let mut host = HostDetails::default();
//! host.sysctls.insert("net.core.rmem_max".into(), Fact::Known("65536".into()));
//! let case = Case { end: TestEnd::Client, host: &host, other: None, goal: Goal::default() };
//! let judged = judge(&case);
//! assert_eq!(judged.findings[0].id, "buffers.rmem-max");
//! ```
#![forbid(unsafe_code)]

mod case;
mod checks;
mod draft;

use linerate_model::doctor::{Finding, Unlooked};

pub use case::Case;
use draft::Draft;
use linerate_model::doctor::HostDetails;

/// A check: its stable name, and what it makes of a host. What it needs and does not know is an error.
struct Check {
    id: &'static str,
    judge: fn(&Case<'_>) -> Result<Option<Draft>, String>,
}

/// What came of all checks of one host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// So many there are.
    pub checks: u32,
    /// What was found, the gravest first.
    pub findings: Vec<Finding>,
    /// What could not be looked at, in the order of the checks.
    pub unknown: Vec<Unlooked>,
}

/// Makes every check on a host.
pub fn judge(case: &Case<'_>) -> Judged {
    let mut judged = Judged::default();
    // Commands are there to be pasted.
    let plain = HostDetails::of_plain_words(case.host);
    let case = &Case { host: &plain, ..*case };
    for check in checks::FAMILIES.iter().copied().flatten() {
        judged.checks = judged.checks.saturating_add(1);
        let id = || check.id.to_owned();
        match (check.judge)(case) {
            Ok(None) => {}
            Ok(Some(draft)) => judged.findings.push(draft.finding(id(), case.end)),
            Err(why) => judged.unknown.push(Unlooked { id: id(), host: case.end, why }),
        }
    }
    // Of one severity in the order of the checks.
    judged.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    judged
}

/// The stable names of all checks.
pub fn ids() -> impl Iterator<Item = &'static str> {
    checks::FAMILIES.iter().copied().flatten().map(|check| check.id)
}
