//! Who may run a test: all limits of a server in one place.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use linerate_model::host::CoreUse;
use linerate_model::plan::{AgreedPlan, Dialect, IpVersion, TestPlan, Traffic};
use linerate_model::sample::HostSample;
use linerate_model::setting::core_list;
use linerate_model::units::{BitRate, Nanos};
use linerate_wire::native::auth;
use linerate_wire::native::message::{RefusalKind, Refused};
use linerate_wire::native::stream::{COOKIE_BYTES, Claim};
use tokio::sync::mpsc::UnboundedSender;

use crate::data::{DayBudget, Limits, StreamSocket};
use crate::demand::{bytes, rate_bps};
use crate::host::cores_of_a_row;
use crate::keys::Permit;
use crate::network::Network;
use crate::options::Options;
use crate::place::{self, From};
use crate::shares::{Days, Whom};
use crate::standstill;

/// The tests that run now.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    state: Mutex<State>,
    days: Days,
    /// Of streams from addresses that nobody has proven.
    claimed_days: Days,
}

#[derive(Debug, Default)]
struct State {
    tests: HashMap<u64, Entry>,
    core_users: BTreeMap<u32, usize>,
    /// Bytes that the tests may take, see [`memory`].
    memory: u64,
    /// Of these, bytes of streams from addresses that nobody has proven.
    claimed_memory: u64,
}

impl State {
    /// Takes the memory of a test, where there is room for it. As of the places, half of it at most is for streams that
    /// prove nothing: whoever forges addresses leaves the other half to others.
    fn take_memory(
        &mut self,
        memory: u64,
        claimed: bool,
        options: &Options,
    ) -> Result<(), Refused> {
        let fits = |most: u64, taken: u64| memory <= most.saturating_sub(taken);
        let taken = if !fits(options.max_memory, self.memory) {
            format!("{} MiB are taken", self.memory.div_ceil(MIB))
        } else if claimed && !fits(options.max_memory / 2, self.claimed_memory) {
            "half is all that streams of addresses that nobody has proven may take".to_owned()
        } else {
            self.memory += memory;
            self.claimed_memory += if claimed { memory } else { 0 };
            return Ok(());
        };
        let why = format!("{}, of which {taken}", too_much(memory, options));
        Err(refuse(RefusalKind::Busy, why, LESS_MEMORY))
    }
}

#[derive(Debug)]
struct Entry {
    cookie: [u8; COOKIE_BYTES],
    peer: IpAddr,
    /// Whose share it takes of, and whether its address is only claimed: whoever forges one takes nothing of the share
    /// and the day of its owner.
    whose: (Network, bool),
    local: SocketAddr,
    streams: Vec<bool>,
    arrivals: UnboundedSender<(u16, StreamSocket)>,
}

/// A test's place in the server. Frees it when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    admission: Arc<Admission>,
    pub(crate) token: u64,
    pub(crate) cores: Vec<Option<u32>>,
    /// Where its bytes count, as far as a day of its client's has a limit.
    pub(crate) days: Vec<DayBudget>,
    /// By which key and which budgets it is here.
    pub(crate) permit: Permit,
    memory: u64,
    _watch: standstill::Watch,
}

impl Slot {
    /// The largest rate of one direction.
    pub(crate) fn rate(&self, options: &Options) -> Option<BitRate> {
        self.permit.rate(options.max_rate)
    }

    /// What the test's data threads hold it to.
    pub(crate) fn limits(&self, options: &Options) -> Limits {
        Limits { rate: self.rate(options), ..options.limits() }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.admission.lock();
        state.tests.remove(&self.token);
        state.memory = state.memory.saturating_sub(self.memory);
        if self.permit.is_claimed() {
            state.claimed_memory = state.claimed_memory.saturating_sub(self.memory);
        }
        for core in self.cores.iter().flatten() {
            if let Some(users) = state.core_users.get_mut(core) {
                *users = users.saturating_sub(1);
            }
        }
    }
}

fn refuse(kind: RefusalKind, why: String, hint: &str) -> Refused {
    let hints = if hint.is_empty() { vec![] } else { vec![hint.to_owned()] };
    Refused { kind, why, hints }
}

const LESS_MEMORY: &str = "ask for fewer --streams, a smaller --window, smaller blocks or longer intervals, or start the server with a larger --max-memory";

