//! Finding out what a server speaks whose user did not say: by openings that no server takes for a test.
//!
//! linerate's and iperf3's servers are told apart on one connection ([`super::agree`]). netperf's and nuttcp's
//! answer an opening of their own, and go on with the connection on which they did. A server of iperf 2's would
//! count whatever it hears as a test: it is asked only where its user says so.

use std::time::Duration;

use linerate_model::plan::{Dialect, TestPlan};
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_wire::netperf::{FRAME_BYTES, Frame, Kind};
use linerate_wire::nuttcp::{MAX_LINE, greeting};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::connect::connect_to;
use super::{Request, netperf, nuttcp};
use crate::errors;

/// A host that is there has taken a connection after so long.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// A server that is there has answered then after so long, also on a busy host, and four times what the connection took.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// A port that was open just now is tried again after so long.
pub(super) const AGAIN: Duration = Duration::from_millis(20);
/// The first bytes of an answer that is not whole are looked at again after so long.
const PAUSE: Duration = Duration::from_millis(1);

/// Those whose servers answer an opening that is no test, in the order in which they are asked.
const ASKED: [Dialect; 2] = [Dialect::Netperf, Dialect::Nuttcp];

/// Whether the dialect's servers can run such a test.
fn fits(dialect: Dialect, plan: &TestPlan) -> Result<(), ErrorRecord> {
    let mut plan = plan.clone();
    match dialect {
        Dialect::Netperf => netperf::fit(&mut plan).map(drop),
        Dialect::Nuttcp => nuttcp::fit(&mut plan).map(drop),
        Dialect::Native | Dialect::Iperf3 | Dialect::Iperf2 => Ok(()),
    }
}

/// Connects where the user says, and where nobody listens there and they leave it open, to a server of another
/// dialect on the port of its own, which has answered then.
pub(super) async fn connect(
    request: &Request,
    name: &str,
    port: u16,
) -> Result<(TcpStream, Option<Dialect>), ErrorRecord> {
    let attempt = connect_to(name, port, request.ip, request.bind);
    if let Some(limit) = request.iperf3.connect_limit {
        let late = |_| Err(errors::late(name, port, limit));
        let connected = tokio::time::timeout(limit, attempt).await.unwrap_or_else(late);
        return Ok((connected?, None));
    }
    let absent = |kind: &ErrorKind| [ErrorKind::Refused, ErrorKind::TimedOut].contains(kind);
    match attempt.await {
        Err(error) if absent(&error.kind) && request.dialect.is_none() => {
            match elsewhere(request, name).await {
                Ok((control, dialect)) => Ok((control, Some(dialect))),
                Err(hints) => Err(error.with_hints(hints)),
            }
        }
        connected => Ok((connected?, None)),
    }
}

/// A server of one of the dialects with ports of their own, if one is there and can run such a test; else how to ask.
async fn elsewhere(request: &Request, name: &str) -> Result<(TcpStream, Dialect), Vec<String>> {
    let own = Dialect::ALL.into_iter().filter(|dialect| dialect.port() != Dialect::Native.port());
    let ask = |dialect: &Dialect| format!("--dialect {}", dialect.as_ref());
    if !request.elsewhere {
        let all = own.map(|dialect| ask(&dialect)).collect::<Vec<_>>().join(", ");
        return Err(vec![format!("servers of other programs have ports of their own: {all}")]);
    }
    let mut hints = Vec::new();
    for dialect in own {
        let (program, port) = (dialect.program(), dialect.port());
        if !ASKED.contains(&dialect) {
            hints.push(format!("if {program} listens there on port {port}: {}", ask(&dialect)));
        } else if let Err(unfit) = fits(dialect, &request.plan) {
            let ErrorRecord { what, why, .. } = unfit;
            hints.push(format!("nobody of {program}'s was asked on port {port}: {what}: {why}"));
        } else if let Some(control) = ask_at(request, name, (port, false), dialect).await {
            return Ok((control, dialect));
        } else {
            hints.push(format!(
                "no server of {program}'s answered on port {port}: {}",
                ask(&dialect)
            ));
        }
    }
    Err(hints)
}

/// The same on the port where something listens that is not linerate's.
pub(super) async fn here(
    request: &Request,
    name: &str,
    port: u16,
    only: Option<Dialect>,
) -> Option<(TcpStream, Dialect)> {
    let wanted = |dialect: &Dialect| only.is_none_or(|only| only == *dialect);
    // nuttcp's first: one that serves a client after the other waits for a line from each.
    for dialect in ASKED.into_iter().rev().filter(wanted) {
        if let Some(control) = ask_at(request, name, (port, true), dialect).await {
            return Some((control, dialect));
        }
    }
    None
}

/// The dialect whose servers usually have this port, of those that can be asked.
pub(super) fn usual(port: u16) -> Option<Dialect> {
    ASKED.into_iter().find(|dialect| dialect.port() == port)
}

/// `open`: something listened there just now.
async fn ask_at(
    request: &Request,
    name: &str,
    (port, open): (u16, bool),
    dialect: Dialect,
) -> Option<TcpStream> {
    let mut begun = Instant::now();
    let connecting = async {
        loop {
            match connect_to(name, port, request.ip, request.bind).await {
                // nuttcp's opens its port anew after each client.
                Err(error) if error.kind == ErrorKind::Refused && open => {
                    tokio::time::sleep(AGAIN).await;
                    begun = Instant::now();
                }
                connected => return connected,
            }
        }
    };
    let mut control = timeout(CONNECT_LIMIT, connecting).await.ok()?.ok()?;
    let limit = ANSWER_LIMIT + 4 * begun.elapsed();
    let asked = async {
        match dialect {
            Dialect::Netperf => is_netperf(&mut control).await,
            Dialect::Nuttcp => is_nuttcp(&mut control).await,
            Dialect::Native | Dialect::Iperf3 | Dialect::Iperf2 => Ok(false),
        }
    };
    let answered = timeout(limit, asked).await.ok()?.ok()?;
    answered.then_some(control)
}

/// Asks it to say less in its log, which it does.
async fn is_netperf(control: &mut TcpStream) -> std::io::Result<bool> {
    control.write_all(Frame::new(Kind::DEBUG_OFF, 0).bytes()).await?;
    let mut answer = [0; FRAME_BYTES];
    control.read_exact(&mut answer).await?;
    Ok(Frame::read(&answer).is_some_and(|answer| answer.kind() == Kind::DEBUG_OK))
}

/// Greets it. Its own greeting stays unread. A service that gives back what it hears is none of nuttcp's.
async fn is_nuttcp(control: &mut TcpStream) -> std::io::Result<bool> {
    control.write_all(greeting::QUESTION).await?;
    let mut heard = [0; MAX_LINE];
    loop {
        let length = control.peek(&mut heard).await?;
        match greeting::is_one(heard.get(..length).unwrap_or_default()) {
            Some(answered) => return Ok(answered),
            None if length == 0 => return Ok(false),
            None => tokio::time::sleep(PAUSE).await,
        }
    }
}
