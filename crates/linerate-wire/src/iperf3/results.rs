//! What both ends report to each other at the end: the second JSON document, the client's first.

use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::frame::{self, FrameError, MAX_CLIENT_RESULTS, MAX_SERVER_RESULTS};
use super::json::{Key, Real, Whole, once};

/// Most streams of one document: 128 each way.
const MOST_STREAMS: usize = 2 * linerate_model::limits::STREAMS.max as usize;

/// One end's results.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// `cpu_util_total`: CPU of that process over the test, percent of one core. Absent when the peer
    /// could not say (`null`).
    pub cpu_total: Option<f64>,
    /// `cpu_util_user`.
    pub cpu_user: Option<f64>,
    /// `cpu_util_system`.
    pub cpu_system: Option<f64>,
    /// `sender_has_retransmits`: 1 a TCP sender that knows its retransmissions, 0 another sender, -1
    /// an end that only receives.
    pub sender_has_retransmits: i64,
    /// `congestion_used`: of TCP.
    pub congestion_used: Option<String>,
    /// `server_output_text`: what the server printed, if asked for.
    pub server_output_text: Option<String>,
    /// `server_output_json`: the same as JSON, exactly as it came.
    pub server_output_json: Option<String>,
    /// `linerate_last_arrival`: the `end_time` of what this end received is that of the last arrival, or
    /// the agreed time, and not of the word of the end. Reported by linerate only; iperf3 reads no such key.
    pub ends_with_last_arrival: bool,
    /// `streams`.
    pub streams: Vec<StreamResults>,
}

const LAST_ARRIVAL: &str = "linerate_last_arrival";

/// One end's results of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamResults {
    /// `id`: [`super::stream_id`].
    pub id: u32,
    /// `bytes` sent or received in the measured time.
    pub bytes: u64,
    /// `retransmits` of a TCP sender in the measured time, else -1.
    pub retransmits: i64,
    /// `jitter` of a UDP receiver, seconds.
    pub jitter_s: Option<f64>,
    /// `errors`: lost datagrams, those of the omitted time too.
    pub errors: i64,
    /// `omitted_errors`: those of the omitted time (from 3.14 on).
    pub omitted_errors: Option<i64>,
    /// `packets`: last number sent, or highest number seen, those of the omitted time too. 0 for TCP.
    pub packets: i64,
    /// `omitted_packets`: those of the omitted time (from 3.14 on).
    pub omitted_packets: Option<i64>,
    /// `start_time`, seconds; 0 (from 3.2 on).
    pub start_s: Option<f64>,
    /// `end_time`, seconds since the measured time began (from 3.2 on).
    pub end_s: Option<f64>,
}

impl Results {
    /// Reads the body of a frame that a client sent.
    ///
    /// # Errors
    /// When it is too long or too deep, no JSON, has a value of the wrong type, lacks a key that every
    /// release sends, or has more than 256 streams.
    pub fn decode_client(body: &[u8]) -> Result<Self, FrameError> {
        frame::decode(body, MAX_CLIENT_RESULTS)
    }

    /// Reads the body of a frame that a server sent, which may hold its output.
    ///
    /// # Errors
    /// As [`Self::decode_client`].
    pub fn decode_server(body: &[u8]) -> Result<Self, FrameError> {
        frame::decode(body, MAX_SERVER_RESULTS)
    }

    /// As a frame, length and all.
    ///
    /// # Errors
    /// [`FrameError::Length`] when the server's output is too long.
    pub fn encode(&self) -> Result<Vec<u8>, FrameError> {
        frame::encode(self, MAX_SERVER_RESULTS)
    }
}

/// The key must be there, whatever its value: `null` stands for a number that is none.
fn required<T, E: Error>(value: Option<Option<T>>, name: &'static str) -> Result<Option<T>, E> {
    value.ok_or_else(|| E::missing_field(name))
}

/// Reads a required number whose value may be `null`.
fn double<'de, A: MapAccess<'de>>(
    map: &mut A,
    slot: &mut Option<Option<f64>>,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(A::Error::custom("a key stands there twice"));
    }
    *slot = Some(map.next_value()?);
    Ok(())
}

