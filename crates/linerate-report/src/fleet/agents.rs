//! The agents of a fleet as text: a row each, or all that is known of some.

use linerate_model::fleet_agents::{
    AgentState, FleetAgent, FleetHosts, Heartbeat, Inventory, Nat, NicInventory,
};

use crate::clean::clean;
use crate::number::{ABSENT, integer, rate};
use crate::rows::{self, Cell, column, keep, text as words};
use crate::run::text::Layout;
use crate::style::Tone;

type Column = rows::Column<fn(&FleetAgent) -> Cell>;

/// Columns of the first words of each line of what is known of an agent.
const LABEL: usize = 9;

const COLUMNS: [Column; 11] = [
    words("agent", 16, 0, |agent| Cell::plain(clean(&agent.name))),
    words("state", 7, 0, |agent| Cell {
        text: agent.state.name().to_owned(),
        tone: tone(agent.state),
    }),
    column("", "heard", 7, 0, |agent| Cell::known(agent.heard_s.map(ago))),
    column("", "results", 7, 0, |agent| said(agent, |beat| Some(integer(beat.waiting)))),
    column("", "oldest", 7, 0, |agent| said(agent, |beat| beat.oldest_s.map(ago))),
    words("policy", 6, 0, |agent| match agent.said.as_ref().map(|beat| beat.policy) {
        Some(false) => Cell { text: "none".to_owned(), tone: Tone::Warn },
        policy => Cell::known(policy.map(|_| "yes".to_owned())),
    }),
    words("nat", 3, 0, |agent| {
        said(agent, |beat| {
            beat.nat.map(|nat| if nat == Nat::Behind { "yes" } else { "no" }.to_owned())
        })
    }),
    words("clock", 7, 2, |agent| said(agent, |beat| Some(keeper(beat.inventory.as_ref()?)))),
    words("version", 8, 3, |agent| said(agent, |beat| Some(clean(&beat.version).into_owned()))),
    words("address", 20, 4, |agent| said(agent, |beat| Some(clean(&beat.address).into_owned()))),
    words("nic", 12, 1, |agent| said(agent, |beat| Some(nics(beat.inventory.as_ref()?)))),
];

fn said(agent: &FleetAgent, what: impl Fn(&Heartbeat) -> Option<String>) -> Cell {
    Cell::known(agent.said.as_ref().and_then(what))
}

fn tone(state: AgentState) -> Tone {
    match state {
        AgentState::Idle => Tone::Plain,
        AgentState::Leased => Tone::Good,
        AgentState::Silent | AgentState::Unheard => Tone::Warn,
    }
}

/// A row an agent.
pub fn rows(document: &FleetHosts, layout: Layout) -> String {
    let (mut columns, width) = (COLUMNS.to_vec(), layout.room.width);
    keep(&mut columns, width, |_| 0);
    let mut out = rows::head(&columns, width, layout.paint);
    for agent in &document.agents {
        let cells: Vec<Cell> = columns.iter().map(|column| (column.cell)(agent)).collect();
        out.push_str(&rows::line(&columns, &cells, width, layout.paint));
    }
    out
}

/// All that is known of each.
pub fn details(document: &FleetHosts, layout: Layout) -> String {
    let mut out = String::new();
    for agent in &document.agents {
        if !out.is_empty() {
            out.push('\n');
        }
        detail(&mut out, agent, layout);
    }
    out
}

