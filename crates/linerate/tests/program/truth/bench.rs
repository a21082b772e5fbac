//! Runs a case, and looks on.

use linerate_testkit::peer::LONG;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::cases::{BUFFER, Case, End, Limited, MET, PATH};
use crate::support::{Client, Group, Hogs, Lab, PORT, Server, list, number, real, wait_for};

/// A process that is stopped in bursts stands and runs for so many looks at its threads.
const STOPPED_LOOKS: u32 = 8;
const RUNNING_LOOKS: u32 = 3;
/// A thread that stood and waited for a core for this share of the time was held back by others, …
const WAITED: f64 = 0.2;
/// … and one for this whose buffer overflowed meanwhile: somewhat less than is said of it, as the end is not seen here.
const WAITED_TO_READ: f64 = 0.12;
/// One that ran and waited for less than this, together, slept.
const SLEPT: f64 = 0.2;
/// A cgroup that throttled an end for this share of the time held the test back.
const HELD_BACK: f64 = 0.1;
/// What is on its way to a limit may fall short of it by headers and the start …
const REACHED: f64 = 0.85;
/// … and where others kept it from so much of it, their work is as right a name.
const FULL: f64 = 0.95;

/// What else the machine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    Hogs,
}

/// Shares of the test's time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Share {
    /// On a core.
    pub ran: f64,
    /// Ready, and waiting for one; a cgroup's throttling counts here too.
    pub waited: f64,
}

/// Time on a core and time waited for one of each thread of a process, from `schedstat`.
struct Threads {
    /// Since when it is there, and its last look.
    all: BTreeMap<String, (Seen, Seen)>,
    looked: Instant,
}

#[derive(Clone, Copy)]
struct Seen {
    at: Instant,
    ran_ns: u64,
    waited_ns: u64,
}

impl Threads {
    fn new() -> Self {
        Self { all: BTreeMap::new(), looked: Instant::now() }
    }

    /// Threads that are there from the beginning count from now, later ones from the look before they came.
    fn look(&mut self, pid: u32, is_first: bool) {
        let at = Instant::now();
        let before = std::mem::replace(&mut self.looked, at);
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let mut words = text.split_whitespace().map(str::parse);
            let (Some(Ok(ran_ns)), Some(Ok(waited_ns))) = (words.next(), words.next()) else {
                continue;
            };
            let now = Seen { at, ran_ns, waited_ns };
            let from = if is_first { now } else { Seen { at: before, ran_ns: 0, waited_ns: 0 } };
            let name = task.file_name().to_string_lossy().into_owned();
            self.all.entry(name).or_insert((from, now)).1 = now;
        }
    }

    /// Of the thread that wanted most, of the test's `seconds`; or of a part of them, where whoever looks was kept
    /// from it until the thread had ended.
    fn busiest(&self, seconds: f64) -> Share {
        self.all
            .values()
            .map(|(from, to)| {
                let seen = (to.at - from.at).as_secs_f64().clamp(seconds / 4.0, seconds);
                let share = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9 / seen;
                Share {
                    ran: share(from.ran_ns, to.ran_ns),
                    waited: share(from.waited_ns, to.waited_ns),
                }
            })
            .max_by(|a, b| (a.ran + a.waited).total_cmp(&(b.ran + b.waited)))
            .unwrap_or_default()
    }
}

/// What came of a case.
pub struct Outcome {
    pub record: Value,
    pub client: Share,
    pub server: Share,
    /// Packets that the limit between the two dropped, by its own counter; where less came of it than it lets through.
    dropped: Option<u64>,
}

/// What is wrong with an outcome.
pub struct Fault {
    pub text: String,
    /// The CPU of threads that slept was blamed.
    pub slept: bool,
}

/// Runs it for so long; `None` where this machine cannot, an error where the test does not come to its
/// end.
pub fn run(case: &Case, beside: Beside, time: &str) -> Option<Result<Outcome, String>> {
    let (lab, address) = match case.limited {
        Limited::Path(mbit @ 1_000..) => (Lab::bottleneck(mbit, mbit).whole_trains(), "10.77.2.2"),
        Limited::Path(mbit) => (Lab::bottleneck(mbit, mbit), "10.77.2.2"),
        _ => (Lab::pair(), "10.77.1.2"),
    };
    if let Limited::Drops(percent) = case.limited {
        lab.nft("b", &dropping_data(percent));
    }
    let quota = match case.limited {
        Limited::Quota(end) => {
            let (quota, period) = (Duration::from_millis(2), Duration::from_millis(40));
            Some((end, Group::of_cpu_time(case.name, quota, period)?))
        }
        _ => None,
    };
    let server = Server::on_port(Some(&lab.with_groups("b")), PORT, &[]);
    let (port, mut args) = (PORT.to_string(), vec![]);
    let mut words = case.options.split_whitespace();
    args.extend(words.next());
    args.extend([address, "-p", &port, "--json", "-t", time]);
    args.extend(words);
    let _hogs = (beside == Beside::Hogs).then(Hogs::everywhere);
    let _own = match case.limited {
        Limited::Hogs(threads) => Some(Hogs::on_core(0, threads)),
        _ => None,
    };
    let client = Client::start(Some(&lab.with_groups("a")), &args);
    if let Some((end, group)) = &quota {
        group.hold(if *end == End::Client { client.pid() } else { server.pid() });
    }
    let mut ran = watch(client, &server, case.limited);
    if let Ok(outcome) = &mut ran
        && outcome.reaches(case, REACHED) == Some(false)
    {
        outcome.dropped = dropped(&lab, case.limited);
    }
    Some(ran)
}

