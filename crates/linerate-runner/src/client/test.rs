//! This end of one test: what both ends agree on, the streams, the record.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use linerate_dialect::ending::{Failure, Trouble};
use linerate_dialect::habits::{self, Habits};
use linerate_dialect::native::client::{self, Client, Terms};
use linerate_model::plan::{AgreedPlan, Dialect, IpVersion, TestPlan};
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord, RunRecord, Status};
use linerate_model::sample::SendCounts;
use linerate_session::assemble::{self, HostSamples, Outcome, StreamOutcome};
use linerate_session::clock::ClockOffset;
use linerate_session::observer::Observer;
use linerate_wire::framing::Framing;
use linerate_wire::native::auth;
use linerate_wire::native::message::ServerMessage;
use linerate_wire::native::stream::COOKIE_BYTES;
use tokio::net::TcpStream;

use crate::data::drain_ns;
use crate::data::{self, StreamId};
use crate::errors;
use crate::line::Streams;
use crate::place::{self, From};
use crate::proven;
use crate::standstill;

use super::Request;
use super::driver::{Driver, Over};
use super::open::{Native, Opener, Opening};
use super::{iperf3, mtu};

/// The client's side of one test.
pub(super) struct ClientTest<'a> {
    pub(super) request: &'a Request,
    pub(super) name: String,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) ip: IpVersion,
    pub(super) plan: TestPlan,
    pub(super) record: RunRecord,
    pub(super) drain: u64,
    /// Datagrams do not fit the path, and the record says so.
    pub(super) fragments: bool,
}

