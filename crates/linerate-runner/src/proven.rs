//! The greeting of a session under a shared key, and which server a sealed request is for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use linerate_engine::sys;
use linerate_model::record::ErrorRecord;
use linerate_model::served::ServedTest;
use linerate_wire::native::agent::AGENT_FEATURE;
use linerate_wire::native::auth::{self, NOISE_FEATURE, NONCE_BYTES, Offer, Seals};
use linerate_wire::native::frame::{self, FrameError, PREFIX_BYTES};
use linerate_wire::native::message::{
    ClientMessage, Ends, Hello, RefusalKind, Refused, ServerMessage, Welcome,
};
use linerate_wire::native::{FEATURES, VERSIONS};
use tokio::net::TcpStream;

use crate::control::{ControlError, decode};
use crate::errors;
use crate::keys::{Asked, Key};
use crate::options::{Options, Public};
use crate::random::random;

/// What this program can do, at either end.
pub(crate) fn features() -> Vec<String> {
    FEATURES.iter().chain([&AGENT_FEATURE, &NOISE_FEATURE]).map(|f| (*f).to_owned()).collect()
}

/// What a server knows of who asks, from the moment that it is proven.
#[derive(Default)]
pub(crate) struct Asker {
    /// Both directions under the key.
    pub(crate) seals: Option<Seals>,
    /// The client's own.
    pub(crate) key: Option<Arc<Key>>,
    /// What it asks for.
    pub(crate) asked: Option<Box<ServedTest>>,
}

/// The first message of a client or controller with that key, as a frame.
pub(crate) fn hello(key: Option<&[u8]>) -> Result<Vec<u8>, FrameError> {
    frame::encode(&ClientMessage::Hello(Hello {
        version_min: *VERSIONS.start(),
        version_max: *VERSIONS.end(),
        features: features(),
        nonce: auth::to_hex(&random::<NONCE_BYTES>()),
        // One that is cut proves nothing, whatever it is called.
        key: key.and_then(|key| auth::key_id(key).ok()?).map(str::to_owned),
        program: format!("linerate {}", env!("CARGO_PKG_VERSION")),
    }))
}

/// Both ends as this one, which connected, sees them.
pub(crate) fn ends(control: &TcpStream) -> std::io::Result<Ends> {
    let (client, server) = (control.local_addr()?, control.peer_addr()?);
    Ok(Ends { client: sys::plain(client), server: sys::plain(server) })
}

/// A client's first message as a frame, sealed under its key where it has one, once the server has answered
/// the frame of the hello. Nothing was shown to the server yet.
///
/// # Errors
/// When the server chose a version that is not spoken here, has no key, or is older than this way of proving one.
pub(crate) fn ask(
    name: &str,
    key: Option<&[u8]>,
    hello: &[u8],
    (body, welcome): (&[u8], &Welcome),
    message: &ClientMessage,
) -> Result<(Vec<u8>, Option<Seals>), ErrorRecord> {
    if !VERSIONS.contains(&welcome.version) {
        return Err(errors::other_version(name, welcome));
    }
    let Some(key) = key else {
        let frame = frame::encode(message);
        return Ok((frame.map_err(|e| errors::unable("ask for a test", &e.to_string()))?, None));
    };
    if !welcome.features.iter().any(|feature| feature == NOISE_FEATURE) {
        return Err(errors::older_server_key(name, &welcome.program));
    }
    let hello = hello.get(PREFIX_BYTES..).unwrap_or_default();
    let sealed = auth::answer(&welcome.nonce, random(), key, (hello, body), message);
    // Only a server without the key makes no offer that can be taken.
    let (frame, seals) = sealed.map_err(|_| errors::wrong_server_key(name))?;
    Ok((frame, Some(seals)))
}

/// The answer to a request. A server with another key can open nothing of this end's and seal nothing
/// for it: that it has another is all that is believed without a proof.
pub(crate) fn first_answer(
    seals: Option<&mut Seals>,
    body: &[u8],
) -> Result<ServerMessage, ControlError> {
    match decode(seals.map(|seals| &mut seals.theirs), body) {
        Err(ControlError::Unproven) => match frame::decode(body) {
            Ok(ServerMessage::Refused(refused)) if refused.kind == RefusalKind::Key => {
                Ok(ServerMessage::Refused(refused))
            }
            _ => Err(ControlError::Unproven),
        },
        answer => answer,
    }
}

fn refused(why: String, hint: String) -> Refused {
    Refused { kind: RefusalKind::Key, why, hints: vec![hint] }
}

