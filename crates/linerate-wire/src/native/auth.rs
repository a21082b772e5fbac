//! Proof of a shared key. With one, every control message after hello and welcome is sealed: a frame
//! whose body is 32 bytes of HMAC-SHA-256 and then JSON. The code covers the direction, the number of
//! the message in it and the text, under a key derived from the shared one, the hello and the welcome,
//! each with its fresh nonce: nobody without the key can make, change, repeat, leave out or add a
//! message, nor bring one from another session. The key itself never travels. What is said is not
//! secret, and data is not sealed; on a hostile path use a tunnel.

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::frame::{self, FrameError, MAX_FRAME, PREFIX_BYTES};

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;
/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// The feature's name in hello and welcome. Not one of [`FEATURES`](super::FEATURES): without a key a
/// test is none the poorer without it, and with one there is no test without it.
pub const SEALED_FEATURE: &str = "sealed";

/// Who speaks; part of what is proven, so that nothing can be sent back as an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// Who connected: the client of a test, or the controller of a campaign.
    Client,
    /// Who was connected to.
    Server,
}

/// Proves the messages of one direction, or checks them.
#[derive(Clone)]
pub struct Seal {
    mac: Hmac<Sha256>,
    count: u64,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal").field("count", &self.count).finish_non_exhaustive()
    }
}

/// Why a sealed frame is not taken.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// Not from the holder of the key, or not in its place.
    #[error("a control message that is not proven to be of the other end, in its place")]
    Unproven,
    /// Proven, and yet no message.
    #[error("{0}")]
    Frame(#[from] FrameError),
}

impl Seal {
    /// For the messages of `speaker` in the session that these bodies of hello and welcome began.
    pub fn new(key: &[u8], speaker: Speaker, hello: &[u8], welcome: &[u8]) -> Option<Self> {
        // Of one length, so that no label with its hello reads like the other.
        let label: &[u8] = match speaker {
            Speaker::Client => b"linerate native 1 sealed, client",
            Speaker::Server => b"linerate native 1 sealed, server",
        };
        let session = Hmac::<Sha256>::new_from_slice(key)
            .ok()?
            .chain_update(label)
            .chain_update((hello.len() as u64).to_be_bytes())
            .chain_update(hello)
            .chain_update(welcome)
            .finalize()
            .into_bytes();
        Some(Self { mac: Hmac::<Sha256>::new_from_slice(&session).ok()?, count: 0 })
    }

    fn next(&mut self, text: &[u8]) -> [u8; PROOF_BYTES] {
        self.count = self.count.wrapping_add(1);
        let mac = self.mac.clone().chain_update(self.count.to_be_bytes()).chain_update(text);
        mac.finalize().into_bytes().into()
    }

    /// A message as a frame, length and all.
    ///
    /// # Errors
    /// When it is too long for one.
    pub fn seal<T: Serialize>(&mut self, message: &T) -> Result<Vec<u8>, FrameError> {
        let text = serde_json::to_vec(message)?;
        let length = text.len().saturating_add(PROOF_BYTES);
        let prefix = u32::try_from(length).unwrap_or(u32::MAX);
        if length > MAX_FRAME {
            return Err(FrameError::Length(prefix));
        }
        let mut bytes = Vec::with_capacity(PREFIX_BYTES.saturating_add(length));
        bytes.extend(prefix.to_be_bytes());
        bytes.extend(self.next(&text));
        bytes.extend(text);
        Ok(bytes)
    }

    /// Reads the body of a frame. After an error the session is over.
    ///
    /// # Errors
    /// When it is not proven, or no message.
    pub fn open<T: DeserializeOwned>(&mut self, body: &[u8]) -> Result<T, SealError> {
        let (proof, text) = body.split_first_chunk::<PROOF_BYTES>().ok_or(SealError::Unproven)?;
        if !equal(proof, &self.next(text)) {
            return Err(SealError::Unproven);
        }
        Ok(frame::decode(text)?)
    }
}

/// Compares in time that does not depend on where they differ.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// Bytes as lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The reverse; `None` unless it is exactly `N` bytes.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    // The standard parser would take a plus sign for a digit.
    if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"sixteen bytes!!!";

    fn pair(speaker: Speaker) -> (Seal, Seal) {
        let seal = Seal::new(KEY, speaker, b"hello", b"welcome").unwrap();
        (seal.clone(), seal)
    }

    fn body(frame: &[u8]) -> &[u8] {
        &frame[PREFIX_BYTES..]
    }

    #[test]
    fn messages_are_taken_in_their_order_only() {
        let (mut here, mut there) = pair(Speaker::Client);
        let first = here.seal(&"ping").unwrap();
        let second = here.seal(&"restore").unwrap();
        assert!(there.clone().open::<String>(body(&second)).is_err(), "one was left out");
        assert_eq!(there.open::<String>(body(&first)).unwrap(), "ping");
        assert!(there.clone().open::<String>(body(&first)).is_err(), "repeated");
        assert_eq!(there.open::<String>(body(&second)).unwrap(), "restore");
    }

    #[test]
    fn every_change_of_one_byte_is_found() {
        let (mut here, there) = pair(Speaker::Client);
        let frame = here.seal(&"reboot").unwrap();
        for at in 0..body(&frame).len() {
            let mut bytes = body(&frame).to_vec();
            bytes[at] ^= 1;
            assert!(matches!(there.clone().open::<String>(&bytes), Err(SealError::Unproven)));
        }
        assert!(there.clone().open::<String>(&[]).is_err());
    }

    #[test]
    fn a_message_cannot_be_sent_back_nor_into_another_session() {
        let (mut here, _) = pair(Speaker::Client);
        let frame = here.seal(&"alive").unwrap();
        let others = [
            Seal::new(KEY, Speaker::Server, b"hello", b"welcome"),
            Seal::new(KEY, Speaker::Client, b"hellp", b"welcome"),
            Seal::new(KEY, Speaker::Client, b"hello", b"welcomf"),
            Seal::new(KEY, Speaker::Client, b"hellow", b"elcome"),
            Seal::new(b"sixteen bytes!!?", Speaker::Client, b"hello", b"welcome"),
        ];
        for mut other in others.into_iter().flatten() {
            assert!(other.open::<String>(body(&frame)).is_err());
        }
    }

    #[test]
    fn a_constant_time_comparison_is_one() {
        assert!(equal(&[1, 2], &[1, 2]));
        assert!(!equal(&[1, 2], &[1, 3]) && !equal(&[1, 2], &[1]));
    }

    #[test]
    fn hmac_sha256_known_answer() {
        // RFC 4231 test case 2, against the library as it is configured here.
        let mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        let tag = mac.chain_update(b"what do ya want for nothing?").finalize().into_bytes();
        assert_eq!(
            to_hex(&tag),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn hex() {
        assert_eq!(from_hex::<2>("0aff"), Some([10, 255]));
        for bad in ["0af", "0afg", "+1-2", "+1+2", "0aff0", "é2"] {
            assert_eq!(from_hex::<2>(bad), None, "{bad}");
        }
        assert_eq!(to_hex(&[10, 255]), "0aff");
    }
}
