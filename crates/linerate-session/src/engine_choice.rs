//! Which system calls a test uses, and how many datagrams go into one.

use linerate_model::plan::{EngineChoice, IpVersion, UdpPlan};

/// Bytes handed over in one call at most. More would leave the second-level cache.
pub const CALL_BYTES: usize = 65_536;

/// Most datagrams that the sender's port takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// In one train.
    pub train: usize,
    /// In one call.
    pub batch: usize,
}

/// How many datagrams a sender hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// As one buffer: 1 unless the port takes trains.
    pub train: usize,
    /// In one call, a multiple of `train`.
    pub batch: usize,
}

/// Datagrams of one IP packet's worth: 65,535 bytes with headers; IPv6 leaves room for an extension
/// header.
fn in_a_packet(plan: &UdpPlan, ip: IpVersion) -> usize {
    let packet = match ip {
        IpVersion::V4 => 65_507,
        IpVersion::V6 => 65_487,
    };
    (packet / plan.size.len()).max(1)
}

/// Datagrams of a stream that may leave at once, which never last longer than the plan's burst at the
/// asked rate: batching does not change the traffic's shape beyond what the user allows.
fn within_burst(plan: &UdpPlan, streams: u16) -> usize {
    let Some(rate) = plan.rate else { return usize::MAX };
    let bits_per_stream = u128::from(rate.bits_per_second(plan.size)) / u128::from(streams.max(1));
    let bits = bits_per_stream * u128::from(plan.burst.0) / 1_000_000_000;
    usize::try_from(bits / u128::from(plan.size.bits())).unwrap_or(usize::MAX).max(1)
}

/// The engine to begin sending with, from asked rate, size and burst. Never `Auto`.
pub fn sending(plan: &UdpPlan, ip: IpVersion, streams: u16) -> EngineChoice {
    let one_a_packet = in_a_packet(plan, ip) == 1;
    let one_at_a_time = within_burst(plan, streams) == 1;
    match plan.engine {
        EngineChoice::Auto
            if one_at_a_time || (one_a_packet && plan.size.len() > CALL_BYTES / 2) =>
        {
            EngineChoice::Send
        }
        // The kernel refuses segmentation without checksums (net/ipv4/udp.c, udp_send_skb).
        EngineChoice::Auto | EngineChoice::Gso if !plan.checksum || one_a_packet => {
            EngineChoice::Mmsg
        }
        EngineChoice::Auto => EngineChoice::Gso,
        asked => asked,
    }
}

/// The engine to begin receiving with. Never `Auto`, and one datagram a call only where that was asked
/// for.
pub fn receiving(plan: &UdpPlan, ip: IpVersion, streams: u16) -> EngineChoice {
    match sending(plan, ip, streams) {
        EngineChoice::Send if plan.engine != EngineChoice::Send => EngineChoice::Mmsg,
        sending => sending,
    }
}

/// How many datagrams go into one train and one call of a port of that reach.
pub fn shape(plan: &UdpPlan, ip: IpVersion, streams: u16, reach: Reach) -> Shape {
    let (size, limit) = (plan.size.len(), within_burst(plan, streams));
    let most_batch = reach.batch.max(1);
    let most_train = reach.train.clamp(1, most_batch);
    let train = in_a_packet(plan, ip).min(most_train).min(limit);
    // Without trains each datagram is handed over by itself, which costs more than its bytes.
    let bytes = if most_train == 1 { 2 * CALL_BYTES } else { CALL_BYTES };
    let trains = (bytes / (train * size)).min(limit / train).min(most_batch / train).max(1);
    Shape { train, batch: train * trains }
}

/// Socket buffers that a test asks for when the user names none, in bytes as of `SO_SNDBUF` and
/// `SO_RCVBUF` (the kernel doubles them for its own book-keeping).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// Of a sender.
    pub send: u32,
    /// Of a receiver.
    pub receive: u32,
}

/// A receiver that another task keeps from its core for this long loses nothing.
const STALL_NS: u128 = 50_000_000;
/// What a sender may have queued in its own host: more would hide that a device is slower than the
/// asked rate.
const QUEUE_NS: u128 = 20_000_000;
/// What the kernel counts for a small datagram beside its payload: `sk_buff`, its shared part and
/// headers, on x86-64.
const OVERHEAD_BYTES: u128 = 768;
const LEAST_SEND: u32 = 256 << 10;
const MOST_SEND: u32 = 4 << 20;
const LEAST_RECEIVE: u32 = 4 << 20;
/// Over all streams of a test, so that a peer cannot ask for more by asking for more streams.
const MOST_RECEIVE: u32 = 32 << 20;

