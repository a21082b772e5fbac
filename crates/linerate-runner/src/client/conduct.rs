//! A test over a control connection: which dialect the server speaks, and linerate's own.

use std::sync::Arc;

use linerate_dialect::habits;
use linerate_dialect::native::client::{self, Client, Terms};
use linerate_model::plan::{Dialect, IpVersion};
use linerate_model::record::{Addresses, ErrorKind, ErrorRecord, PlanRecord, RunRecord};
use linerate_session::assemble::HostSamples;
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::iperf3::Cookie;
use linerate_wire::native::auth;
use linerate_wire::native::stream::COOKIE_BYTES;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::agree::Server;
use super::connect::{CONNECT_LIMIT, address_pair, connect_to, ends};
use super::driver::{Driver, Over};
use super::open::{Native, Opening};
use super::test::{ClientTest, Ended, unchanged};
use super::{Request, failed, find, iperf3, mtu, netperf, nuttcp};
use crate::control::{ControlError, read_out};
use crate::data::Streams;
use crate::data::{self, drain_ns};
use crate::errors;
use crate::host::facts;
use crate::proven;
use crate::random::random;

/// A test over a control connection, whatever happens on it.
pub(super) async fn over_control(
    request: &Request,
    mut record: RunRecord,
    name: &str,
    port: u16,
    observer: &mut dyn Observer,
) -> RunRecord {
    let (control, answered) = match find::connect(request, name, port).await {
        Ok(connected) => connected,
        Err(error) => return failed(record, error),
    };
    let (local, peer) = match ends(&control, (name, port)) {
        Ok(ends) => ends,
        Err(error) => return failed(record, error),
    };
    record.client = facts(peer).await;
    record.addresses =
        Some(Addresses { control: address_pair(local, peer), ..Addresses::default() });
    let mut near = ClientTest {
        request,
        name: name.to_owned(),
        peer,
        local,
        ip: if peer.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 },
        plan: request.plan.clone(),
        record,
        fragments: false,
    };
    near.fit_path();
    if let Err(error) = request.bounds.allow(&near.plan) {
        return failed(near.record, error);
    }
    let before = format!("nobody answered on port {port}; ");
    let conducted = match answered {
        Some(dialect) => near.answered(control, dialect, &before, observer).await,
        None => near.conduct(control, observer).await,
    };
    match conducted {
        Ok(()) => near.record,
        Err(error) => failed(near.record, error),
    }
}

