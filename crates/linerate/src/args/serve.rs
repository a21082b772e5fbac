//! `linerate serve`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgGroup, Args};
use linerate_model::limits;
use linerate_model::plan::Dialect;
use linerate_model::record::ErrorRecord;
use linerate_model::units::{ByteCount, Nanos};
use linerate_runner::keys::{BudgetState, Keys};
use linerate_runner::sandbox::{Sandbox, User};
use linerate_runner::server::{Options, Public};
use linerate_runner::{Cidr, agent};

use super::control::ControlArgs;
use super::logins::LoginArgs;
use crate::audit::Audit;
use crate::pages::PagesArgs;
use linerate_ask::value::BitRateOrMax;
use linerate_ask::{help, key, usage};

/// More control connections than this at once would want more threads than a host should give.
const MAX_TESTS: limits::Limit = limits::Limit {
    name: "tests at once",
    min: 1,
    max: 10_000,
    why: "each has its own threads",
    options: &[],
};

/// Each is an open connection.
const QUEUE: limits::Limit = limits::Limit {
    name: "clients in the queue",
    min: 0,
    max: 10_000,
    why: "a connection each",
    options: &[],
};

/// What the server can hold at once.
const WAITING: limits::Limit = limits::Limit {
    name: "waiting connections of one address",
    min: 1,
    max: 16_384,
    why: "no more wait in all",
    options: &[],
};

/// Shorter ones would end tests on a path that is only slow.
const IDLE_NS: limits::Limit = limits::Limit {
    name: "time without data in nanoseconds",
    min: 1_000_000_000,
    max: limits::DURATION_NS.max,
    why: "a path may be slow",
    options: &[],
};

/// One that is full after a few lines would be renamed all the time.
const AUDIT_BYTES: limits::Limit = limits::Limit {
    name: "bytes of one file of the audit log",
    min: 65_536,
    max: 1 << 40,
    why: "a line has some hundred bytes",
    options: &[],
};

/// Each is renamed when one is full.
const AUDIT_FILES: limits::Limit = limits::Limit {
    name: "files of the audit log",
    min: 1,
    max: 1_000,
    why: "each is renamed when one is full",
    options: &[],
};

const SHARE: &str = "Share of one address (of IPv6: of one /64)";

