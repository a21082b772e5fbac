//! Plays a made-up record through the live view, to look at it on a real terminal:
//! `cargo run -p linerate-report --example replay -- udp 80 200` (record, width, milliseconds an
//! interval).

#![allow(clippy::disallowed_methods, reason = "this plays in real time; the library does not")]

use std::io::{stderr, stdout};
use std::time::Duration;

use linerate_report::run::live::LiveText;
use linerate_report::run::table::Room;
use linerate_report::run::text::Layout;
use linerate_report::style::Paint;
use linerate_testkit::records;

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let record = match args.next().as_deref() {
        Some("both") => records::udp_both(),
        Some("streams") => records::udp_streams(),
        Some("tcp") => records::tcp(),
        Some("rr") => records::rr(),
        Some("discard") => records::discard(),
        Some("partial") => records::partial(),
        Some("invalid") => records::invalid(),
        Some("hostile") => records::hostile(),
        _ => records::udp_receiver_drops(),
    };
    let width = args.next().and_then(|w| w.parse().ok()).unwrap_or(80);
    let pause = args.next().and_then(|p| p.parse().ok()).unwrap_or(200);
    let layout =
        Layout { room: Room { width: Some(width), spark: true }, paint: Paint { colour: true } };
    let mut live = LiveText::new(stdout(), stderr(), layout, true);
    live.note("the rate is made up");
    live.start(&record)?;
    for interval in &record.intervals {
        std::thread::sleep(Duration::from_millis(pause));
        live.interval(interval)?;
    }
    std::thread::sleep(Duration::from_millis(pause));
    live.end(&record)
}
