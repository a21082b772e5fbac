//! What a client asks for: the first JSON document.

use std::fmt;

use linerate_model::limits::{self, Limit, OutOfRange};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ErrorNumber;
use super::frame::{self, FrameError, MAX_PARAMETERS};
use super::json::{Flag, Key, Whole, once};

/// What the data streams are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Also what an absent key means.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
    /// Stream control transmission protocol, RFC 9260.
    Sctp,
}

/// Parameters as they travel: absent is absent, and numbers are what the peer wrote. [`Self::check`]
/// holds them against the table of limits.
///
/// The comment of a field says its key, unit and what absence means to a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// `tcp`, `udp` or `sctp`.
    pub protocol: Protocol,
    /// `omit`, seconds before the measured time; 0.
    pub omit: Option<i64>,
    /// `server_affinity`, the server's core.
    pub server_affinity: Option<i64>,
    /// `time`, seconds of measured time, 0 is no limit; 10.
    pub time: Option<i64>,
    /// `num`, bytes after which the client ends the test, 0 is no limit.
    pub num: Option<i64>,
    /// `blockcount`, the same in blocks.
    pub blockcount: Option<i64>,
    /// `MSS`, bytes; the kernel's choice.
    pub mss: Option<i64>,
    /// `nodelay`.
    pub nodelay: bool,
    /// `parallel`, streams each way; 1.
    pub parallel: Option<i64>,
    /// `reverse`: the server sends.
    pub reverse: bool,
    /// `bidirectional`: both send.
    pub bidirectional: bool,
    /// `mptcp`: data streams are multipath TCP, RFC 8684.
    pub mptcp: bool,
    /// `window`, bytes of send and receive buffer at both ends.
    pub window: Option<i64>,
    /// `len`, bytes of a block or datagram; 131072 for TCP.
    pub len: Option<i64>,
    /// `bandwidth`, bit/s of each stream, 0 or absent is no limit.
    pub bandwidth: Option<i64>,
    /// `fqrate`, bit/s of each stream for `SO_MAX_PACING_RATE`.
    pub fqrate: Option<i64>,
    /// `pacing_timer`, microseconds; obeyed by servers up to 3.17.
    pub pacing_timer: Option<i64>,
    /// `burst`, blocks a wake-up.
    pub burst: Option<i64>,
    /// `gso`: segmentation offload wanted; changes nothing on the wire.
    pub gso: Option<i64>,
    /// `gso_dg_size`, bytes.
    pub gso_dg_size: Option<i64>,
    /// `gso_bf_size`, bytes.
    pub gso_bf_size: Option<i64>,
    /// `gro`: merging on receive wanted; changes nothing on the wire.
    pub gro: Option<i64>,
    /// `gro_bf_size`, bytes.
    pub gro_bf_size: Option<i64>,
    /// `TOS`, the whole byte.
    pub tos: Option<i64>,
    /// `flowlabel` of IPv6.
    pub flowlabel: Option<i64>,
    /// `title`.
    pub title: Option<String>,
    /// `extra_data`.
    pub extra_data: Option<String>,
    /// `congestion`, name of the congestion control that senders use.
    pub congestion: Option<String>,
    /// `congestion_used`, a leftover.
    pub congestion_used: Option<String>,
    /// `get_server_output`.
    pub get_server_output: bool,
    /// `udp_counters_64bit`.
    pub udp_counters_64bit: bool,
    /// `repeating_payload`: digits instead of random bytes.
    pub repeating_payload: bool,
    /// `zerocopy`: the server sends with sendfile(2).
    pub zerocopy: bool,
    /// `dont_fragment` of IPv4.
    pub dont_fragment: bool,
    /// `authtoken`, base64 of an RSA-encrypted [`super::Token`].
    pub authtoken: Option<String>,
    /// `skip_rx_copy`: receivers discard inside the kernel.
    pub skip_rx_copy: bool,
    /// `client_version`, for information.
    pub client_version: Option<String>,
}

/// Most bytes of a text that is kept from a peer: what a line of a log holds.
pub const MOST_TEXT: usize = 8_192;

