//! Prints what a sample costs: `cargo run --release -p linerate-host --example cost -- eth0`.

use std::hint::black_box;
use std::time::Instant;

use linerate_host::sampler::Sampler;

fn main() {
    let nic = std::env::args().nth(1).unwrap_or_else(|| "lo".to_owned());
    let mut sampler = Sampler::new(Some(&nic));
    let samples = 2_000_u32;
    let start = Instant::now();
    for _ in 0..samples {
        black_box(sampler.sample());
    }
    let mean_ns = (start.elapsed() / samples).as_nanos();
    println!("{}.{:03} µs a sample, mean of {samples}", mean_ns / 1_000, mean_ns % 1_000);
}
