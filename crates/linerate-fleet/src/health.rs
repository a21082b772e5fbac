//! Whether the agents of a fleet and their broker are well.

use linerate_model::fleet_agents::AgentState;

/// An agent that has nothing to do speaks every 5 s, and is back within half a minute where its connection was lost.
const SILENT_S: u64 = 60;

/// What an agent does that spoke `heard_s` seconds ago, or never; `leased` is whether somebody has a lease of it.
pub fn state(heard_s: Option<u64>, leased: bool) -> AgentState {
    match heard_s {
        _ if leased => AgentState::Leased,
        None => AgentState::Unheard,
        Some(SILENT_S..) => AgentState::Silent,
        Some(_) => AgentState::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_a_test_is_not_silent() {
        assert_eq!(state(Some(59), false), AgentState::Idle);
        assert_eq!(state(Some(60), false), AgentState::Silent);
        assert_eq!(state(Some(600), true), AgentState::Leased);
        assert_eq!(state(None, false), AgentState::Unheard);
    }
}
