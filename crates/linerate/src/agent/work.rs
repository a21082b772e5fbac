//! What a host does in a test, in a thread of its own: it answers, or it asks.

use std::thread::Builder;

use linerate_fleet::message::{Came, Prepare};
use linerate_fleet::policy::rate_bps;
use linerate_model::plan::Dialect;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_model::served::RefusalKind;
use linerate_model::units::{BitRate, Nanos};
use linerate_runner::client::{Request, Target};
use linerate_runner::server::{self, Event, Options};
use linerate_runner::signals::Stop;
use tokio::sync::mpsc::UnboundedSender;

use super::consent::Consent;

/// What such a thread says.
pub enum Said {
    /// The server of this lease listens on this port.
    Listening(u64, u16),
    /// Somebody without its token wanted a test of the server of this lease; why it was refused.
    Stranger(u64, String),
    /// What was begun under this lease is over, with a result of a client, or why a server could not be.
    Ended(u64, Option<Came>),
}

fn begin(
    epoch: u64,
    events: &UnboundedSender<Said>,
    work: impl FnOnce() -> Option<Came> + Send + 'static,
) {
    let at_end = events.clone();
    let done = move || {
        let _ = at_end.send(Said::Ended(epoch, work()));
    };
    if let Err(why) = Builder::new().name("test".into()).spawn(done) {
        let error =
            ErrorRecord::new(ErrorKind::Unable, "cannot start a test", why.to_string(), &[]);
        let _ = events.send(Said::Ended(epoch, Some(Came::Failed(Box::new(error)))));
    }
}

/// Answers one test of whoever has the token, and nobody else; it is no other and no more than what was asked for.
pub fn serve(
    prepare: &Prepare,
    port: u16,
    Consent { policy, networks, .. }: &Consent,
    stop: Stop,
    events: &UnboundedSender<Said>,
) {
    let epoch = prepare.epoch;
    let plan = &prepare.test.plan;
    let length = plan.duration().unwrap_or(policy.max_duration());
    let length = Nanos(length.0.saturating_add(plan.warmup.0));
    let own = rate_bps(plan, prepare.test.size_from_mtu).and_then(BitRate::new);
    let options = Options {
        port,
        key: Some(prepare.token.clone().into_bytes()),
        max_tests: 1,
        allow: networks.clone(),
        kind: Some(plan.traffic.kind()),
        max_duration: length.min(policy.max_duration()),
        max_rate: own.or(policy.max_rate()),
        max_streams: plan.streams,
        one_off: true,
        ..Options::default()
    };
    let listening = events.clone();
    let report = move |_, event| match event {
        Event::Listening(Dialect::Native, address) => {
            let _ = listening.send(Said::Listening(epoch, address.port()));
        }
        Event::Refused { peer, kind: RefusalKind::Key, why, .. } => {
            let _ = listening.send(Said::Stranger(epoch, format!("{peer}: {why}")));
        }
        _ => {}
    };
    begin(epoch, events, move || {
        let served = server::serve(&options, move || Ok(stop), report);
        served.err().map(|error| Came::Failed(Box::new(error)))
    });
}

/// Runs the test with the server at the other host.
pub fn test(
    prepare: &Prepare,
    (name, port): (String, u16),
    stop: Stop,
    events: &UnboundedSender<Said>,
) {
    let test = prepare.test.clone();
    let request = Request {
        size_from_mtu: test.size_from_mtu,
        ip: test.ip,
        key: Some(prepare.token.clone().into_bytes()),
        // Whoever has no token must not be sent anything.
        dialect: Some(Dialect::Native),
        command: test.command,
        ..Request::new(Target::Host { name, port }, test.plan)
    };
    begin(prepare.epoch, events, move || {
        Some(Came::Record(Box::new(linerate_runner::run(&request, &mut (), &stop))))
    });
}