fn too_much(memory: u64, options: &Options) -> String {
    format!(
        "this test may take {} MiB of memory, and this server allows {} MiB",
        memory.div_ceil(MIB),
        options.max_memory / MIB
    )
}

/// Checks a plan against the table of limits, this server's policy and what any host can do.
pub(crate) fn check(
    plan: &TestPlan,
    dialect: Dialect,
    ip: IpVersion,
    options: &Options,
) -> Result<(), Refused> {
    plan.check_as(dialect).map_err(|e| refuse(RefusalKind::OutOfRange, e.to_string(), ""))?;
    let kind = plan.traffic.kind();
    if let Some(only) = options.kind.filter(|only| *only != kind) {
        let why = format!("this server answers no test of {}", kind.name());
        return Err(refuse(RefusalKind::Policy, why, &format!("ask for {}", only.name())));
    }
    if plan.streams > options.max_streams {
        return Err(refuse(
            RefusalKind::Policy,
            format!("{} streams are more than this server's {}", plan.streams, options.max_streams),
            "ask for fewer with --streams, or start the server with a larger --max-streams",
        ));
    }
    let length = plan.duration().unwrap_or(Nanos(0)).0.saturating_add(plan.warmup.0);
    if length > options.max_duration.0 {
        return Err(refuse(
            RefusalKind::Policy,
            format!("{} is longer than this server's {}", Nanos(length), options.max_duration),
            "ask for less with --time, or start the server with a longer --max-duration",
        ));
    }
    if let (Some(most), Some(bytes)) = (options.max_bytes, bytes(plan))
        && bytes > most
    {
        return Err(refuse(
            RefusalKind::Policy,
            format!("{bytes} bytes are more than this server's {most}"),
            "ask for fewer with --bytes or --count, or start the server with a larger --max-bytes",
        ));
    }
    if let Some(most) = options.max_rate
        && rate_bps(plan).is_none_or(|asked| asked > most.bits_per_second())
    {
        return Err(refuse(
            RefusalKind::Policy,
            format!("the rate asked for is above this server's {most}"),
            "ask for less with --rate, or start the server with a larger --max-rate",
        ));
    }
    let memory = memory(plan, options);
    if memory > options.max_memory {
        return Err(refuse(RefusalKind::Policy, too_much(memory, options), LESS_MEMORY));
    }
    if let Traffic::Udp(udp) = &plan.traffic
        && !udp.checksum
        && ip == IpVersion::V6
    {
        return Err(refuse(
            RefusalKind::Unable,
            "UDP over IPv6 must have a checksum (RFC 8200 section 8.1)".to_owned(),
            "leave out --no-checksum, or test over IPv4 with -4",
        ));
    }
    if let Traffic::Tcp(tcp) = &plan.traffic
        && let Some(name) = &tcp.congestion
        && (!is_congestion_control(name)
            || plan.direction.has_reverse() && !has_congestion_control(name))
    {
        return Err(refuse(
            RefusalKind::Unable,
            "this server's kernel has no congestion control of that name".to_owned(),
            "`sysctl net.ipv4.tcp_available_congestion_control` on the server lists those it has",
        ));
    }
    let allowed = linerate_host::cores::allowed_cores();
    if let Some(core) = plan.server_cpus.iter().find(|core| !allowed.contains(&u32::from(**core))) {
        return Err(refuse(
            RefusalKind::Unable,
            format!("this server has no core {core} (it has {})", core_list(&allowed)),
            "name another with --cpu LOCAL/REMOTE",
        ));
    }
    Ok(())
}

/// Whether this server sends so many blocks of `bytes` at once on each of `streams`: together no more than its largest rate
/// for the test, `most`, carries in half a second.
pub(crate) fn check_burst(
    blocks: u32,
    bytes: u32,
    streams: u16,
    most: Option<BitRate>,
) -> Result<(), Refused> {
    let Some(most) = most.filter(|_| blocks > 1) else { return Ok(()) };
    let all = u128::from(blocks) * u128::from(bytes) * u128::from(streams) * 8;
    if all <= u128::from(most.bits_per_second() / 2) {
        return Ok(());
    }
    let why = format!(
        "a burst of {blocks} blocks of {bytes} bytes on {streams} streams is more than half a second of this server's {most}"
    );
    Err(refuse(
        RefusalKind::Policy,
        why,
        "ask for shorter bursts, or start the server with a larger --max-rate",
    ))
}

