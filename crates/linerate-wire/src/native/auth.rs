//! The channel under a shared key. With one, all that follows hello and welcome is Noise
//! (`Noise_NNpsk2_25519_ChaChaPoly_SHA256`, the server its initiator): a frame whose body is one Noise
//! message with JSON within. The server's ephemeral key is the welcome's nonce, the client's comes with its
//! first request, which is the first that needs the shared key; that key is mixed with the whole greeting, so
//! that none of it can be changed either. Nobody without the key can read, make, change, repeat, leave
//! out or add a message, nor bring one from another session, and who learns the key later reads no session
//! of before. The key itself never travels. Data is not in the channel.
//!
//! [Noise](https://noiseprotocol.org/noise.html), revision 34.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState, StatelessTransportState};
use subtle::ConstantTimeEq;

use super::frame::{self, FrameError, PREFIX_BYTES};

/// Bytes of a hello's nonce.
pub const NONCE_BYTES: usize = 32;
/// Bytes of what shows that a message is whole.
const TAG_BYTES: usize = 16;
/// Bytes of an ephemeral key and a tag: all of an offer, and what a first message has beside its text.
const OFFER_BYTES: usize = 32 + TAG_BYTES;

/// The feature's name in hello and welcome. Not one of [`FEATURES`](super::FEATURES): without a key a
/// test is none the poorer without it, and with one there is no test without it.
pub const NOISE_FEATURE: &str = "noise";

/// Fresh bytes that nobody can foresee, for one greeting of one end: nothing here is random by itself.
pub type Secret = [u8; 32];

/// The cryptography of [`snow`], with the secret that was handed in.
struct Given(Secret);

impl CryptoResolver for Given {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Once(Some(self.0))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// The secret, for one ephemeral key and nothing else.
struct Once(Option<Secret>);

impl Random for Once {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        bytes.copy_from_slice(&self.0.take().ok_or(snow::Error::Rng)?);
        Ok(())
    }
}

fn noise(secret: Secret) -> Result<Builder<'static>, snow::Error> {
    let pattern = "Noise_NNpsk2_25519_ChaChaPoly_SHA256".parse()?;
    Ok(Builder::with_resolver(pattern, Box::new(Given(secret))))
}

/// Mixes the shared key and the greeting, each body as it was sent.
fn mix(
    state: &mut HandshakeState,
    key: &[u8],
    (hello, welcome): (&[u8], &[u8]),
) -> Result<(), snow::Error> {
    let mut mixed = Sha256::new_with_prefix("linerate native 1 noise");
    for part in [key, hello, welcome] {
        // Of known lengths, so that no two greetings read alike.
        mixed.update((part.len() as u64).to_be_bytes());
        mixed.update(part);
    }
    state.set_psk(2, &mixed.finalize())
}

/// A message as a frame, length and all, of so many bytes more than its text.
fn framed<T: Serialize>(
    message: &T,
    more: usize,
    seal: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, snow::Error>,
) -> Result<Vec<u8>, FrameError> {
    let text = serde_json::to_vec(message)?;
    let length = text.len().saturating_add(more);
    let prefix = u32::try_from(length).unwrap_or(u32::MAX);
    let mut frame = prefix.to_be_bytes().to_vec();
    frame.resize(length.saturating_add(PREFIX_BYTES), 0);
    let body = frame.get_mut(PREFIX_BYTES..).unwrap_or_default();
    // One byte less than another frame may have.
    seal(&text, body).map_err(|_| FrameError::Length(prefix))?;
    Ok(frame)
}

/// What a server with a key offers in its welcome, until the client answers.
pub struct Offer(HandshakeState);

impl Offer {
    /// With the welcome's nonce.
    ///
    /// # Errors
    /// None that depends on what comes from outside.
    pub fn new(secret: Secret) -> Result<(Self, String), FrameError> {
        let mut state = noise(secret)?.build_initiator()?;
        let mut offer = [0; OFFER_BYTES];
        state.write_message(&[], &mut offer)?;
        Ok((Self(state), to_hex(&offer)))
    }

    /// The client's first message, after these bodies of hello and welcome.
    ///
    /// # Errors
    /// When the client has another key or answers another greeting, or says nothing that is a message.
    pub fn taken<T: DeserializeOwned>(
        mut self,
        key: &[u8],
        greeting: (&[u8], &[u8]),
        body: &[u8],
    ) -> Result<(T, Seals), FrameError> {
        mix(&mut self.0, key, greeting)?;
        let mut text = vec![0; body.len()];
        let length = self.0.read_message(body, &mut text)?;
        Ok((frame::decode(text.get(..length).unwrap_or_default())?, Seals::new(self.0)?))
    }
}