impl<'de> Deserialize<'de> for Results {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Results;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the results of a test")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Results, A::Error> {
                let (mut total, mut user, mut system) = (None, None, None);
                let (mut retransmits, mut streams) = (None::<Whole>, None::<Streams>);
                let (mut congestion_used, mut text) = (None, None);
                let (mut json, mut last_arrival) = (None::<Box<RawValue>>, None::<bool>);
                while let Some(Key(key)) = map.next_key()? {
                    match key.as_str() {
                        "cpu_util_total" => double(&mut map, &mut total)?,
                        "cpu_util_user" => double(&mut map, &mut user)?,
                        "cpu_util_system" => double(&mut map, &mut system)?,
                        "sender_has_retransmits" => once(&mut map, &mut retransmits)?,
                        "congestion_used" => once(&mut map, &mut congestion_used)?,
                        "server_output_text" => once(&mut map, &mut text)?,
                        "server_output_json" => once(&mut map, &mut json)?,
                        LAST_ARRIVAL => once(&mut map, &mut last_arrival)?,
                        "streams" => once(&mut map, &mut streams)?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(Results {
                    cpu_total: required(total, "cpu_util_total")?,
                    cpu_user: required(user, "cpu_util_user")?,
                    cpu_system: required(system, "cpu_util_system")?,
                    sender_has_retransmits: retransmits
                        .ok_or_else(|| A::Error::missing_field("sender_has_retransmits"))?
                        .0,
                    congestion_used,
                    server_output_text: text,
                    server_output_json: json.map(|json| json.get().to_owned()),
                    ends_with_last_arrival: last_arrival.unwrap_or(false),
                    streams: streams.ok_or_else(|| A::Error::missing_field("streams"))?.0,
                })
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// A list that is given up when it grows too long.
struct Streams(Vec<StreamResults>);

impl<'de> Deserialize<'de> for Streams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Streams;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MOST_STREAMS} streams")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Streams, A::Error> {
                let mut streams = Vec::new();
                while let Some(stream) = list.next_element()? {
                    if streams.len() == MOST_STREAMS {
                        return Err(A::Error::invalid_length(MOST_STREAMS + 1, &self));
                    }
                    streams.push(stream);
                }
                Ok(Streams(streams))
            }
        }
        deserializer.deserialize_seq(Reader)
    }
}

impl<'de> Deserialize<'de> for StreamResults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = StreamResults;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the results of a stream")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StreamResults, A::Error> {
                let mut whole: [Option<Whole>; 7] = [None; 7];
                let [id, bytes, retransmits, errors, omitted_errors, packets, omitted_packets] =
                    &mut whole;
                let mut jitter = None;
                let (mut start, mut end) = (None, None);
                while let Some(Key(key)) = map.next_key()? {
                    match key.as_str() {
                        "id" => once(&mut map, id)?,
                        "bytes" => once(&mut map, bytes)?,
                        "retransmits" => once(&mut map, retransmits)?,
                        "jitter" => double(&mut map, &mut jitter)?,
                        "errors" => once(&mut map, errors)?,
                        "omitted_errors" => once(&mut map, omitted_errors)?,
                        "packets" => once(&mut map, packets)?,
                        "omitted_packets" => once(&mut map, omitted_packets)?,
                        "start_time" => once(&mut map, &mut start)?,
                        "end_time" => once(&mut map, &mut end)?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                let must = |value: &Option<Whole>, name| {
                    value.map(|value| value.0).ok_or_else(|| A::Error::missing_field(name))
                };
                let id = must(id, "id")?;
                let bytes = must(bytes, "bytes")?;
                Ok(StreamResults {
                    id: u32::try_from(id)
                        .map_err(|_| A::Error::custom(format!("{id} is no stream's id")))?,
                    bytes: u64::try_from(bytes)
                        .map_err(|_| A::Error::custom(format!("{bytes} bytes")))?,
                    retransmits: must(retransmits, "retransmits")?,
                    jitter_s: required(jitter, "jitter")?,
                    errors: must(errors, "errors")?,
                    omitted_errors: omitted_errors.map(|value| value.0),
                    packets: must(packets, "packets")?,
                    omitted_packets: omitted_packets.map(|value| value.0),
                    start_s: start,
                    end_s: end,
                })
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// What was not measured: iperf3 refuses a document without the key, and writes 0 itself.
fn real(value: Option<f64>) -> Real {
    Real(value.filter(|value| value.is_finite()).unwrap_or(0.0))
}

impl Serialize for Results {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("cpu_util_total", &real(self.cpu_total))?;
        map.serialize_entry("cpu_util_user", &real(self.cpu_user))?;
        map.serialize_entry("cpu_util_system", &real(self.cpu_system))?;
        map.serialize_entry("sender_has_retransmits", &self.sender_has_retransmits)?;
        if let Some(name) = &self.congestion_used {
            map.serialize_entry("congestion_used", name)?;
        }
        if let Some(text) = &self.server_output_text {
            map.serialize_entry("server_output_text", text)?;
        }
        if let Some(json) = &self.server_output_json {
            let json: &RawValue = serde_json::from_str(json).map_err(serde::ser::Error::custom)?;
            map.serialize_entry("server_output_json", json)?;
        }
        if self.ends_with_last_arrival {
            map.serialize_entry(LAST_ARRIVAL, &true)?;
        }
        map.serialize_entry("streams", &List(&self.streams))?;
        map.end()
    }
}

struct List<'a>(&'a [StreamResults]);

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for stream in self.0 {
            list.serialize_element(stream)?;
        }
        list.end()
    }
}