fn detail(out: &mut String, agent: &FleetAgent, layout: Layout) {
    let mut say = |label: &str, text: &str, tone| {
        layout.wrapped(out, &format!("{label:LABEL$}"), &clean(text), tone, LABEL);
    };
    let heard = agent.heard_s.map(|seconds| format!(", heard {} ago", ago(seconds)));
    let (name, state) = (&agent.name, agent.state.name());
    say("agent", &format!("{name}: {state}{}", heard.unwrap_or_default()), Tone::Label);
    if let Some(enrolled) = &agent.enrolled {
        let until = agent.expires.as_ref().map(|until| format!(", until {until}"));
        say("enrolled", &format!("{enrolled}{}", until.unwrap_or_default()), Tone::Plain);
    }
    let Some(beat) = &agent.said else { return };
    let place =
        format!("linerate {} at {}, lease {} was its last", beat.version, beat.address, beat.epoch);
    say("", &place, Tone::Plain);
    let policy = match (&beat.allows, beat.policy) {
        (Some(allows), true) => allows.clone(),
        (None, true) => "yes".to_owned(),
        (_, false) => "none, so nothing is allowed".to_owned(),
    };
    say("policy", &policy, if beat.policy { Tone::Plain } else { Tone::Warn });
    say("results", &waiting(beat), Tone::Plain);
    let nat = match beat.nat {
        None => "not known: the broker is on the same host, or does not say",
        Some(Nat::None) => "none: the broker sees it by an address of its own",
        Some(Nat::Behind) => "yes: the broker sees it by an address that is not its own",
    };
    say("nat", nat, Tone::Plain);
    let Some(inventory) = &beat.inventory else { return };
    say("kernel", &system(inventory), Tone::Plain);
    say("clock", &clock(inventory), Tone::Plain);
    for nic in &inventory.nics {
        say("nic", &interface(nic), Tone::Plain);
    }
    if inventory.more_nics > 0 {
        say("", &format!("and {} more interfaces", inventory.more_nics), Tone::Dim);
    }
}

fn waiting(beat: &Heartbeat) -> String {
    let oldest = beat.oldest_s.map(|s| format!(", the oldest for {}", ago(s)));
    let before = beat
        .waiting_before
        .map(|count| format!("; {} ten to twenty minutes before", integer(count)));
    let (oldest, before) = (oldest.unwrap_or_default(), before.unwrap_or_default());
    format!("{} that no store has confirmed{oldest}{before}", integer(beat.waiting))
}

fn system(inventory: &Inventory) -> String {
    let kernel = inventory.kernel.as_deref().unwrap_or(ABSENT);
    let cores = inventory.cores.map(|cores| format!(", {cores} cores"));
    format!("{kernel}{}", cores.unwrap_or_default())
}

fn clock(inventory: &Inventory) -> String {
    let source = inventory.clock_source.as_deref().unwrap_or("of an unknown source");
    let kept = match &inventory.clock_keepers {
        None => "whether a program keeps it in step is not known".to_owned(),
        Some(keepers) if keepers.is_empty() => {
            "no program was seen that keeps it in step".to_owned()
        }
        Some(keepers) => format!("kept in step by {}", keepers.join(", ")),
    };
    format!("{source}, {kept}")
}

/// Who keeps the clock, for a column.
fn keeper(inventory: &Inventory) -> String {
    match inventory.clock_keepers.as_deref() {
        None => ABSENT.to_owned(),
        Some([]) => "nobody".to_owned(),
        Some([first, ..]) => clean(first).into_owned(),
    }
}

/// The first interface and its speed, and how many more there are.
fn nics(inventory: &Inventory) -> String {
    let Some(first) = inventory.nics.first() else { return ABSENT.to_owned() };
    let more = u64::from(inventory.more_nics)
        .saturating_add(inventory.nics.len() as u64)
        .saturating_sub(1);
    let more = if more == 0 { String::new() } else { format!(" +{more}") };
    let speed =
        first.speed_mbps.map(|speed| format!(" {}", short_speed(speed))).unwrap_or_default();
    format!("{}{speed}{more}", clean(&first.name))
}

/// `25G`.
fn short_speed(mbps: u32) -> String {
    match (mbps / 1_000, mbps % 1_000) {
        (0, _) => format!("{mbps}M"),
        (gbps, 0) => format!("{gbps}G"),
        (gbps, rest) => format!("{gbps}.{}G", rest / 100),
    }
}

