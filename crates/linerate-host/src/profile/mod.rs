//! Where a host's CPUs spend their time: samples of their stacks by perf_event_open(2), taken while a test runs.
//!
//! A thread of its own empties the kernel's rings and counts equal stacks together, so that its memory is bounded however
//! long a test lasts; names are looked up when all is over. What is lost on the way is counted.

mod addresses;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod rings;
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
#[path = "no_rings.rs"]
mod rings;
// Nobody asks them there.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod symbols;
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod tasks;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use linerate_model::doubt::TestEnd;
use linerate_model::profile::{HostProfile, Scope, Stack};
use nix::errno::Errno;

use self::addresses::Raw;
use self::rings::Rings;
use self::symbols::Symbols;
use self::tasks::Tasks;

/// Samples a second of each core by its clock: odd, so that it does not beat with timers of round periods, and rare enough
/// to cost less than 1 % of a core.
pub const FREQUENCY_HZ: u32 = 499;
/// Cycles of a core from one sample to the next where they drive it: as many samples a second of a busy core at 3 GHz, and
/// odd as well. At a frequency the kernel would take as many samples of a core that is hardly busy as of a full one,
/// and each would stand for other cycles.
pub const PERIOD_CYCLES: u64 = 6_012_023;
/// The rings are emptied this often; each has room for some 300 of the deepest stacks, half a second at that rate.
const EVERY: Duration = Duration::from_millis(50);
/// The name of the thread that empties them.
pub const THREAD: &str = "sampler";

/// What drives the sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A hardware counter: sees code that runs with interrupts off, and no idle time.
    Cycles,
    /// A timer of each core.
    Clock,
}

impl Event {
    /// As perf(1) calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Clock => "cpu-clock",
        }
    }
}

/// What is asked for; `None` takes the best that there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleOptions {
    /// What is sampled: whole cores, and where that is not permitted, threads.
    pub scope: Option<Scope>,
    /// What drives it: cycles, and where there is no such counter, the clock.
    pub event: Option<Event>,
}

/// Why nothing can be sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// As a sentence without a full stop.
    pub why: String,
    /// What to try.
    pub hints: Vec<String>,
}

/// What was sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// What of the host.
    pub scope: Scope,
    /// By what.
    pub event: Event,
    /// Cores that were sampled.
    pub cores: u32,
    /// Every stack, folded.
    pub stacks: Vec<Stack>,
    /// Samples that the kernel found no room for.
    pub lost: u64,
    /// Samples of stacks that there was no more room for here.
    pub unstored: u64,
    /// What limits what can be read of it, as sentences without a full stop.
    pub notes: Vec<String>,
}

/// A rings' content: what was counted since sampling began.
#[derive(Default)]
struct Taken {
    counts: HashMap<Raw, u64>,
    tasks: Tasks,
    lost: u64,
    unstored: u64,
    throttled: bool,
}

enum Order {
    Begin,
    End(Sender<Taken>),
}

/// The right to sample: what the kernel was asked for. It outlasts the rights that it was opened with.
pub struct Opened {
    rings: Rings,
    notes: Vec<String>,
    symbols: Symbols,
}

/// Asks the kernel: from the thread that will start those of the test, because where only threads may be sampled, it and
/// those that it starts from now on are.
///
/// # Errors
/// When nothing can be sampled.
pub fn open(wish: SampleOptions) -> Result<Opened, Refused> {
    let (rings, notes) = open_best(wish)?;
    Ok(Opened { rings, notes, symbols: Symbols::default() })
}

impl Opened {
    /// Reads the names of the kernel's and linerate's own functions now, for who gives up the right to read them later.
    #[must_use]
    pub fn with_names(mut self) -> Self {
        self.symbols.read_all();
        self
    }

    /// Starts the thread that takes the samples.
    ///
    /// # Errors
    /// When the system has none to give.
    pub fn start(self) -> io::Result<Sampler> {
        let Self { rings, notes, symbols } = self;
        let (scope, event, cores) = (rings.scope(), rings.event(), rings.cores());
        let (orders, ordered) = mpsc::channel();
        std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || keep(rings, &ordered))?;
        Ok(Sampler { orders, scope, event, cores, notes, symbols })
    }
}