/// The core that a client of another program's wishes for. As there it is a wish: nothing where this host has no such
/// core for this server.
pub(crate) fn wished_core(core: Option<u16>) -> Vec<u16> {
    let allowed = linerate_host::cores::allowed_cores();
    core.into_iter().filter(|core| allowed.contains(&u32::from(*core))).collect()
}

/// 2^20 bytes.
const MIB: u64 = 1 << 20;
/// Stack, buffers for datagrams, window and histograms of one data thread, in bytes: a hundred tests
/// take less than two thirds of it each.
const THREAD_BYTES: u64 = MIB;
/// Messages of one test that were read ahead, and those that its client has left unread, in bytes.
const MESSAGES_BYTES: u64 = 2 * MIB;
/// One interval of one stream, in bytes.
const ROW_BYTES: u64 = 256;

/// Bytes that a test of this plan may take here until its end, at most: messages, threads, blocks
/// of TCP and of rr, intervals, and socket buffers of the size that the client asks for. Those that
/// this end chooses are bounded by themselves and by the kernel's limits.
fn memory(plan: &TestPlan, options: &Options) -> u64 {
    let held = match &plan.traffic {
        Traffic::Udp(_) => 0,
        Traffic::Tcp(tcp) => u64::from(tcp.block),
        // Read, answered, and answered many at a time.
        Traffic::Rr(rr) => u64::from(rr.request) + 2 * u64::from(rr.response),
    };
    let time = plan.duration().unwrap_or(options.max_duration).0;
    let rows = time.div_ceil(plan.interval.0.max(1)).min(plan.intervals());
    let sample = (size_of::<HostSample>() + cores_of_a_row() * size_of::<CoreUse>()) as u64;
    let threads = u64::from(plan.threads());
    let buffers = plan.window.map_or(0, |window| window_bytes(window, options.max_window));
    MESSAGES_BYTES + threads * (THREAD_BYTES + held + buffers + rows * ROW_BYTES) + rows * sample
}

/// Bytes that the kernel may keep for one socket whose both buffers have the size `window`: twice what
/// is asked, as it counts its own overhead.
fn window_bytes(window: u32, most_forced: u32) -> u64 {
    let buffer = |limit: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{limit}"));
        let most = text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(u32::MAX);
        2 * u64::from(window.min(most.max(most_forced)))
    };
    buffer("rmem_max") + buffer("wmem_max")
}

/// Whether it can be a name of one: of 15 bytes at most (`TCP_CA_NAME_MAX`, net/tcp.h), and of nothing that a name of a module
/// does not have.
fn is_congestion_control(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=15).contains(&name.len()) && name.bytes().all(word)
}

/// Whether the kernel would take it. Where the list cannot be read, the socket will say.
pub(crate) fn has_congestion_control(name: &str) -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map_or(true, |list| list.split_whitespace().any(|known| known == name))
}

impl Admission {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the map whole: every change is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The day of whoever comes from there, if it has a limit; `claimed`: who only says so has another.
    pub(crate) fn day(
        &self,
        (network, claimed): (Network, bool),
        plan: &TestPlan,
        options: &Options,
    ) -> Result<Option<DayBudget>, Refused> {
        let days = if claimed { &self.claimed_days } else { &self.days };
        let budget = |most| days.budget(Whom::Address(network), most, plan, Instant::now());
        options.max_bytes_per_day.map(budget).transpose()
    }