/// A client's first message as a frame: after these bodies of hello and welcome, the latter with this nonce.
///
/// # Errors
/// When the nonce is no offer, or the message too long for a frame.
pub fn answer<T: Serialize>(
    nonce: &str,
    secret: Secret,
    key: &[u8],
    greeting: (&[u8], &[u8]),
    message: &T,
) -> Result<(Vec<u8>, Seals), FrameError> {
    let offer = from_hex::<OFFER_BYTES>(nonce).ok_or(FrameError::Unproven)?;
    let mut state = noise(secret)?.build_responder()?;
    mix(&mut state, key, greeting)?;
    state.read_message(&offer, &mut [0; OFFER_BYTES])?;
    let frame = framed(message, OFFER_BYTES, |text, body| state.write_message(text, body))?;
    Ok((frame, Seals::new(state)?))
}

/// Both directions of a session, as one end has them.
#[derive(Debug)]
pub struct Seals {
    /// For what this end says.
    pub ours: Seal,
    /// For what the other says.
    pub theirs: Unseal,
}

impl Seals {
    fn new(state: HandshakeState) -> Result<Self, snow::Error> {
        let state = Arc::new(state.into_stateless_transport_mode()?);
        let ours = Seal { state: Arc::clone(&state), count: 0 };
        Ok(Self { ours, theirs: Unseal { state, count: 0 } })
    }
}

/// Seals what this end says. There is one for a session: no two messages have the same number.
#[derive(Debug)]
pub struct Seal {
    state: Arc<StatelessTransportState>,
    count: u64,
}

impl Seal {
    /// A message as a frame, length and all.
    ///
    /// # Errors
    /// When it is too long for one.
    pub fn seal<T: Serialize>(&mut self, message: &T) -> Result<Vec<u8>, FrameError> {
        let (state, count) = (&self.state, self.count);
        self.count = count.saturating_add(1);
        framed(message, TAG_BYTES, |text, body| state.write_message(count, text, body))
    }
}

/// Opens what the other end says.
#[derive(Debug)]
pub struct Unseal {
    state: Arc<StatelessTransportState>,
    count: u64,
}

impl Unseal {
    /// Reads the body of a frame. After an error the session is over.
    ///
    /// # Errors
    /// When it is not proven, or no message.
    pub fn open<T: DeserializeOwned>(&mut self, body: &[u8]) -> Result<T, FrameError> {
        let mut text = vec![0; body.len()];
        let length = self.state.read_message(self.count, body, &mut text)?;
        self.count = self.count.saturating_add(1);
        frame::decode(text.get(..length).unwrap_or_default())
    }
}

/// What the file of a client's own key begins with.
const OWN: &str = "linerate-key-1:";
/// Hexadecimal digits of such a key's id, and of its secret.
pub const ID_DIGITS: usize = 16;
/// See [`ID_DIGITS`].
pub const SECRET_DIGITS: usize = 64;

/// What the file of a client's own key holds: all of it is what both ends prove.
pub fn own_key(id: &str, secret: &str) -> String {
    format!("{OWN}{id}:{secret}")
}

/// Whether that is so many digits as [`to_hex`] writes them.
pub fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The id of a client's own key, which travels so that a server finds its secret; a key that clients share has
/// none.
///
/// # Errors
/// When it begins as such a key, and is none.
pub fn key_id(key: &[u8]) -> Result<Option<&str>, NoKey> {
    let Some(rest) = key.strip_prefix(OWN.as_bytes()) else { return Ok(None) };
    let parts = std::str::from_utf8(rest).ok().and_then(|rest| rest.split_once(':'));
    match parts {
        Some((id, secret)) if is_hex(id, ID_DIGITS) && is_hex(secret, SECRET_DIGITS) => {
            Ok(Some(id))
        }
        _ => Err(NoKey),
    }
}

/// It begins as a client's own key, and is cut or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it begins as a key that `linerate keys new` made, and is cut or changed")]
pub struct NoKey;

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
pub(super) mod tests {
    use super::*;

    const KEY: &[u8] = b"sixteen bytes!!!";

    /// Both ends of a session.
    pub fn pair() -> (Seals, Seals) {
        let (offer, nonce) = Offer::new([1; 32]).unwrap();
        let greeting = (&b"hello"[..], &b"welcome"[..]);
        let (frame, client) = answer(&nonce, [2; 32], KEY, greeting, &"request").unwrap();
        let (request, server) = offer.taken::<String>(KEY, greeting, body(&frame)).unwrap();
        assert_eq!(request, "request");
        (client, server)
    }

    fn body(frame: &[u8]) -> &[u8] {
        &frame[PREFIX_BYTES..]
    }