impl Serialize for StreamResults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("bytes", &self.bytes)?;
        map.serialize_entry("retransmits", &self.retransmits)?;
        map.serialize_entry("jitter", &real(self.jitter_s))?;
        map.serialize_entry("errors", &self.errors)?;
        // Always: where they are missing, clients from 3.21 on show nothing of what a server sent.
        map.serialize_entry("omitted_errors", &self.omitted_errors.unwrap_or(0))?;
        map.serialize_entry("packets", &self.packets)?;
        map.serialize_entry("omitted_packets", &self.omitted_packets.unwrap_or(0))?;
        map.serialize_entry("start_time", &real(self.start_s))?;
        map.serialize_entry("end_time", &real(self.end_s))?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"cpu_util_total":1.5,"cpu_util_user":1,"cpu_util_system":0.5,"sender_has_retransmits":-1,"congestion_used":"cubic","server_output_text":"a\nb","server_output_json":{"start":{"z":1,"a":2,"a":3}},"streams":[{"id":1,"bytes":2560,"retransmits":-1,"jitter":0.000125,"errors":3,"omitted_errors":1,"packets":40,"omitted_packets":10,"start_time":0,"end_time":1.5}]}"#;

    #[test]
    fn only_linerate_says_that_its_time_ends_with_the_last_arrival() {
        let plain = Results::decode_server(ONE.as_bytes()).unwrap();
        assert!(!plain.ends_with_last_arrival);
        let ours = Results { ends_with_last_arrival: true, ..plain };
        let text = String::from_utf8(ours.encode().unwrap().split_off(4)).unwrap();
        assert!(text.contains("\"linerate_last_arrival\":true"), "{text}");
        assert_eq!(Results::decode_server(text.as_bytes()).unwrap(), ours);
    }

    #[test]
    fn every_key_survives() {
        let read = Results::decode_server(ONE.as_bytes()).unwrap();
        let stream = read.streams[0];
        assert_eq!((stream.errors, stream.omitted_errors), (3, Some(1)));
        assert_eq!((stream.packets, stream.omitted_packets), (40, Some(10)));
        assert_eq!(std::str::from_utf8(&read.encode().unwrap()[4..]).unwrap(), ONE);
    }

    #[test]
    fn every_required_key_is_required() {
        for key in ["cpu_util_total", "sender_has_retransmits", "streams"] {
            let text = ONE.replace(&format!("\"{key}\""), "\"other\"");
            assert!(Results::decode_server(text.as_bytes()).is_err(), "{key}");
        }
        for key in ["id", "bytes", "retransmits", "jitter", "errors", "packets"] {
            let text = ONE.replace(&format!("\"{key}\":"), "\"other\":");
            assert!(Results::decode_server(text.as_bytes()).is_err(), "{key}");
        }
        for key in ["omitted_errors", "start_time", "congestion_used", "server_output_json"] {
            let text = ONE.replace(&format!("\"{key}\":"), "\"other\":");
            assert!(Results::decode_server(text.as_bytes()).is_ok(), "{key}");
        }
    }

    #[test]
    fn what_is_no_number_is_absent() {
        let text = ONE
            .replace("0.000125", "null")
            .replace("1.5,\"cpu_util_user\"", "null,\"cpu_util_user\"");
        let read = Results::decode_client(text.as_bytes()).unwrap();
        assert_eq!((read.cpu_total, read.streams[0].jitter_s), (None, None));
    }

    #[test]
    fn too_many_streams_and_impossible_numbers_are_refused() {
        let stream = &ONE[ONE.find("{\"id\"").unwrap()..ONE.len() - 2];
        let many = |n: usize| ONE.replace(stream, &vec![stream; n].join(","));
        assert!(Results::decode_client(many(256).as_bytes()).is_ok());
        assert!(Results::decode_client(many(257).as_bytes()).is_err());
        for (from, to) in [
            ("\"id\":1", "\"id\":-1"),
            ("2560", "-2560"),
            ("2560", "\"2560\""),
            ("2560", "2560.5"),
            ("\"id\":1", "\"id\":1,\"ID\":1"),
            ("\"jitter\":0.000125", "\"jitter\":1,\"jitter\":0.000125"),
        ] {
            assert!(Results::decode_client(ONE.replace(from, to).as_bytes()).is_err(), "{to}");
        }
        assert!(Results::decode_client(&vec![b' '; MAX_CLIENT_RESULTS + 1]).is_err());
    }
}
