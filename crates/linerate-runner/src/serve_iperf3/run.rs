//! One iperf3 test at the server, from its turn to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use linerate_dialect::ending::Early;
use linerate_dialect::habits;
use linerate_dialect::iperf3::server::{self as conversation, Terms, silence_limit_ns};
use linerate_engine::clock;
use linerate_model::plan::{Dialect, IpVersion, Transport};
use linerate_model::served::{Outcome, ServedTest};
use linerate_wire::iperf3::{Cookie, ErrorNumber, Failure, State};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::control::{Broken, Control};
use super::plan;
use super::rendezvous::{Arrival, Expectation, Turn};
use super::sockets::Sockets;
use crate::admission::Slot;
use crate::data::Streams;
use crate::data::{Shared, Sign};
use crate::event::Event;
use crate::served;
use crate::service::Server;
use crate::serving::driver::{Driver, Setup};

/// Should nobody act on a client's silence, data threads end by themselves a little later.
const SILENCE_OF_THREADS: Duration = Duration::from_millis(500);

/// A test that was granted.
pub(crate) struct Test {
    control: Control,
    peer: SocketAddr,
    local: SocketAddr,
    cookie: Cookie,
    ip: IpVersion,
    test: plan::Test,
    slot: Slot,
}

/// The right to open data streams.
struct Opening {
    arrivals: UnboundedReceiver<Arrival>,
    expectation: Expectation,
    /// Of UDP.
    turn: Option<Turn>,
}

impl Test {
    pub(super) fn new(
        control: Control,
        peer: SocketAddr,
        local: SocketAddr,
        cookie: Cookie,
        ip: IpVersion,
        test: plan::Test,
        slot: Slot,
    ) -> Self {
        Self { control, peer, local, cookie, ip, test, slot }
    }

    /// Runs the test and sends the results. Ends within seconds of the client's silence.
    pub(crate) async fn run(mut self, server: &Arc<Server>) {
        let id = self.cookie.text();
        let served =
            served::test(Some(&id), self.peer, Dialect::Iperf3, None, &self.test.plan.plan);
        let served = Box::new(served);
        let udp = self.test.asked.transport == Transport::Udp;
        let (time_ns, local) = (self.test.time_ns(), self.local.ip());
        let result = |ended: Result<(), Early>| ended.map_err(|e| served::explained(e, local));
        match self.turn(server, &served).await {
            Err((early, failure)) => {
                let ended = served::result(result(Err(early)), udp, time_ns, [].iter());
                server.events.send(Event::TestEnded(served, Box::new(ended)));
                match failure {
                    Some(failure) => self.control.fail(failure).await,
                    None => self.control.close().await,
                }
            }
            Ok((opening, _alone)) => {
                let test = self.conduct(server, opening).await;
                let ended = result(test.outcome().unwrap_or(Ok(())));
                let ended = served::result(ended, udp, time_ns, test.reports());
                server.events.send(Event::TestEnded(served, Box::new(ended)));
            }
        }
    }

    /// Waits until this test may run, and may open its data streams.
    async fn turn(
        &mut self,
        server: &Arc<Server>,
        served: &ServedTest,
    ) -> Result<(Opening, impl Sized + use<>), (Early, Option<Failure>)> {
        let alone = tokio::select! {
            alone = server.rendezvous.wait_alone(self.peer.ip()) => match alone {
                Ok(alone) => alone,
                Err(()) => {
                    let _ = self.control.say(&[State::AccessDenied]).await;
                    let why = "another test runs, and too many wait already";
                    return Err((Early::new(Outcome::Refused, why), None));
                }
            },
            state = self.control.state() => return Err(early(state)),
        };
        server.events.send(Event::TestStarted(Box::new(served.clone())));
        let ends = (self.peer.ip(), self.local);
        let count = self.test.plan.plan.threads() as usize;
        let (arrived, arrivals) = mpsc::unbounded_channel::<Arrival>();
        let opening = match self.test.asked.transport {
            Transport::Tcp => {
                let expectation = server.rendezvous.expect_tcp(self.cookie, ends, count, arrived);
                let expectation = expectation.ok_or_else(|| {
                    let failure = Failure { number: ErrorNumber::RECEIVE_COOKIE, errno: 0 };
                    (Early::failed("another test has the same cookie"), Some(failure))
                })?;
                Opening { arrivals, expectation, turn: None }
            }
            Transport::Udp => {
                let turn = tokio::select! {
                    turn = server.rendezvous.turn(self.peer.ip()) => turn,
                    state = self.control.state() => return Err(early(state)),
                };
                let expectation = server.rendezvous.expect_udp(&turn, ends, count, arrived);
                Opening { arrivals, expectation, turn: Some(turn) }
            }
        };
        Ok((opening, alone))
    }

    /// From its streams to its end. The cookie of a TCP test stays known as long as it runs; the address of
    /// a UDP test is free for the next one's streams when it has its own.
    async fn conduct(self, server: &Arc<Server>, opening: Opening) -> conversation::Server {
        let Self { control, peer, local, cookie, ip, test, slot } = self;
        let Opening { mut arrivals, expectation, turn } = opening;
        let (opening, _cookie) = match turn {
            Some(turn) => (Some((expectation, turn)), None),
            None => (None, Some(expectation)),
        };
        let options = &server.options;
        let agreed = Arc::new(test.plan.clone());
        let terms = Terms {
            agreed: Arc::clone(&agreed),
            peer,
            time_ns: test.time_ns(),
            longest_ns: options.max_duration.0,
            most_bps: slot.rate(options).map(|rate| rate.bits_per_second()),
            no_data_ns: u64::try_from(options.no_data.as_nanos()).unwrap_or(u64::MAX),
            output: test.output.then(|| {
                let version = env!("CARGO_PKG_VERSION");
                format!("linerate {version} serves {}: {}", peer.ip(), test.describe())
            }),
        };
        let shared = Shared::within(slot.limits(options), agreed.plan.threads() as usize);
        shared.charge_to(slot.days.clone());
        let silence = Duration::from_nanos(silence_limit_ns(agreed.plan.direction));
        let setup = Setup {
            streams: Streams {
                agreed,
                ip,
                token: slot.token,
                framing: test.framing,
                habits: habits::IPERF3,
                digits: test.digits,
                preface: vec![],
                burst: test.asked.burst,
                cores: slot.cores.clone(),
            },
            shared,
            slot,
            nic: None,
            sign: (Sign::Answers, silence + SILENCE_OF_THREADS),
            named: false,
            guest: Sockets {
                events: server.events.clone(),
                peer,
                local,
                ip,
                cookie,
                test,
                most_forced: options.max_window,
                opening,
            },
        };
        let test = conversation::Server::new(terms, clock::monotonic_ns());
        Driver::new(test, control.0, setup).run(server, &mut arrivals).await
    }
}

/// What a client may say before its turn: that it gives up.
fn early(state: Result<State, Broken>) -> (Early, Option<Failure>) {
    let unknown = Some(Failure { number: ErrorNumber::UNKNOWN_MESSAGE, errno: 0 });
    match state {
        Ok(State::ClientTerminate | State::IperfDone | State::TestEnd) => {
            (Early::new(Outcome::Stopped, "the client stopped before the start"), None)
        }
        Ok(state) => (Early::failed(format!("{state} out of turn")), unknown),
        Err(broken @ Broken::Unknown(_)) => (Early::failed(broken.to_string()), unknown),
        Err(broken) => (Early::vanished(broken.to_string()), None),
    }
}
