//! A host without a test where there is no terminal: rows of text.

use std::fmt::Write as _;

use linerate_model::activity::{HostActivity, InterfaceActivity};
use linerate_report::clean::clean;
use linerate_report::number;

/// What stands over the columns.
pub fn head() -> String {
    let mut line = format!("{:<20}  {:<15}", "time", "interface");
    for head in [
        "rx bit/s", "tx bit/s", "rx pkt/s", "tx pkt/s", "dropped", "core", "busy %", "irq %",
        "backlog",
    ] {
        let _ = write!(line, "{head:>10}");
    }
    line.push('\n');
    line
}

/// A row for each interface that carried or dropped anything, one without an interface where none did. The busiest
/// core and the drops of the backlogs stand in the first.
pub fn rows(activity: &HostActivity, at: &str) -> String {
    let moved = |i: &&InterfaceActivity| {
        i.received_packets_per_second > 0.0
            || i.sent_packets_per_second > 0.0
            || i.received_dropped_packets > 0
            || i.sent_dropped_packets > 0
    };
    let busiest =
        activity.cores.iter().max_by(|a, b| a.busy_percent().total_cmp(&b.busy_percent()));
    // Of no core nothing is known, which a sum would call 0.
    let backlogs = activity.cores.iter().map(|core| core.softnet_dropped_packets);
    let backlog: Option<u64> = busiest.and_then(|_| backlogs.sum());
    let mut host = [
        number::or_absent(busiest, |core| core.core.to_string()),
        number::or_absent(busiest, |core| format!("{:.1}", core.busy_percent())),
        number::or_absent(busiest, |core| format!("{:.1}", core.softirq_percent)),
        number::or_absent(backlog, number::integer),
    ];
    let mut text = String::new();
    let mut row = |interface: Option<&InterfaceActivity>| {
        let absent = || number::ABSENT.to_owned();
        let name = interface.map_or_else(absent, |i| clean(&i.name).into_owned());
        let _ = write!(text, "{at:<20}  {name:<15}");
        let of_interface = interface.map_or_else(|| std::array::from_fn(|_| absent()), cells);
        let of_host: [String; 4] = std::mem::take(&mut host);
        for cell in of_interface.iter().chain(&of_host) {
            let _ = write!(text, "{cell:>10}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    };
    let mut any = false;
    for interface in activity.interfaces.iter().filter(moved) {
        row(Some(interface));
        any = true;
    }
    if !any {
        row(None);
    }
    text
}

fn cells(interface: &InterfaceActivity) -> [String; 5] {
    let dropped = interface.received_dropped_packets.saturating_add(interface.sent_dropped_packets);
    [
        number::short(interface.received_bps.round()),
        number::short(interface.sent_bps.round()),
        number::short(interface.received_packets_per_second.round()),
        number::short(interface.sent_packets_per_second.round()),
        number::integer(dropped),
    ]
}
