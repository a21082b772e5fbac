//! What stays with a process of the memory that tests took. A program of its own: other tests would take some meanwhile.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Barrier;

use linerate_engine::sys;

/// KiB of this process that are in memory.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).expect("a value").parse().expect("a number")
}

#[test]
fn what_is_freed_goes_back_to_the_kernel() {
    sys::give_memory_back();
    // From then on glibc would take what is smaller from memory that it keeps.
    drop(black_box(vec![1_u8; 8 << 20]));
    let before = resident_kib();
    // As large as buffers of a test are, between small ones that live on.
    let (large, small): (Vec<_>, Vec<_>) =
        (0..64).map(|_| (vec![1_u8; 512 << 10], vec![1_u8; 64])).unzip();
    let full = resident_kib();
    assert!(full > before + (24 << 10), "{before} KiB, then {full}");
    drop(black_box(large));
    let after = resident_kib();
    assert!(after < before + (16 << 10), "{before} KiB, {full}, and {after} when all was freed");
    drop(black_box(small));

    let met = Barrier::new(16);
    let places: BTreeSet<usize> = std::thread::scope(|scope| {
        let allocate = || {
            let own = vec![1_u8; 4_096];
            met.wait();
            // Each place of glibc's begins at a multiple of 64 MiB, but for the first, which may reach over one.
            black_box(&own).as_ptr().addr() >> 26
        };
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(allocate)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(!cfg!(target_env = "gnu") || places.len() <= 5, "{places:x?}");
}