/// A server: answers any number of tests at once, of linerate's clients and of iperf3's.
///
/// A test that asks for more than the limits given here is refused with the reason, never cut in
/// silence.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::serve(cfg!(feature = "full")))]
#[command(group = ArgGroup::new("budgeted").args(["keys", "budgets"]).multiple(true))]
#[command(group = ArgGroup::new("proof").args(["key_file", "keys"]).multiple(true))]
pub struct ServeArgs {
    /// Address to listen on [default: all, IPv4 and IPv6].
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Port to listen on, TCP and UDP; 0 takes a free one and prints it.
    #[arg(short, long, value_name = "PORT", default_value_t = 5201)]
    port: u16,
    /// Take tests from these networks only: 192.0.2.0/24, 2001:db8::/32, or an address. Everything else is hung
    /// up on before a byte is answered. May be given several times.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub allow: Vec<Cidr>,
    /// Answer clients of iperf 2 as well, on this port, TCP and UDP [default: 5001]. They prove nothing: no
    /// login, all in clear text. UDP is received, and never sent where nobody has proven the address.
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5001",
        conflicts_with_all = ["key_file", "keys"]
    )]
    iperf2: Option<u16>,
    /// Answer netperf's clients, too, on a port of its own [default: 12865]. Whoever reaches it may test: what
    /// they say is in clear text and without a login.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "12865", conflicts_with_all = ["key_file", "keys"])]
    netperf: Option<u16>,
    /// Answer nuttcp's clients, too, on a port of its own [default: 5000], with data on the ports that they name.
    /// Whoever reaches it may test: what they say is in clear text and without a login.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "5000", conflicts_with_all = ["key_file", "keys"])]
    nuttcp: Option<u16>,
    /// Answer clients of every dialect, each on its own port unless that is given: as --iperf2, --netperf and
    /// --nuttcp, to which the same applies.
    #[arg(long, conflicts_with_all = ["key_file", "keys"])]
    all_dialects: bool,
    /// File with a key that clients must prove they know.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// File with keys of single clients, their rights and budgets, and those of networks (`linerate keys`). Clients
    /// must prove one, or the key of --key-file; a change of the file holds at once.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// File like that of --keys of which the networks' budgets alone count: clients prove nothing.
    #[arg(long, value_name = "FILE", conflicts_with = "keys")]
    budgets: Option<PathBuf>,
    /// File in which what keys and networks have carried in their days outlasts this server [default: budgets-PORT
    /// in $STATE_DIRECTORY or /var/lib/linerate, where one has a budget of bytes a day].
    #[arg(long, value_name = "FILE", requires = "budgeted")]
    budget_state: Option<PathBuf>,
    /// Address by which clients with the key reach this server, where NAT translates it: with
    /// :PORT, if that is translated too. May be given several times.
    #[arg(long, value_name = "ADDRESS", requires = "proof")]
    public: Vec<Public>,
    #[command(flatten)]
    logins: LoginArgs,
    /// Tests at once.
    #[arg(long, value_name = "N", default_value_t = 128)]
    max_tests: u64,
    /// Longest test, warm-up included.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    max_duration: Nanos,
    /// A test in which no data moves for so long ends.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    max_idle: Nanos,
    /// Largest rate of one direction of one test: 1G, or max for no limit.
    #[arg(long, value_name = "RATE", default_value = "max")]
    max_rate: BitRateOrMax,
    /// Most streams of one test, each way.
    #[arg(long, value_name = "N", default_value_t = limits::STREAMS.max)]
    max_streams: u64,
    /// Most bytes of one test, both ways together: 100G; no limit unless given.
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<ByteCount>,
    /// Most memory of all tests together, each counted by its plan: threads, blocks, windows,
    /// intervals.
    #[arg(long, value_name = "BYTES", default_value = "1Gi")]
    max_memory: ByteCount,
    /// Largest window of a client beyond net.core.rmem_max and wmem_max, where this server has the
    /// right to exceed them.
    #[arg(long, value_name = "BYTES", default_value = "4Mi")]
    max_window: ByteCount,
    /// Tests at once of one address [default: half of --max-tests, at least 16].
    #[arg(long, value_name = "N", help_heading = SHARE)]
    max_tests_per_address: Option<u64>,
    /// Connections of one address that may wait to ask for a test, of 16384 in all.
    #[arg(long, value_name = "N", default_value_t = 2_048, help_heading = SHARE)]
    max_waiting_per_address: u64,
    /// Most bytes of all tests of one address in 24 hours, both ways together: 10T; no limit unless
    /// given.
    #[arg(long, value_name = "BYTES", help_heading = SHARE)]
    max_bytes_per_day: Option<ByteCount>,
    /// One test at a time. Clients of iperf3 wait for their turn, up to --queue of them; others
    /// hear that the server is busy.
    #[arg(long)]
    exclusive: bool,
    /// Clients of iperf3 that may wait for their turn with --exclusive, half as many of one address; 0
    /// answers all but the first with "busy", as iperf3 does.
    #[arg(long, value_name = "N", default_value_t = 16, requires = "exclusive")]
    queue: u64,
    /// Become this user once the ports are bound, for good. Socket buffers beyond net.core.rmem_max
    /// and wmem_max are then out of reach. Needs root.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Keep all files and system calls of this user within reach: by default Landlock and seccomp
    /// leave what tests need, where the kernel has them.
    #[arg(long)]
    no_sandbox: bool,
    /// End after the first test.
    #[arg(short = '1', long)]
    one_off: bool,
    #[command(flatten)]
    pub control: ControlArgs,
    /// Print each event, and each test's result, as one JSON object a line on standard output
    /// (`linerate schema serve`).
    #[arg(long, help_heading = "Output")]
    pub json_lines: bool,
    #[command(flatten)]
    pub pages: PagesArgs,
    #[command(flatten)]
    pub audit: AuditArgs,
}

/// The audit log.
#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    /// Write each event of --json-lines into this file as well, at its end, also where nobody reads standard
    /// output.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub audit_log: Option<PathBuf>,
    /// Bytes after which another file is begun; the one before gets the name FILE.1.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "64Mi",
        requires = "audit_log",
        help_heading = "Output"
    )]
    pub audit_size: ByteCount,
    /// Files that are kept beside FILE.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        requires = "audit_log",
        help_heading = "Output"
    )]
    pub audit_keep: u64,
}

impl AuditArgs {
    /// The log, where it is asked for.
    pub fn open(&self) -> Result<Option<Audit>, ErrorRecord> {
        let Some(path) = &self.audit_log else { return Ok(None) };
        let size = usage::within("--audit-size", &AUDIT_BYTES, self.audit_size.0)?;
        let keep = usage::within("--audit-keep", &AUDIT_FILES, self.audit_keep)?;
        Audit::open(path, size, keep).map(Some)
    }
}