/// Packets that the bucket or the filter dropped.
fn dropped(lab: &Lab, limited: Limited) -> Option<u64> {
    match limited {
        Limited::Path(_) => {
            let text = lab.run("r", "tc -s -j qdisc show");
            let all: Value = serde_json::from_str(&text).expect("JSON of tc");
            let buckets = list(&all).iter().filter(|queue| queue["kind"] == "tbf");
            Some(buckets.map(|bucket| number(bucket, "drops")).sum())
        }
        Limited::Drops(_) => Some(lab.counter("b", "dropped").0),
        _ => None,
    }
}

/// Data to the server's port, which is longer than greetings and acknowledgements.
fn dropping_data(percent: u32) -> String {
    format!(
        "table inet truth {{\ncounter dropped {{ }}\nchain ingress {{\n\
         type filter hook prerouting priority -300;\n\
         th dport {PORT} meta length > 500 numgen random mod 100 < {percent} \
         counter name dropped drop\n\
         }}\n}}\n"
    )
}

/// Looks at both ends' threads until the client has ended; stops one in bursts where that is the case.
fn watch(mut client: Client, server: &Server, limited: Limited) -> Result<Outcome, String> {
    let (mut at_client, mut at_server) = (Threads::new(), Threads::new());
    let mut looks = 0u32;
    let mut is_stopped = false;
    let ended = wait_for(LONG, || {
        if !client.alive() {
            return true;
        }
        at_client.look(client.pid(), looks == 0);
        at_server.look(server.pid(), looks == 0);
        if let Limited::Stops(end) = limited {
            let stop = looks % (STOPPED_LOOKS + RUNNING_LOOKS) >= RUNNING_LOOKS;
            if stop != is_stopped {
                let signal = if stop { Signal::SIGSTOP } else { Signal::SIGCONT };
                match end {
                    End::Client => client.signal(signal),
                    End::Server => server.signal(signal),
                }
                is_stopped = stop;
            }
        }
        looks += 1;
        false
    });
    assert!(ended, "the client does not end");
    if limited == Limited::Stops(End::Server) {
        server.signal(Signal::SIGCONT);
    }
    let ran = client.end();
    if ran.code != 0 {
        return Err(format!("exit code {}: {}", ran.code, ran.err));
    }
    let record = ran.complete();
    let seconds = record["totals"]["sender"]["seconds"].as_f64();
    let seconds = seconds.or(record["totals"]["rr"]["seconds"].as_f64()).expect("measured time");
    let (client, server) = (at_client.busiest(seconds), at_server.busiest(seconds));
    Ok(Outcome { client, server, dropped: None, record })
}

impl Outcome {
    pub fn limit(&self) -> &str {
        self.record["verdict"]["limit"].as_str().expect("a verdict")
    }

    /// bit/s that arrived, or transactions/s.
    pub fn figure(&self) -> f64 {
        let totals = &self.record["totals"];
        let rr = totals["rr"]["transactions_per_second"].as_f64();
        rr.unwrap_or_else(|| real(totals, "receiver.bits_per_second"))
    }

    /// For which share of the time a cgroup throttled that end, as the record says.
    fn held_back(&self, end: &str) -> f64 {
        let totals = &self.record["totals"];
        let (figures, host) = match (end, totals.get("rr")) {
            ("sender", Some(rr)) => (rr, "host"),
            (_, Some(rr)) => (rr, "server_host"),
            _ => (&totals[end], "host"),
        };
        let held = figures[host]["throttled_s"].as_f64().unwrap_or(0.0);
        held / figures["seconds"].as_f64().unwrap_or(f64::INFINITY)
    }

    fn reaches(&self, case: &Case, share: f64) -> Option<bool> {
        // A rate that was asked for is met as docs/verdict.md says, or it is not.
        let enough = match self.record["asked"]["protocol"].as_str() {
            _ if case.right != MET => share,
            Some("tcp") => 0.98,
            Some("rr") => 0.99,
            _ => 0.995,
        };
        case.goal.map(|goal| self.figure() >= goal * enough)
    }