/// The key that a client which named that one must prove, where this server wants one.
pub(crate) fn wanted(options: &Options, named: Option<&str>) -> Option<Asked> {
    let shared = options.key.as_deref();
    let own = options.keys.as_ref().filter(|keys| keys.proven());
    let is_shared = shared.is_some_and(|key| auth::key_id(key).ok().flatten() == named);
    match (shared, own) {
        (Some(key), None) => Some(Asked { proof: key.to_vec(), key: None }),
        // One that stands in the file as well has the name, rights and end that it has there.
        (Some(key), Some(keys)) if is_shared && !named.is_some_and(|id| keys.has(id)) => {
            Some(Asked { proof: key.to_vec(), key: None })
        }
        // Whoever names none has none of these.
        (_, Some(keys)) => Some(keys.asked(named.unwrap_or_default())),
        (None, None) => None,
    }
}

/// The request of a client that must prove the key, after these bodies of hello and welcome.
///
/// # Errors
/// When it does not: without a key, with another, or as older releases did.
pub(crate) fn open(
    offer: Offer,
    key: &[u8],
    hello: &Hello,
    greeting: (&[u8], &[u8]),
    body: &[u8],
) -> Result<(ClientMessage, Seals), Refused> {
    match offer.taken(key, greeting, body) {
        Ok(asked) => return Ok(asked),
        Err(FrameError::Unproven) => {}
        Err(e) => {
            return Err(Refused { kind: RefusalKind::Protocol, why: e.to_string(), hints: vec![] });
        }
    }
    let give = "give the server's key file with --key-file".to_owned();
    // Older releases said some things otherwise: whatever is JSON was not sealed.
    let plain = frame::decode::<serde::de::IgnoredAny>(body).is_ok();
    Err(if !plain {
        refused(
            "the request is not proven: the client has another key than this server".into(),
            give,
        )
    } else if hello.features.iter().any(|feature| feature == NOISE_FEATURE) {
        refused("this server wants a key, and the client has none".into(), give)
    } else {
        let program: String = hello.program.chars().take(MOST_PROGRAM).collect();
        refused(
            format!(
                "this server wants every control message encrypted under a key, and the client \
                 ({program}) is of a release that cannot"
            ),
            format!(
                "update linerate at the client to that of the server ({})",
                env!("CARGO_PKG_VERSION")
            ),
        )
    })
}

/// Most characters of a client's own name for itself that are shown.
const MOST_PROGRAM: usize = 40;

/// Whether a request that was sealed for the server at one of its ends is for this one, at `local`.
///
/// # Errors
/// When it was relayed, or its address was translated in a way that the owner did not name.
pub(crate) fn meant_for(
    local: SocketAddr,
    public: &[Public],
    ends: Option<&Ends>,
) -> Result<(), Refused> {
    let Some(Ends { server: dialled, .. }) = ends else {
        let why = "a proven request that does not name its server".to_owned();
        return Err(Refused { kind: RefusalKind::Protocol, why, hints: vec![] });
    };
    // Without the scope of IPv6, which is each host's own number.
    let is = |address: IpAddr, port: u16| (address, port) == (dialled.ip(), dialled.port());
    let named = |public: &Public| is(public.address, public.port.unwrap_or(local.port()));
    if is(local.ip(), local.port()) || public.iter().any(named) {
        return Ok(());
    }
    Err(refused(
        format!(
            "the client asks the server at {dialled}, and this is {local}: somebody relays its \
             request, or translates the address on the way"
        ),
        format!(
            "if {dialled} leads here by your own translation, start the server with --public {dialled}"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_for_one_server() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let takes = |local: &str, public: &[&str], dialled: &str| {
            let public: Vec<Public> = public.iter().map(|text| text.parse().unwrap()).collect();
            let ends = Ends { client: at("192.0.2.9:1"), server: at(dialled) };
            meant_for(at(local), &public, Some(&ends)).is_ok()
        };
        assert!(takes("192.0.2.1:5201", &[], "192.0.2.1:5201"));
        assert!(!takes("192.0.2.1:5201", &[], "192.0.2.1:5202"));
        assert!(!takes("192.0.2.1:5201", &[], "192.0.2.2:5201"));
        assert!(takes("[fe80::1%2]:5201", &[], "[fe80::1%7]:5201"));
        assert!(takes("10.0.0.1:5201", &["192.0.2.2"], "192.0.2.2:5201"));
        assert!(!takes("10.0.0.1:5201", &["192.0.2.2"], "192.0.2.2:5202"));
        assert!(takes("10.0.0.1:5201", &["192.0.2.2:7000"], "192.0.2.2:7000"));
        assert!(takes("10.0.0.1:5201", &["::1", "[2001:db8::1]:7"], "[2001:db8::1]:7"));
        assert!(meant_for(at("10.0.0.1:5201"), &[], None).is_err());
        for bad in ["", "example.org", "192.0.2.2:", "192.0.2.2:65536", "2001:db8::1:70000"] {
            assert!(bad.parse::<Public>().is_err(), "{bad}");
        }
    }
}
