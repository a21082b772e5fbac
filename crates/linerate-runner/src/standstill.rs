//! Whether this end itself did not run, or lost its link: it would take the other end for silent.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A loop that turns twice a second and more was held up when it did not turn for so long.
const HELD_UP: Duration = Duration::from_millis(1_500);
/// What the other end did because of it shows this much later at the most.
const SHOWS_WITHIN: Duration = Duration::from_secs(10);

/// Watches the turns of a control loop.
#[derive(Debug)]
pub(crate) struct Turns {
    turned: Instant,
    /// When it was held up last, and for how long.
    held_up: Option<(Instant, Duration)>,
}

impl Turns {
    pub(crate) fn new(now: Instant) -> Self {
        Self { turned: now, held_up: None }
    }

    /// A turn begins. True after one that was held up: what the other end said meanwhile is still to be read.
    pub(crate) fn turn(&mut self, now: Instant) -> bool {
        let took = now.duration_since(self.turned);
        self.turned = now;
        if took > HELD_UP {
            self.held_up = Some((now, took));
        }
        took > HELD_UP
    }

    /// Whether this turn was held up, so that nothing may be said of the other end's silence.
    pub(crate) fn is_held_up(&self, now: Instant) -> bool {
        now.duration_since(self.turned) > HELD_UP
    }

    /// Why the other end seems to be gone: what is known of this end goes first.
    pub(crate) fn explained(&self, why: &str, local: Option<IpAddr>, now: Instant) -> String {
        let this_turn = self.is_held_up(now).then(|| now.duration_since(self.turned));
        let earlier = self.held_up.filter(|(at, _)| now.duration_since(*at) < SHOWS_WITHIN);
        if let Some(took) = this_turn.or(earlier.map(|(_, took)| took)) {
            let took = took.as_secs_f64();
            return format!(
                "this end itself did not run for {took:.1} s (it was stopped, or got no core); then {why}"
            );
        }
        match local.and_then(linerate_host::link::trouble) {
            Some(trouble) => format!("{why}, but {trouble}"),
            None => why.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_held_up_says_so_for_a_while() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut turns = Turns::new(begun);
        let explained = |turns: &Turns, ms| turns.explained("silence", None, at(ms));
        assert!(!turns.turn(at(500)));
        assert_eq!(explained(&turns, 500), "silence");
        assert!(turns.is_held_up(at(4_500)));
        let text =
            "this end itself did not run for 4.0 s (it was stopped, or got no core); then silence";
        assert_eq!(explained(&turns, 4_500), text);
        assert!(turns.turn(at(4_500)) && !turns.is_held_up(at(4_500)));
        assert!(!turns.turn(at(5_500)));
        assert_eq!(explained(&turns, 5_500), text);
        (6..15).for_each(|second| assert!(!turns.turn(at(second * 1_000))));
        assert_eq!(explained(&turns, 15_000), "silence");
        let nobody = Some("192.0.2.77".parse().unwrap());
        let lost = turns.explained("silence", nobody, at(15_000));
        assert_eq!(lost, "silence, but this host has lost its address 192.0.2.77");
    }
}