fn interface(nic: &NicInventory) -> String {
    let parts = [
        Some(nic.name.clone()),
        nic.driver.clone(),
        nic.speed_mbps.map(|mbps| rate(f64::from(mbps) * 1e6)),
        nic.mtu.map(|mtu| format!("MTU {mtu}")),
        nic.numa_node.map(|node| format!("NUMA node {node}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A time that has passed, in the largest unit of which there are two: `90 s`, `3 min`, `26 h`, `9 d`.
pub fn ago(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let fits = units.into_iter().find(|(size, _)| seconds >= size * 2);
    fits.map_or_else(|| format!("{seconds} s"), |(size, name)| format!("{} {name}", seconds / size))
}

#[cfg(test)]
mod tests {
    use linerate_model::fleet_agents::FORMAT;
    use linerate_model::record::ProgramFacts;

    use super::*;
    use crate::run::table::Room;
    use crate::run::text::PLAIN;
    use crate::style::Paint;

    fn document() -> FleetHosts {
        let eth0 = NicInventory {
            name: "eth0".into(),
            driver: Some("mlx5_core".into()),
            speed_mbps: Some(25_000),
            mtu: Some(9_000),
            numa_node: Some(1),
        };
        let veth = NicInventory {
            name: "veth\u{1b}[2J".into(),
            mtu: Some(1_500),
            ..NicInventory::default()
        };
        let beat = Heartbeat {
            version: "0.1.0".into(),
            address: "192.0.2.7".into(),
            epoch: 1_700_000_000_123,
            waiting: 3,
            waiting_before: Some(1),
            oldest_s: Some(7_300),
            policy: true,
            allows: Some("udp, tcp; 30 s; 100.0 Mbit/s; 4 streams; with all".into()),
            nat: Some(Nat::Behind),
            inventory: Some(Inventory {
                kernel: Some("6.12.48".into()),
                cores: Some(16),
                clock_source: Some("tsc".into()),
                clock_keepers: Some(vec!["chronyd".into()]),
                nics: vec![eth0, veth],
                more_nics: 3,
            }),
            ..Heartbeat::default()
        };
        let agent = |name: &str, state, heard_s, said| FleetAgent {
            name: name.into(),
            heard: Some("2026-01-01T00:00:00Z".into()),
            state,
            heard_s,
            said,
            ..FleetAgent::default()
        };
        let short = Heartbeat {
            policy: false,
            nat: Some(Nat::None),
            oldest_s: None,
            inventory: None,
            allows: None,
            ..beat.clone()
        };
        FleetHosts {
            format: FORMAT,
            kind: "fleet_hosts".into(),
            at: "2026-01-01T00:00:03Z".into(),
            linerate: ProgramFacts { version: "0.1.0".into() },
            broker_version: "2.15.2".into(),
            agents: vec![
                agent("rack-1", AgentState::Idle, Some(3), Some(beat)),
                agent("rack-2", AgentState::Silent, Some(5_000), Some(short)),
                agent("rack-3", AgentState::Unheard, None, None),
            ],
        }
    }

    #[test]
    fn a_row_each_fits_a_terminal_and_a_pipe_has_all() {
        let layout =
            |width| Layout { room: Room { width, spark: false }, paint: Paint { colour: false } };
        let shown = rows(&document(), layout(Some(80)));
        insta::assert_snapshot!(shown, @"
        agent             state      heard  results   oldest  policy  nat  nic
        rack-1            idle         3 s        3      2 h  yes     yes  eth0 25G +4
        rack-2            silent    83 min        3        -  none    no   -
        rack-3            unheard        -        -        -  -       -    -
        ");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let all = rows(&document(), PLAIN);
        for words in ["version", "address", "192.0.2.7", "chronyd"] {
            assert!(all.contains(words) && !shown.contains(words), "{words}: {all}");
        }
    }

    #[test]
    fn all_that_is_known_is_said() {
        let shown = details(&document(), PLAIN);
        insta::assert_snapshot!(shown, @"
        agent    rack-1: idle, heard 3 s ago
                 linerate 0.1.0 at 192.0.2.7, lease 1700000000123 was its last
        policy   udp, tcp; 30 s; 100.0 Mbit/s; 4 streams; with all
        results  3 that no store has confirmed, the oldest for 2 h; 1 ten to twenty minutes before
        nat      yes: the broker sees it by an address that is not its own
        kernel   6.12.48, 16 cores
        clock    tsc, kept in step by chronyd
        nic      eth0, mlx5_core, 25.00 Gbit/s, MTU 9000, NUMA node 1
        nic      veth[2J, MTU 1500
                 and 3 more interfaces

        agent    rack-2: silent, heard 83 min ago
                 linerate 0.1.0 at 192.0.2.7, lease 1700000000123 was its last
        policy   none, so nothing is allowed
        results  3 that no store has confirmed; 1 ten to twenty minutes before
        nat      none: the broker sees it by an address of its own

        agent    rack-3: unheard
        ");
    }

    #[test]
    fn times_are_in_the_largest_unit_of_which_there_are_two() {
        for (seconds, shown) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_199, "119 min"),
            (7_200, "2 h"),
            (172_799, "47 h"),
            (172_800, "2 d"),
        ] {
            assert_eq!(ago(seconds), shown);
        }
    }
}
