//! From sampled stacks to layers, functions, and what differs between two profiles.
//!
//! A share is one of the samples of cores that were not idle. Its standard error is that of a share of so many
//! independent samples, `sqrt(p (1 - p) / n)`; a layer's cost is its samples over the sampling frequency, which is CPU
//! time, for one unit of what the test carried.

mod difference;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::profile::{
    CallPath, FunctionShare, HostProfile, Layer, LayerShare, PathShare, Stack, Work, WorkUnit,
};
use linerate_model::record::{Figures, RunRecord};

pub use self::difference::difference;
pub use self::rules::{layer, layer_of, path};

/// How the kernel's functions are marked, as perf's own scripts mark them.
const KERNEL: &str = "_[k]";
/// What begins the name of a task of another program.
const OTHER: &str = "other: ";
/// The kernel's idle task.
const IDLE: &str = "idle task";
/// A function of the kernel whose name is hidden.
const UNNAMED: &str = "[kernel]_[k]";
/// The name of the sampler's own thread.
const SAMPLER: &str = "sampler";
/// Functions that are told by name.
const MOST_FUNCTIONS: usize = 50;

/// A folded stack.
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a>(&'a str);

impl<'a> Frames<'a> {
    /// Of its text.
    pub fn of(stack: &'a str) -> Self {
        Self(stack)
    }

    /// Task and functions, the outermost first.
    pub fn all(self) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0.split(';')
    }

    /// Whether a function is the kernel's.
    pub fn is_kernel(name: &str) -> bool {
        name.ends_with(KERNEL)
    }

    fn task(self) -> &'a str {
        self.all().next().unwrap_or_default()
    }

    fn is_other(self) -> bool {
        self.task().starts_with(OTHER)
    }

    fn is_sampler(self) -> bool {
        self.task() == SAMPLER
    }

    /// Whether the idle task is in functions without names: where all are hidden an interrupt looks like idling.
    fn is_unnamed_idle(self) -> bool {
        self.task() == IDLE && self.calls().all(|name| name == UNNAMED)
    }

    /// Functions, the innermost first.
    fn calls(self) -> impl Iterator<Item = &'a str> {
        let calls = self.0.split_once(';').map(|(_, calls)| calls);
        calls.into_iter().flat_map(|calls| calls.rsplit(';'))
    }

    /// The kernel's, the innermost first.
    fn kernel(self) -> impl Iterator<Item = &'a str> {
        self.calls().filter_map(|name| name.strip_suffix(KERNEL))
    }
}

/// A number of samples as a share of `n`, with its standard error.
fn share(samples: u64, n: u64) -> (f64, f64) {
    if n == 0 {
        return (0.0, 0.0);
    }
    let share = samples as f64 / n as f64;
    (share, (share * (1.0 - share) / n as f64).max(0.0).sqrt())
}

