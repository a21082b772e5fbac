//! Who may do what at a broker: NKeys, and what the fleet's account signs for them (JSON web tokens, as nats-server reads
//! them in operator mode).
//!
//! The private half of an agent's key is made on its host and never leaves it. What an agent may do is in what the
//! account has signed, so that no new agent needs a change of the broker's configuration.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linerate_model::record::{ErrorKind, ErrorRecord};
use nkeys::{KeyPair, KeyPairType};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connect::Credentials;
use crate::error::unable;
use crate::subject::{CONFIRMED, OPERATOR, heartbeat, orders};

/// Longest that a reply may be sent after what it answers, in nanoseconds: a minute.
const REPLY_NS: u64 = 60 * 1_000_000_000;

/// What may sign for a fleet. The seed is a secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct Authority {
    /// Where the broker is.
    pub url: String,
    /// The private half of the account's NKey.
    pub seed: String,
}

/// A new fleet.
pub struct Founded {
    /// What signs for it.
    pub authority: Authority,
    /// The lines of the broker's configuration that say who is believed.
    pub config: String,
}

/// A name, and what it lets its bearer do.
struct Claims {
    subject: String,
    name: String,
    /// Seconds since 1970; nothing for no end.
    expires_s: Option<u64>,
    nats: Value,
}

fn sign(pair: &KeyPair, now_s: u64, claims: Claims) -> Result<String, ErrorRecord> {
    let Claims { subject, name, expires_s, nats } = claims;
    let mut body = json!({
        "jti": format!("{name}-{now_s}"), "iat": now_s, "iss": pair.public_key(), "sub": subject, "name": name,
        "nats": nats,
    });
    if let (Some(expires_s), Some(body)) = (expires_s, body.as_object_mut()) {
        body.insert("exp".to_owned(), expires_s.into());
    }
    let head = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&head), part(&body));
    let signature =
        pair.sign(signed.as_bytes()).map_err(|why| unable("sign for the fleet", &why))?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// A new fleet, whose broker is at `url`.
///
/// # Errors
/// When nothing can be signed.
pub fn found(url: &str, now_s: u64) -> Result<Founded, ErrorRecord> {
    let [operator, system, account] =
        [KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account()];
    let own = Claims {
        subject: operator.public_key(),
        name: "linerate".to_owned(),
        expires_s: None,
        nats: json!({ "type": "operator", "version": 2, "system_account": system.public_key() }),
    };
    let no_limit = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
    });
    let mut with_streams = no_limit.clone();
    if let Some(limits) = with_streams.as_object_mut() {
        for name in ["mem_storage", "disk_storage", "streams", "consumer"] {
            limits.insert(name.to_owned(), (-1).into());
        }
    }
    let of = |pair: &KeyPair, name: &str, limits: &Value| {
        let nats = json!({
            "limits": limits, "default_permissions": { "pub": {}, "sub": {} }, "type": "account", "version": 2,
        });
        let subject = pair.public_key();
        sign(&operator, now_s, Claims { subject, name: name.to_owned(), expires_s: None, nats })
    };
    let (system_jwt, account_jwt) =
        (of(&system, "system", &no_limit)?, of(&account, "fleet", &with_streams)?);
    let config = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n    {}: {system_jwt}\n    {}: {account_jwt}\n}}\n",
        sign(&operator, now_s, own)?,
        system.public_key(),
        system.public_key(),
        account.public_key(),
    );
    let seed = account.seed().map_err(|why| unable("keep the key of the fleet", &why))?;
    Ok(Founded { authority: Authority { url: url.to_owned(), seed }, config })
}

/// What a user may publish and hear.
struct Rights {
    publish: Vec<String>,
    hear: Vec<String>,
    /// May answer what it hears, once each.
    answers: bool,
}

impl Rights {
    /// Of the operator: everything of a fleet.
    fn operator() -> Self {
        let publish = ["lr.>", "$JS.API.>", "$JS.ACK.>", "_INBOX.>"].map(str::to_owned).to_vec();
        let hear = vec!["lr.>".to_owned(), format!("_INBOX.{OPERATOR}.>")];
        Self { publish, hear, answers: false }
    }

    /// Of an agent: its own subjects. It can publish to nobody's inbox but in answer to what it was told.
    fn agent(name: &str) -> Self {
        let asks = format!("$JS.API.DIRECT.GET.{CONFIRMED}.lr.confirmed.{name}.>");
        Self {
            publish: vec![format!("lr.result.{name}.>"), heartbeat(name), asks],
            hear: vec![orders(name), format!("lr.confirmed.{name}.>"), format!("_INBOX.{name}.>")],
            answers: true,
        }
    }

    /// Of whoever was invited: to show the public half of its key, once.
    fn guest(name: &str) -> Self {
        let (publish, hear) = (vec![invited(name)], vec![format!("_INBOX.{name}.>")]);
        Self { publish, hear, answers: false }
    }

    fn claims(&self) -> Value {
        let mut claims = json!({
            "pub": { "allow": self.publish }, "sub": { "allow": self.hear }, "subs": -1, "data": -1, "payload": -1,
            "type": "user", "version": 2,
        });
        if let (true, Some(claims)) = (self.answers, claims.as_object_mut()) {
            claims.insert("resp".to_owned(), json!({ "max": 1, "ttl": REPLY_NS }));
        }
        claims
    }
}