    /// Whether others held this test back, so that their work is a right name as well.
    fn is_others_work(&self, case: &Case) -> bool {
        // A quota that others kept its end from using up holds nothing back.
        let held = self.held_back("sender").max(self.held_back("receiver"));
        let by_group = matches!(case.limited, Limited::Quota(_)) && held >= HELD_BACK;
        let (client, server) = (self.client.waited, self.server.waited);
        // Requests wait for both ends; a rate is missed by others' work where half of what is missing was waited for.
        let (waited, least) = match case.goal {
            _ if self.record["asked"]["protocol"] == "rr" => (client + server, WAITED),
            Some(goal) if case.right == MET => {
                (client.max(server), (1.0 - self.figure() / goal) / 2.0)
            }
            _ if case.right == BUFFER => (client.max(server), WAITED_TO_READ),
            _ => (client.max(server), WAITED),
        };
        self.reaches(case, FULL) != Some(true) && !by_group && waited >= least
    }

    /// Whether the counters of a host, or the name of its interface, did not come in time: what it dropped or held itself
    /// nobody knows then.
    fn is_untold(&self) -> bool {
        let [sender, receiver] =
            ["sender", "receiver"].map(|end| &self.record["totals"][end]["host"]);
        let queue = sender["qdisc_backlog_bytes"].is_null() && !sender["qdisc_dropped"].is_null();
        let nics = ["client", "server"].map(|end| &self.record[end]["nic"]);
        queue || [sender, receiver].into_iter().chain(nics).any(Value::is_null)
    }

    /// Whether the test ran into something that can be named. Programs of the highest priorities can take
    /// so much of a core that the kernel's own work for the network waits, and no thread of ours does. What was lost of
    /// datagrams can be named whoever kept the rest: the limit's own counter tells whether it was lost there.
    pub fn is_made(&self, case: &Case) -> bool {
        let is_counted = case.right == PATH && self.dropped.is_some();
        self.reaches(case, REACHED) != Some(false) || self.is_others_work(case) || is_counted
    }

    /// Whether the limit between the two dropped too little to be the limit, or less than half of what was lost, or
    /// the kernel's backlog dropped so much that this hides it.
    fn is_lost_elsewhere(&self, case: &Case) -> bool {
        let Some(dropped) = self.dropped.filter(|_| case.right == PATH) else { return false };
        let totals = &self.record["totals"];
        let (sent, lost) = (number(totals, "sender.datagrams"), number(totals, "receiver.lost"));
        let backlog = totals["receiver"]["host"]["softnet_dropped"].as_u64().unwrap_or(0);
        dropped * 100 < sent || dropped * 2 < lost || backlog * 2 > lost
    }

    /// What is wrong with its verdict.
    pub fn fault(&self, case: &Case) -> Option<Fault> {
        let limit = self.limit();
        if limit != "path" && self.is_lost_elsewhere(case) {
            return None;
        }
        let is_reverse = self.record["asked"]["direction"] == "reverse";
        let (sender, receiver) =
            if is_reverse { (self.server, self.client) } else { (self.client, self.server) };
        let blamed = match limit {
            "sender-cpu" => Some((sender, self.held_back("sender"))),
            "receiver-cpu" => Some((receiver, self.held_back("receiver"))),
            _ => None,
        };
        if let Some((share, held)) = blamed
            && share.ran + share.waited < SLEPT
            && held < HELD_BACK
        {
            let wanted = (share.ran + share.waited) * 100.0;
            let text = format!("{limit}, and its busiest thread wanted {wanted:.0} % of a core");
            return Some(Fault { text, slept: true });
        }
        let is_right = case.right.contains(&limit)
            || (limit == "other-work" && self.is_others_work(case))
            || (limit == "unknown" && case.right == PATH && self.is_untold());
        let text = format!("{limit}, and right is {}", case.right.join(" or "));
        (!is_right).then_some(Fault { text, slept: false })
    }

    /// The table's row.
    pub fn row(&self, case: &Case, beside: Beside) -> String {
        let mark = match self.fault(case) {
            None => "ok   ",
            Some(Fault { slept: true, .. }) => "SLEPT",
            Some(_) => "WRONG",
        };
        let beside = if beside == Beside::Hogs { "hogs" } else { "" };
        let share =
            |share: Share| format!("{:3.0}+{:3.0}", share.ran * 100.0, share.waited * 100.0);
        format!(
            "{mark} {:42} {beside:4} {:16} right {:24} client {} server {} {:9.3e} {}",
            case.name,
            self.limit(),
            case.right.join("|"),
            share(self.client),
            share(self.server),
            self.figure(),
            list(&self.record["verdict"]["because"])
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join("; "),
        )
    }
}
