//! What a test tells iperf3's screen while it runs.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use linerate_dialect::iperf3::rows::RowBook;
use linerate_engine::sys;
use linerate_model::plan::Way;
use linerate_model::record::ErrorRecord;
use linerate_model::test_event::{Connected, Cpu, End, Side, Start, Stream, StreamEnd, TestEvent};
use linerate_wire::iperf3::{Cookie, stream_id};

use super::plan;
use crate::data::{DataEvent, Report, StreamId, StreamSocket};
use crate::event_log::Events;
use crate::process_cpu::ProcessCpu;
use crate::server::Event;

pub(super) struct TestEvents {
    peer: SocketAddr,
    events: Events,
    rows: RowBook,
    cpu: ProcessCpu,
    congestion: Option<String>,
    over: bool,
}

impl TestEvents {
    /// All streams exist.
    pub(super) fn begin(
        events: Events,
        (peer, local): (SocketAddr, SocketAddr),
        cookie: &Cookie,
        test: &plan::Test,
        ids: &[StreamId],
        sockets: &[StreamSocket],
    ) -> Self {
        let plan = &test.plan.plan;
        let (mut send_buffer, mut receive_buffer) = (None, None);
        let congestion = sockets.iter().find_map(StreamSocket::congestion);
        let streams = ids.iter().zip(sockets).map(|(id, socket)| {
            let (number, here, there) = match socket {
                StreamSocket::Udp(udp, _) => {
                    send_buffer.get_or_insert(sys::send_buffer(udp));
                    receive_buffer.get_or_insert(sys::receive_buffer(udp));
                    let here = udp.local_addr().ok().and_then(|a| a.as_socket());
                    (udp.as_raw_fd(), here, udp.peer_addr().ok().and_then(|a| a.as_socket()))
                }
                StreamSocket::Tcp(tcp) => {
                    send_buffer.get_or_insert(sys::send_buffer(tcp));
                    receive_buffer.get_or_insert(sys::receive_buffer(tcp));
                    (tcp.as_raw_fd(), tcp.local_addr().ok(), tcp.peer_addr().ok())
                }
            };
            Stream {
                id: stream_id(id.stream),
                socket: number,
                local: here.map_or(local, sys::plain),
                remote: there.map_or(peer, sys::plain),
                sends: id.way == Way::Reverse,
            }
        });
        let streams = streams.collect();
        let start = Start {
            client: false,
            control: Connected { peer, local, mss: None },
            cookie: cookie.text(),
            asked: test.asked.clone(),
            streams,
            send_buffer,
            receive_buffer,
        };
        let events = Self {
            peer,
            events,
            rows: RowBook::new(plan.interval.0, plan.warmup.0, ids.len()),
            cpu: ProcessCpu::start(),
            congestion,
            over: false,
        };
        events.report(TestEvent::Start(Box::new(start)));
        events
    }

    fn report(&self, event: TestEvent) {
        self.events.send(Event::Test { peer: self.peer, event });
    }

    pub(super) fn on_event(&mut self, event: &DataEvent) {
        let rows = match event {
            DataEvent::Tick(stream, index, tick) => self.rows.add(false, *stream, *index, *tick),
            DataEvent::Warm(stream, index, tick) => self.rows.add(true, *stream, *index, *tick),
            DataEvent::Begun | DataEvent::Done(..) => None,
        };
        if let Some(rows) = rows {
            self.report(TestEvent::Rows(rows));
        }
    }

    /// It ended early; `reports` of all streams, or none.
    pub(super) fn fail(
        &mut self,
        peer: SocketAddr,
        reports: Vec<&Report>,
        span_ns: u64,
        why: &str,
    ) {
        let error = ErrorRecord {
            kind: "test".into(),
            what: format!("the test of {peer} ended early"),
            why: why.to_owned(),
            hints: vec![],
            exit_code: 1,
        };
        self.end(reports.into_iter(), span_ns, None, Some(error));
    }

    /// The test is over, which is told once; `reports` of all streams, or none when it failed.
    pub(super) fn end<'a>(
        &mut self,
        reports: impl Iterator<Item = &'a Report>,
        span_ns: u64,
        far_cpu: Option<Cpu>,
        error: Option<ErrorRecord>,
    ) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let reports: Vec<&Report> = reports.collect();
        for rows in self.rows.rest(&reports, span_ns) {
            self.report(TestEvent::Rows(rows));
        }
        let streams = reports.iter().filter_map(|report| {
            let here = match report {
                Report::Send(report) => Side::Send(Box::new(report.clone())),
                Report::Recv(report) => Side::Recv(Box::new(report.clone())),
                Report::Rr(_) | Report::Respond(_) => return None,
            };
            Some(StreamEnd { here, far: None })
        });
        self.report(TestEvent::End(Box::new(End {
            streams: streams.collect(),
            span_ns,
            cpu: self.cpu.percent(),
            far_cpu,
            congestion: self.congestion.clone(),
            error,
            ..End::default()
        })));
    }
}