impl ClientTest<'_> {
    pub(super) async fn conduct(
        &mut self,
        control: TcpStream,
        observer: &mut dyn Observer,
    ) -> Result<(), ErrorRecord> {
        let path = (self.local, self.peer);
        let from_mtu = self.request.size_from_mtu;
        self.fragments = mtu::fit(&mut self.plan, &mut self.record, path, from_mtu);
        if self.request.dialect == Some(Dialect::Iperf3) {
            return iperf3::conduct(self, control, None, observer).await;
        }
        let mut control = control;
        let hello = proven::hello().map_err(|e| self.lost(errors::AGREEING, &e.to_string()))?;
        if let Some(cookie) = self.greet(&mut control, &hello).await? {
            observer.note(&format!("{} runs an iperf3 server: speaking its protocol", self.name));
            return iperf3::conduct(self, control, Some(cookie), observer).await;
        }
        self.drain = drain_ns(&control, &self.plan.traffic);
        let (agreed, seals) = self.negotiate(&mut control, &hello).await?;
        let cookie = auth::from_hex::<COOKIE_BYTES>(&agreed.cookie)
            .ok_or_else(|| self.lost(errors::AGREEING, "the server sent no legal cookie"))?;
        // Version 1 refuses and never cuts: another plan is that of a server which wants this host to
        // send more, longer or elsewhere than its user asked for.
        if agreed.agreed.plan != self.plan {
            let why = "the server answered with another test than was asked for";
            return Err(self.lost(errors::AGREEING, why));
        }
        let mut agreed_record = assemble::plan_record(&self.plan, Some(self.ip));
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
            burst: 0,
            cores: self.cores(&ids, same_host, &agreed.cores),
        };
        let (ours, theirs) = seals.map(|seals| (seals.ours, seals.theirs)).unzip();
        let terms = Terms { plan: self.plan.clone(), drain_ns: self.drain };
        let conversation = Client::new(terms, ours, theirs);
        let opening = Opening::start(Native { opener: self.opener(), token, cookie });
        let watched = (&mut self.record, Box::new(|_: &[_]| None) as _);
        let driver = Driver::new(conversation, control, opening, streams, watched, observer);
        let Over { conversation, fault, host } = driver.run().await;
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

    /// For connections of this test.
    pub(super) fn opener(&self) -> Opener {
        Opener {
            name: self.name.clone(),
            peer: self.peer,
            local: self.local,
            ip: self.ip,
            plan: self.plan.clone(),
        }
    }

    pub(super) fn cores(
        &self,
        ids: &[StreamId],
        same_host: bool,
        server: &[u32],
    ) -> Vec<Option<u32>> {
        if !self.plan.client_cpus.is_empty() {
            return place::listed(&self.plan.client_cpus, ids.len());
        }
        if !place::pinned(&self.plan.traffic) {
            return vec![None; ids.len()];
        }
        let mut users = BTreeMap::new();
        if same_host {
            server.iter().for_each(|core| *users.entry(*core).or_default() += 1);
        }
        let avoid = self.record.client.nic.as_ref().map(|nic| &nic.irq_cores[..]).unwrap_or(&[]);
        place::cores(&linerate_host::cores::allowed_cores(), avoid, &users, ids.len(), From::Bottom)
    }

    pub(super) fn lost(&self, doing: &str, why: &str) -> ErrorRecord {
        let why = standstill::explained(why, self.local.ip());
        errors::server_lost(&self.name, self.peer, doing, &why)
    }

    pub(super) fn out_of_turn(&self, doing: &str, message: &ServerMessage) -> ErrorRecord {
        self.lost(doing, &format!("the server sent \"{}\" out of turn", message.name()))
    }

    /// In words of this test.
    pub(super) fn failed(&self, trouble: Trouble) -> ErrorRecord {
        let Trouble { doing, failure } = trouble;
        match failure {
            Failure::Interrupted => errors::interrupted(),
            Failure::Here(why) => errors::unable(doing, &why),
            Failure::Refused(refused) => errors::refused(&self.name, &refused),
            Failure::Unproven => errors::unproven(&self.name, self.peer, doing),
            Failure::Server(why) => self.lost(doing, &why),
            Failure::TurnedAway(why) => {
                let mut error = self.lost(doing, &why);
                let hint = "an iperf3 server that wants a user name, or allows no such rate, may \
                            just close";
                error.hints.insert(0, hint.to_owned());
                error
            }
            Failure::Busy => errors::iperf3_busy(&self.name),
            Failure::Stopped(why) => errors::server_stopped(&self.name, &why),
            Failure::Iperf3(failure) => errors::iperf3_failed(&self.name, failure),
        }
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

    /// The record of what was measured, however the test ended.
    pub(super) fn conclude(
        &mut self,
        streams: Vec<StreamOutcome>,
        ended: Ended,
        (client, server): (HostSamples, HostSamples),
        clock: Option<ClockOffset>,
        same_host: bool,
        habits: Habits,
    ) {
        let record = &mut self.record;
        let stream_error = streams.iter().find_map(|s| {
            let sides = [
                s.send.as_ref().and_then(|r| r.error.clone()),
                s.recv.as_ref().and_then(|r| r.error.clone()),
                s.rr.as_ref().and_then(|r| r.error.clone()),
                s.respond.as_ref().and_then(|r| r.error.clone()),
            ];
            sides.into_iter().flatten().next()
        });
        if !ended.results {
            record.doubts.push(Doubt::new(
                DoubtKind::PeerValuesMissing,
                "the server's figures did not arrive; what is absent here is unknown, not zero",
            ));
        }
        let most = self.plan.intervals();
        let rows = |s: &StreamOutcome| {
            let (send, recv) = (s.send.as_ref(), s.recv.as_ref());
            let rr = s.rr.as_ref().map_or(0, |r| r.intervals.len());
            rr.max(send.map_or(0, |r| r.intervals.len())).max(recv.map_or(0, |r| r.intervals.len()))
        };
        if self.plan.duration().is_none() && streams.iter().any(|s| rows(s) as u64 >= most) {
            record.doubts.push(Doubt::new(
                DoubtKind::Degraded,
                format!(
                    "of each stream {most} intervals are kept: the last one holds the rest of the test"
                ),
            ));
        }
        let measured = streams.iter().any(|s| {
            // That nothing left its own host is a measurement, too.
            let tried = |counts: &SendCounts| counts.bytes > 0 || counts.refused_locally > 0;
            s.send.as_ref().is_some_and(|r| tried(&r.counts))
                || s.recv.as_ref().is_some_and(|r| r.counts.bytes > 0)
                || s.rr.as_ref().is_some_and(|r| r.transactions > 0)
        });
        let error = if ended.interrupted {
            Some(errors::interrupted())
        } else if let Some(trouble) = ended.trouble {
            Some(trouble)
        } else if let Some(why) = ended.stopping {
            Some(errors::server_stopped(&self.name, &why))
        } else {
            stream_error.map(|why| errors::stream(&self.name, &why))
        };
        if error.is_some() {
            record.status = if measured { Status::Partial } else { Status::Failed };
        }
        record.error = error;
        let outcome = Outcome {
            plan: self.plan.clone(),
            ip: self.ip,
            streams,
            client,
            server,
            clock,
            same_host,
            habits,
            discard: false,
            fragments: self.fragments,
            complete: self.record.status == Status::Complete,
        };
        self.record = assemble::assemble(self.record.clone(), &outcome);
    }
}

/// How a test ended.
pub(super) struct Ended {
    pub(super) interrupted: bool,
    /// The server was lost, or did what it must not.
    pub(super) trouble: Option<ErrorRecord>,
    /// The server ended it, and said why.
    pub(super) stopping: Option<String>,
    /// The server's figures arrived.
    pub(super) results: bool,
}

/// The plan as both would run it, for a test without a server.
pub(crate) fn unchanged(plan: &TestPlan) -> AgreedPlan {
    AgreedPlan { plan: plan.clone(), cuts: vec![] }
}
