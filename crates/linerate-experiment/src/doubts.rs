//! The doubts of many trials, each reported once with the number of trials that had it.

use linerate_model::record::{Doubt, DoubtKind, TestEnd};

/// One entry for each kind and wording, in the order of their first trial. Two wordings are the same
/// when only their numbers differ, so that a busy client and a busy server stay apart. `trials` are
/// the doubts of each trial, of every one.
pub fn summed<'a>(trials: impl IntoIterator<Item = &'a [Doubt]>) -> Vec<Doubt> {
    let mut found: Vec<Found<'a>> = Vec::new();
    let mut count = 0_usize;
    for doubts in trials {
        count += 1;
        for doubt in doubts {
            let wording = without_numbers(&doubt.text);
            let known = found
                .iter_mut()
                .find(|f| (&f.kind, f.host) == (&doubt.kind, doubt.host) && f.wording == wording);
            match known {
                // Twice in one trial is one trial.
                Some(known) if known.last == count => {}
                Some(known) => (known.trials, known.last) = (known.trials + 1, count),
                None => found.push(Found {
                    kind: doubt.kind.clone(),
                    host: doubt.host,
                    wording,
                    first: &doubt.text,
                    trials: 1,
                    last: count,
                }),
            }
        }
    }
    let text = |f: &Found<'_>| match count {
        1 => f.first.to_owned(),
        _ => format!("in {} of {count} trials, first: {}", f.trials, f.first),
    };
    found.iter().map(|f| Doubt { kind: f.kind.clone(), host: f.host, text: text(f) }).collect()
}

struct Found<'a> {
    kind: DoubtKind,
    host: Option<TestEnd>,
    wording: String,
    /// As the first trial had it, with its numbers.
    first: &'a str,
    /// How many trials had it, and which was the last one.
    trials: usize,
    last: usize,
}

/// `12.5 of 100` and `3 of 80` are `# of #`.
fn without_numbers(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut within = false;
    for c in text.chars() {
        let goes_on = within && matches!(c, '.' | ',' | '_');
        if c.is_ascii_digit() || goes_on {
            if !within {
                short.push('#');
            }
            within = true;
        } else {
            within = false;
            short.push(c);
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(text: &str) -> Doubt {
        Doubt::new(DoubtKind::HostBusy, text)
    }

    #[test]
    fn both_ends_are_told_with_their_own_counts() {
        let trials = [
            vec![
                busy("on the client, a task waited 40 % of the time"),
                busy("core 1 was 12.5 % lost"),
            ],
            vec![busy("on the server, a task waited 99 % of the time")],
            vec![],
            vec![
                busy("on the client, a task waited 9.5 % of the time"),
                busy("on the client, a task waited 8 % of the time"),
            ],
        ];
        let doubts = summed(trials.iter().map(Vec::as_slice));
        let texts: Vec<&str> = doubts.iter().map(|d| d.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "in 2 of 4 trials, first: on the client, a task waited 40 % of the time",
                "in 1 of 4 trials, first: core 1 was 12.5 % lost",
                "in 1 of 4 trials, first: on the server, a task waited 99 % of the time",
            ]
        );
    }

    #[test]
    fn a_single_trial_needs_no_count() {
        let one = [busy("x 1")];
        assert_eq!(summed([&one[..]])[0].text, "x 1");
        assert!(summed(std::iter::empty()).is_empty());
        assert_eq!(without_numbers("1,472 and 3.5, or 7."), "# and # or #");
    }
}
