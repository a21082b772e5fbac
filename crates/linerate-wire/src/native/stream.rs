//! How a data stream says which test it belongs to.

/// Bytes of the secret that a client learns on the control connection and shows on each stream.
pub const COOKIE_BYTES: usize = 16;
/// Bytes of a [`UdpHello`]: padded, so that no answer is larger.
pub const HELLO_BYTES: usize = 64;
/// Bytes of a [`UdpHelloAck`].
pub const ACK_BYTES: usize = 32;
/// Bytes of a [`TcpOpening`] after its magic.
pub const OPENING_BYTES: usize = 32;

/// First bytes of a TCP data connection.
pub const TCP_OPENING: [u8; 8] = *b"\x89LNDATA\n";
const UDP_HELLO: [u8; 8] = *b"\x89LNHELO\n";
const UDP_ACK: [u8; 8] = *b"\x89LNHACK\n";

// The answer never exceeds the question: reflection factor at most 1.
const _: () = assert!(ACK_BYTES <= HELLO_BYTES);

/// What a data stream claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The test's token.
    pub token: u64,
    /// The secret of the test.
    pub cookie: [u8; COOKIE_BYTES],
    /// Stream, counted from 0 over both directions.
    pub stream: u16,
}

impl Claim {
    fn write(&self, magic: [u8; 8], out: &mut [u8]) {
        let fields =
            [&magic[..], &self.token.to_be_bytes(), &self.cookie[..], &self.stream.to_be_bytes()];
        let mut rest = out;
        for field in fields {
            let Some((head, tail)) = rest.split_at_mut_checked(field.len()) else { return };
            head.copy_from_slice(field);
            rest = tail;
        }
    }

    fn read(magic: [u8; 8], bytes: &[u8]) -> Option<Self> {
        let (found, rest) = bytes.split_first_chunk::<8>()?;
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let (cookie, rest) = rest.split_first_chunk::<COOKIE_BYTES>()?;
        let (stream, _) = rest.split_first_chunk::<2>()?;
        (*found == magic).then(|| Self {
            token: u64::from_be_bytes(*token),
            cookie: *cookie,
            stream: u16::from_be_bytes(*stream),
        })
    }
}

/// First datagram of a UDP stream, client to server, repeated until answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpHello(pub Claim);

impl UdpHello {
    /// 64 bytes.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        self.0.write(UDP_HELLO, &mut bytes);
        bytes
    }

    /// `None` unless it is one, of full length.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != HELLO_BYTES {
            return None;
        }
        Claim::read(UDP_HELLO, bytes).map(Self)
    }
}

/// Its answer. Carries no cookie: only the token and stream, which the client knows already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpHelloAck {
    /// The test's token.
    pub token: u64,
    /// The stream.
    pub stream: u16,
}

impl UdpHelloAck {
    /// 32 bytes.
    pub fn encode(&self) -> [u8; ACK_BYTES] {
        let mut bytes = [0; ACK_BYTES];
        let claim = Claim { token: self.token, cookie: [0; COOKIE_BYTES], stream: self.stream };
        // 34 bytes of claim do not fit; the stream goes where the cookie would be.
        claim.write(UDP_ACK, &mut bytes);
        if let Some(slot) = bytes.get_mut(16..18) {
            slot.copy_from_slice(&self.stream.to_be_bytes());
        }
        bytes
    }

    /// `None` unless it is one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (found, rest) = bytes.split_first_chunk::<8>()?;
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let (stream, _) = rest.split_first_chunk::<2>()?;
        (*found == UDP_ACK && bytes.len() == ACK_BYTES).then(|| Self {
            token: u64::from_be_bytes(*token),
            stream: u16::from_be_bytes(*stream),
        })
    }
}

/// First bytes of a TCP data connection after [`TCP_OPENING`]: the claim, 26 bytes in all with
/// 6 of padding. The server answers with one byte, 1, once the stream belongs to the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOpening(pub Claim);

impl TcpOpening {
    /// 40 bytes: 8 of magic, then [`OPENING_BYTES`].
    pub fn encode(&self) -> [u8; 8 + OPENING_BYTES] {
        let mut bytes = [0; 8 + OPENING_BYTES];
        self.0.write(TCP_OPENING, &mut bytes);
        bytes
    }

    /// Reads what follows the magic.
    pub fn decode(bytes: &[u8; OPENING_BYTES]) -> Option<Self> {
        let mut whole = [0; 8 + OPENING_BYTES];
        let (magic, rest) = whole.split_at_mut(8);
        magic.copy_from_slice(&TCP_OPENING);
        rest.copy_from_slice(bytes);
        Claim::read(TCP_OPENING, &whole).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(token: u64, cookie: [u8; 16], stream: u16) {
            let claim = Claim { token, cookie, stream };
            prop_assert_eq!(UdpHello::decode(&UdpHello(claim).encode()), Some(UdpHello(claim)));
            let ack = UdpHelloAck { token, stream };
            prop_assert_eq!(UdpHelloAck::decode(&ack.encode()), Some(ack));
            let opening = TcpOpening(claim).encode();
            prop_assert_eq!(&opening[..8], &TCP_OPENING[..]);
            let rest: [u8; OPENING_BYTES] = opening[8..].try_into().unwrap();
            prop_assert_eq!(TcpOpening::decode(&rest), Some(TcpOpening(claim)));
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = UdpHello::decode(&bytes);
            let _ = UdpHelloAck::decode(&bytes);
        }
    }
}