/// Samples on request, any number of times. Its thread ends with it.
pub struct Sampler {
    orders: Sender<Order>,
    scope: Scope,
    event: Event,
    cores: u32,
    notes: Vec<String>,
    symbols: Symbols,
}

impl Sampler {
    /// Samples from now on.
    pub fn begin(&self) {
        // A thread that has ended is noticed at the end.
        let _ = self.orders.send(Order::Begin);
    }

    /// Samples no more, and forgets what was sampled.
    pub fn discard(&self) {
        let (give, _) = mpsc::channel();
        // A thread that has ended samples no more.
        let _ = self.orders.send(Order::End(give));
    }

    /// Samples no more, and looks names up.
    ///
    /// # Errors
    /// When its thread has ended.
    pub fn end(&mut self) -> io::Result<Samples> {
        let gone = || io::Error::other("the rings could not be used, and the sampler has ended");
        let (give, given) = mpsc::channel();
        self.orders.send(Order::End(give)).map_err(|_| gone())?;
        let Taken { counts, tasks, lost, unstored, throttled } =
            given.recv().map_err(|_| gone())?;
        let symbols = &mut self.symbols;
        let mut stacks = BTreeMap::<String, u64>::new();
        for (raw, samples) in &counts {
            *stacks.entry(tasks.folded(raw, symbols)).or_default() += samples;
        }
        let stacks = stacks.into_iter().map(|(frames, samples)| Stack { frames, samples });
        let mut notes = self.notes.clone();
        notes.extend(symbols.missing());
        if throttled {
            let why =
                "the kernel took fewer samples for a while (kernel.perf_cpu_time_max_percent)";
            notes.push(why.to_owned());
        }
        let (scope, event, cores) = (self.scope, self.event, self.cores);
        Ok(Samples { scope, event, cores, stacks: stacks.collect(), lost, unstored, notes })
    }
}

impl Samples {
    /// The same without the names of other programs, for eyes from elsewhere.
    #[must_use]
    pub fn of_linerate_alone(mut self) -> Self {
        let mut stacks = BTreeMap::<String, u64>::new();
        for Stack { frames, samples } in self.stacks {
            let calls =
                frames.split_once(';').map_or(String::new(), |(_, calls)| format!(";{calls}"));
            let other = frames.starts_with("other: ");
            let frames = if other { format!("other: a program{calls}") } else { frames };
            *stacks.entry(frames).or_default() += samples;
        }
        let stacks = stacks.into_iter().map(|(frames, samples)| Stack { frames, samples });
        self.stacks = stacks.collect();
        self
    }

    /// As the document has it; what is computed of the stacks is not there yet.
    pub fn of_host(self, ends: Vec<TestEnd>, seconds: f64) -> HostProfile {
        HostProfile {
            ends,
            scope: self.scope,
            event: self.event.name().to_owned(),
            frequency_hz: (self.event == Event::Clock).then_some(FREQUENCY_HZ),
            period_cycles: (self.event == Event::Cycles).then_some(PERIOD_CYCLES),
            cores: self.cores,
            seconds,
            samples: 0,
            idle_samples: None,
            lost_samples: self.lost,
            unstored_samples: self.unstored,
            notes: self.notes,
            work: None,
            layers: Vec::new(),
            paths: Vec::new(),
            functions: Vec::new(),
            stacks: self.stacks,
        }
    }
}