    #[test]
    fn messages_are_taken_in_their_order_only() {
        let (mut client, mut server) = pair();
        let first = client.ours.seal(&"ping").unwrap();
        let second = client.ours.seal(&"restore").unwrap();
        assert!(server.theirs.open::<String>(body(&second)).is_err(), "one was left out");
        assert_eq!(server.theirs.open::<String>(body(&first)).unwrap(), "ping");
        assert!(server.theirs.open::<String>(body(&first)).is_err(), "repeated");
        assert!(client.theirs.open::<String>(body(&second)).is_err(), "sent back");
        assert_eq!(server.theirs.open::<String>(body(&second)).unwrap(), "restore");
        // The same words again are other bytes.
        let third = client.ours.seal(&"restore").unwrap();
        assert_ne!(third, second);
        assert!(!third.windows(7).any(|part| part == b"restore"));
    }

    #[test]
    fn every_change_of_one_byte_is_found() {
        let (mut client, mut server) = pair();
        let frame = client.ours.seal(&"reboot").unwrap();
        for at in 0..body(&frame).len() {
            let mut bytes = body(&frame).to_vec();
            bytes[at] ^= 1;
            assert!(server.theirs.open::<String>(&bytes).is_err(), "byte {at}");
        }
        for length in 0..body(&frame).len() {
            assert!(server.theirs.open::<String>(&body(&frame)[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_first_message_is_of_one_key_and_one_greeting() {
        let (hello, welcome) = (&b"hello"[..], &b"welcome"[..]);
        let (_, nonce) = Offer::new([1; 32]).unwrap();
        let said = |key: &[u8], greeting| {
            let (frame, _) = answer(&nonce, [2; 32], key, greeting, &"request").unwrap();
            Offer::new([1; 32]).unwrap().0.taken::<String>(KEY, (hello, welcome), body(&frame))
        };
        assert!(said(KEY, (hello, welcome)).is_ok());
        assert!(said(b"sixteen bytes!!?", (hello, welcome)).is_err());
        assert!(said(KEY, (b"hell", b"owelcome")).is_err());
        assert!(said(KEY, (welcome, hello)).is_err());
        // Played again to the same server, which makes another offer.
        let (frame, _) = answer(&nonce, [2; 32], KEY, (hello, welcome), &"request").unwrap();
        let (other, _) = Offer::new([3; 32]).unwrap();
        assert!(other.taken::<String>(KEY, (hello, welcome), body(&frame)).is_err());
        for nonce in ["", "00", &"00".repeat(OFFER_BYTES), &"zz".repeat(OFFER_BYTES)] {
            assert!(answer(nonce, [2; 32], KEY, (hello, welcome), &"request").is_err(), "{nonce}");
        }
        for length in 0..body(&frame).len() {
            let (offer, _) = Offer::new([1; 32]).unwrap();
            let cut = &body(&frame)[..length];
            assert!(offer.taken::<String>(KEY, (hello, welcome), cut).is_err(), "{length}");
        }
    }

    #[test]
    fn a_message_too_long_for_a_frame_is_an_error() {
        let (mut client, mut server) = pair();
        let most = usize::from(u16::MAX) - TAG_BYTES - 2;
        let frame = client.ours.seal(&"x".repeat(most)).unwrap();
        assert_eq!(server.theirs.open::<String>(body(&frame)).unwrap().len(), most);
        assert!(client.ours.seal(&"x".repeat(most + 1)).is_err());
    }

    #[test]
    fn a_constant_time_comparison_is_one() {
        assert!(equal(&[1, 2], &[1, 2]));
        assert!(!equal(&[1, 2], &[1, 3]) && !equal(&[1, 2], &[1]));
    }

    #[test]
    fn a_key_of_one_client_names_itself_and_one_that_is_cut_is_none() {
        let (id, secret) = ("0123456789abcdef", "5e".repeat(32));
        let whole = own_key(id, &secret);
        assert_eq!(key_id(whole.as_bytes()), Ok(Some(id)));
        for shared in [&b""[..], b"sixteen bytes!!!", b"linerate-key-2:x", &whole.as_bytes()[1..]] {
            assert_eq!(key_id(shared), Ok(None), "{shared:?}");
        }
        for length in OWN.len()..whole.len() {
            assert_eq!(key_id(&whole.as_bytes()[..length]), Err(NoKey), "{length}");
        }
        for cut in [
            &whole[..whole.len() - 1],
            &whole.to_uppercase().replacen("LINERATE-KEY", "linerate-key", 1),
        ] {
            assert_eq!(key_id(cut.as_bytes()), Err(NoKey), "{cut}");
        }
        assert_eq!(key_id(own_key("0123456789abcdeg", &secret).as_bytes()), Err(NoKey));
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
