//! Prints this host's facts: `cargo run -p linerate-host --example facts -- 192.0.2.1`.

use linerate_host::{cores, facts::facts};

fn main() {
    let towards = std::env::args().nth(1).and_then(|address| address.parse().ok());
    let facts = facts(towards);
    println!("{facts:#?}");
    println!("allowed cores: {:?}", cores::allowed_cores());
}
