//! The client: asks a server for a test, runs this side of it and assembles the record.

mod agree;
mod bounds;
mod conduct;
mod connect;
mod discard;
mod driver;
mod find;
mod iperf2;
pub(crate) mod iperf3;
pub(crate) mod mtu;
mod netperf;
mod nuttcp;
mod open;
pub(crate) mod seen;
mod test;

use std::net::{IpAddr, SocketAddr};

use linerate_host::facts::facts;
use linerate_model::plan::{Dialect, IpVersion, TestPlan};
use linerate_model::record::{
    ErrorRecord, FORMAT, Figures, PlanRecord, ProgramFacts, RunRecord, Status,
};
use linerate_session::observer::Observer;
use linerate_wire::native::auth;

use crate::controls::Controls;
use crate::errors;
use crate::random::random;
use crate::signals::Stop;
use crate::standstill;

pub use bounds::Bounds;
use conduct::over_control;
pub(crate) use connect::{CONNECT_LIMIT, connect_to, resolve};
pub use iperf3::Extras;
pub use netperf::Wants;
pub use nuttcp::Extras as NuttcpExtras;
pub(crate) use test::unchanged;

/// Where a test goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host name or address, and the server's port.
    Host {
        /// As the user gave it.
        name: String,
        /// TCP and UDP port.
        port: u16,
    },
    /// A server inside this process, on loopback.
    Local,
    /// No server: datagrams to this address, nobody answers.
    Discard {
        /// As the user gave it.
        name: String,
        /// UDP port.
        port: u16,
    },
}

impl Target {
    /// The other host as the user gave it; none where it is this process.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Host { name, .. } | Self::Discard { name, .. } => Some(name),
        }
    }
}

/// Everything the client needs to run one test.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where to.
    pub target: Target,
    /// What.
    pub plan: TestPlan,
    /// The datagram size is the path's MTU less headers, found after connecting; the plan's size
    /// is then a placeholder.
    pub size_from_mtu: bool,
    /// Use only this version of IP.
    pub ip: Option<IpVersion>,
    /// Local address of control and data sockets.
    pub bind: Option<IpAddr>,
    /// Shared key.
    pub key: Option<Vec<u8>>,
    /// What to speak; `None` finds out what the server speaks.
    pub dialect: Option<Dialect>,
    /// Where nobody listens on the target's port, servers on the ports of other dialects may answer.
    pub elsewhere: bool,
    /// For iperf3's dialect.
    pub iperf3: Extras,
    /// For iperf 2's dialect: clocks of both hosts agree, so that distances between them are delays (`--trip-times`).
    pub trip_times: bool,
    /// For nuttcp's dialect.
    pub nuttcp: NuttcpExtras,
    /// For netperf's dialect; absent where the plan says it all.
    pub wants: Option<Wants>,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// A name of the run, for the record.
    pub label: Option<String>,
    /// A title of the run, for the record.
    pub title: Option<String>,
    /// The profile that options of it came from, for the record.
    pub profile: Option<String>,
    /// What the owner of this host allows it, where somebody else asks for it.
    pub bounds: Bounds,
    /// What whoever watches it may do to it.
    pub controls: Option<Controls>,
}

impl Request {
    /// A test of which nothing else is said.
    pub fn new(target: Target, plan: TestPlan) -> Self {
        Self {
            target,
            plan,
            size_from_mtu: false,
            ip: None,
            bind: None,
            key: None,
            dialect: None,
            elsewhere: false,
            iperf3: Extras::default(),
            trip_times: false,
            nuttcp: NuttcpExtras::default(),
            wants: None,
            command: Vec::new(),
            label: None,
            title: None,
            profile: None,
            bounds: Bounds::default(),
            controls: None,
        }
    }
}

