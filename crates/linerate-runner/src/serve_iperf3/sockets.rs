//! What iperf3's clients ask of data sockets, and what its screen sees of them.

use std::net::SocketAddr;

use linerate_engine::sys;
use linerate_model::plan::{IpVersion, Way};
use linerate_model::test_event::{Connected, Start, TestEvent};
use linerate_wire::iperf3::Cookie;
use tokio::net::TcpStream;

use super::control;
use super::plan;
use super::rendezvous::{Expectation, Turn};
use crate::client::iperf3::open::stream;
use crate::data::{self, StreamSocket};
use crate::event::Event;
use crate::event_log::Events;
use crate::serving::driver::Guest;

pub(super) struct Sockets {
    pub(super) events: Events,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) ip: IpVersion,
    pub(super) cookie: Cookie,
    pub(super) test: plan::Test,
    /// The largest window that is forced beyond the kernel's limits, in bytes.
    pub(super) most_forced: u32,
    /// While UDP streams are missing, no other test of that address may open any.
    pub(super) opening: Option<(Expectation, Turn)>,
}

impl Guest for Sockets {
    fn announce(&mut self, sockets: &[&StreamSocket]) {
        self.opening = None;
        // First: what is reported of the sockets is what the test runs with.
        let plan = self.test.of_sockets();
        for socket in sockets {
            self.apply_options(socket);
            data::prepare_tcp(socket, &plan, Some(self.most_forced));
        }
        let plan = &self.test.plan.plan;
        let ids = data::streams(plan.direction, plan.streams);
        let facts: Vec<_> = sockets.iter().map(|socket| socket.facts()).collect();
        let first = facts.first();
        let ends = (self.local, self.peer);
        let streams =
            ids.iter().zip(&facts).map(|(id, facts)| stream(*id, facts, ends, Way::Reverse));
        let start = Start {
            client: false,
            control: Connected { peer: self.peer, local: self.local, mss: None, rtt_ns: None },
            cookie: self.cookie.text(),
            asked: self.test.asked.clone(),
            streams: streams.collect(),
            send_buffer: first.map(|facts| facts.send_buffer),
            receive_buffer: first.map(|facts| facts.receive_buffer),
        };
        self.event(TestEvent::Start(Box::new(start)));
    }

    fn event(&mut self, event: TestEvent) {
        self.events.send(Event::Test { peer: self.peer, local: self.local, event });
    }

    fn watch(&mut self, control: &TcpStream) {
        control::watch(control);
    }

    fn ask(&mut self, control: &TcpStream) {
        control::ask(control);
    }
}

impl Sockets {
    /// What iperf3's options ask of any data socket.
    fn apply_options(&self, socket: &StreamSocket) {
        let v6 = self.ip == IpVersion::V6;
        let asked = &self.test.asked;
        let (fd, udp): (&dyn std::os::fd::AsFd, bool) = match socket {
            StreamSocket::Udp(udp, _) => (udp, true),
            StreamSocket::Tcp(tcp) => (tcp, false),
            // netperf's alone.
            StreamSocket::Dial(_) | StreamSocket::Doorway(_) => return,
        };
        // Wishes, as in iperf3: what the kernel refuses does not end the test.
        if asked.tos != 0 {
            let _ = sys::set_tos(&fd, v6, asked.tos);
        }
        if udp && asked.fq_rate_bps != 0 {
            let _ = sys::set_pacing_rate(&fd, asked.fq_rate_bps);
        }
        if udp && self.test.dont_fragment && !v6 {
            let _ = sys::dont_fragment(&fd);
        }
    }
}
