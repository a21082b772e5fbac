//! Four made-up systems under test, in packets per second. They are models: their stalls, buffers
//! and background work were chosen, not measured. What is proved on them is the search, not a host.

use linerate_experiment::trial::{Outcome, Trial};
use linerate_model::record::Limit;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A system and the rules by which it loses packets.
#[derive(Debug, Clone, Copy)]
pub struct System {
    pub name: &'static str,
    /// Packets per second, and how much that differs between trials (share, standard deviation).
    pub capacity: f64,
    pub cv: f64,
    /// Pauses: how many a second, and their mean length in seconds (exponential).
    pub stalls_per_s: f64,
    pub stall_s: f64,
    /// Packets that fit the buffer.
    pub buffer: f64,
    /// Other work: episodes a second, their mean length, and the share of capacity they take.
    pub background_per_s: f64,
    pub background_s: f64,
    pub background_drop: f64,
    /// Share of capacity lost under boundless load.
    pub collapse: f64,
}

/// One limit, always the same.
pub const HARD: System = System {
    name: "hard",
    capacity: 1e6,
    cv: 0.0,
    stalls_per_s: 0.0,
    stall_s: 0.0,
    buffer: 1e3,
    background_per_s: 0.0,
    background_s: 0.0,
    background_drop: 0.0,
    collapse: 0.0,
};
/// A quiet host: a 3 ms stall every 50 s.
pub const QUIET: System =
    System { name: "quiet", cv: 0.002, stalls_per_s: 0.02, stall_s: 0.003, ..HARD };
/// A 5 ms stall every 3 s.
pub const STALLS: System =
    System { name: "stalls", cv: 0.005, stalls_per_s: 0.3, stall_s: 0.005, ..HARD };
/// Stalls, and other work that takes 35 % for 0.4 s every 4 s.
pub const BUSY: System = System {
    name: "busy",
    cv: 0.01,
    background_per_s: 0.25,
    background_s: 0.4,
    background_drop: 0.35,
    collapse: 0.05,
    ..STALLS
};

/// Range of loads.
pub const LEAST: f64 = 9_001.0;
pub const LARGEST: f64 = 1_488_000.0;
/// Set-up and drain of a trial, seconds.
pub const OVERHEAD_S: f64 = 0.5;

/// A source of chance with a seed.
pub struct Chance(Pcg64Mcg);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Above 0, at most 1.
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// Poisson by counting exponential gaps.
    fn poisson(&mut self, mean: f64) -> usize {
        let mut at = self.exponential(1.0);
        let mut count = 0;
        while at < mean {
            count += 1;
            at += self.exponential(1.0);
        }
        count
    }
}

impl System {
    /// Share of the packets lost in a trial of `time_s` at `load`.
    pub fn loss(&self, load: f64, time_s: f64, chance: &mut Chance) -> f64 {
        let mut capacity = self.capacity;
        if self.cv > 0.0 {
            capacity *= 1.0 + self.cv * chance.normal();
        }
        if load > capacity {
            capacity *= 1.0 - self.collapse * (1.0 - capacity / load);
        }
        let mut lost = 0.0;
        for _ in 0..chance.poisson(self.stalls_per_s * time_s) {
            let stall = chance.exponential(self.stall_s).min(time_s);
            lost += (stall * load - self.buffer).max(0.0);
        }
        let episodes = chance.poisson(self.background_per_s * time_s);
        let slow: f64 = (0..episodes).map(|_| chance.exponential(self.background_s)).sum();
        let slow = slow.min(time_s);
        lost += ((load - capacity) * (time_s - slow) - self.buffer).max(0.0);
        if slow > 0.0 {
            let left = capacity * (1.0 - self.background_drop);
            lost += ((load - left) * slow - self.buffer).max(0.0);
        }
        (lost / (load * time_s)).min(1.0)
    }

    /// The same as a trial of the search, a packet being a bit.
    pub fn run(&self, trial: &Trial, chance: &mut Chance) -> Outcome {
        let load = trial.rate.map_or(LARGEST, |rate| rate.bits_per_second() as f64);
        let time_s = trial.time.as_secs_f64();
        let loss = self.loss(load, time_s, chance);
        Outcome {
            run: None,
            sent_bps: load,
            received_bps: load * (1.0 - loss),
            undelivered_ratio: loss,
            lost_ratio: loss,
            lost_path: Some((loss * load * time_s) as u64),
            dropped_receiver: Some(0),
            unattributed: None,
            jitter_s: None,
            delay_p99_s: None,
            cpu_sender_percent: None,
            cpu_receiver_percent: None,
            limit: Some(if loss > 0.0 { Limit::Path } else { Limit::RequestedRate }),
            advice: Vec::new(),
            intervals_bps: vec![load * (1.0 - loss)],
            took_s: time_s + OVERHEAD_S,
            invalid: None,
            void: false,
        }
    }

    /// The load at which a trial of `time_s` loses more than `loss` with probability one half, by
    /// halving over many trials.
    pub fn truth(&self, loss: f64, time_s: f64) -> f64 {
        let (mut low, mut high) = (LEAST, LARGEST);
        let mut chance = Chance::new(7);
        while high / low > 1.000_05 {
            let load = (low * high).sqrt();
            let trials = if self.cv > 0.0 { 4_000 } else { 1 };
            let bad = (0..trials).filter(|_| self.loss(load, time_s, &mut chance) > loss).count();
            if 2 * bad > trials { high = load } else { low = load }
        }
        (low * high).sqrt()
    }
}
