//! What is asked of the server: the plan as its dialect can run it, and the request that says so.

use std::num::NonZeroU16;

use linerate_model::limits;
use linerate_model::plan::{
    Dialect, Direction, End, IpVersion, RrPlan, TestPlan, Traffic, Transport,
};
use linerate_model::record::ErrorRecord;
use linerate_model::units::{NANOS_PER_SECOND, Nanos};
use linerate_wire::netperf::{Length, Request};

use crate::errors;

/// What users of netperf ask beyond a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// A connection for each transaction, and whether it carries a request and a response.
    pub connections: Option<bool>,
    /// The server says what its CPUs did.
    pub measure_cpu: bool,
    /// This end's data port.
    pub near_port: Option<NonZeroU16>,
    /// The server's data port.
    pub far_port: Option<NonZeroU16>,
    /// `SO_SNDBUF` of the server, in bytes.
    pub far_send_buffer: Option<u32>,
    /// `SO_RCVBUF` of the server, in bytes.
    pub far_receive_buffer: Option<u32>,
    /// Bytes a send call of the server's.
    pub far_send_size: Option<u32>,
    /// Bytes a receive call of the server's.
    pub far_receive_size: Option<u32>,
    /// `TCP_CONGESTION` of the server.
    pub far_congestion: Option<String>,
    /// Type of service of the server.
    pub far_tos: Option<u8>,
    /// `TCP_NODELAY` of both.
    pub nodelay: bool,
    /// Core of the server.
    pub far_core: Option<u16>,
    /// So many datagrams or blocks leave this end at once; of none or one nothing is asked.
    pub burst: u32,
}

impl Wants {
    fn fill(&self, plan: &TestPlan, request: &mut Request) {
        request.connections = self.connections.is_some();
        if self.connections == Some(false) {
            (request.transmits, request.receives, request.sizes) = (false, false, None);
        }
        // No connection says that it is the last.
        if let (Some(_), End::Datagrams(count)) = (self.connections, plan.end) {
            request.length = Length::Units(u32::try_from(count).unwrap_or(u32::MAX));
        }
        request.send_buffer = self.far_send_buffer;
        request.receive_buffer = self.far_receive_buffer;
        request.send_size = self.far_send_size.filter(|_| request.sizes.is_none());
        request.receive_size = self.far_receive_size.filter(|_| request.sizes.is_none());
        request.nodelay = self.nodelay;
        request.measure_cpu = self.measure_cpu;
        request.data_port = self.far_port;
        request.congestion.clone_from(&self.far_congestion);
        request.tos = self.far_tos;
        request.core = self.far_core;
    }
}

fn none(what: &str, why: &str) -> ErrorRecord {
    errors::no_such_test(Dialect::Netperf, what, why)
}

/// Makes the plan one that this dialect can run; what that changed, in words.
///
/// # Errors
/// Where netperf has no such test.
pub(in crate::client) fn fit(plan: &mut TestPlan) -> Result<Vec<String>, ErrorRecord> {
    if plan.streams != 1 {
        let what = format!("{} streams", plan.streams);
        return Err(none(&what, "netperf's tests have one: start several clients"));
    }
    if plan.direction == Direction::Both {
        return Err(none("both directions", "netperf's tests have one: start a client for each"));
    }
    if plan.warmup.0 > 0 {
        return Err(none("a warm-up", "netperf's servers count from the first byte on"));
    }
    if !plan.direction.has_reverse() {
        return Ok(vec![]);
    }
    let rate = match &plan.traffic {
        Traffic::Udp(udp) => udp.rate.is_some(),
        Traffic::Tcp(tcp) => tcp.rate.is_some(),
        Traffic::Rr(_) => false,
    };
    if rate {
        let why = "netperf's servers send as fast as they can: leave out --rate, or the direction";
        return Err(none("a rate of the server's", why));
    }
    // The server's clock ends it.
    match plan.end {
        End::Time(time) if !time.0.is_multiple_of(NANOS_PER_SECOND) => {
            let whole = Nanos(time.0.next_multiple_of(NANOS_PER_SECOND));
            plan.end = End::Time(whole);
            Ok(vec![format!("netperf's tests last whole seconds: this one lasts {whole}")])
        }
        _ => Ok(vec![]),
    }
}

/// What is asked of the server; `port` is this end's over UDP. `wants` stand above the plan.
///
/// # Errors
/// When a number does not fit its message.
pub(super) fn request(
    plan: &TestPlan,
    ip: IpVersion,
    port: Option<NonZeroU16>,
    wants: Option<&Wants>,
) -> Result<Request, ErrorRecord> {
    let reverse = plan.direction.has_reverse();
    let mut request = Request {
        transport: plan.traffic.transport(),
        transmits: reverse,
        receives: !reverse,
        connections: false,
        sizes: None,
        length: length(plan)?,
        send_buffer: plan.window,
        receive_buffer: plan.window,
        send_size: None,
        receive_size: None,
        nodelay: false,
        measure_cpu: false,
        no_checksum: false,
        // Without this a server that sends keeps to its own link.
        may_route: true,
        data_port: None,
        peer_port: port,
        congestion: None,
        tos: plan.dscp.map(|dscp| dscp << 2),
        core: plan.server_cpus.first().copied(),
        ip: Some(ip),
        old: None,
    };
    match &plan.traffic {
        Traffic::Udp(udp) => {
            let size = Some(u32::from(udp.size.bytes()));
            (request.send_size, request.receive_size) = (size, size);
            request.no_checksum = !udp.checksum;
        }
        Traffic::Tcp(tcp) => {
            (request.send_size, request.receive_size) = (Some(tcp.block), Some(tcp.block));
            request.nodelay = tcp.nodelay;
            request.congestion = tcp.congestion.clone();
        }
        Traffic::Rr(rr) => {
            (request.transmits, request.receives) = (true, true);
            request.sizes = Some((rr.request, rr.response));
            request.nodelay = true;
        }
    }
    if let Some(wants) = wants {
        wants.fill(plan, &mut request);
    }
    Ok(request)
}