/// Where a guest shows its key.
pub(crate) fn invited(guest: &str) -> String {
    format!("lr.enrol.{guest}")
}

impl Authority {
    fn pair(&self) -> Result<KeyPair, ErrorRecord> {
        KeyPair::from_seed(&self.seed).map_err(|why| unable("use the key of the fleet", &why))
    }

    fn user(
        &self,
        key: &str,
        name: &str,
        rights: &Rights,
        (now_s, expires_s): (u64, Option<u64>),
    ) -> Result<String, ErrorRecord> {
        let (subject, name, nats) = (key.to_owned(), name.to_owned(), rights.claims());
        sign(&self.pair()?, now_s, Claims { subject, name, expires_s, nats })
    }

    /// The credentials of whoever runs the fleet.
    ///
    /// # Errors
    /// When nothing can be signed.
    pub fn operator(&self, now_s: u64) -> Result<Credentials, ErrorRecord> {
        let pair = KeyPair::new_user();
        let jwt = self.user(&pair.public_key(), OPERATOR, &Rights::operator(), (now_s, None))?;
        credentials(&self.url, None, jwt, &pair)
    }

    /// Credentials by which one host can become an agent until `expires_s`; `guest` is a name that nobody else has.
    ///
    /// # Errors
    /// When nothing can be signed.
    pub fn guest(
        &self,
        guest: &str,
        now_s: u64,
        expires_s: u64,
    ) -> Result<Credentials, ErrorRecord> {
        let pair = KeyPair::new_user();
        let times = (now_s, Some(expires_s));
        let jwt = self.user(&pair.public_key(), guest, &Rights::guest(guest), times)?;
        credentials(&self.url, Some(guest.to_owned()), jwt, &pair)
    }

    /// Signs for an agent whose public key is `key`, until `expires_s` if that is said.
    ///
    /// # Errors
    /// When it is the key of no user.
    pub fn agent(
        &self,
        name: &str,
        key: &str,
        now_s: u64,
        expires_s: Option<u64>,
    ) -> Result<String, ErrorRecord> {
        let user = KeyPair::from_public_key(key);
        if !user.is_ok_and(|pair| pair.key_pair_type() == KeyPairType::User) {
            let why = "what it showed is no public key of a user";
            let what = format!("cannot enrol {name}");
            return Err(ErrorRecord::new(ErrorKind::Authentication, what, why, &[]));
        }
        self.user(key, name, &Rights::agent(name), (now_s, expires_s))
    }
}

fn credentials(
    url: &str,
    agent: Option<String>,
    jwt: String,
    pair: &KeyPair,
) -> Result<Credentials, ErrorRecord> {
    let seed = pair.seed().map_err(|why| unable("keep a key", &why))?;
    Ok(Credentials { url: url.to_owned(), agent, jwt, seed, ca: None })
}

/// A new key of this host: its public half, and its seed.
///
/// # Errors
/// When it has no seed.
pub(crate) fn new_user() -> Result<(String, String), ErrorRecord> {
    let pair = KeyPair::new_user();
    let seed = pair.seed().map_err(|why| unable("keep a key", &why))?;
    Ok((pair.public_key(), seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(jwt: &str) -> Value {
        let body = jwt.split('.').nth(1).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap()
    }

    #[test]
    fn what_is_signed_is_of_its_issuer_and_says_who_may_what() {
        let founded = found("nats://127.0.0.1:4222", 1_000).unwrap();
        let account = founded.authority.pair().unwrap();
        let (key, _) = new_user().unwrap();
        let jwt = founded.authority.agent("a", &key, 1_000, Some(2_000)).unwrap();
        let (signed, signature) = jwt.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert!(account.verify(signed.as_bytes(), &signature).is_ok());
        let claims = claims(&jwt);
        assert_eq!((&claims["sub"], &claims["exp"]), (&json!(key), &json!(2_000)));
        assert_eq!(claims["iss"], json!(account.public_key()));
        let publish = claims["nats"]["pub"]["allow"].as_array().unwrap();
        assert!(publish.contains(&json!("lr.result.a.>")), "{publish:?}");
        assert!(
            publish.iter().all(|subject| subject.as_str().unwrap().contains(".a")),
            "{publish:?}"
        );
        let account = founded.authority.pair().unwrap().public_key();
        assert!(founded.authority.agent("a", &account, 0, None).is_err(), "an account is no user");
        assert!(founded.authority.agent("a", "U", 0, None).is_err());
        assert!(!founded.config.contains(&founded.authority.seed), "the broker has no secret");
    }

    #[test]
    fn results_and_orders_are_an_agents_own() {
        let rights = Rights::agent("a");
        let result = crate::subject::result("a", "run");
        assert!(result.starts_with("lr.result.a."), "{result}");
        assert!(rights.publish.contains(&"lr.result.a.>".to_owned()));
        assert!(!rights.hear.iter().any(|subject| subject.contains("lr.result")));
        assert_eq!(Rights::guest("g").publish, ["lr.enrol.g"]);
    }
}