/// Chooses buffers from what arrives, or waits, in a stall at the asked rate.
pub fn buffers(plan: &UdpPlan, streams: u16) -> Buffers {
    let streams = u128::from(streams.max(1));
    let within = |ns: u128, least: u32, most: u32| {
        let Some(rate) = plan.rate else { return most };
        let bits = u128::from(rate.bits_per_second(plan.size)) * ns / 1_000_000_000 / streams;
        let datagrams = bits / u128::from(plan.size.bits());
        let bytes = datagrams * (u128::from(plan.size.bytes()) + OVERHEAD_BYTES) / 2;
        u32::try_from(bytes).unwrap_or(u32::MAX).clamp(least, most)
    };
    let most_receive = (MOST_RECEIVE / u32::try_from(streams).unwrap_or(1)).max(LEAST_RECEIVE);
    Buffers {
        send: within(QUEUE_NS, LEAST_SEND, MOST_SEND),
        receive: within(STALL_NS, LEAST_RECEIVE, most_receive),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::units::{DatagramSize, Nanos};

    use super::*;

    fn plan(rate: &str, size: u32, engine: EngineChoice, checksum: bool) -> UdpPlan {
        UdpPlan {
            size: DatagramSize::new(size).unwrap_or(DatagramSize::MAX),
            rate: linerate_model::units::Rate::parse_or_max(rate).unwrap_or(None),
            burst: Nanos(100_000),
            engine,
            checksum,
        }
    }

    /// What the engines take today; 128 segments since Linux 6.9.
    fn reach(engine: EngineChoice) -> Reach {
        match engine {
            EngineChoice::Gso => Reach { train: 128, batch: 128 * 64 },
            EngineChoice::Mmsg => Reach { train: 1, batch: 64 },
            EngineChoice::Send | EngineChoice::Auto => Reach { train: 1, batch: 1 },
        }
    }

    #[test]
    fn known_choices() {
        use EngineChoice::{Auto, Gso, Mmsg, Send};
        let choose = |rate, size, engine, checksum| {
            let plan = plan(rate, size, engine, checksum);
            let engine = sending(&plan, IpVersion::V4, 1);
            let shape = shape(&plan, IpVersion::V4, 1, reach(engine));
            (engine, shape.train, shape.batch)
        };
        assert_eq!(choose("max", 1448, Auto, true), (Gso, 45, 45));
        assert_eq!(choose("max", 64, Auto, true), (Gso, 128, 1024));
        assert_eq!(choose("10M", 1472, Auto, true), (Send, 1, 1));
        // 1 Gbit/s: 100 us are 12,500 bytes, 8 datagrams of 1472.
        assert_eq!(choose("1G", 1472, Auto, true), (Gso, 8, 8));
        assert_eq!(choose("1G", 1472, Mmsg, true), (Mmsg, 1, 8));
        assert_eq!(choose("1G", 1472, Send, true), (Send, 1, 1));
        assert_eq!(choose("max", 1472, Auto, false), (Mmsg, 1, 64));
        assert_eq!(choose("max", 65_507, Auto, true), (Send, 1, 1));
        assert_eq!(choose("max", 40_000, Gso, true), (Mmsg, 1, 3));
    }

    #[test]
    fn a_receiver_takes_many_unless_one_was_asked_for() {
        use EngineChoice::{Auto, Gso, Mmsg, Send};
        let receiving = |rate, engine| receiving(&plan(rate, 1472, engine, true), IpVersion::V4, 1);
        assert_eq!(receiving("10M", Auto), Mmsg);
        assert_eq!(receiving("max", Auto), Gso);
        assert_eq!(receiving("10M", Gso), Gso);
        assert_eq!(receiving("max", Send), Send);
    }

    #[test]
    fn buffers_hold_a_stall() {
        let of = |rate, size, streams| {
            let b = buffers(&plan(rate, size, EngineChoice::Auto, true), streams);
            (b.send, b.receive)
        };
        assert_eq!(of("1M", 1472, 1), (256 << 10, 4 << 20));
        // 50 ms of 10 Gbit/s are 42,459 datagrams, which the kernel counts as 2,240 bytes each.
        assert_eq!(of("10G", 1472, 1), (4 << 20, 32 << 20));
        assert_eq!(of("1G", 1472, 1), (1_698 * 2_240 / 2, 4_245 * 2_240 / 2));
        assert_eq!(of("max", 64, 1), (4 << 20, 32 << 20));
        assert_eq!(of("max", 64, 4), (4 << 20, 8 << 20));
        assert_eq!(of("max", 64, 128), (4 << 20, 4 << 20));
    }

    #[test]
    fn never_longer_than_the_burst() {
        for rate in ["1M", "10M", "100M", "1G", "10G", "100G", "7pps", "1Mpps", "20Mpps"] {
            for size in [32u32, 64, 100, 512, 1448, 1472, 8972, 65_507] {
                for engine in [EngineChoice::Auto, EngineChoice::Gso, EngineChoice::Mmsg] {
                    for streams in [1u16, 3] {
                        let plan = plan(rate, size, engine, true);
                        let engine = sending(&plan, IpVersion::V6, streams);
                        let c = shape(&plan, IpVersion::V6, streams, reach(engine));
                        assert!(c.batch >= 1 && c.batch.is_multiple_of(c.train));
                        assert!(c.train * size as usize <= 65_507);
                        let bits = plan.rate.map_or(0, |r| r.bits_per_second(plan.size));
                        let ns = c.batch as u128
                            * u128::from(plan.size.bits())
                            * u128::from(streams)
                            * 1_000_000_000
                            / u128::from(bits);
                        assert!(c.batch == 1 || ns <= 100_000, "{rate} {size} {c:?} {ns}");
                    }
                }
            }
        }
    }
}
