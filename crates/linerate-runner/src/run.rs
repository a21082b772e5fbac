//! A test from this process: its client, and the server beside it where it has no other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::mpsc;

use linerate_model::plan::{Dialect, IpVersion};
use linerate_model::record::{ErrorRecord, RunRecord};
use linerate_session::observer::Observer;
use tokio::sync::watch;

use crate::client::{self, CONNECT_LIMIT, Request, Target};
use crate::errors;
use crate::event_log::Events;
use crate::server;
use crate::signals::Stop;

/// Runs one test and returns its record, whose `status` and `error` say how it ended. `stop` ends it
/// early with what was measured; before the streams exist nothing was.
pub fn run(request: &Request, observer: &mut dyn Observer, stop: &Stop) -> RunRecord {
    if request.target != Target::Local {
        return client::run(request, None, observer, stop);
    }
    match own_server(request) {
        Ok((address, shut)) => {
            let record = client::run(request, Some(address), observer, stop);
            let _ = shut.send(true);
            record
        }
        Err(error) => {
            let record = client::failed(client::blank(request), error);
            observer.end(&record);
            record
        }
    }
}

/// A server of our own on loopback that speaks what the test is asked in, until `true` is sent.
fn own_server(request: &Request) -> Result<(SocketAddr, watch::Sender<bool>), ErrorRecord> {
    let unable = |why: &str| errors::unable("start a server in this process", why);
    let loopback: IpAddr = match request.ip {
        Some(IpVersion::V6) => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    let (report, reported) = mpsc::channel();
    let (shut, ends) = watch::channel(false);
    // Its port, if not that of linerate's own clients and of iperf3's.
    let door = request.dialect.filter(|d| !matches!(d, Dialect::Native | Dialect::Iperf3));
    // Both ends are the same owner's, and may take what the one asks for.
    let options = server::Options {
        bind: Some(loopback),
        native: door.is_none(),
        port: 0,
        doors: door.map(|dialect| (dialect, 0)).into_iter().collect(),
        max_memory: u64::MAX,
        max_window: u32::MAX,
        ..Default::default()
    };
    let listening = report.clone();
    // Its user sees this end of the test only.
    let events = Events::new(move |event| {
        if let server::Event::Listening(_, address) = event {
            let _ = listening.send(Ok(address));
        }
    });
    let serve = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let result = match runtime {
            Ok(runtime) => {
                runtime.block_on(server::serve_async(&options, events, ends, (None, None)))
            }
            Err(e) => Err(errors::unable("start a server in this process", &e.to_string())),
        };
        if let Err(e) = result {
            let _ = report.send(Err(e));
        }
    };
    let thread = std::thread::Builder::new().name("server".into()).spawn(serve);
    thread.map_err(|e| unable(&e.to_string()))?;
    let address = reported.recv_timeout(CONNECT_LIMIT);
    Ok((address.map_err(|_| unable("it did not come up"))??, shut))
}
