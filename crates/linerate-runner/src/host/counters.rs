//! The one thread of this process that reads the host's counters, for all tests.
//!
//! Reading them takes a millisecond and more, so that many tests with short intervals would keep a
//! control thread from everything else. Who wants a reading asks this thread and waits; whoever
//! asked before a reading began has his answer from it, and after each the thread rests, so that it
//! takes little of a core whatever the number of tests.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linerate_engine::clock;
use linerate_host::facts::{Known, Towards, facts as of_host};
use linerate_host::roots::Roots;
use linerate_host::sampler::{Clocks, IrqCounts, Reading, Sampler};
use linerate_model::host::HostFacts;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Rests so many times as long as a reading took …
const REST_TIMES: u32 = 4;
/// … at least so long …
const LEAST_REST: Duration = Duration::from_millis(1);
/// … and at most so long: the shortest interval of a test is 10 ms, and each wants a reading.
const MOST_REST: Duration = Duration::from_millis(5);

/// A test cannot wait longer, for it says several times a second that it is there. What is read of an interface waits
/// for a lock of the kernel (`rtnl_lock`, net/core/rtnetlink.c) that others may hold for seconds, for instance where
/// containers come and go. Half a second is counted in parts: while this process or its machine was stopped, nobody
/// waited, and what was stopped is told by these very readings.
const PATIENCE: Duration = Duration::from_millis(50);
const PARTS: u32 = 10;

/// The interface of a test, if it is known.
type Nic = Option<String>;

/// What a test hears.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    pub(super) reading: Arc<Reading>,
    /// Interrupts so far, where they were asked for.
    pub(super) irqs: Option<IrqCounts>,
}

/// The channel on which an answer comes that was not waited for to its end; `None` where none will come.
pub(super) type Late<T> = Option<oneshot::Receiver<T>>;

pub(super) enum Ask {
    /// A test begins.
    Open(Nic),
    /// Counters of now; with the interrupts, which are dear, or without.
    Read(Nic, bool, oneshot::Sender<Counted>),
    /// A test is over.
    Close(Nic),
    /// What this host is, with the interface towards an address.
    Facts(Towards, oneshot::Sender<HostFacts>),
}

/// The way to the thread, for one test.
#[derive(Debug)]
pub(super) struct Counters {
    asks: Sender<Ask>,
    nic: Nic,
}

impl Counters {
    /// Of this host. `None` where the system gives no thread.
    pub(super) fn open(nic: Option<&str>) -> Option<Self> {
        host().map(|asks| Self::of(asks, nic))
    }

    pub(super) fn of(asks: Sender<Ask>, nic: Option<&str>) -> Self {
        let nic = nic.map(str::to_owned);
        let _ = asks.send(Ask::Open(nic.clone()));
        Self { asks, nic }
    }

    /// Counters as they are after the call; where they do not come in time, the channel on which they will.
    pub(super) async fn read(&self, irqs: bool) -> Result<Counted, Late<Counted>> {
        answered(&self.asks, |answer| Ask::Read(self.nic.clone(), irqs, answer)).await
    }
}

/// What this host is; `None` when that does not come in time.
pub(super) async fn facts(towards: Towards) -> Option<HostFacts> {
    answered(&host()?, |answer| Ask::Facts(towards, answer)).await.ok()
}

async fn answered<T>(
    asks: &Sender<Ask>,
    ask: impl FnOnce(oneshot::Sender<T>) -> Ask,
) -> Result<T, Late<T>> {
    let (answer, mut answered) = oneshot::channel();
    if asks.send(ask(answer)).is_err() {
        return Err(None);
    }
    for _ in 0..PARTS {
        if let Ok(answer) = timeout(PATIENCE, &mut answered).await {
            return answer.map_err(|_| None);
        }
    }
    Err(Some(answered))
}

impl Drop for Counters {
    fn drop(&mut self) {
        let _ = self.asks.send(Ask::Close(self.nic.take()));
    }
}

/// The way to this host's thread, which starts when it is first asked for.
pub(super) fn host() -> Option<Sender<Ask>> {
    static HOST: Mutex<Option<Sender<Ask>>> = Mutex::new(None);
    let mut host = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    if host.is_none() {
        *host = start(Roots::host());
    }
    host.clone()
}

/// Starts the thread. It is of the network namespace of its maker, and its files stay that.
fn start(roots: Roots) -> Option<Sender<Ask>> {
    let (asks, asked) = mpsc::channel();
    let thread = std::thread::Builder::new().name("host-counters".into());
    thread.spawn(move || answer(&roots, &asked)).ok().map(|_| asks)
}

/// The files of one interface, open while a test wants them.
struct Open {
    sampler: Sampler,
    tests: usize,
    waiting: Vec<oneshot::Sender<Counted>>,
    with_irqs: Vec<oneshot::Sender<Counted>>,
}

