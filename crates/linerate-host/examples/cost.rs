//! Prints what a reading costs: `cargo run --release -p linerate-host --example cost -- eth0`.

use std::hint::black_box;
use std::time::Instant;

use linerate_host::roots::Roots;
use linerate_host::sampler::{Clocks, Sampler};

fn main() {
    let nic = std::env::args().nth(1).unwrap_or_else(|| "lo".to_owned());
    let mut sampler = Sampler::at(Roots::host(), Some(&nic));
    let samples = 2_000_u32;
    let start = Instant::now();
    for _ in 0..samples {
        black_box(sampler.read(Clocks::default()));
    }
    let mean_ns = (start.elapsed() / samples).as_nanos();
    println!("{}.{:03} µs a reading, mean of {samples}", mean_ns / 1_000, mean_ns % 1_000);
}
