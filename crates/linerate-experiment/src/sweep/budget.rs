//! How many trials zooming may take.

use linerate_model::plan::Way;
use linerate_model::sweep::SweepTrial;

/// Trials that may be spent on the bend where following ends …
pub(super) const MOST_FOR_KNEE: usize = 16;
/// … and on each other one, which noise can make of nothing.
pub(super) const MOST_FOR_OTHERS: usize = 9;
/// … and on all bends of a direction together: the default sweep of two directions shall end within
/// three minutes, however noisy the hosts.
pub(super) const MOST_FOR_DIRECTION: usize = 20;

/// Why a bend is left wide when nothing more is tried.
pub(super) fn spent_words(trials: &[SweepTrial], way: Way) -> String {
    format!(
        "zoom made {} trials this way, of at most {MOST_FOR_KNEE} for one knee and {MOST_FOR_DIRECTION} in all, so it was narrowed no further",
        all_spent(trials, way)
    )
}

/// Trials of a direction that zooming has taken.
pub(super) fn all_spent(trials: &[SweepTrial], way: Way) -> usize {
    trials.iter().filter(|t| t.zoom && t.direction == way).count()
}
