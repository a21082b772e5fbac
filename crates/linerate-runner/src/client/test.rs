//! This end of one test: what both ends agree on, the streams, the record.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use linerate_dialect::ending::{Failure, Trouble};
use linerate_dialect::habits::Habits;
use linerate_model::plan::{AgreedPlan, IpVersion, TestPlan};
use linerate_model::record::{Doubt, DoubtKind, ErrorRecord, RunRecord, Status};
use linerate_model::sample::SendCounts;
use linerate_session::assemble::{self, HostSamples, Outcome, StreamOutcome};
use linerate_session::clock::ClockOffset;
use linerate_wire::native::message::ServerMessage;

use crate::data::StreamId;
use crate::errors;
use crate::place::{self, From};
use crate::standstill;

use super::Request;
use super::open::Opener;

/// The client's side of one test.
pub(super) struct ClientTest<'a> {
    pub(super) request: &'a Request,
    pub(super) name: String,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) ip: IpVersion,
    pub(super) plan: TestPlan,
    pub(super) record: RunRecord,
    /// Datagrams do not fit the path, and the record says so.
    pub(super) fragments: bool,
}

impl ClientTest<'_> {
    /// For connections of this test.
    pub(super) fn opener(&self) -> Opener {
        Opener {
            name: self.name.clone(),
            peer: self.peer,
            local: self.local,
            ip: self.ip,
            plan: self.plan.clone(),
            most_forced: self.request.bounds.window(),
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
            Failure::Here(why) => errors::unable(&format!("go on {doing}"), &why),
            Failure::Refused(refused) => errors::refused(&self.name, &refused),
            Failure::Unproven => errors::unproven(&self.name, self.peer, doing),
            Failure::Server(why) => self.lost(doing, &why),
            Failure::Protocol(why) => errors::not_of_protocol(&self.name, self.peer, doing, &why),
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

#[cfg(test)]
mod tests {
    use linerate_model::plan::Traffic;
    use linerate_testkit::{plans, records};

    use super::*;
    use crate::client::Target;

    #[test]
    fn what_fails_here_is_said_in_a_sentence() {
        let plan = plans::plan(Traffic::Tcp(plans::tcp()));
        let (peer, record) = (SocketAddr::from(([192, 0, 2, 7], 5_201)), records::empty("tcp"));
        let test = ClientTest {
            request: &Request::new(Target::Local, plan.clone()),
            name: "hydra2".into(),
            peer,
            local: peer,
            ip: IpVersion::V4,
            plan,
            record,
            fragments: false,
        };
        let failure = Failure::Here("a data thread ended without a word".into());
        let error = test.failed(Trouble { doing: "running the test", failure });
        assert_eq!(error.what, "cannot go on running the test");
    }
}