impl Open {
    fn answer(&mut self) {
        if self.waiting.is_empty() && self.with_irqs.is_empty() {
            return;
        }
        let now = clock::Reading::now();
        let wall_ahead_ns = now.ahead_ns.cast_signed();
        let clocks = Clocks { monotonic_ns: now.at_ns, wall_ahead_ns };
        let reading = Arc::new(self.sampler.read(clocks));
        let mut counted = Counted { reading, irqs: None };
        // Who is gone needs no answer.
        for waiting in self.waiting.drain(..) {
            let _ = waiting.send(counted.clone());
        }
        if self.with_irqs.is_empty() {
            return;
        }
        counted.irqs = Some(self.sampler.irq_counts());
        for waiting in self.with_irqs.drain(..) {
            let _ = waiting.send(counted.clone());
        }
    }
}

/// What was last read of this host, without an interface.
static LAST: Mutex<Option<HostFacts>> = Mutex::new(None);

fn last() -> MutexGuard<'static, Option<HostFacts>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What this host was when somebody last read it: files are read for it once in a process.
pub(super) fn last_facts() -> HostFacts {
    last().get_or_insert_with(|| of_host(None)).clone()
}

/// Who waits to hear what this host is, by the address towards which its interface is.
#[derive(Default)]
struct Curious {
    order: VecDeque<Towards>,
    waiting: HashMap<Towards, Vec<oneshot::Sender<HostFacts>>>,
}

impl Curious {
    fn add(&mut self, towards: Towards, answer: oneshot::Sender<HostFacts>) {
        let waiting = self.waiting.entry(towards).or_insert_with(|| {
            self.order.push_back(towards);
            Vec::new()
        });
        waiting.push(answer);
    }

    /// Answers some: read once for all who ask towards one address, and not for who is gone.
    fn answer(&mut self, mut read: impl FnMut(Towards) -> HostFacts) {
        let mut left = MOST_ADDRESSES;
        while let Some(towards) = self.order.pop_front_if(|_| left > 0) {
            let mut waiting = self.waiting.remove(&towards).unwrap_or_default();
            waiting.retain(|answer| !answer.is_closed());
            if waiting.is_empty() {
                continue;
            }
            left -= 1;
            let facts = read(towards);
            for answer in waiting {
                let _ = answer.send(facts.clone());
            }
        }
    }
}

/// Addresses that are looked up between two readings: whoever has many does not keep running tests from theirs.
const MOST_ADDRESSES: usize = 16;

/// Asks that are taken at once. Who asks as fast as this answers keeps nobody from a reading.
const MOST_AT_ONCE: usize = 4_096;

fn answer(roots: &Roots, asked: &Receiver<Ask>) {
    let mut open: HashMap<Nic, Open> = HashMap::new();
    let (mut curious, mut known) = (Curious::default(), None);
    loop {
        let mut first = None;
        if curious.order.is_empty() {
            let Ok(ask) = asked.recv() else { return };
            first = Some(ask);
        }
        for ask in first.into_iter().chain(asked.try_iter()).take(MOST_AT_ONCE) {
            match ask {
                Ask::Open(nic) => {
                    let fresh = |nic: &Nic| Open {
                        sampler: Sampler::at(roots.clone(), nic.as_deref()),
                        tests: 0,
                        waiting: vec![],
                        with_irqs: vec![],
                    };
                    open.entry(nic).or_insert_with_key(fresh).tests += 1;
                }
                Ask::Read(nic, irqs, answer) => {
                    let Some(open) = open.get_mut(&nic) else { continue };
                    if irqs { open.with_irqs.push(answer) } else { open.waiting.push(answer) }
                }
                Ask::Facts(towards, answer) => curious.add(towards, answer),
                Ask::Close(nic) => {
                    let Some(closed) = open.get_mut(&nic) else { continue };
                    closed.tests = closed.tests.saturating_sub(1);
                    if closed.tests == 0 {
                        open.remove(&nic);
                    }
                }
            }
        }
        let begun = Instant::now();
        open.values_mut().for_each(Open::answer);
        let mut is_of_now = false;
        curious.answer(|towards| {
            if !std::mem::replace(&mut is_of_now, true) {
                renew(&mut known);
            }
            known.get_or_insert_with(|| Known::at(Roots::host())).towards(towards)
        });
        if !open.is_empty() {
            let rest = begun.elapsed().saturating_mul(REST_TIMES);
            std::thread::sleep(rest.clamp(LEAST_REST, MOST_REST));
        }
    }
}

