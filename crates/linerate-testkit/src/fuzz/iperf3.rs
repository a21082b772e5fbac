//! iperf3's dialect: documents, the bytes between them, and UDP headers.

use linerate_wire::iperf3::datagram::{Counters, Header, widen};
use linerate_wire::iperf3::frame::{
    FrameError, MAX_CLIENT_RESULTS, MAX_PARAMETERS, MAX_SERVER_RESULTS, PREFIX_BYTES, body_length,
};
use linerate_wire::iperf3::{
    COOKIE_BYTES, Cookie, Failure, Parameters, Results, State, StreamResults, Token, hello,
    stream_id, stream_index,
};

use super::Input;

/// A client's parameters: read, held against the limits, written, read again.
pub fn iperf3_parameters(data: &[u8]) {
    let Ok(read) = Parameters::decode(data) else { return };
    assert!(data.len() <= MAX_PARAMETERS);
    if let Err(unfit) = read.check() {
        assert!(unfit.number.words().is_some() && !unfit.to_string().is_empty());
    }
    match read.encode() {
        Ok(frame) => {
            let (prefix, body) = frame.split_first_chunk::<PREFIX_BYTES>().expect("a frame");
            assert_eq!(body_length(*prefix, MAX_PARAMETERS).expect("a legal length"), body.len());
            assert_eq!(Parameters::decode(body).expect("our own document"), read);
        }
        // Escapes may make it longer than it came.
        Err(FrameError::Length { .. }) => {}
        Err(e) => panic!("what was read cannot be written: {e}"),
    }
}

/// Results, as either end reads them.
pub fn iperf3_results(data: &[u8]) {
    let client = Results::decode_client(data);
    let Ok(read) = Results::decode_server(data) else {
        assert!(client.is_err());
        return;
    };
    assert_eq!(client.is_ok(), data.len() <= MAX_CLIENT_RESULTS);
    let frame = match read.encode() {
        Ok(frame) => frame,
        Err(FrameError::Length { .. }) => return,
        Err(e) => panic!("what was read cannot be written: {e}"),
    };
    let again = Results::decode_server(frame.split_at(PREFIX_BYTES).1).expect("our own document");
    assert_eq!(again.streams.len(), read.streams.len());
    for (again, read) in again.streams.iter().zip(&read.streams) {
        assert_eq!((again.id, again.bytes, again.packets), (read.id, read.bytes, read.packets));
        // Of what was left out, nothing and none are the same.
        let omitted = |stream: &StreamResults| {
            (stream.omitted_errors.unwrap_or(0), stream.omitted_packets.unwrap_or(0))
        };
        assert_eq!((again.errors, omitted(again)), (read.errors, omitted(read)));
    }
    assert_eq!(again.server_output_json, read.server_output_json);
    assert_eq!(again.server_output_text, read.server_output_text);
}

/// One end of a control connection: a cookie, then states, each with what follows it. Every step
/// consumes at least one byte.
pub fn iperf3_control(data: &[u8]) {
    let mut rest = data;
    if let Some((cookie, after)) = rest.split_first_chunk::<COOKIE_BYTES>() {
        let cookie = Cookie::from_bytes(*cookie);
        assert_eq!(Cookie::from_bytes(*cookie.bytes()), cookie);
        assert!(!cookie.is_plausible() || !cookie.text().is_empty());
        let random: [u8; COOKIE_BYTES - 1] = std::array::from_fn(|i| cookie.bytes()[i]);
        assert!(Cookie::from_random(random).is_plausible());
        rest = after;
    }
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let Some(state) = State::from_byte(*byte) else { continue };
        assert_eq!(state.byte(), *byte);
        match state {
            State::ServerError => {
                if let Some(failure) = Failure::decode(rest) {
                    assert_eq!(Failure::decode(&failure.encode()[1..]), Some(failure));
                }
            }
            State::ParamExchange | State::ExchangeResults => {
                let Some((prefix, after)) = rest.split_first_chunk::<PREFIX_BYTES>() else {
                    break;
                };
                rest = after;
                let most =
                    if state == State::ParamExchange { MAX_PARAMETERS } else { MAX_SERVER_RESULTS };
                let Ok(length) = body_length(*prefix, most) else { continue };
                assert!((1..=most).contains(&length));
                let Some((body, after)) = rest.split_at_checked(length) else { break };
                rest = after;
                if state == State::ParamExchange {
                    iperf3_parameters(body);
                } else {
                    iperf3_results(body);
                }
            }
            _ => {}
        }
    }
    if let Some(token) = Token::decode(data) {
        assert_eq!(Token::decode(token.encode().as_bytes()), Some(token));
    }
}

/// Hellos, answers and headers of UDP streams, stream numbers.
pub fn iperf3_datagram(data: &[u8]) {
    if let Some(answer) = hello::answer(data) {
        assert!(hello::is_answer(&answer) && answer.len() <= data.len());
    }
    for counters in [Counters::Bits32, Counters::Bits64] {
        let read = Header::read(counters, data);
        assert!(read.is_none() || data.len() >= counters.header_bytes());
        if let Some(header) = read {
            let mut again = vec![0; counters.header_bytes()];
            header.write(counters, &mut again);
            assert_eq!(Header::read(counters, &again), Some(header));
        }
    }
    let mut input = Input(data);
    let (low, expected) = (input.word() as u32, input.word());
    if let Some(wide) = widen(low, expected) {
        assert_eq!(wide as u32, low);
        assert!(wide.abs_diff(expected) <= 1 << 31);
    }
    if let Some(index) = stream_index(low) {
        assert_eq!(stream_id(index), low);
    }
}