/// Runs one test and returns its record, whose `status` and `error` say how it ended. `stop` ends it
/// early with what was measured; before the streams exist nothing was. `local` is where the server of
/// [`Target::Local`] listens.
pub(crate) fn run(
    request: &Request,
    local: Option<SocketAddr>,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> RunRecord {
    let record = blank(request);
    let _watch = standstill::Watch::start();
    let allowed = linerate_host::cores::allowed_cores();
    let wanted = request.plan.client_cpus.iter();
    if !allowed.is_empty()
        && let Some(core) = wanted.copied().find(|core| !allowed.contains(&u32::from(*core)))
    {
        let record = failed(record, errors::no_core(core, &allowed));
        observer.end(&record);
        return record;
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            let record = failed(record, errors::unable("start the client", &e.to_string()));
            observer.end(&record);
            return record;
        }
    };
    let unbegun = record.clone();
    let test = async {
        let (name, port) = match (&request.target, local) {
            (Target::Local, Some(server)) => (server.ip().to_string(), server.port()),
            (Target::Local, None) => {
                let why = "it has no server here";
                return failed(record, errors::unable("test this host alone", why));
            }
            (Target::Host { name, port }, _) => (name.clone(), *port),
            (Target::Discard { name, port }, _) => {
                return Box::pin(discard::run(request, record, name, *port, observer)).await;
            }
        };
        if request.dialect == Some(Dialect::Iperf2) {
            Box::pin(iperf2::run(request, record, (&name, port), observer)).await
        } else {
            Box::pin(over_control(request, record, &name, port, observer)).await
        }
    };
    let record = runtime.block_on(crate::signals::until(stop, test));
    let mut record = record.unwrap_or_else(|| failed(unbegun, errors::interrupted()));
    if let Some(controls) = &request.controls {
        controls.add_marks(&mut record.events);
    }
    // Name lookups that hang must not hold the program back.
    runtime.shutdown_background();
    observer.end(&record);
    record
}

/// Identifier and start time of a record or of a document of many: the first sorts by time
/// (milliseconds since 1970, then chance), the second is RFC 3339 in UTC.
pub fn stamp() -> (String, String) {
    let now = jiff::Timestamp::now();
    let tail: [u8; 4] = random();
    (format!("{:012x}-{}", now.as_millisecond(), auth::to_hex(&tail)), now.to_string())
}

pub(crate) fn blank(request: &Request) -> RunRecord {
    let (id, started) = stamp();
    let mut asked = PlanRecord::of(&request.plan, request.ip);
    request.nuttcp.note(&mut asked);
    RunRecord {
        format: FORMAT,
        id,
        started,
        linerate: ProgramFacts { version: env!("CARGO_PKG_VERSION").to_owned() },
        command: request.command.clone(),
        target: request.target.name().map(str::to_owned),
        asked,
        label: request.label.clone(),
        title: request.title.clone(),
        profile: request.profile.clone(),
        addresses: None,
        summary: None,
        found: None,
        agreed: None,
        cuts: vec![],
        client: facts(None),
        server: None,
        intervals: vec![],
        events: vec![],
        totals: Figures::default(),
        streams: vec![],
        verdict: None,
        doubts: vec![],
        status: Status::Complete,
        error: None,
    }
}

pub(crate) fn failed(mut record: RunRecord, error: ErrorRecord) -> RunRecord {
    record.status = Status::Failed;
    record.error = Some(error);
    record
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::Traffic;
    use linerate_testkit::plans;

    use super::*;

    #[test]
    fn a_test_that_is_told_to_stop_before_it_began_ends() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let target = Target::Host { name: "127.0.0.1".into(), port };
        let plan = plans::plan(Traffic::Tcp(plans::tcp()));
        let request = Request { dialect: Some(Dialect::Native), ..Request::new(target, plan) };
        let stop = Stop::default();
        let stopped = stop.clone();
        // It takes the connection and says nothing, until the client goes.
        let server = std::thread::spawn(move || {
            let taken = silent.accept().unwrap();
            stopped.now();
            std::io::copy(&mut &taken.0, &mut std::io::sink())
        });
        let record = run(&request, None, &mut (), &stop);
        assert_eq!(record.status, Status::Failed);
        assert_eq!(record.error.unwrap().kind.name(), "interrupted");
        let _ = server.join().unwrap();
    }
}
