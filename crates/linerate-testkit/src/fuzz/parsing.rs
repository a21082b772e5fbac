//! Parsers: any bytes, and what was read must be read again from what it is written as.

use std::fmt::{Debug, Display};
use std::num::NonZeroU8;

use linerate_model::hours;
use linerate_model::record::RunRecord;
use linerate_model::units::{BitRate, ByteCount, Nanos, Rate};
use linerate_wire::native::auth;
use linerate_wire::native::datagram::{HEADER_BYTES, Header, Place};
use linerate_wire::native::frame::{self, FrameError, MAX_FRAME, PREFIX_BYTES};
use linerate_wire::native::message::{ClientMessage, ServerMessage};
use linerate_wire::native::stream::{OPENING_BYTES, TcpOpening, UdpHello, UdpHelloAck};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Input;

fn message<T: Serialize + DeserializeOwned + PartialEq + Debug>(data: &[u8]) {
    if let Some(prefix) = data.first_chunk::<PREFIX_BYTES>()
        && let Ok(length) = frame::body_length(*prefix)
    {
        assert!((1..=MAX_FRAME).contains(&length));
    }
    if data.len() > MAX_FRAME {
        return;
    }
    let Ok(read) = frame::decode::<T>(data) else { return };
    let written = match frame::encode(&read) {
        Ok(frame) => frame,
        // Defaults are written out and may not fit any more.
        Err(FrameError::Length(_)) => return,
        Err(e) => panic!("what was read cannot be written: {e}"),
    };
    let (prefix, body) = written.split_first_chunk::<PREFIX_BYTES>().expect("a frame");
    assert_eq!(frame::body_length(*prefix).expect("a legal length"), body.len());
    assert_eq!(frame::decode::<T>(body).expect("our own message"), read);
}

/// The body of a control frame, as a server reads it.
pub fn client_message(data: &[u8]) {
    message::<ClientMessage>(data);
}

/// The body of a control frame, as a client reads it.
pub fn server_message(data: &[u8]) {
    message::<ServerMessage>(data);
}

/// The header of a UDP datagram: read from any bytes, and written from any values.
pub fn datagram_header(data: &[u8]) {
    if let Some(read) = Header::read(data) {
        let mut again = [0; HEADER_BYTES];
        read.write(&mut again);
        assert_eq!(Header::read(&again), Some(read));
    }
    let mut input = Input(data);
    let header = Header {
        token: input.word(),
        number: input.word(),
        sent_ns: input.word(),
        place: Place {
            stream: input.word() as u16,
            warmup: input.byte() & 1 == 1,
            position: input.byte() & 0x7f,
            train: NonZeroU8::new(input.byte() & 0x7f).unwrap_or(NonZeroU8::MIN),
        },
    };
    let mut bytes = [0; HEADER_BYTES];
    header.write(&mut bytes);
    assert_eq!(Header::read(&bytes), Some(header));
    let at = usize::from(input.byte());
    bytes[at / 8] ^= 1 << (at % 8);
    assert_eq!(Header::read(&bytes), None, "one flipped bit");
    let short = at % HEADER_BYTES;
    header.write(&mut bytes[..short]);
    assert_eq!(Header::read(&bytes[..short]), None, "too short");
}

/// The first bytes of data streams, and hexadecimal secrets.
pub fn stream_opening(data: &[u8]) {
    if let Some(hello) = UdpHello::decode(data) {
        assert_eq!(UdpHello::decode(&hello.encode()), Some(hello));
        assert!(UdpHelloAck::decode(data).is_none());
        // Its check may be right by design; its token is none that a server gives.
        assert!(Header::read(data).is_none_or(|header| header.token >> 63 == 1));
    }
    if let Some(ack) = UdpHelloAck::decode(data) {
        assert_eq!(UdpHelloAck::decode(&ack.encode()), Some(ack));
    }
    if let Some(rest) = data.first_chunk::<OPENING_BYTES>() {
        // The magic is read before; what follows has every value.
        let opening = TcpOpening::decode(rest).expect("a claim has no illegal value");
        let again = opening.encode();
        let (_, rest) = again.split_first_chunk::<8>().expect("the magic");
        let rest = rest.first_chunk::<OPENING_BYTES>().expect("the claim");
        assert_eq!(TcpOpening::decode(rest), Some(opening));
    }
    if let Ok(Some(id)) = auth::key_id(data) {
        let secret =
            &std::str::from_utf8(data).expect("digits")[data.len() - auth::SECRET_DIGITS..];
        assert_eq!(auth::own_key(id, secret).as_bytes(), data);
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(nonce) = auth::from_hex::<{ auth::NONCE_BYTES }>(text)
    {
        assert_eq!(auth::to_hex(&nonce), text.to_ascii_lowercase());
    }
}

/// Quantities as users type them.
pub fn units(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(hours) = hours::list(text) {
        let again: Vec<String> = hours.iter().map(ToString::to_string).collect();
        assert_eq!(hours::list(&again.join(",")).as_ref(), Ok(&hours), "{text}");
        for minute in 0..24 * 60 {
            let open = hours::allow(&hours, minute);
            assert_eq!(open, hours.iter().any(|hours| hours.has(minute)), "{text}");
            assert!(hours::next(&hours, minute).is_some(), "{text}");
        }
    }
    let rate = text.parse::<BitRate>();
    agree(text, rate.as_ref().map(|r| r.bits_per_second()).ok(), 1);
    shown(rate);
    shown(text.parse::<Rate>());
    if let Ok(Some(rate)) = Rate::parse_or_max(text) {
        assert_eq!(text.parse(), Ok(rate));
    }
    let bytes = text.parse::<ByteCount>();
    agree(text, bytes.as_ref().map(|b| b.0).ok(), 0);
    shown(bytes);
    let time = text.parse::<Nanos>();
    if let Ok(seconds) = text.parse::<u64>()
        && !text.starts_with('+')
    {
        assert_eq!(time.as_ref().ok().map(|t| t.0), seconds.checked_mul(1_000_000_000));
    }
    shown(time);
}

/// A plain number of at least `least` means itself.
fn agree(text: &str, read: Option<u64>, least: u64) {
    if text.bytes().all(|b| b.is_ascii_digit())
        && let Ok(number) = text.parse::<u64>()
    {
        assert_eq!(read, Some(number).filter(|n| *n >= least), "{text}");
    }
}

fn shown<T: Display, E: Display>(read: Result<T, E>) {
    let text = match read {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(!text.is_empty());
}

/// A run record, as whatever reads kept results reads it.
pub fn run_record(data: &[u8]) {
    let Ok(read) = serde_json::from_slice::<RunRecord>(data) else { return };
    let written = serde_json::to_vec(&read).expect("a record can be written");
    let again: RunRecord = serde_json::from_slice(&written).expect("our own record");
    assert_eq!(again, read);
}