impl ClientTest<'_> {
    async fn conduct(
        &mut self,
        mut control: TcpStream,
        observer: &mut dyn Observer,
    ) -> Result<(), ErrorRecord> {
        let (port, asks) = (self.peer.port(), self.request.dialect.is_none());
        if let Some(dialect) = self.request.dialect
            && dialect != Dialect::Native
        {
            return self.speak(control, dialect, false, observer).await;
        }
        if let Some(usual) = find::usual(port).filter(|_| asks)
            && let Some((control, dialect)) = self.other(port, Some(usual)).await
        {
            return self.answered(control, dialect, "", observer).await;
        }
        let hello = proven::hello(self.request.key.as_deref())
            .map_err(|e| self.lost(errors::AGREEING, &e.to_string()))?;
        let mut server = self.greet(&mut control, &hello).await?;
        if matches!(server, Server::Silent) {
            if let Some((control, dialect)) = self.other(port, None).await {
                return self.answered(control, dialect, "", observer).await;
            }
            server = self.later(&control, None).await;
        }
        let cookie = match server {
            Server::Silent => {
                let why = ControlError::Silent.to_string();
                let error = self.lost(errors::AGREEING, &why);
                // What listens there is silent by its protocol.
                let is_iperf2 = asks && port == Dialect::Iperf2.port();
                let hint =
                    is_iperf2.then(|| "if iperf 2 listens there: --dialect iperf2".to_owned());
                return Err(error.with_hints(hint));
            }
            Server::Linerate => {
                return match Box::pin(self.natively(control, &hello, observer)).await {
                    Err(error) if asks && error.kind == ErrorKind::NotLinerate => {
                        let Some((control, dialect)) = self.other(port, None).await else {
                            return Err(error);
                        };
                        self.answered(control, dialect, "", observer).await
                    }
                    ended => ended,
                };
            }
            Server::Iperf3(cookie) => Some(cookie),
            Server::LateIperf3 { busy: true } => return Err(errors::iperf3_busy(&self.name)),
            Server::LateIperf3 { busy: false } => {
                let (again, cookie) = self.once_more(control).await?;
                control = again;
                Some(cookie)
            }
        };
        self.note_found(Dialect::Iperf3, "", observer);
        Box::pin(iperf3::conduct(self, control, cookie, observer)).await
    }

    /// What the path allows of the plan.
    fn fit_path(&mut self) {
        let path = (self.local, self.peer);
        let from_mtu = self.request.size_from_mtu;
        self.fragments = mtu::fit(&mut self.plan, &mut self.record, path, from_mtu);
    }

    /// A server of another dialect, that answers on the same port. One of iperf 2's takes what it hears for tests.
    async fn other(&self, port: u16, only: Option<Dialect>) -> Option<(TcpStream, Dialect)> {
        if port == Dialect::Iperf2.port() {
            return None;
        }
        find::here(self.request, &self.name, port, only).await
    }

    /// With a server that has answered in this dialect, where nobody had asked for it.
    async fn answered(
        &mut self,
        control: TcpStream,
        dialect: Dialect,
        before: &str,
        observer: &mut dyn Observer,
    ) -> Result<(), ErrorRecord> {
        self.go_on_with(&control)?;
        self.note_found(dialect, before, observer);
        self.speak(control, dialect, true, observer).await
    }

    /// Says, and keeps, what was found out and how.
    fn note_found(&mut self, dialect: Dialect, before: &str, observer: &mut dyn Observer) {
        let (name, program, port) = (&self.name, dialect.program(), self.peer.port());
        observer.note(&format!("{name} runs a server of {program}'s: speaking its protocol"));
        self.record.found = Some(format!("{before}{program}'s server answered on port {port}"));
    }

    /// With a server of this dialect; it may have heard this end's greeting.
    async fn speak(
        &mut self,
        control: TcpStream,
        dialect: Dialect,
        greeted: bool,
        observer: &mut dyn Observer,
    ) -> Result<(), ErrorRecord> {
        match dialect {
            Dialect::Iperf3 => Box::pin(iperf3::conduct(self, control, None, observer)).await,
            Dialect::Netperf => Box::pin(netperf::conduct(self, control, observer)).await,
            Dialect::Nuttcp => Box::pin(nuttcp::conduct(self, control, greeted, observer)).await,
            // The first has another opening, and the other no control connection.
            Dialect::Native | Dialect::Iperf2 => {
                Err(errors::unable("speak with the server", "its dialect is not spoken like that"))
            }
        }
    }

    /// With linerate's own server, as far as its answer to the hello shows.
    async fn natively(
        &mut self,
        mut control: TcpStream,
        hello: &[u8],
        observer: &mut dyn Observer,
    ) -> Result<(), ErrorRecord> {
        let drain_ns = drain_ns(&control, &self.plan.traffic);
        let (agreed, seals) = self.negotiate(&mut control, hello).await?;
        let cookie = auth::from_hex::<COOKIE_BYTES>(&agreed.cookie)
            .ok_or_else(|| self.lost(errors::AGREEING, "the server sent no legal cookie"))?;
        // Version 1 refuses and never cuts: another plan is that of a server which wants this host to
        // send more, longer or elsewhere than its user asked for.
        if agreed.agreed.plan != self.plan {
            let why = "the server answered with another test than was asked for";
            return Err(self.lost(errors::AGREEING, why));
        }
        let mut agreed_record = PlanRecord::of(&self.plan, Some(self.ip));
        agreed_record.dialect = Dialect::Native.into();
        self.record.asked.ip = Some(self.ip.number());
        self.record.agreed = Some(agreed_record);
        let same_host = self.record.client.boot_id.is_some()
            && self.record.client.boot_id == agreed.host.boot_id;
        self.record.server = Some(agreed.host.clone());

        let ids = data::streams(self.plan.direction, self.plan.streams);
        let token = agreed.token;
        let streams = Streams {
            agreed: Arc::new(unchanged(&self.plan)),
            ip: self.ip,
            token,
            framing: Framing::Native { token, stream: 0 },
            habits: habits::NATIVE,
            digits: false,
            preface: vec![],
            burst: 0,
            cores: self.cores(&ids, same_host, &agreed.cores),
        };
        let (ours, theirs) = seals.map(|seals| (seals.ours, seals.theirs)).unzip();
        let terms = Terms { plan: self.plan.clone(), drain_ns };
        let conversation = Client::new(terms, ours, theirs);
        let opening = Opening::start(Native { opener: self.opener(), token, cookie });
        let watched = (&mut self.record, Box::new(|_: &[_]| None) as _);
        let driver =
            Driver::new(self.request, conversation, control, opening, streams, watched, observer);
        let Over { conversation, fault, host } = Box::pin(driver.run()).await;
        if let Some(Err(trouble)) = conversation.outcome() {
            return Err(fault.unwrap_or_else(|| self.failed(trouble)));
        }
        let ended = conversation.ended();
        let shown = ended.shown;
        self.finish(ended, host, same_host);
        // The last interval ends with the test and so after the last tick.
        let rest = self.record.intervals.iter().skip(usize::try_from(shown).unwrap_or(usize::MAX));
        rest.for_each(|interval| observer.interval(interval));
        Ok(())
    }

    /// Another control connection to the same server of iperf3's, on which it has answered this cookie. When it has done
    /// with the one there is it closes its port, whoever waits there, and opens it anew.
    async fn once_more(&mut self, control: TcpStream) -> Result<(TcpStream, Cookie), ErrorRecord> {
        read_out(&mut { control }).await;
        let (cookie, begun) = (Cookie::from_random(random()), Instant::now());
        loop {
            match self.asked_again(&cookie).await {
                Ok(control) => return Ok((control, cookie)),
                Err(_) if begun.elapsed() < CONNECT_LIMIT => sleep(find::AGAIN).await,
                Err(error) => {
                    let once = "a server of iperf3's for one test (-1) that answers late is gone by then: --dialect iperf3";
                    let gone = error.kind == ErrorKind::Refused;
                    return Err(error.with_hints(gone.then(|| once.to_owned())));
                }
            }
        }
    }

    async fn asked_again(&mut self, cookie: &Cookie) -> Result<TcpStream, ErrorRecord> {
        let (port, ip, bind) = (self.peer.port(), self.request.ip, self.request.bind);
        let mut control = connect_to(&self.name, port, ip, bind).await?;
        self.go_on_with(&control)?;
        // Where that cannot be said, nothing is answered.
        let _ = control.write_all(cookie.bytes()).await;
        match self.later(&control, None).await {
            Server::LateIperf3 { .. } => Ok(control),
            Server::Silent => Err(self.lost(errors::AGREEING, &ControlError::Silent.to_string())),
            _ => Err(self.lost(errors::AGREEING, &ControlError::Closed.to_string())),
        }
    }

    /// From now on this is the control connection.
    fn go_on_with(&mut self, control: &TcpStream) -> Result<(), ErrorRecord> {
        (self.local, self.peer) = ends(control, (&self.name, self.peer.port()))?;
        self.record.addresses.get_or_insert_default().control = address_pair(self.local, self.peer);
        Ok(())
    }

    /// From what both ends reported to the record.
    fn finish(&mut self, ended: client::Ended, host: HostSamples, same_host: bool) {
        let client::Ended {
            streams, server, clock, interrupted, trouble, stopping, results, ..
        } = ended;
        let trouble = trouble.map(|trouble| self.failed(trouble));
        let ended = Ended { interrupted, trouble, stopping, results };
        self.conclude(streams, ended, (host, server), clock, same_host, habits::NATIVE);
    }
}