/// What a test carried, both directions together, in the time in which it was sampled. Absent with a warm-up: that is
/// sampled, and not counted in what was carried.
pub fn work(record: &RunRecord) -> Option<Work> {
    if record.agreed.as_ref().unwrap_or(&record.asked).warmup_s > 0.0 {
        return None;
    }
    let Figures { receiver, forward, reverse, rr, .. } = &record.totals;
    if let Some(rr) = rr {
        let done = rr.transactions as f64 / 1e3;
        return (done > 0.0).then_some(Work { amount: done, unit: WorkUnit::Kilotransaction });
    }
    let both = [forward, reverse].into_iter().flatten().filter_map(|pair| pair.receiver.as_ref());
    // A peer, or a file, may name any numbers.
    let bytes = receiver.iter().chain(both).fold(0, |sum: u64, end| sum.saturating_add(end.bytes));
    let carried = Work { amount: bytes as f64 * 8.0 / 1e9, unit: WorkUnit::Gbit };
    (bytes > 0).then_some(carried)
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Fills in what is computed from the stacks.
pub fn complete(mut host: HostProfile) -> HostProfile {
    let mut layers = BTreeMap::<Layer, u64>::new();
    let mut paths = BTreeMap::<CallPath, u64>::new();
    for Stack { frames, samples } in &host.stacks {
        let frames = Frames::of(frames);
        add(layers.entry(layer(frames)).or_default(), *samples);
        add(paths.entry(path(frames)).or_default(), *samples);
    }
    let all = layers.values().fold(0, |sum: u64, samples| sum.saturating_add(*samples));
    let idle = layers.remove(&Layer::Idle).unwrap_or(0);
    paths.remove(&CallPath::Idle);
    let busy = all - idle;
    host.samples = all;
    // A counter that stands still in idle time may have caught the way into it.
    host.idle_samples = is_clock(&host).then_some(idle);
    let timed = host.work.zip(host.frequency_hz).filter(|_| is_clock(&host));
    let cost =
        |samples: u64| timed.map(|(work, hz)| samples as f64 / f64::from(hz.max(1)) / work.amount);
    let of_layer = |(layer, samples)| {
        let (share, share_se) = share(samples, busy);
        LayerShare { layer, samples, share, share_se, cost: cost(samples) }
    };
    let of_path = |(path, samples)| {
        let (share, share_se) = share(samples, busy);
        PathShare { path, samples, share, share_se }
    };
    let mut layers: Vec<_> = layers.into_iter().map(of_layer).collect();
    let mut paths: Vec<_> = paths.into_iter().map(of_path).collect();
    layers.sort_by_key(|one| std::cmp::Reverse(one.samples));
    paths.sort_by_key(|one| std::cmp::Reverse(one.samples));
    (host.layers, host.paths) = (layers, paths);
    host.functions = functions(&host.stacks, busy);
    host
}

fn is_clock(host: &HostProfile) -> bool {
    host.event == "cpu-clock"
}

/// What is known of a function so far.
#[derive(Default)]
struct Seen {
    own: u64,
    whole: u64,
    layers: BTreeMap<Layer, u64>,
}

fn functions(stacks: &[Stack], busy: u64) -> Vec<FunctionShare> {
    let mut seen = BTreeMap::<&str, Seen>::new();
    for Stack { frames, samples } in stacks {
        let frames = Frames::of(frames);
        let what = layer(frames);
        if matches!(what, Layer::Idle | Layer::Other) {
            continue;
        }
        if let Some(innermost) = frames.calls().next() {
            let function = seen.entry(innermost).or_default();
            add(&mut function.own, *samples);
            add(function.layers.entry(what).or_default(), *samples);
        }
        // One that calls itself is in the stack once.
        for name in frames.calls().collect::<BTreeSet<_>>() {
            add(&mut seen.entry(name).or_default().whole, *samples);
        }
    }
    let mut functions: Vec<FunctionShare> = seen
        .into_iter()
        .filter_map(|(name, seen)| {
            let (layer, _) = seen.layers.into_iter().max_by_key(|(_, samples)| *samples)?;
            Some(FunctionShare {
                name: name.to_owned(),
                layer,
                samples: seen.own,
                share: share(seen.own, busy).0,
                whole_share: share(seen.whole, busy).0,
            })
        })
        .collect();
    functions.sort_by_key(|function| std::cmp::Reverse(function.samples));
    functions.truncate(MOST_FUNCTIONS);
    functions
}

#[cfg(test)]
pub(crate) mod tests {
    use linerate_model::profile::Scope;
    use linerate_model::record::TestEnd;

    use super::*;

    /// Sampled for 10 s at 100 Hz while 10 Gbit were carried.
    pub(crate) fn host(stacks: &[(&str, u64)]) -> HostProfile {
        let stack = |(frames, samples): &(&str, u64)| Stack {
            frames: (*frames).to_owned(),
            samples: *samples,
        };
        complete(HostProfile {
            ends: vec![TestEnd::Client],
            scope: Scope::Cores,
            event: "cpu-clock".into(),
            frequency_hz: Some(100),
            period_cycles: None,
            cores: 2,
            seconds: 10.0,
            samples: 0,
            idle_samples: None,
            lost_samples: 0,
            unstored_samples: 0,
            notes: vec![],
            work: Some(Work { amount: 10.0, unit: WorkUnit::Gbit }),
            layers: vec![],
            paths: vec![],
            functions: vec![],
            stacks: stacks.iter().map(stack).collect(),
        })
    }

    #[test]
    fn shares_are_of_busy_cores_and_costs_of_what_was_carried() {
        let host = host(&[
            ("idle task;do_idle_[k]", 1_000),
            ("send-0;do_syscall_64_[k];__sys_sendto_[k];udp_sendmsg_[k];_copy_from_iter_[k]", 600),
            ("send-0;do_syscall_64_[k];__sys_sendto_[k];udp_sendmsg_[k]", 300),
            ("send-0;run", 100),
        ]);
        assert_eq!((host.samples, host.idle_samples), (2_000, Some(1_000)));
        let copy = &host.layers[0];
        assert_eq!((copy.layer, copy.samples, copy.share), (Layer::Copy, 600, 0.6));
        assert!((copy.share_se - (0.24f64 / 1_000.0).sqrt()).abs() < 1e-12);
        // 600 samples of 10 ms for 10 Gbit.
        assert!((copy.cost.unwrap() - 0.6).abs() < 1e-12);
        assert_eq!(host.layers.iter().map(|l| l.samples).sum::<u64>(), 1_000);
        assert_eq!((host.paths[0].path, host.paths[0].samples), (CallPath::Send, 900));
        let sendmsg = host.functions.iter().find(|f| f.name == "udp_sendmsg_[k]").unwrap();
        assert_eq!((sendmsg.share, sendmsg.whole_share), (0.3, 0.9));
        assert!(host.functions.iter().all(|f| !f.name.contains("idle")));
    }

    #[test]
    fn idle_time_is_not_busy_where_names_are_hidden() {
        let hidden = host(&[
            ("idle task;[kernel]_[k];[kernel]_[k];[kernel]_[k]", 900),
            ("send-0;[kernel]_[k];[kernel]_[k]", 75),
            ("send-0;run", 25),
        ]);
        assert_eq!((hidden.samples, hidden.idle_samples), (1_000, Some(900)));
        let layers: Vec<_> = hidden.layers.iter().map(|one| (one.layer, one.share)).collect();
        assert_eq!(layers, [(Layer::Kernel, 0.75), (Layer::User, 0.25)]);
        assert!(hidden.paths.iter().all(|one| one.path != CallPath::Idle), "{:?}", hidden.paths);
    }

    #[test]
    fn cycles_are_no_time() {
        let mut cycles = host(&[("send-0;run", 10)]);
        cycles.event = "cycles".into();
        (cycles.frequency_hz, cycles.period_cycles) = (None, Some(6_012_023));
        let cycles = complete(cycles);
        assert_eq!((cycles.idle_samples, cycles.layers[0].cost), (None, None));
    }

    #[test]
    fn what_is_carried_after_a_warm_up_is_no_measure_of_all_samples() {
        let mut record = linerate_testkit::records::tcp();
        record.agreed = None;
        assert_eq!(work(&record).unwrap().unit, WorkUnit::Gbit);
        record.asked.warmup_s = 1.0;
        assert_eq!(work(&record), None);
        let warmed = complete(HostProfile { work: None, ..host(&[("send-0;run", 10)]) });
        assert_eq!((warmed.layers[0].share, warmed.layers[0].cost), (1.0, None));
    }

    #[test]
    fn numbers_of_a_peer_or_a_file_add_up_to_no_overflow() {
        let host = host(&[("send-0;run", u64::MAX), ("send-1;run", u64::MAX), ("idle task", 7)]);
        assert_eq!((host.samples, host.functions[0].samples), (u64::MAX, u64::MAX));
        assert_eq!(difference(&host, &host).layers[0].shares[0], host.layers[0].share);
        let mut record = linerate_testkit::records::udp_both();
        (record.asked.warmup_s, record.agreed) = (0.0, None);
        let Figures { forward, reverse, .. } = &mut record.totals;
        for pair in [forward, reverse].into_iter().flatten() {
            pair.receiver.as_mut().unwrap().bytes = u64::MAX;
        }
        assert!(work(&record).unwrap().amount > 1e11);
    }

    #[test]
    fn nothing_sampled_has_no_shares() {
        let nothing = host(&[]);
        assert!(nothing.layers.is_empty() && nothing.functions.is_empty());
        assert_eq!(host(&[("idle task;do_idle_[k]", 5)]).layers, []);
    }
}
