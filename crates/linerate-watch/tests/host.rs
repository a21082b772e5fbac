//! The screen of a host, at the sizes of terminals.

use linerate_model::activity::{CoreActivity, CoreInterrupts, HostActivity, InterfaceActivity};
use linerate_model::host::HostFacts;
use linerate_watch::host::HostView;
use linerate_watch::{Look, plain, screen};

fn core(core: u32, [user, system, softirq, steal]: [f64; 4]) -> CoreActivity {
    CoreActivity {
        core,
        user_percent: user,
        system_percent: system,
        softirq_percent: softirq,
        steal_percent: steal,
        idle_percent: 100.0 - user - system - softirq - steal,
        softnet_dropped_packets: Some(0),
        softnet_squeezed: Some(0),
    }
}

fn interface(name: &str, received_bps: f64, sent_bps: f64) -> InterfaceActivity {
    InterfaceActivity {
        name: name.into(),
        received_bps,
        sent_bps,
        received_packets_per_second: (received_bps / 12_000.0).round(),
        sent_packets_per_second: (sent_bps / 12_000.0).round(),
        ..InterfaceActivity::default()
    }
}

/// A host whose core 2 takes the card's interrupts and is full; second by second more arrives.
fn busy(second: u32, cores: u32) -> HostActivity {
    let mut all: Vec<CoreActivity> =
        (0..cores).map(|n| core(n, [2.0 + f64::from(n % 7), 3.0, 0.4, 0.0])).collect();
    all[2] = core(2, [1.0, 7.5, 89.5, 2.0]);
    all[2].softnet_dropped_packets = Some(1_204);
    all[2].softnet_squeezed = Some(31);
    let mut eth0 = interface("eth0", 40e6 * f64::from(second + 1), 3.1e6);
    eth0.speed_mbps = Some(1_000);
    eth0.received_dropped_packets = 20_737;
    eth0.interrupts = vec![
        CoreInterrupts { core: 0, per_second: 12.0 },
        CoreInterrupts { core: 2, per_second: 18_211.0 },
    ];
    HostActivity { span_s: 1.0, cores: all, interfaces: vec![interface("lo", 0.0, 0.0), eth0] }
}

fn view(cores: u32) -> HostView {
    let host = HostFacts {
        hostname: "hydra2\u{1b}[2J".into(),
        kernel: Some("6.12.9".into()),
        cores: Some(cores),
        ..HostFacts::default()
    };
    let mut view = HostView::new(host, 1.0);
    for second in 0..20 {
        view.push(busy(second, cores), &format!("12:00:{second:02}"));
    }
    view
}

fn shown(view: &HostView, columns: u16, rows: u16) -> String {
    screen::text(&screen::draw(columns, rows, |buffer| view.draw(buffer, Look { colour: false })))
}

#[test]
fn the_screen_of_a_host() {
    for (columns, rows) in [(80, 24), (120, 40), (200, 50)] {
        insta::assert_snapshot!(format!("host-{columns}x{rows}"), shown(&view(4), columns, rows));
    }
    insta::assert_snapshot!("host-of-64-cores-80x24", shown(&view(64), 80, 24));
}

#[test]
fn every_size_of_a_terminal_is_drawn() {
    let mut empty = HostView::new(HostFacts::default(), 0.5);
    let mut many = view(300);
    let mut activity = busy(1, 300);
    activity.interfaces.extend((0..40).map(|n| interface(&format!("veth{n}"), 1e3, 1e3)));
    many.push(activity, "12:01:00");
    many.toggle_help();
    empty.next_interface();
    for columns in (0..90).step_by(3).chain([80, 200, 500]) {
        for rows in (0..30).chain([50, 100]) {
            shown(&many, columns, rows);
            shown(&empty, columns, rows);
        }
    }
}

#[test]
fn a_screen_that_is_held_stands_still() {
    let mut view = view(4);
    view.pause();
    let before = shown(&view, 80, 24);
    assert!(before.contains("PAUSED") && before.contains("12:00:19"), "{before}");
    view.push(busy(3, 4), "12:00:20");
    assert_eq!(shown(&view, 80, 24), before);
    view.pause();
    let after = shown(&view, 80, 24);
    assert!(after.contains("12:00:20") && !after.contains("PAUSED"), "{after}");
}

#[test]
fn keys_are_shown_and_the_chart_goes_from_interface_to_interface() {
    let mut view = view(4);
    assert!(shown(&view, 80, 40).contains("eth0  "), "the one that carries most");
    view.next_interface();
    assert!(shown(&view, 120, 40).contains("lo  ⠤ received"), "{}", shown(&view, 120, 40));
    view.toggle_help();
    view.say(Some("saved as x\u{7}".into()));
    let shown = shown(&view, 80, 24);
    assert!(shown.contains("hold the screen still") && shown.contains("saved as x\n"), "{shown}");
}

#[test]
fn no_core_that_is_left_out_is_busier_than_is_said() {
    let of = |n| match n {
        0..13 => core(n, [90.0, 0.0, 0.0, 0.0]),
        // The least idle one of those that are left out, and one that works more.
        13 => core(n, [5.0, 0.0, 0.0, 80.0]),
        14 => core(n, [70.0, 0.0, 0.0, 0.0]),
        _ => core(n, [1.0, 0.0, 0.0, 0.0]),
    };
    let mut view = view(4);
    view.push(HostActivity { cores: (0..64).map(of).collect(), ..busy(0, 4) }, "12:00:20");
    let shown = shown(&view, 80, 24);
    assert!(shown.contains("51 more cores, none above 70 %"), "{shown}");
}

#[test]
fn interrupts_that_are_not_told_apart_are_not_denied() {
    let mut view = view(4);
    let mut activity = busy(0, 4);
    activity.interfaces.iter_mut().for_each(|interface| interface.interrupts.clear());
    view.push(activity, "12:00:20");
    let shown = shown(&view, 80, 24);
    assert!(shown.contains("none, or the kernel does not say whose they are"), "{shown}");
}

#[test]
fn colours_tell_parts_apart_where_they_may() {
    let view = view(4);
    let coloured = |colour| {
        let screen = screen::draw(80, 24, |buffer| view.draw(buffer, Look { colour }));
        screen.content().iter().any(|cell| cell.fg != ratatui_core::style::Color::Reset)
    };
    assert!(coloured(true) && !coloured(false));
}

#[test]
fn rows_without_a_terminal() {
    let mut idle = busy(0, 3);
    idle.interfaces.truncate(1);
    let text = [
        plain::head(),
        plain::rows(&busy(4, 4), "2026-01-02T03:04:05Z"),
        plain::rows(&idle, "2026-01-02T03:04:06Z"),
        plain::rows(&HostActivity::default(), "2026-01-02T03:04:07Z"),
    ]
    .concat();
    insta::assert_snapshot!(text);
}
