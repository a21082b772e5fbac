//! The cases: what limits a test, and by which names that may be called.

/// An end of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Client,
    Server,
}

/// What makes the limit, beside the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// Only the options.
    Options,
    /// A token bucket of so many Mbit/s each way, in a third box between the two.
    Path(u64),
    /// This process is stopped for three quarters of the time, in bursts.
    Stops(End),
    /// The cgroup of this process may run for a twentieth of the time.
    Quota(End),
    /// So many threads on core 0.
    Hogs(usize),
    /// So many percent of the data to the server are dropped on the way, at random.
    Drops(u32),
}

/// One limit, and a test that runs into it.
#[derive(Debug, Clone)]
pub struct Case {
    /// Protocol and direction first.
    pub name: &'static str,
    pub limited: Limited,
    /// Of linerate, verb first.
    pub options: String,
    /// The right names.
    pub right: &'static [&'static str],
    /// What arrives if nothing but this limit holds the test back, in bit/s or transactions/s; where that
    /// is not known beforehand, what must arrive for the test to have met its limit at all.
    pub goal: Option<f64>,
}

/// A sender by datagrams does not adapt: what the path did not carry was lost there.
pub const PATH: &[&str] = &["path"];
/// TCP adapts to it: loss and congestion control are how a full path is felt.
const PATH_OF_TCP: &[&str] = &["path", "tcp-congestion"];
/// A closed loop is held by the time of one round trip, of which a full path is a part.
const PATH_OF_RR: &[&str] = &["round-trip", "path"];
pub const BUFFER: &[&str] = &["receiver-buffer"];
const WINDOW: &[&str] = &["tcp-window"];
/// What does not read closes its window.
const SLOW_READER_OF_TCP: &[&str] = &["tcp-window", "receiver-buffer"];
const SENDER: &[&str] = &["sender-cpu"];
const RECEIVER: &[&str] = &["receiver-cpu"];
/// Others have most of the core that the thread is bound to.
const OTHERS: &[&str] = &["other-work"];
pub const MET: &[&str] = &["requested-rate"];
const ROUND_TRIP: &[&str] = &["round-trip"];

/// All of them: half of the table, of which the other half is the same with hogs beside it.
pub fn cases() -> Vec<Case> {
    use End::{Client, Server};
    use Limited::{Drops, Hogs, Options, Path, Quota, Stops};
    let mut all = vec![];
    let mut add = |name, limited, options: &str, right, goal| {
        all.push(Case { name, limited, options: options.to_owned(), right, goal });
    };
    let path = |mbit: u64| Some(mbit as f64 * 1e6);
    add("udp forward: path 10M", Path(10), "udp -l 1400 --rate 15M", PATH, path(10));
    add("udp forward: path 40M", Path(40), "udp -l 1400 --rate 60M", PATH, path(40));
    add("udp reverse: path 40M", Path(40), "udp -R -l 1400 --rate 60M", PATH, path(40));
    add("udp reverse: path 100M", Path(100), "udp -R -l 1400 --rate 150M", PATH, path(100));
    add("udp forward: path 1G", Path(1_000), "udp -l 1400 --rate 1500M", PATH, path(1_000));
    add("tcp reverse: path 10M", Path(10), "tcp -R", PATH_OF_TCP, path(10));
    add("tcp forward: path 40M", Path(40), "tcp", PATH_OF_TCP, path(40));
    add("tcp reverse: path 40M", Path(40), "tcp -R", PATH_OF_TCP, path(40));
    add("tcp forward: path 100M", Path(100), "tcp", PATH_OF_TCP, path(100));
    add("tcp reverse: path 1G", Path(1_000), "tcp -R", PATH_OF_TCP, path(1_000));
    add("rr: path 10M", Path(10), "rr --outstanding 40 --response 1400", PATH_OF_RR, None);
    add("udp forward: 2 % dropped", Drops(2), "udp -l 1400 --rate 20M", PATH, Some(20e6 * 0.98));
    add("tcp forward: 2 % dropped", Drops(2), "tcp", PATH_OF_TCP, None);
    // Bursts of 100 datagrams into a buffer of a few.
    let small = "udp -l 1000 --rate 160M --burst 5ms --window 8Ki";
    add("udp forward: buffer", Options, small, BUFFER, None);
    let small = "udp -R -l 1000 --rate 160M --burst 5ms --window 8Ki";
    add("udp reverse: buffer", Options, small, BUFFER, None);
    add("tcp forward: window", Options, "tcp --window 4Ki", WINDOW, None);
    add("tcp reverse: window", Options, "tcp -R --window 4Ki", WINDOW, None);
    let stopped = "udp -l 1400 --rate 100M --window 256Ki";
    add("udp forward: slow reader", Stops(Server), stopped, BUFFER, None);
    let stopped = "udp -R -l 1400 --rate 100M --window 256Ki";
    add("udp reverse: slow reader", Stops(Client), stopped, BUFFER, None);
    // The window that the kernel sizes itself can hold all that comes while the reader is stopped.
    let stopped = "tcp --window 256Ki";
    add("tcp forward: slow reader", Stops(Server), stopped, SLOW_READER_OF_TCP, None);
    let stopped = "tcp -R --window 256Ki";
    add("tcp reverse: slow reader", Stops(Client), stopped, SLOW_READER_OF_TCP, None);
    let flood = "udp -l 1400 --engine send --rate 20G";
    add("udp forward: quota of the sender", Quota(Client), flood, SENDER, None);
    let small = "udp -R -l 256 --rate 200M --window 256Ki";
    add("udp reverse: quota of the receiver", Quota(Client), small, RECEIVER, None);
    add("tcp reverse: quota of the sender", Quota(Server), "tcp -R", SENDER, None);
    add("tcp forward: quota of the receiver", Quota(Server), "tcp", RECEIVER, None);
    add("rr: quota of the answering end", Quota(Server), "rr", RECEIVER, None);
    let flood = "udp -l 1400 --engine send --rate max --cpu 0/1";
    add("udp forward: hogs on the sender's core", Hogs(3), flood, OTHERS, None);
    let flood = "udp -R -l 1400 --engine mmsg --rate max --window 256Ki --cpu 0/1";
    add("udp reverse: hogs on the receiver's core", Hogs(4), flood, OTHERS, None);
    add("udp reverse: rate met", Options, "udp -R -l 1400 --rate 5M", MET, Some(5e6));
    add("tcp forward: rate met", Options, "tcp --rate 20M", MET, Some(20e6));
    add("rr: rate met", Options, "rr --rate 200", MET, Some(200.0));
    add("rr: round trip", Options, "rr", ROUND_TRIP, None);
    all
}

/// The case of that name.
pub fn named(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).expect("a case of that name")
}
