//! Prints this host's facts: `cargo run -p linerate-host --example facts -- 192.0.2.1`.

use linerate_host::{cores, facts::facts};

fn main() {
    let towards = std::env::args().nth(1).and_then(|address| address.parse().ok());
    let facts = facts(towards);
    println!("{facts:#?}");
    println!("allowed cores: {:?}", cores::allowed_cores());
    if let Some(nic) = &facts.nic {
        println!("memory node of {}: {:?}", nic.name, cores::numa_node_of(&nic.name));
    }
}