/// Empties rings until nobody gives orders any more, or they cannot be used.
fn keep(mut rings: Rings, orders: &mpsc::Receiver<Order>) {
    let mut taken = Taken::default();
    loop {
        match orders.recv_timeout(EVERY) {
            Ok(Order::Begin) => {
                rings.empty(&mut taken);
                taken = Taken::default();
                if rings.enable().is_err() {
                    return;
                }
            }
            Ok(Order::End(give)) => {
                rings.disable();
                rings.empty(&mut taken);
                // Whoever asked may be gone.
                let _ = give.send(std::mem::take(&mut taken));
            }
            Err(RecvTimeoutError::Timeout) => rings.empty(&mut taken),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The best that may be opened, and what is to be said of it.
fn open_best(wish: SampleOptions) -> Result<(Rings, Vec<String>), Refused> {
    let scopes = wish.scope.map_or(vec![Scope::Cores, Scope::Threads], |scope| vec![scope]);
    let mut first = None;
    for scope in scopes {
        match open_scope(scope, wish.event) {
            Ok(rings) => {
                let note = |why: Refused| {
                    let hints = why.hints.join("; ");
                    format!("only linerate's own threads were sampled: {}; {hints}", why.why)
                };
                return Ok((rings, first.map(note).into_iter().collect()));
            }
            Err(error) => {
                first.get_or_insert(refused(&error, scope, paranoid()));
            }
        }
    }
    let unsupported = || refused(&io::ErrorKind::Unsupported.into(), Scope::Threads, paranoid());
    Err(first.unwrap_or_else(unsupported))
}

fn open_scope(scope: Scope, event: Option<Event>) -> io::Result<Rings> {
    match event {
        Some(event) => Rings::open(scope, event),
        // A machine without such a counter says so in one of several ways, and one that forbids it would forbid the clock.
        None => Rings::open(scope, Event::Cycles).or_else(|_| Rings::open(scope, Event::Clock)),
    }
}

/// The setting that keeps users from sampling.
const SETTING: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Its level; nothing where this kernel has none.
fn paranoid() -> Option<i64> {
    std::fs::read_to_string(SETTING).ok()?.trim().parse().ok()
}

/// Why, and what would permit it, where the setting has that level.
fn refused(error: &io::Error, scope: Scope, paranoid: Option<i64>) -> Refused {
    let (needed, what) = match scope {
        Scope::Cores => (0, "whole cores"),
        Scope::Threads => (1, "the kernel in linerate's threads"),
    };
    let kept = paranoid.filter(|level| *level > needed).map(|level| {
        format!("kernel.perf_event_paranoid is {level}, which keeps {what} from this user")
    });
    let permit = || {
        let capability = "CAP_PERFMON for linerate: setcap cap_perfmon+ep FILE, or run it as root";
        [format!("sysctl kernel.perf_event_paranoid={needed}"), capability.to_owned()]
    };
    let unfiltered =
        "run the container with CAP_PERFMON and a seccomp profile that leaves perf_event_open";
    // The setting answers EACCES, as security modules do (`perf_allow_cpu`, include/linux/perf_event.h); filters of system
    // calls mostly EPERM, before the kernel looks at the setting.
    let (why, hints) = match (error.raw_os_error().map(Errno::from_raw), kept, paranoid) {
        (Some(Errno::EACCES), Some(kept), _) => (kept, permit().into()),
        (Some(Errno::EACCES), None, Some(level)) => (
            format!(
                "perf_event_open(2) is refused ({error}) although kernel.perf_event_paranoid is {level}: a security module \
                 such as SELinux, or a filter of system calls"
            ),
            vec!["look for the refusal in the log of the kernel or of auditd".to_owned()],
        ),
        (Some(Errno::EPERM), kept, _) => {
            let mut why = format!(
                "perf_event_open(2) is refused ({error}): a filter of system calls, as containers have"
            );
            let mut hints = vec![unfiltered.to_owned()];
            if let Some(kept) = kept {
                why = format!("{why}; or {kept}");
                hints.extend(permit());
            }
            (why, hints)
        }
        (Some(_), _, None) => (
            format!("this kernel has no perf events ({SETTING} is not there): {error}"),
            vec!["a kernel with CONFIG_PERF_EVENTS".to_owned()],
        ),
        // Only cycles have none anywhere: a timer is in every kernel.
        (Some(Errno::ENOENT | Errno::EOPNOTSUPP), ..) => (
            format!("this machine has no counter of cycles that the kernel can sample by: {error}"),
            vec!["--event cpu-clock, or leave it out".to_owned()],
        ),
        (None, ..) if error.kind() == io::ErrorKind::PermissionDenied => (
            error.to_string(),
            vec![
                "end other profiles of this user, raise ulimit -l or kernel.perf_event_mlock_kb, or give linerate CAP_IPC_LOCK"
                    .to_owned(),
            ],
        ),
        _ => (format!("perf_event_open(2): {error}"), Vec::new()),
    };
    Refused { why, hints }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_refusal_names_what_would_permit_it() {
        for level in [None, Some(-1), Some(0), Some(2), Some(4)] {
            let [filtered, denied] = [1, 13]
                .map(|errno| refused(&io::Error::from_raw_os_error(errno), Scope::Cores, level));
            assert!(filtered.why.contains("filter"), "{level:?}: {filtered:?}");
            assert!(filtered.hints[0].contains("seccomp"), "{level:?}: {filtered:?}");
            assert!(denied.why.contains("perf_event_paranoid"), "{level:?}: {denied:?}");
            assert!(!denied.hints.is_empty(), "{level:?}: {denied:?}");
            let (setting, kept) = ("kernel.perf_event_paranoid is", level > Some(0));
            assert_eq!(filtered.why.contains(setting), kept, "{level:?}: {filtered:?}");
            assert_eq!(denied.why.starts_with(setting), kept, "{level:?}: {denied:?}");
        }
    }

    #[test]
    fn a_machine_without_a_counter_of_cycles_is_said_to_be_one() {
        for errno in [Errno::ENOENT, Errno::EOPNOTSUPP] {
            let error = io::Error::from_raw_os_error(errno as i32);
            let told = refused(&error, Scope::Cores, Some(-1));
            assert!(told.why.contains("no counter of cycles"), "{told:?}");
            assert!(told.hints[0].contains("--event cpu-clock"), "{told:?}");
        }
    }

    #[test]
    fn what_is_said_of_how_it_was_sampled_is_of_the_event() {
        for (event, hz, cycles) in
            [(Event::Clock, Some(FREQUENCY_HZ), None), (Event::Cycles, None, Some(PERIOD_CYCLES))]
        {
            let (scope, stacks, notes) = (Scope::Cores, vec![], vec![]);
            let samples = Samples { scope, event, cores: 1, stacks, lost: 0, unstored: 0, notes };
            let host = samples.of_host(vec![], 1.0);
            assert_eq!((host.frequency_hz, host.period_cycles), (hz, cycles));
        }
    }

    /// A loop that the compiler cannot take out, long enough for a few samples.
    fn busy() -> u64 {
        let mut sum = std::hint::black_box(1u64);
        for step in 0..400_000_000u64 {
            sum = sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
        }
        std::hint::black_box(sum)
    }

    #[test]
    fn what_a_thread_does_is_seen_under_its_name() {
        for scope in [Scope::Threads, Scope::Cores] {
            let wish = SampleOptions { scope: Some(scope), event: Some(Event::Clock) };
            let mut sampler = match open(wish) {
                Ok(opened) => opened.start().unwrap(),
                Err(refused) => {
                    // The test runner captures what macros print, and not this.
                    let (mut err, name) = (std::io::stderr(), scope_name(scope));
                    let _ = writeln!(err, "\n*** SKIP {name} may not be sampled: {refused:?}");
                    continue;
                }
            };
            sampler.begin();
            let worker = std::thread::Builder::new().name("send-7".to_owned()).spawn(busy).unwrap();
            worker.join().unwrap();
            let samples = sampler.end().unwrap();
            let own = |stack: &&Stack| stack.frames.starts_with("send-7;");
            let seen: u64 = samples.stacks.iter().filter(own).map(|stack| stack.samples).sum();
            assert!(seen >= 10, "{samples:?}");
            assert_eq!((samples.scope, samples.event), (scope, Event::Clock));
            assert!(samples.stacks.iter().all(|stack| !stack.frames.is_empty()));
            // It can be used again, and has nothing of before.
            sampler.begin();
            let again = sampler.end().unwrap();
            assert!(again.stacks.iter().filter(own).map(|stack| stack.samples).sum::<u64>() < seen);
        }
    }

    #[test]
    fn other_programs_can_be_told_without_their_names() {
        let stack = |frames: &str| Stack { frames: frames.to_owned(), samples: 2 };
        let samples = Samples {
            scope: Scope::Cores,
            event: Event::Clock,
            cores: 1,
            stacks: vec![stack("other: a;f_[k]"), stack("other: b;f_[k]"), stack("send-0;g")],
            lost: 0,
            unstored: 0,
            notes: vec![],
        };
        let stacks = samples.of_linerate_alone().stacks;
        let pairs: Vec<_> = stacks.iter().map(|s| (s.frames.as_str(), s.samples)).collect();
        assert_eq!(pairs, [("other: a program;f_[k]", 4), ("send-0;g", 2)]);
    }

    fn scope_name(scope: Scope) -> &'static str {
        match scope {
            Scope::Cores => "cores",
            Scope::Threads => "threads",
        }
    }
}
