//! How a host becomes an agent: it is invited by a token that is good for one of them, makes its own key, and is given what
//! the account signs for the public half.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linerate_model::record::{ErrorKind, ErrorRecord};
use serde::{Deserialize, Serialize};

use crate::connect::{Broker, Credentials, Listener};
use crate::enrolled::Enrolled;
use crate::error::{silent, unable};
use crate::keys::{Authority, invited, new_user};

/// The answer is signed at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// First characters of a token.
const PREFIX: &str = "lrt1.";

/// What the holder of a token has.
#[derive(Serialize, Deserialize)]
struct Token {
    /// What the agent is to be called.
    agent: String,
    guest: Credentials,
}

/// An invitation that is waiting for its guest.
pub struct Invitation {
    /// For the host that is to become an agent. Whoever has it can become that agent, once.
    pub token: String,
    agent: String,
    /// Where alone it is answered: a guest could name any subject.
    inbox: String,
    listener: Listener,
}

/// A host that has shown its key.
pub struct Guest {
    agent: String,
    key: String,
    reply: String,
}

impl Broker {
    /// Invites a host to become the agent `agent`, until `expires_s`; times are seconds since 1970. Nobody else hears of
    /// it, and it ends when this process does.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn invite(
        &self,
        authority: &Authority,
        agent: &str,
        now_s: u64,
        expires_s: u64,
    ) -> Result<Invitation, ErrorRecord> {
        let inbox = self.client.new_inbox();
        let guest = format!("guest-{}", inbox.rsplit('.').next().unwrap_or_default());
        let listener = self.listen(invited(&guest)).await?;
        let inbox = format!("_INBOX.{guest}.");
        let guest = authority.guest(&guest, now_s, expires_s)?;
        let token = Token { agent: agent.to_owned(), guest };
        let token = serde_json::to_vec(&token).map_err(|why| unable("make a token", &why))?;
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(token));
        Ok(Invitation { token, agent: agent.to_owned(), inbox, listener })
    }

    /// Lets a guest in, as the account of the fleet signs it; until `expires_s` if that is said. Says who that is.
    ///
    /// # Errors
    /// When what it showed is no key, or the connection is gone.
    pub async fn admit(
        &self,
        authority: &Authority,
        guest: Guest,
        now_s: u64,
        expires_s: Option<u64>,
    ) -> Result<Enrolled, ErrorRecord> {
        let jwt = authority.agent(&guest.agent, &guest.key, now_s, expires_s)?;
        // Before it is let in: nobody is in the fleet who cannot be taken away.
        let host = Enrolled { key: guest.key, at_s: now_s, expires_s };
        self.note_enrolled(&guest.agent, &host).await?;
        let sent = self.client.publish(guest.reply, jwt.into_bytes().into()).await;
        sent.map_err(|why| unable("answer the guest", &why))?;
        self.flush().await?;
        Ok(host)
    }
}

impl Invitation {
    /// Waits for the guest; nothing once the connection is given up.
    pub async fn guest(mut self) -> Option<Guest> {
        loop {
            let message = self.listener.next().await?;
            let key = String::from_utf8_lossy(&message.payload).into_owned();
            let reply = message.reply.map(|reply| reply.to_string());
            if let Some(reply) = reply.filter(|reply| reply.starts_with(&self.inbox)) {
                return Some(Guest { agent: self.agent, key, reply });
            }
        }
    }
}

/// Becomes the agent that a token is for: makes a key, and has it signed. `ca` is a file with the certificates that are
/// believed, where those of the system are not.
///
/// # Errors
/// When it is no token, or nobody waits for its bearer any more.
pub async fn enrol(token: &str, ca: Option<PathBuf>) -> Result<Credentials, ErrorRecord> {
    let Token { agent, mut guest } = read(token)?;
    guest.ca.clone_from(&ca);
    let (key, seed) = new_user()?;
    let broker = Broker::connect(&guest).await?;
    let what = format!("become the agent {agent}");
    let request =
        async_nats::Request::new().payload(key.into_bytes().into()).timeout(Some(PATIENCE));
    let to = invited(&broker.name);
    let answer = broker.client.send_request(to, request).await.map_err(|error| {
        use async_nats::client::RequestErrorKind as Kind;
        match error.kind() {
            Kind::NoResponders => {
                refused(&what, "nobody waits for it: it was used, or its time is over")
            }
            Kind::TimedOut => silent(&what),
            _ => unable(&what, &error),
        }
    })?;
    let jwt = String::from_utf8_lossy(&answer.payload).into_owned();
    if jwt.is_empty() {
        return Err(refused(&what, "the operator has not signed for it"));
    }
    Ok(Credentials { url: guest.url, agent: Some(agent), jwt, seed, ca })
}

fn refused(what: &str, why: &str) -> ErrorRecord {
    let hint = "`linerate fleet enrol NAME` makes another token, and has to run until it is used";
    ErrorRecord::new(ErrorKind::Authentication, format!("cannot {what}"), why, &[hint])
}

fn read(token: &str) -> Result<Token, ErrorRecord> {
    let body = token.trim().strip_prefix(PREFIX).and_then(|body| URL_SAFE_NO_PAD.decode(body).ok());
    let token = body.and_then(|body| serde_json::from_slice(&body).ok());
    token.ok_or_else(|| refused("use the token", "it is none, or a part is missing"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_token_makes_the_reader_panic(text in "\\PC{0,60}", body in "[{}\\[\\]\":,a-z0-9]{0,60}") {
            prop_assert!(read(&text).is_err());
            let packed = URL_SAFE_NO_PAD.encode(&body);
            prop_assert!(read(&format!("{PREFIX}{packed}")).is_err(), "{}", body);
            let _ = read(&format!("{PREFIX}{text}"));
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "lrt1.", "lrt1.e30", "lrt2.e30", "e30", "lrt1.****"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