/// A parameter that no test may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unfit {
    /// What iperf3 calls it.
    pub number: ErrorNumber,
    /// Name, value and range.
    pub why: OutOfRange,
}

impl Parameters {
    /// Reads the body of a frame.
    ///
    /// # Errors
    /// When it is too long or too deep, no JSON, or a known key has a value of the wrong type.
    pub fn decode(body: &[u8]) -> Result<Self, FrameError> {
        frame::decode(body, MAX_PARAMETERS)
    }

    /// As a frame, length and all.
    ///
    /// # Errors
    /// [`FrameError::Length`] when it is longer than [`MAX_PARAMETERS`]: title, extra data and token
    /// together are too long.
    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        frame::encode(self, MAX_PARAMETERS)
    }

    /// Holds every number against the table of limits: none is believed before.
    ///
    /// # Errors
    /// The first that is outside its range.
    pub fn check(&self) -> Result<(), Unfit> {
        use ErrorNumber as E;
        let blocks = match self.protocol {
            Protocol::Udp => (limits::IPERF3_DATAGRAM_BYTES, E::UDP_BLOCK_SIZE),
            Protocol::Tcp | Protocol::Sctp => (limits::IPERF3_BLOCK_BYTES, E::BLOCK_SIZE),
        };
        let rows: [(Option<i64>, Limit, ErrorNumber); 14] = [
            (self.omit, limits::IPERF3_OMIT_S, E::OMIT),
            (self.server_affinity, limits::IPERF3_CORE, E::AFFINITY),
            (self.time, limits::IPERF3_TIME_S, E::DURATION),
            (self.num.filter(|n| *n != 0), limits::BYTES, E::END_CONDITIONS),
            (self.blockcount.filter(|n| *n != 0), limits::DATAGRAMS, E::END_CONDITIONS),
            (self.mss.filter(|n| *n != 0), limits::IPERF3_MSS_BYTES, E::MSS),
            (self.parallel, limits::STREAMS, E::STREAMS),
            (self.window.filter(|n| *n != 0), limits::IPERF3_WINDOW_BYTES, E::WINDOW),
            (self.len, blocks.0, blocks.1),
            (self.bandwidth.filter(|n| *n != 0), limits::RATE_BPS, E::RATE),
            (self.fqrate.filter(|n| *n != 0), limits::RATE_BPS, E::RATE),
            (self.burst.filter(|n| *n != 0), limits::IPERF3_BURST, E::BURST),
            (self.tos, limits::IPERF3_TOS, E::TOS),
            (self.flowlabel.filter(|n| *n != 0), limits::IPERF3_FLOW_LABEL, E::FLOW_LABEL),
        ];
        for (value, limit, number) in rows {
            let Some(value) = value else { continue };
            let fits = match u64::try_from(value) {
                Ok(value) => limit.check(value),
                // Negative: reported as iperf3 before 3.14 writes it.
                Err(_) => Err(OutOfRange {
                    name: limit.name.to_owned(),
                    value: value.cast_unsigned(),
                    min: limit.min,
                    max: limit.max,
                }),
            };
            fits.map_err(|why| Unfit { number, why })?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Parameters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Parameters;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the parameters of a test")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parameters, A::Error> {
                read(&mut map)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Every key that some release sends, and what becomes of it: numbers, switches, texts. One list for
/// both directions. The order is the one in which iperf3 writes them.
macro_rules! keys {
    ($visit:ident) => {
        $visit! {
            number omit "omit";
            number server_affinity "server_affinity";
            number time "time";
            number num "num";
            number blockcount "blockcount";
            number mss "MSS";
            truth nodelay "nodelay";
            number parallel "parallel";
            truth reverse "reverse";
            truth bidirectional "bidirectional";
            truth mptcp "mptcp";
            number window "window";
            number len "len";
            number bandwidth "bandwidth";
            number fqrate "fqrate";
            number pacing_timer "pacing_timer";
            number burst "burst";
            number gso "gso";
            number gso_dg_size "gso_dg_size";
            number gso_bf_size "gso_bf_size";
            number gro "gro";
            number gro_bf_size "gro_bf_size";
            number tos "TOS";
            number flowlabel "flowlabel";
            text title "title";
            text extra_data "extra_data";
            text congestion "congestion";
            text congestion_used "congestion_used";
            one get_server_output "get_server_output";
            one udp_counters_64bit "udp_counters_64bit";
            one repeating_payload "repeating_payload";
            one zerocopy "zerocopy";
            one dont_fragment "dont_fragment";
            text authtoken "authtoken";
            one skip_rx_copy "skip_rx_copy";
            text client_version "client_version";
        }
    };
}

macro_rules! reader {
    ($($kind:ident $field:ident $key:literal;)*) => {
        fn read<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Parameters, A::Error> {
            let (mut tcp, mut udp, mut sctp) = (None::<Flag>, None::<Flag>, None::<Flag>);
            $(let mut $field = reader!(@slot $kind);)*
            while let Some(Key(key)) = map.next_key()? {
                match key.as_str() {
                    "tcp" => once(map, &mut tcp)?,
                    "udp" => once(map, &mut udp)?,
                    "sctp" => once(map, &mut sctp)?,
                    $(key if key.eq_ignore_ascii_case($key) => once(map, &mut $field)?,)*
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            let on = |flag: Option<Flag>| flag.is_some_and(|flag| flag.0);
            let protocol = match (on(udp), on(sctp)) {
                (true, _) => Protocol::Udp,
                (false, true) => Protocol::Sctp,
                (false, false) => Protocol::Tcp,
            };
            Ok(Parameters { protocol, $($field: reader!(@value $kind $field),)* })
        }
    };
    (@slot number) => { None::<Whole> };
    (@slot truth) => { None::<Flag> };
    (@slot one) => { None::<Flag> };
    (@slot text) => { None::<String> };
    (@value number $field:ident) => { $field.map(|number| number.0) };
    (@value truth $field:ident) => { $field.is_some_and(|flag| flag.0) };
    (@value one $field:ident) => { $field.is_some_and(|flag| flag.0) };
    (@value text $field:ident) => { $field };
}

macro_rules! writer {
    ($($kind:ident $field:ident $key:literal;)*) => {
        impl Serialize for Parameters {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                let protocol = match self.protocol {
                    Protocol::Tcp => "tcp",
                    Protocol::Udp => "udp",
                    Protocol::Sctp => "sctp",
                };
                map.serialize_entry(protocol, &true)?;
                $(writer!(@write $kind self map $field $key);)*
                map.end()
            }
        }
    };
    (@write truth $self:ident $map:ident $field:ident $key:literal) => {
        if $self.$field {
            $map.serialize_entry($key, &true)?;
        }
    };
    (@write one $self:ident $map:ident $field:ident $key:literal) => {
        if $self.$field {
            $map.serialize_entry($key, &1)?;
        }
    };
    (@write $kind:ident $self:ident $map:ident $field:ident $key:literal) => {
        if let Some(value) = &$self.$field {
            $map.serialize_entry($key, value)?;
        }
    };
}

keys!(reader);
keys!(writer);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Parameters, FrameError> {
        Parameters::decode(text.as_bytes())
    }

    #[test]
    fn the_least_that_servers_accept() {
        assert_eq!(read("{}").unwrap(), Parameters::default());
        let udp = read(r#"{"udp":true,"len":100}"#).unwrap();
        assert_eq!((udp.protocol, udp.len), (Protocol::Udp, Some(100)));
        assert!(udp.check().is_ok());
    }

    #[test]
    fn keys_in_any_case() {
        let text = r#"{"TCP":true,"PARALLEL":3,"Mss":1000,"tos":16,"x":{"y":[1]},
            "reverse":false,"zerocopy":0,"title":null}"#;
        let p = read(text).unwrap();
        assert_eq!((p.parallel, p.mss, p.tos), (Some(3), Some(1_000), Some(16)));
        assert!(p.zerocopy && !p.reverse && p.title.is_none());
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused() {
        for wrong in [
            r#"{"parallel":"1"}"#,
            r#"{"parallel":[1]}"#,
            r#"{"parallel":{}}"#,
            r#"{"parallel":true}"#,
            r#"{"tcp":"yes"}"#,
            r#"{"title":7}"#,
            r#"{"authtoken":{}}"#,
            r#"{"reverse":"x"}"#,
            r#"[]"#,
            r#""tcp""#,
            r#"{"tcp":true"#,
            r#"{"time":NaN}"#,
            r#"{} {}"#,
            r#"{"parallel":1.5}"#,
            r#"{"parallel":3,"PARALLEL":99}"#,
            r#"{"udp":true,"udp":true}"#,
            r#"{"title":"a","title":"b"}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_beyond_their_range_are_named() {
        for (text, number) in [
            (r#"{"parallel":0}"#, ErrorNumber::STREAMS),
            (r#"{"parallel":129}"#, ErrorNumber::STREAMS),
            (r#"{"parallel":1000000000}"#, ErrorNumber::STREAMS),
            (r#"{"parallel":18446744073709551615}"#, ErrorNumber::STREAMS),
            (r#"{"len":0}"#, ErrorNumber::BLOCK_SIZE),
            (r#"{"len":-1}"#, ErrorNumber::BLOCK_SIZE),
            (r#"{"len":2147483648}"#, ErrorNumber::BLOCK_SIZE),
            (r#"{"udp":true,"len":15}"#, ErrorNumber::UDP_BLOCK_SIZE),
            (r#"{"udp":true,"len":65508}"#, ErrorNumber::UDP_BLOCK_SIZE),
            (r#"{"omit":601}"#, ErrorNumber::OMIT),
            (r#"{"time":86401}"#, ErrorNumber::DURATION),
            (r#"{"time":-1}"#, ErrorNumber::DURATION),
            (r#"{"window":536870913}"#, ErrorNumber::WINDOW),
            (r#"{"burst":1001}"#, ErrorNumber::BURST),
            (r#"{"TOS":256}"#, ErrorNumber::TOS),
            (r#"{"MSS":32768}"#, ErrorNumber::MSS),
            (r#"{"bandwidth":-5}"#, ErrorNumber::RATE),
            (r#"{"server_affinity":1025}"#, ErrorNumber::AFFINITY),
            (r#"{"flowlabel":1048576}"#, ErrorNumber::FLOW_LABEL),
        ] {
            assert_eq!(read(text).unwrap().check().unwrap_err().number, number, "{text}");
        }
        for fits in [
            r#"{"parallel":128,"len":1048576,"time":86400,"omit":600,"burst":1000,"TOS":255}"#,
            r#"{"num":0,"blockcount":0,"bandwidth":0,"time":0,"window":0,"MSS":0}"#,
            r#"{"udp":true,"len":16}"#,
        ] {
            assert_eq!(read(fits).unwrap().check(), Ok(()), "{fits}");
        }
    }

    #[test]
    fn every_key_survives() {
        let all = r#"{"udp":true,"omit":1,"server_affinity":2,"time":3,"num":4,"blockcount":5,"MSS":6,"nodelay":true,"parallel":7,"reverse":true,"bidirectional":true,"mptcp":true,"window":8,"len":9,"bandwidth":10,"fqrate":11,"pacing_timer":12,"burst":13,"gso":14,"gso_dg_size":15,"gso_bf_size":16,"gro":17,"gro_bf_size":18,"TOS":19,"flowlabel":20,"title":"t \"q\" é","extra_data":"e","congestion":"cubic","congestion_used":"bbr","get_server_output":1,"udp_counters_64bit":1,"repeating_payload":1,"zerocopy":1,"dont_fragment":1,"authtoken":"AAAA","skip_rx_copy":1,"client_version":"3.21+"}"#;
        let p = read(all).unwrap();
        let frame = p.encode().unwrap();
        assert_eq!(frame[..4], (all.len() as u32).to_be_bytes());
        assert_eq!(std::str::from_utf8(&frame[4..]).unwrap(), all);
        assert_eq!(Parameters::decode(&frame[4..]).unwrap(), p);
    }

    #[test]
    fn too_long_is_told_at_the_sending_end() {
        let p = Parameters { title: Some("x".repeat(9_000)), ..Parameters::default() };
        assert!(matches!(p.encode(), Err(FrameError::Length { .. })));
    }
}
