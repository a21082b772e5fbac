//! Who may do what at a broker: NKeys, and what the fleet's account signs for them (JSON web tokens, as nats-server reads
//! them in operator mode).
//!
//! The private half of an agent's key is made on its host and never leaves it. What an agent may do is in what the
//! account has signed, so that no new agent needs a change of the broker's configuration.

use std::collections::BTreeMap;

use linerate_model::record::{ErrorKind, ErrorRecord};
use nkeys::{KeyPair, KeyPairType};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::connect::Credentials;
use crate::error::unable;
use crate::jwt::{Claims, sign, signed_by};
use crate::subject::{CONFIRMED, OPERATOR, SYSTEM, event, heartbeat, orders};

/// Longest that a reply may be sent after what it answers, in nanoseconds: a minute.
const REPLY_NS: u64 = 60 * 1_000_000_000;

/// What may sign for a fleet. The seeds are secrets.
#[derive(Clone, Serialize, Deserialize)]
pub struct Authority {
    /// Where the broker is.
    pub url: String,
    /// The private half of the account's NKey: signs for agents.
    pub seed: String,
    /// That of the operator's, which signs for the account: who is let in no more.
    pub operator: String,
    /// That of the broker's own account: what the broker says of itself.
    pub system: String,
}

/// A new fleet.
pub struct Founded {
    /// What signs for it.
    pub authority: Authority,
    /// The lines of the broker's configuration that say who is believed.
    pub config: String,
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
    let system_jwt = sign(&operator, now_s, account_claims(&system, "system", no_limit(), None))?;
    let account_jwt = sign(&operator, now_s, fleet_claims(&account, &BTreeMap::new()))?;
    let config = format!(
        "operator: {}\nsystem_account: {}\nresolver_preload: {{\n    {}: {system_jwt}\n    {}: {account_jwt}\n}}\n",
        sign(&operator, now_s, own)?,
        system.public_key(),
        system.public_key(),
        account.public_key(),
    );
    let seed =
        |pair: &KeyPair| pair.seed().map_err(|why| unable("keep the keys of the fleet", &why));
    let authority = Authority {
        url: url.to_owned(),
        seed: seed(&account)?,
        operator: seed(&operator)?,
        system: seed(&system)?,
    };
    Ok(Founded { authority, config })
}

fn no_limit() -> Value {
    json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
    })
}

/// Of an account; `revoked` are keys of users, with the time up to which nothing that was signed for them holds, in
/// seconds since 1970.
fn account_claims(
    pair: &KeyPair,
    name: &str,
    limits: Value,
    revoked: Option<&BTreeMap<String, u64>>,
) -> Claims {
    let mut nats = json!({
        "limits": limits, "default_permissions": { "pub": {}, "sub": {} }, "type": "account", "version": 2,
    });
    if let (Some(revoked), Some(nats)) =
        (revoked.filter(|all| !all.is_empty()), nats.as_object_mut())
    {
        nats.insert("revocations".to_owned(), json!(revoked));
    }
    Claims { subject: pair.public_key(), name: name.to_owned(), expires_s: None, nats }
}

