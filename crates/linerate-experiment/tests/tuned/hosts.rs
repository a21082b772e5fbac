//! Twenty made-up hosts: a figure for each combination of levels, and what runs of it scatter, drift and jump by.

use linerate_stats::offline::bootstrap::Random;

/// What a combination truly gives; level 0 is the default's.
type Surface = fn(&[usize]) -> f64;

/// A host.
pub struct Host {
    pub name: &'static str,
    pub levels: &'static [usize],
    pub surface: Surface,
    /// Small figures are wanted.
    pub lower: bool,
    /// Standard deviation of a run, as a share.
    pub noise: f64,
    pub course: Course,
}

/// How the whole host changes while it is tuned.
#[derive(Clone, Copy)]
pub enum Course {
    Still,
    /// It grows by so much with each trial.
    Drift(f64),
    /// It is rebooted at any trial with this chance, and each boot is off by so much (a standard deviation).
    Boots(f64, f64),
    /// It goes up and down by so much within 60 trials.
    Wave(f64),
    /// Runs with this chance lose so much to other work.
    Hits(f64, f64),
}

fn at<const N: usize>(levels: &[usize], factor: usize, values: [f64; N]) -> f64 {
    values[levels[factor]]
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

// Sizes, windows, cores, streams, engines: what is smallest limits.
fn chain(l: &[usize]) -> f64 {
    least(&[
        at(l, 0, [4.0, 9.0, 2.5, 6.0]),
        at(l, 1, [3.0, 2.0, 5.0, 9.5]),
        at(l, 2, [5.0, 2.0, 8.0, 7.0, 4.5]),
        at(l, 3, [6.0, 8.5, 10.0]),
        at(l, 4, [7.0, 9.0, 3.0]),
    ])
}

// The window alone limits, as over a long path.
fn window(l: &[usize]) -> f64 {
    least(&[
        at(l, 0, [0.9, 1.7, 3.3, 8.0, 9.4]),
        9.0 * at(l, 1, [1.0, 0.98, 0.9]),
        at(l, 2, [9.2, 9.2, 9.2, 9.0]),
    ]) * at(l, 3, [1.0, 0.97, 0.99])
}

// Each factor multiplies.
fn product(l: &[usize]) -> f64 {
    at(l, 0, [1.0, 1.12, 0.7, 1.2])
        * at(l, 1, [1.0, 0.9, 1.06, 1.0])
        * at(l, 2, [1.0, 1.15, 0.6, 0.9, 1.0])
        * at(l, 3, [1.0, 0.95, 0.85])
        * at(l, 4, [1.0, 1.08, 0.97])
}

// The default is best in everything.
fn well_set(l: &[usize]) -> f64 {
    at(l, 0, [1.0, 0.9, 0.7, 0.95])
        * at(l, 1, [1.0, 0.96, 0.9])
        * at(l, 2, [1.0, 0.5, 0.93, 0.8, 0.95])
        * at(l, 3, [1.0, 0.9, 0.8])
}

fn flat(_: &[usize]) -> f64 {
    1.0
}

// Differences of half a percent that nobody can care about.
fn nearly_flat(l: &[usize]) -> f64 {
    1.0 + 0.005 * (l[0] as f64 % 2.0) - 0.004 * (l[2] as f64 / 4.0) + 0.003 * (l[3] as f64 % 2.0)
}

// More streams help only where they have cores of their own; alone each of the two costs.
fn together(l: &[usize]) -> f64 {
    let (streams, cores) = (l[3], l[2]);
    let pair = match (streams, cores) {
        (0, 0) => 1.0,
        (2, 3) => 1.9,
        (1, 3) => 1.4,
        (0, 3) => 0.97,
        (2, _) => 0.9,
        (1, _) => 0.95,
        _ => 0.98,
    };
    pair * at(l, 0, [1.0, 1.1, 0.9, 1.05]) * at(l, 1, [1.0, 1.0, 1.03, 0.9])
}

// Large datagrams need a large window, as a small one holds too few of them.
fn size_and_window(l: &[usize]) -> f64 {
    let size = at(l, 0, [1.0, 1.8, 3.2, 0.5]);
    let holds = at(l, 1, [1.1, 0.8, 2.0, 4.0]);
    size.min(holds) * at(l, 2, [1.0, 0.9, 1.05, 0.6, 1.0]) * at(l, 3, [1.0, 0.98, 0.9])
}

// Either more streams or another congestion control fills the path; both do no more.
fn either(l: &[usize]) -> f64 {
    let fills: f64 = if l[0] == 2 || l[1] == 1 { 5.0 } else { at(l, 0, [2.0, 3.2, 5.0, 4.6]) };
    fills.min(at(l, 2, [6.0, 5.6, 4.0, 6.0, 5.9])) * at(l, 3, [1.0, 0.99, 0.96])
}

// Interrupts on the thread's own core take half of it, whatever else is chosen.
fn cores(l: &[usize]) -> f64 {
    let (here, there) =
        (at(l, 0, [0.6, 0.5, 1.0, 0.93, 0.8, 0.97]), at(l, 1, [0.8, 0.55, 1.0, 0.9, 0.82, 0.96]));
    here.min(there) * at(l, 2, [1.0, 1.04, 0.97]) * at(l, 3, [1.0, 1.0, 0.8])
}

// Latency in microseconds: coalescing, governor, cores; small is good.
fn latency(l: &[usize]) -> f64 {
    20.0 + at(l, 0, [50.0, 0.0, 8.0, 120.0])
        + at(l, 1, [15.0, 0.0, 2.0])
        + at(l, 2, [4.0, 30.0, 0.0, 12.0, 9.0])
        + at(l, 3, [0.0, 1.0, 5.0])
}

// Bits for a second of CPU: batches and offloads.
fn efficiency(l: &[usize]) -> f64 {
    let offload = at(l, 0, [1.0, 4.0, 1.3, 0.8]);
    offload * at(l, 1, [1.0, 1.2, 1.25, 0.9]) * at(l, 2, [1.0, 0.98, 0.9, 1.05, 0.92])
        / at(l, 3, [1.0, 1.1, 1.3, 1.7])
}

// A sweet spot in each, that moves with the number of streams.
fn sweet(l: &[usize]) -> f64 {
    let hill = |x: f64, top: f64, steep: f64| 1.0 - steep * (x - top).powi(2);
    let streams = l[2] as f64;
    hill(l[0] as f64, 1.0 + streams / 2.0, 0.06)
        * hill(l[1] as f64, 3.0 - streams / 2.0, 0.07)
        * (1.0 + 0.1 * streams)
}

// Eight switches, of which three do something.
fn switches(l: &[usize]) -> f64 {
    at(l, 1, [1.0, 1.25])
        * at(l, 4, [1.0, 0.7])
        * at(l, 6, [1.0, 1.1])
        * if l[1] == 1 && l[7] == 1 { 1.15 } else { 1.0 }
}

/// All of them.
pub const HOSTS: [Host; 20] = [
    Host {
        name: "chain",
        levels: &[4, 4, 5, 3, 3],
        surface: chain,
        lower: false,
        noise: 0.01,
        course: Course::Still,
    },
    Host {
        name: "chain, drifts",
        levels: &[4, 4, 5, 3, 3],
        surface: chain,
        lower: false,
        noise: 0.015,
        course: Course::Drift(0.000_7),
    },
    Host {
        name: "chain, boots",
        levels: &[4, 4, 5, 3, 3],
        surface: chain,
        lower: false,
        noise: 0.01,
        course: Course::Boots(0.02, 0.04),
    },
    Host {
        name: "chain, noisy",
        levels: &[4, 4, 5, 3, 3],
        surface: chain,
        lower: false,
        noise: 0.04,
        course: Course::Still,
    },
    Host {
        name: "window",
        levels: &[5, 3, 4, 3],
        surface: window,
        lower: false,
        noise: 0.015,
        course: Course::Wave(0.03),
    },
    Host {
        name: "product",
        levels: &[4, 4, 5, 3, 3],
        surface: product,
        lower: false,
        noise: 0.01,
        course: Course::Drift(-0.000_5),
    },
    Host {
        name: "product, noisy",
        levels: &[4, 4, 5, 3, 3],
        surface: product,
        lower: false,
        noise: 0.03,
        course: Course::Boots(0.01, 0.03),
    },
    Host {
        name: "well set",
        levels: &[4, 3, 5, 3],
        surface: well_set,
        lower: false,
        noise: 0.015,
        course: Course::Wave(0.02),
    },
    Host {
        name: "flat",
        levels: &[4, 4, 5, 3, 3],
        surface: flat,
        lower: false,
        noise: 0.01,
        course: Course::Still,
    },
    Host {
        name: "flat, drifts",
        levels: &[4, 4, 5, 3],
        surface: flat,
        lower: false,
        noise: 0.02,
        course: Course::Drift(0.001),
    },
    Host {
        name: "flat, boots",
        levels: &[4, 4, 5, 3],
        surface: flat,
        lower: false,
        noise: 0.02,
        course: Course::Boots(0.02, 0.05),
    },
    Host {
        name: "nearly flat",
        levels: &[4, 4, 5, 3],
        surface: nearly_flat,
        lower: false,
        noise: 0.015,
        course: Course::Wave(0.02),
    },
    Host {
        name: "together",
        levels: &[4, 4, 5, 3],
        surface: together,
        lower: false,
        noise: 0.015,
        course: Course::Still,
    },
    Host {
        name: "size and window",
        levels: &[4, 4, 5, 3],
        surface: size_and_window,
        lower: false,
        noise: 0.02,
        course: Course::Boots(0.01, 0.03),
    },
    Host {
        name: "either",
        levels: &[4, 3, 5, 3],
        surface: either,
        lower: false,
        noise: 0.02,
        course: Course::Still,
    },
    Host {
        name: "cores",
        levels: &[6, 6, 3, 3],
        surface: cores,
        lower: false,
        noise: 0.02,
        course: Course::Hits(0.02, 0.2),
    },
    Host {
        name: "latency",
        levels: &[4, 3, 5, 3],
        surface: latency,
        lower: true,
        noise: 0.04,
        course: Course::Wave(0.05),
    },
    Host {
        name: "efficiency",
        levels: &[4, 4, 5, 4],
        surface: efficiency,
        lower: false,
        noise: 0.02,
        course: Course::Drift(0.000_5),
    },
    Host {
        name: "sweet spot",
        levels: &[5, 5, 4],
        surface: sweet,
        lower: false,
        noise: 0.015,
        course: Course::Still,
    },
    Host {
        name: "switches",
        levels: &[2, 2, 2, 2, 2, 2, 2, 2],
        surface: switches,
        lower: false,
        noise: 0.015,
        course: Course::Hits(0.01, 0.1),
    },
];

impl Host {
    /// The best of the whole grid.
    pub fn best(&self) -> f64 {
        let all = self.all().into_iter().map(|levels| (self.surface)(&levels));
        if self.lower { all.fold(f64::INFINITY, f64::min) } else { all.fold(0.0, f64::max) }
    }

    /// Every combination.
    fn all(&self) -> Vec<Vec<usize>> {
        self.levels.iter().fold(vec![vec![]], |rows, count| {
            let more = |row: &Vec<usize>| {
                let row = row.clone();
                (0..*count)
                    .map(move |level| [row.clone(), vec![level]].concat())
                    .collect::<Vec<_>>()
            };
            rows.iter().flat_map(more).collect()
        })
    }

    /// How far a combination is from the best, as a share.
    pub fn short_of_best(&self, levels: &[usize]) -> f64 {
        let (own, best) = ((self.surface)(levels), self.best());
        if self.lower { own / best - 1.0 } else { 1.0 - own / best }
    }
}

/// A host while it is tuned.
pub struct Running<'a> {
    host: &'a Host,
    chance: Random,
    trials: u32,
    level: f64,
}

impl<'a> Running<'a> {
    pub fn new(host: &'a Host, seed: u64) -> Self {
        Self { host, chance: Random::new(seed ^ 0x5eed), trials: 0, level: 0.0 }
    }

    /// A run.
    pub fn run(&mut self, levels: &[usize]) -> f64 {
        self.trials += 1;
        let trials = f64::from(self.trials);
        let mut off = self.host.noise * self.chance.normal();
        match self.host.course {
            Course::Still => {}
            Course::Drift(step) => off += step * trials,
            Course::Boots(chance, spread) => {
                if self.trials == 1 || self.chance.unit() < chance {
                    self.level = spread * self.chance.normal();
                }
                off += self.level;
            }
            Course::Wave(height) => off += height * (trials / 60.0 * std::f64::consts::TAU).sin(),
            Course::Hits(chance, loss) => {
                if self.chance.unit() < chance {
                    off -= loss;
                }
            }
        }
        (self.host.surface)(levels) * off.exp()
    }
}
