//! The first datagram of a UDP stream and its answer: four bytes each, different ones in different
//! releases and on hosts of different byte order.

/// Bytes of both.
pub const HELLO_BYTES: usize = 4;

/// What clients from 3.12 on send.
pub const HELLO: [u8; HELLO_BYTES] = *b"9876";
/// What servers from 3.12 on answer.
pub const ANSWER: [u8; HELLO_BYTES] = *b"6789";

/// 123456789, of clients up to 3.11.
const OLD_HELLO: u32 = 123_456_789;
/// 987654321, of servers up to 3.11.
const OLD_ANSWER: u32 = 987_654_321;

/// What to answer, so that a client of that release and byte order knows it. Servers of iperf3 look
/// at neither content nor length; four bytes is what every client sends, and the answer is no longer
/// than the question.
pub fn answer(datagram: &[u8]) -> Option<[u8; HELLO_BYTES]> {
    let hello: [u8; HELLO_BYTES] = datagram.try_into().ok()?;
    Some(if hello == OLD_HELLO.to_le_bytes() {
        OLD_ANSWER.to_le_bytes()
    } else if hello == OLD_HELLO.to_be_bytes() {
        OLD_ANSWER.to_be_bytes()
    } else if hello == ANSWER {
        // 3.12 to 3.16 on a big-endian host sent the constants the wrong way round.
        HELLO
    } else {
        ANSWER
    })
}

/// Whether a datagram is some release's answer.
pub fn is_answer(datagram: &[u8]) -> bool {
    // In either byte order: that of releases 3.12 to 3.16 on a big-endian host is the hello.
    [ANSWER, HELLO, OLD_ANSWER.to_le_bytes(), OLD_ANSWER.to_be_bytes()]
        .iter()
        .any(|known| known == datagram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_and_byte_order() {
        assert_eq!(answer(&HELLO), Some(ANSWER));
        assert_eq!(HELLO, 0x3637_3839_u32.to_le_bytes());
        assert_eq!(ANSWER, 0x3938_3736_u32.to_le_bytes());
        assert_eq!(answer(&[0x15, 0xcd, 0x5b, 0x07]), Some([0xb1, 0x68, 0xde, 0x3a]));
        assert_eq!(answer(&[0x07, 0x5b, 0xcd, 0x15]), Some([0x3a, 0xde, 0x68, 0xb1]));
        assert_eq!(answer(&ANSWER), Some(HELLO));
        assert_eq!(answer(&[1, 2, 3, 4]), Some(ANSWER));
        for hello in [[1, 2, 3, 4], HELLO, ANSWER, [0x15, 0xcd, 0x5b, 0x07]] {
            assert!(is_answer(&answer(&hello).unwrap()));
        }
        for other in [&b""[..], b"987", b"98765", b"\x00\x00\x00\x00\x00"] {
            assert_eq!(answer(other), None);
            assert!(!is_answer(other));
        }
        assert!(!is_answer(&[0; 4]));
    }
}