/// Of the account of a fleet, which has streams.
fn fleet_claims(pair: &KeyPair, revoked: &BTreeMap<String, u64>) -> Claims {
    let mut limits = no_limit();
    if let Some(limits) = limits.as_object_mut() {
        for name in ["mem_storage", "disk_storage", "streams", "consumer"] {
            limits.insert(name.to_owned(), (-1).into());
        }
    }
    account_claims(pair, "fleet", limits, Some(revoked))
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

    /// Of whoever asks the broker of itself, and tells it who is let in no more.
    fn system() -> Self {
        let publish =
            ["$SYS.REQ.SERVER.*.JSZ", "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP", "$SYS.REQ.CLAIMS.UPDATE"];
        let publish = publish.map(str::to_owned).to_vec();
        Self { publish, hear: vec![format!("_INBOX.{SYSTEM}.>")], answers: false }
    }

    /// Of an agent: its own subjects. It can publish to nobody's inbox but in answer to an order. What it asks is
    /// always answered by a document: an empty answer, which would do much, goes nowhere.
    fn agent(name: &str) -> Self {
        let asks = format!("$JS.API.STREAM.MSG.GET.{CONFIRMED}");
        Self {
            publish: vec![format!("lr.result.{name}.>"), heartbeat(name), event(name, ""), asks],
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

/// What an account signs for a user of this key.
fn user(
    account: &KeyPair,
    key: &str,
    name: &str,
    rights: &Rights,
    (now_s, expires_s): (u64, Option<u64>),
) -> Result<String, ErrorRecord> {
    let (subject, name, nats) = (key.to_owned(), name.to_owned(), rights.claims());
    sign(account, now_s, Claims { subject, name, expires_s, nats })
}

fn pair(seed: &str) -> Result<KeyPair, ErrorRecord> {
    KeyPair::from_seed(seed).map_err(|why| unable("use a key of the fleet", &why))
}

impl Authority {
    /// Public key of the fleet's account, by which the broker calls it.
    ///
    /// # Errors
    /// When its key is none.
    pub fn account(&self) -> Result<String, ErrorRecord> {
        pair(&self.seed).map(|pair| pair.public_key())
    }

    /// What the operator signs for the account, so that nothing holds any more that was signed for these keys up to these
    /// times (seconds since 1970); `before` is what holds now, whose revocations go on.
    ///
    /// # Errors
    /// When what holds now was not signed by this operator.
    pub(crate) fn revoking(
        &self,
        before: &str,
        keys: &BTreeMap<String, u64>,
        now_s: u64,
    ) -> Result<String, ErrorRecord> {
        let operator = pair(&self.operator)?;
        let claims = signed_by(&operator, before).ok_or_else(|| {
            unable("revoke", &"the broker's account was signed by another operator")
        })?;
        let revoked = claims.pointer("/nats/revocations").cloned().unwrap_or_default();
        let mut revoked: BTreeMap<String, u64> =
            serde_json::from_value(revoked).unwrap_or_default();
        revoked.extend(keys.iter().map(|(key, up_to_s)| (key.clone(), *up_to_s)));
        // The broker keeps the later of two when it starts: that of its configuration, and what it was told.
        let issued_s = claims.get("iat").and_then(Value::as_u64).unwrap_or(0);
        let issued_s = now_s.max(issued_s.saturating_add(1));
        sign(&operator, issued_s, fleet_claims(&pair(&self.seed)?, &revoked))
    }

    /// Credentials by which the broker is asked of itself, and told who is revoked, until `expires_s`.
    ///
    /// # Errors
    /// When nothing can be signed.
    pub fn system(&self, now_s: u64, expires_s: u64) -> Result<Credentials, ErrorRecord> {
        let (own, times) = (KeyPair::new_user(), (now_s, Some(expires_s)));
        let jwt = user(&pair(&self.system)?, &own.public_key(), SYSTEM, &Rights::system(), times)?;
        credentials(&self.url, Some(SYSTEM.to_owned()), jwt, &own)
    }

    /// The credentials of whoever runs the fleet.
    ///
    /// # Errors
    /// When nothing can be signed.
    pub fn operator(&self, now_s: u64) -> Result<Credentials, ErrorRecord> {
        let (own, times) = (KeyPair::new_user(), (now_s, None));
        let jwt =
            user(&pair(&self.seed)?, &own.public_key(), OPERATOR, &Rights::operator(), times)?;
        credentials(&self.url, None, jwt, &own)
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
        let (own, times) = (KeyPair::new_user(), (now_s, Some(expires_s)));
        let jwt = user(&pair(&self.seed)?, &own.public_key(), guest, &Rights::guest(guest), times)?;
        credentials(&self.url, Some(guest.to_owned()), jwt, &own)
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
        let shown = KeyPair::from_public_key(key);
        if !shown.is_ok_and(|pair| pair.key_pair_type() == KeyPairType::User) {
            let why = "what it showed is no public key of a user";
            let what = format!("cannot enrol {name}");
            return Err(ErrorRecord::new(ErrorKind::Authentication, what, why, &[]));
        }
        user(&pair(&self.seed)?, key, name, &Rights::agent(name), (now_s, expires_s))
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

    #[test]
    fn what_is_signed_is_of_its_issuer_and_says_who_may_what() {
        let founded = found("nats://127.0.0.1:4222", 1_000).unwrap();
        let account = pair(&founded.authority.seed).unwrap();
        let (key, _) = new_user().unwrap();
        let jwt = founded.authority.agent("a", &key, 1_000, Some(2_000)).unwrap();
        let claims = signed_by(&account, &jwt).expect("the account has signed it");
        assert_eq!((&claims["sub"], &claims["exp"]), (&json!(key), &json!(2_000)));
        assert_eq!(claims["iss"], json!(account.public_key()));
        let publish = claims["nats"]["pub"]["allow"].as_array().unwrap();
        assert!(publish.contains(&json!("lr.result.a.>")), "{publish:?}");
        let other = |subject: &&serde_json::Value| !subject.as_str().unwrap().contains(".a");
        let others: Vec<_> = publish.iter().filter(other).collect();
        assert_eq!(others, [&json!("$JS.API.STREAM.MSG.GET.LR_CONFIRMED")], "what it may ask");
        let account = account.public_key();
        assert!(founded.authority.agent("a", &account, 0, None).is_err(), "an account is no user");
        assert!(founded.authority.agent("a", "U", 0, None).is_err());
        let Authority { seed, operator, system, .. } = &founded.authority;
        for secret in [seed, operator, system] {
            assert!(!founded.config.contains(secret), "the broker has no secret");
        }
    }

    #[test]
    fn what_was_revoked_before_stays_so_and_each_word_is_later_than_the_last() {
        let founded = found("nats://127.0.0.1:4222", 1_000).unwrap();
        let authority = &founded.authority;
        let (operator, account) =
            (pair(&authority.operator).unwrap(), authority.account().unwrap());
        let first = founded.config.split_once(&format!("{account}: ")).unwrap().1;
        let first = first.lines().next().unwrap();
        let key = |name: &str, up_to_s| BTreeMap::from([(name.to_owned(), up_to_s)]);
        let one = authority.revoking(first, &key("UA", 900), 1_000).unwrap();
        let two = authority.revoking(&one, &key("UB", 901), 990).unwrap();
        let claims = signed_by(&operator, &two).unwrap();
        assert_eq!(claims["nats"]["revocations"], json!({ "UA": 900, "UB": 901 }));
        assert_eq!((&claims["iat"], &claims["sub"]), (&json!(1_002), &json!(account)));
        let before = signed_by(&operator, first).unwrap();
        assert_eq!(claims["nats"]["limits"], before["nats"]["limits"], "all else is as it was");
        let other = found("nats://127.0.0.1:4222", 1_000).unwrap().authority;
        assert!(other.revoking(first, &key("UA", 900), 1_000).is_err());
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
