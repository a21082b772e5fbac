//! What a server means by the number that it says instead of an answer.

use linerate_wire::native::message::{RefusalKind, Refused};
use linerate_wire::netperf::UNKNOWN_TEST;

use crate::ending::Failure;

/// There is no test.
pub(super) fn refused(error: u32) -> Failure {
    let kind = match error {
        EBUSY => RefusalKind::Busy,
        EPERM | EDQUOT => RefusalKind::Policy,
        UNKNOWN_TEST => RefusalKind::Protocol,
        _ => RefusalKind::Unable,
    };
    Failure::Refused(Refused { kind, why: meaning(error), hints: vec![] })
}

/// A test did not come to its end.
pub(super) fn stopped(error: u32) -> Failure {
    match error {
        ETIME | EDQUOT | ECANCELED => Failure::Stopped(meaning(error)),
        _ => Failure::Server(meaning(error)),
    }
}

const EPERM: u32 = 1;
const EBUSY: u32 = 16;
const ETIME: u32 = 62;
const EADDRINUSE: u32 = 98;
const EDQUOT: u32 = 122;
const ECANCELED: u32 = 125;

/// What a server means by a number: mostly one of errno(3), of Linux if that is what it runs on.
fn meaning(error: u32) -> String {
    let meaning = match error {
        UNKNOWN_TEST => "it knows no such test",
        EPERM => "it does not want this test",
        EBUSY => "it is busy",
        ETIME => "its time is over",
        EADDRINUSE => "the port is in use",
        EDQUOT => "it allows no more",
        ECANCELED => "it is shutting down",
        _ => "a number of errno(3) on its system",
    };
    format!("netperf error {error}: {meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_says_whether_to_try_again() {
        let kind = |error| match refused(error) {
            Failure::Refused(refused) => refused.kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(kind(16), RefusalKind::Busy);
        assert_eq!(kind(122), RefusalKind::Policy);
        assert_eq!(kind(998), RefusalKind::Protocol);
        assert_eq!(kind(u32::MAX), RefusalKind::Unable);
        // A server that ends a test says so; any other number is its fault.
        assert!(matches!(stopped(125), Failure::Stopped(why) if why.contains("shutting down")));
        assert!(matches!(stopped(5), Failure::Server(why) if why.contains("error 5")));
    }
}