/// Reads what the host is now.
fn renew(known: &mut Option<Known>) {
    if let Some(known) = known {
        known.renew();
    }
    let host = known.get_or_insert_with(|| Known::at(Roots::host())).host().clone();
    *last() = Some(host);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn many_tests_that_ask_at_once_share_readings() {
        let asks = start(Roots::host()).unwrap();
        let tests: Vec<Counters> =
            (0..126).map(|_| Counters::of(asks.clone(), Some("lo"))).collect();
        let readings = runtime().block_on(async {
            let asked: Vec<_> = tests
                .iter()
                .map(|test| {
                    let (answer, answered) = oneshot::channel();
                    test.asks.send(Ask::Read(test.nic.clone(), false, answer)).unwrap();
                    answered
                })
                .collect();
            let mut readings = Vec::new();
            for answered in asked {
                readings.push(Arc::as_ptr(&answered.await.unwrap().reading) as usize);
            }
            readings
        });
        // They are asked within a millisecond, on a busy machine within some.
        let mut apart = readings.clone();
        apart.dedup();
        assert_eq!(readings.len(), 126);
        assert!(apart.len() < 63, "{} readings", apart.len());
    }

    #[test]
    fn what_the_host_is_is_read_once_for_all_and_not_for_who_is_gone() {
        let here = |last: u8| Towards::from(std::net::IpAddr::from([127, 0, 0, last]));
        let mut curious = Curious::default();
        let mut asked: Vec<_> = (0..126)
            .map(|_| {
                let (answer, answered) = oneshot::channel();
                curious.add(here(1), answer);
                answered
            })
            .collect();
        let (gone, _) = oneshot::channel();
        curious.add(here(2), gone);
        let mut read = vec![];
        curious.answer(|towards| {
            read.push(towards);
            HostFacts::default()
        });
        assert_eq!(read, [here(1)]);
        assert!(asked.iter_mut().all(|answered| answered.try_recv().is_ok()));
    }

    #[test]
    fn who_asks_from_many_addresses_is_answered_between_readings() {
        let mut curious = Curious::default();
        let towards = |last: u8| Towards::from(std::net::IpAddr::from([127, 0, 0, last]));
        let asked: Vec<_> = (0..40)
            .map(|last| {
                let (answer, answered) = oneshot::channel();
                curious.add(towards(last), answer);
                answered
            })
            .collect();
        let mut read = vec![];
        let mut rounds = 0;
        while !curious.order.is_empty() {
            curious.answer(|towards| {
                read.push(towards);
                HostFacts::default()
            });
            rounds += 1;
            assert!(read.len() <= rounds * MOST_ADDRESSES);
        }
        // In the order in which they came.
        assert_eq!(read, (0..40).map(towards).collect::<Vec<_>>());
        drop(asked);
    }

    #[test]
    fn a_host_that_does_not_answer_is_what_it_was() {
        let first = last_facts();
        assert_eq!((first.nic, first.cores), (None, of_host(None).cores));
        assert!(last().is_some(), "it is not read again");
    }

    #[test]
    fn a_reading_that_takes_for_ever_holds_nobody_up() {
        // A pipe that nobody writes into is a file that takes for ever to read.
        let dir = std::env::temp_dir().join(format!("linerate-slow-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("proc")).unwrap();
        nix::unistd::mkfifo(&dir.join("proc/stat"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let asks = start(Roots::at(&dir)).unwrap();
        let test = Counters::of(asks, None);
        let (others, own) = runtime().block_on(async {
            let mut reading = Box::pin(test.read(true));
            let others = tokio::select! {
                biased;
                _ = &mut reading => false,
                () = tokio::time::sleep(Duration::from_millis(50)) => true,
            };
            (others, reading.await)
        });
        assert!(others, "it was read on the control thread, or not at all");
        assert!(matches!(own, Err(Some(_))));
        // Lets the thread go.
        let _ = std::fs::OpenOptions::new().write(true).open(dir.join("proc/stat"));
        drop(test);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn nobody_waits_while_the_process_is_stopped() {
        let (asks, asked) = mpsc::channel();
        let answer = async {
            // As if it were stopped: nothing of this runtime goes on meanwhile.
            std::thread::sleep(2 * PARTS * PATIENCE);
            tokio::time::sleep(PATIENCE / 5).await;
            let Ok(Ask::Facts(_, answer)) = asked.try_recv() else { panic!("it was not asked") };
            answer.send(HostFacts::default()).expect("it still waits");
        };
        let question = |answer| Ask::Facts(std::net::IpAddr::from([127, 0, 0, 1]).into(), answer);
        let both = async { tokio::join!(answered(&asks, question), answer) };
        assert_eq!(runtime().block_on(both).0.ok(), Some(HostFacts::default()));
    }

    #[test]
    fn files_are_open_while_a_test_wants_them() {
        let asks = start(Roots::at("/nonexistent")).unwrap();
        let (one, two) = (Counters::of(asks.clone(), None), Counters::of(asks.clone(), None));
        drop(one);
        runtime().block_on(async {
            // Not as a test reads them, which has little patience.
            let (answer, answered) = oneshot::channel();
            asks.send(Ask::Read(None, true, answer)).unwrap();
            assert!(answered.await.expect("still open").irqs.is_some());
            let (answer, answered) = oneshot::channel();
            drop(two);
            asks.send(Ask::Read(None, false, answer)).unwrap();
            assert!(answered.await.is_err(), "closed with the last test");
        });
    }
}
