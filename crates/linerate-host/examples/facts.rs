//! Prints this host's facts: `cargo run -p linerate-host --example facts -- 192.0.2.1`.

use std::net::IpAddr;

use linerate_host::{cores, facts::facts};

fn main() {
    let towards = std::env::args().nth(1).and_then(|address| address.parse::<IpAddr>().ok());
    let facts = facts(towards.map(Into::into));
    println!("{facts:#?}");
    println!("allowed cores: {:?}", cores::allowed_cores());
}