    /// Takes a test in.
    #[expect(clippy::too_many_arguments, reason = "each is one fact, used once")]
    pub(crate) fn admit(
        self: &Arc<Self>,
        agreed: &AgreedPlan,
        token: u64,
        cookie: [u8; COOKIE_BYTES],
        (peer, local): (IpAddr, SocketAddr),
        irq_cores: &[u32],
        arrivals: UnboundedSender<(u16, StreamSocket)>,
        (options, permit): (&Options, Permit),
    ) -> Result<Slot, Refused> {
        let plan = &agreed.plan;
        let threads = crate::data::streams(plan.direction, plan.streams).len();
        let mut state = self.lock();
        if state.tests.len() >= options.max_tests {
            return Err(refuse(
                RefusalKind::Busy,
                format!("{} tests are running, and this server allows no more", state.tests.len()),
                "try again later, or start the server with a larger --max-tests",
            ));
        }
        let whose @ (network, claimed) = (Network::of(peer), permit.is_claimed());
        let of_one = state.tests.values().filter(|test| test.whose == whose).count();
        if of_one >= options.tests_of_one() {
            return Err(refuse(
                RefusalKind::Busy,
                format!(
                    "{of_one} tests of {network} are running, and this server allows an address no more"
                ),
                "try again later, or start the server with a larger --max-tests-per-address",
            ));
        }
        let mut days = permit.days().to_vec();
        days.extend(self.day(whose, plan, options)?);
        if state.tests.contains_key(&token) {
            return Err(refuse(
                RefusalKind::Busy,
                "two tests drew one token".to_owned(),
                "try again",
            ));
        }
        let memory = memory(plan, options);
        state.take_memory(memory, claimed, options)?;
        let cores = if !plan.server_cpus.is_empty() {
            place::listed(&plan.server_cpus, threads)
        } else if !place::pinned(&plan.traffic) {
            vec![None; threads]
        } else {
            let allowed = linerate_host::cores::allowed_cores();
            place::cores(&allowed, irq_cores, &state.core_users, threads, From::Top)
        };
        for core in cores.iter().flatten() {
            *state.core_users.entry(*core).or_default() += 1;
        }
        let entry = Entry { cookie, peer, whose, local, streams: vec![false; threads], arrivals };
        state.tests.insert(token, entry);
        drop(state);
        Ok(Slot {
            admission: Arc::clone(self),
            token,
            cores,
            days,
            permit,
            memory,
            _watch: standstill::Watch::start(),
        })
    }

    /// Whether a stream's claim is true: right test, right secret, from the address of that test's
    /// client. Returns the local address that the client uses.
    pub(crate) fn verify(&self, claim: &Claim, peer: IpAddr) -> Option<SocketAddr> {
        let state = self.lock();
        let entry = state.tests.get(&claim.token)?;
        let known = auth::equal(&entry.cookie, &claim.cookie);
        let free = entry.streams.get(usize::from(claim.stream)).is_some_and(|taken| !taken);
        (known && free && entry.peer == peer).then_some(entry.local)
    }

    /// Hands a verified stream to its test; `false` when it has one already or is over.
    pub(crate) fn deliver(&self, claim: &Claim, socket: StreamSocket) -> bool {
        let mut state = self.lock();
        let Some(entry) = state.tests.get_mut(&claim.token) else { return false };
        let Some(taken) = entry.streams.get_mut(usize::from(claim.stream)) else { return false };
        if std::mem::replace(taken, true) {
            return false;
        }
        entry.arrivals.send((claim.stream, socket)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::Direction;
    use linerate_testkit::plans;

    use super::*;

    #[test]
    fn what_is_no_name_of_a_congestion_control_is_refused_whoever_sends() {
        let mut plan = plans::plan(Traffic::Tcp(plans::tcp()));
        plan.direction = Direction::Forward;
        for (name, taken) in [
            // The client's kernel may have it.
            ("bbr3_of-2", true),
            ("", false),
            ("a/../b", false),
            ("sixteen_letters_", false),
        ] {
            if let Traffic::Tcp(tcp) = &mut plan.traffic {
                tcp.congestion = Some(name.to_owned());
            }
            let checked = check(&plan, Dialect::Native, IpVersion::V4, &Options::default());
            assert_eq!(checked.is_ok(), taken, "{name}: {checked:?}");
        }
        plan.direction = Direction::Reverse;
        assert!(check(&plan, Dialect::Native, IpVersion::V4, &Options::default()).is_err());
    }

    /// Rows hold every core of the host.
    #[test]
    fn a_test_counts_as_the_same_memory_on_whichever_cores_the_server_may_run() {
        let counted = || memory(&plans::plan(Traffic::Udp(plans::udp())), &Options::default());
        let everywhere = counted();
        let on_one = std::thread::spawn(move || {
            let core = linerate_host::cores::allowed_cores()[0];
            linerate_engine::clock::pin_to(core).unwrap();
            counted()
        });
        assert_eq!(on_one.join().unwrap(), everywhere);
    }
}
