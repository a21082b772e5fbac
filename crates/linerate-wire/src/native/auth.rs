//! Proof of a shared key: HMAC-SHA-256 over both ends' fresh nonces, so that nothing captured can
//! be replayed, compared in constant time. The key itself never travels. The traffic after it is
//! neither encrypted nor signed; on a hostile path use a tunnel.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// Octets of a nonce.
pub const NONCE_OCTETS: usize = 32;
/// Octets of a proof.
pub const PROOF_OCTETS: usize = 32;
/// Shortest key that withstands guessing from a captured proof: 128 bits. Whoever reads keys decides
/// whether to insist.
pub const LEAST_KEY_OCTETS: usize = 16;

/// Who proves; part of what is signed, so that one end's proof is not the other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prover {
    /// The client, in its request.
    Client,
    /// The server, in its answer.
    Server,
    /// A controller that takes a host over, in its request.
    Controller,
    /// That host, in its answer.
    Host,
}

/// What `prover` shows to prove that it knows `key`.
pub fn proof(
    key: &[u8],
    prover: Prover,
    client_nonce: &[u8; NONCE_OCTETS],
    server_nonce: &[u8; NONCE_OCTETS],
) -> [u8; PROOF_OCTETS] {
    let label: &[u8] = match prover {
        Prover::Client => b"linerate native 1 client",
        Prover::Server => b"linerate native 1 server",
        Prover::Controller => b"linerate native 1 controller",
        Prover::Host => b"linerate native 1 host",
    };
    // HMAC takes keys of any length, so this cannot fail.
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; PROOF_OCTETS] };
    mac.chain_update(label)
        .chain_update(client_nonce)
        .chain_update(server_nonce)
        .finalize()
        .into_bytes()
        .into()
}

/// Compares in time that does not depend on where they differ.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

/// Octets as lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The reverse; `None` unless it is exactly `N` octets.
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

    #[test]
    fn a_proof_depends_on_everything() {
        let (a, b) = ([1; 32], [2; 32]);
        let base = proof(b"sixteen octets!!", Prover::Client, &a, &b);
        assert_ne!(base, proof(b"sixteen octets!?", Prover::Client, &a, &b));
        assert_ne!(base, proof(b"sixteen octets!!", Prover::Server, &a, &b));
        assert_ne!(base, proof(b"sixteen octets!!", Prover::Client, &b, &a));
        assert!(equal(&base, &proof(b"sixteen octets!!", Prover::Client, &a, &b)));
        assert!(!equal(&base, &base[..31]));
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
