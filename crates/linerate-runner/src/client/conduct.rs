//! A test over a control connection: which dialect the server speaks, and linerate's own.

use std::sync::Arc;

use linerate_dialect::habits;
use linerate_dialect::native::client::{self, Client, Terms};
use linerate_host::facts::facts;
use linerate_model::plan::{Dialect, IpVersion};
use linerate_model::record::{Addresses, ErrorRecord, PlanRecord, RunRecord};
use linerate_session::assemble::HostSamples;
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::native::auth;
use linerate_wire::native::stream::COOKIE_BYTES;
use tokio::net::TcpStream;

use super::agree::Server;
use super::connect::{address_pair, connect};
use super::driver::{Driver, Over};
use super::open::{Native, Opening};
use super::test::{ClientTest, Ended, unchanged};
use super::{Request, failed, iperf3, mtu, netperf, nuttcp};
use crate::control::read_out;
use crate::data::Streams;
use crate::data::{self, drain_ns};
use crate::errors;
use crate::proven;

/// A test over a control connection, whatever happens on it.
pub(super) async fn over_control(
    request: &Request,
    mut record: RunRecord,
    name: &str,
    port: u16,
    observer: &mut dyn Observer,
) -> RunRecord {
    let control = match connect(request, name, port).await {
        Ok(control) => control,
        Err(error) => return failed(record, error),
    };
    let (Ok(peer), Ok(local)) = (control.peer_addr(), control.local_addr()) else {
        return failed(record, errors::unable("use the control connection", "it has no addresses"));
    };
    record.client = facts(Some(peer.ip()));
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
    match near.conduct(control, observer).await {
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
        let path = (self.local, self.peer);
        let from_mtu = self.request.size_from_mtu;
        self.fragments = mtu::fit(&mut self.plan, &mut self.record, path, from_mtu);
        if self.request.dialect == Some(Dialect::Iperf3) {
            return iperf3::conduct(self, control, None, observer).await;
        }
        if self.request.dialect == Some(Dialect::Netperf) {
            return netperf::conduct(self, control, observer).await;
        }
        if self.request.dialect == Some(Dialect::Nuttcp) {
            return nuttcp::conduct(self, control, observer).await;
        }
        let hello = proven::hello(self.request.key.as_deref())
            .map_err(|e| self.lost(errors::AGREEING, &e.to_string()))?;
        let cookie = match self.greet(&mut control, &hello).await? {
            Server::Linerate => return self.natively(control, &hello, observer).await,
            Server::Iperf3(cookie) => Some(cookie),
            Server::LateIperf3 { busy: true } => return Err(errors::iperf3_busy(&self.name)),
            Server::LateIperf3 { busy: false } => {
                control = self.once_more(control).await?;
                None
            }
        };
        observer.note(&format!("{} runs an iperf3 server: speaking its protocol", self.name));
        iperf3::conduct(self, control, cookie, observer).await
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
        let driver = Driver::new(conversation, control, opening, streams, watched, observer);
        let Over { conversation, fault, host } = driver.charged_to(&self.request.days).run().await;
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

    /// Another control connection to the same server, once it has done with the one there is.
    async fn once_more(&mut self, control: TcpStream) -> Result<TcpStream, ErrorRecord> {
        read_out(&mut { control }).await;
        let control = connect(self.request, &self.name, self.peer.port()).await?;
        let addresses = control.local_addr().and_then(|local| Ok((local, control.peer_addr()?)));
        (self.local, self.peer) =
            addresses.map_err(|e| self.lost(errors::AGREEING, &e.to_string()))?;
        self.record.addresses.get_or_insert_default().control = address_pair(self.local, self.peer);
        Ok(control)
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