/// The server's end. Where this end says when the data is over, the server need not know how much there is.
fn length(plan: &TestPlan) -> Result<Length, ErrorRecord> {
    let amount = match (plan.end, &plan.traffic) {
        (End::Time(time), _) => {
            let seconds = u32::try_from(time.0.div_ceil(NANOS_PER_SECOND));
            return seconds
                .map(Length::Seconds)
                .map_err(|_| none("so long a test", "its seconds do not fit netperf's message"));
        }
        // All marks of its end may be lost; the server counts as well. A number that no message holds has no end.
        (End::Datagrams(count), Traffic::Rr(RrPlan { transport: Transport::Udp, .. })) => {
            let units = i32::try_from(count).map(i32::unsigned_abs);
            return Ok(units.map_or(Length::Seconds(0), Length::Units));
        }
        _ if !plan.direction.has_reverse() => return Ok(Length::Seconds(0)),
        // Without an end: it closes the connection, which ends a server that sends bytes. Nothing ends one that sends
        // datagrams.
        (End::Bytes(bytes), Traffic::Tcp(_)) if bytes >= limits::BYTES.max => {
            return Ok(Length::Seconds(0));
        }
        (End::Bytes(bytes), _) => bytes,
        (End::Datagrams(count), Traffic::Udp(udp)) => {
            count.saturating_mul(u64::from(udp.size.bytes()))
        }
        (End::Datagrams(count), Traffic::Tcp(tcp)) => count.saturating_mul(tcp.block.into()),
        (End::Datagrams(count), Traffic::Rr(_)) => count,
    };
    let units = i32::try_from(amount).map(i32::unsigned_abs).map_err(|_| {
        let why = "its message has room for 2,147,483,647: ask for a time";
        none(&format!("{amount} bytes from a netperf server"), why)
    });
    units.map(Length::Units)
}

#[cfg(test)]
mod tests {
    use linerate_model::plan::TcpPlan;
    use linerate_testkit::plans;

    use super::*;

    fn plan(direction: Direction, end: End) -> TestPlan {
        let tcp = TcpPlan { nodelay: true, ..TcpPlan::new(1_000) };
        TestPlan {
            direction,
            end,
            window: Some(70_000),
            server_cpus: vec![3],
            dscp: Some(46),
            ..TestPlan::new(Traffic::Tcp(tcp))
        }
    }

    #[test]
    fn a_server_counts_requests_over_udp_that_its_message_can_count() {
        let asked = |transport, end| {
            let rr = Traffic::Rr(plans::rr(transport));
            let mut plan = TestPlan { traffic: rr, ..plan(Direction::Forward, end) };
            assert_eq!(fit(&mut plan).unwrap().len(), 0);
            length(&plan).unwrap()
        };
        assert_eq!(asked(Transport::Udp, End::Datagrams(5)), Length::Units(5));
        assert_eq!(asked(Transport::Udp, End::Datagrams(1 << 31)), Length::Seconds(0));
        assert_eq!(asked(Transport::Udp, End::Time(Nanos::from_secs(1))), Length::Seconds(1));
        // A connection says by closing that there are no more.
        assert_eq!(asked(Transport::Tcp, End::Datagrams(5)), Length::Seconds(0));
    }

    #[test]
    fn a_server_that_sends_without_an_end_is_one_of_tcp() {
        let endless = plan(Direction::Reverse, End::Bytes(limits::BYTES.max));
        assert_eq!(length(&endless).unwrap(), Length::Seconds(0));
        let udp = TestPlan { traffic: Traffic::Udp(plans::udp()), ..endless };
        assert!(length(&udp).unwrap_err().why.contains("2,147,483,647"));
    }

    #[test]
    fn a_server_that_sends_lasts_whole_seconds() {
        let time = End::Time(Nanos(1_500_000_000));
        let mut reverse = plan(Direction::Reverse, time);
        assert_eq!(fit(&mut reverse).unwrap().len(), 1);
        assert_eq!(reverse.end, End::Time(Nanos::from_secs(2)));
        let mut forward = plan(Direction::Forward, time);
        assert!(fit(&mut forward).unwrap().is_empty());
        assert_eq!(forward.end, time);
        assert_eq!(length(&forward).unwrap(), Length::Seconds(2));
    }

    #[test]
    fn a_request_says_what_the_plan_does() {
        let asked = |plan: &TestPlan| request(plan, IpVersion::V6, None, None).unwrap();
        let forward = asked(&plan(Direction::Forward, End::Bytes(5)));
        assert_eq!(forward.transport, Transport::Tcp);
        // This end says by closing when there is no more.
        assert_eq!(forward.length, Length::Seconds(0));
        assert!(forward.receives && !forward.transmits && forward.nodelay && forward.may_route);
        assert_eq!((forward.tos, forward.core), (Some(184), Some(3)));
        assert_eq!((forward.send_buffer, forward.receive_size), (Some(70_000), Some(1_000)));
        let reverse = asked(&plan(Direction::Reverse, End::Datagrams(7)));
        assert_eq!(reverse.length, Length::Units(7_000));
        assert!(reverse.transmits && !reverse.receives);
        let much = plan(Direction::Reverse, End::Bytes(1 << 31));
        let refused = request(&much, IpVersion::V4, None, None).unwrap_err();
        assert!(refused.why.contains("2,147,483,647"), "{refused:?}");
    }
}