impl ServeArgs {
    /// The server's options, if they make sense.
    pub fn options(&self) -> Result<Options, ErrorRecord> {
        let max_tests = usage::within("--max-tests", &MAX_TESTS, self.max_tests)?;
        usage::within("--max-duration", &limits::DURATION_NS, self.max_duration.0)?;
        let max_streams = usage::within("--max-streams", &limits::STREAMS, self.max_streams)?;
        let max_window = usage::within("--max-window", &limits::WINDOW_BYTES, self.max_window.0)?;
        let of_one = self
            .max_tests_per_address
            .map(|most| usage::within("--max-tests-per-address", &MAX_TESTS, most))
            .transpose()?;
        let waiting =
            usage::within("--max-waiting-per-address", &WAITING, self.max_waiting_per_address)?;
        usage::within("--max-idle", &IDLE_NS, self.max_idle.0)?;
        let queue = usage::within("--queue", &QUEUE, self.queue)?;
        let keys = self.keys()?;
        Ok(Options {
            bind: self.bind,
            port: self.port,
            allow: self.allow.clone(),
            doors: Dialect::ALL.into_iter().filter_map(|dialect| self.door(dialect)).collect(),
            key: self.key_file.as_deref().map(key::read).transpose()?,
            budget_state: keys.as_ref().map(|keys| self.budget_state(keys)).transpose()?.flatten(),
            keys,
            public: self.public.clone(),
            logins: self.logins.open()?,
            // In range, so that neither cast can cut.
            max_tests: max_tests as usize,
            max_tests_per_address: of_one.map(|most| most as usize),
            max_waiting_per_address: waiting as usize,
            max_bytes_per_day: self.max_bytes_per_day.map(|bytes| bytes.0),
            max_duration: self.max_duration,
            no_data: self.max_idle.as_duration(),
            max_rate: self.max_rate.0,
            max_streams: max_streams as u16,
            max_bytes: self.max_bytes.map(|bytes| bytes.0),
            max_memory: self.max_memory.0,
            max_window: max_window as u32,
            exclusive: self.exclusive.then_some(queue as usize),
            one_off: self.one_off,
            sandbox: Some(self.sandbox()?),
            agent: self.control.agent()?,
            ..Options::default()
        })
    }

    /// The port of a dialect that has one of its own, where it is to be answered.
    fn door(&self, dialect: Dialect) -> Option<(Dialect, u16)> {
        let given = match dialect {
            // On the port of all.
            Dialect::Native | Dialect::Iperf3 => return None,
            Dialect::Iperf2 => self.iperf2,
            Dialect::Netperf => self.netperf,
            Dialect::Nuttcp => self.nuttcp,
        };
        Some((dialect, given.or(self.all_dialects.then_some(dialect.port()))?))
    }

    fn keys(&self) -> Result<Option<Arc<Keys>>, ErrorRecord> {
        let (proven, path) = match (&self.keys, &self.budgets) {
            (Some(keys), _) => (true, keys),
            (None, Some(budgets)) => (false, budgets),
            (None, None) => return Ok(None),
        };
        if proven {
            key::warn(path);
        }
        Keys::open(path, proven).map(|keys| Some(Arc::new(keys)))
    }

    fn budget_state(&self, keys: &Keys) -> Result<Option<Arc<BudgetState>>, ErrorRecord> {
        if let Some(path) = &self.budget_state {
            return BudgetState::open(path).map(|state| Some(Arc::new(state)));
        }
        let default = || BudgetState::of_port(&agent::state_directory(), self.port);
        Ok(keys.count_bytes().then(default).map(Arc::new))
    }

    fn sandbox(&self) -> Result<Sandbox, ErrorRecord> {
        let unrestricted = if self.no_sandbox {
            Some("--no-sandbox")
        } else if self.control.runs_commands() && self.user.is_none() {
            Some("--allow-commands runs programs with all that this user may")
        } else {
            None
        };
        Ok(Sandbox {
            user: self.user.as_deref().map(User::named).transpose()?,
            unrestricted: unrestricted.map(str::to_owned),
            directories: [self.logins.users(), self.keys.as_deref(), self.budgets.as_deref()]
                .into_iter()
                .flatten()
                .flat_map(directories)
                .collect(),
            written: self.audit.audit_log.iter().flat_map(|path| directories(path)).collect(),
            beside: self.control.beside(),
        })
    }
}

/// Where a file is whose name another may take at any time.
fn directories(path: &Path) -> Vec<PathBuf> {
    let paths = [std::path::absolute(path), path.canonicalize()];
    paths.into_iter().flatten().filter_map(|path| Some(path.parent()?.to_owned())).collect()
}
