//! JSON web tokens as nats-server reads them: who signs for whom, and what that lets the bearer do.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use linerate_model::record::ErrorRecord;
use nkeys::KeyPair;
use serde_json::{Value, json};

use crate::error::unable;

/// A name, and what it lets its bearer do.
pub(crate) struct Claims {
    /// Public key of the bearer.
    pub(crate) subject: String,
    pub(crate) name: String,
    /// Seconds since 1970; nothing for no end.
    pub(crate) expires_s: Option<u64>,
    pub(crate) nats: Value,
}

/// Signs at `now_s`, seconds since 1970.
pub(crate) fn sign(pair: &KeyPair, now_s: u64, claims: Claims) -> Result<String, ErrorRecord> {
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

/// What was signed by `pair`; nothing where that did not sign it.
pub(crate) fn signed_by(pair: &KeyPair, jwt: &str) -> Option<Value> {
    let (signed, signature) = jwt.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    pair.verify(signed.as_bytes(), &signature).ok()?;
    let (_, body) = signed.split_once('.')?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_that_was_not_signed_is_read(text in "(\\PC|[.=A-Za-z0-9_-]){0,120}") {
            prop_assert_eq!(signed_by(&KeyPair::new_operator(), &text), None);
        }
    }

    #[test]
    fn what_another_signed_or_was_changed_is_nothing() {
        let (pair, other) = (KeyPair::new_operator(), KeyPair::new_operator());
        let claims = |name: &str| Claims {
            subject: "A".to_owned(),
            name: name.to_owned(),
            expires_s: None,
            nats: json!({}),
        };
        let [one, two] = ["one", "two"].map(|name| sign(&pair, 7, claims(name)).unwrap());
        assert_eq!(signed_by(&pair, &one).unwrap()["name"], "one");
        assert_eq!(signed_by(&other, &one), None);
        let (body, _) = one.rsplit_once('.').unwrap();
        let (_, signature) = two.rsplit_once('.').unwrap();
        assert_eq!(signed_by(&pair, &format!("{body}.{signature}")), None);
        for text in ["", ".", "..", "a.b.c", &one[1..]] {
            assert_eq!(signed_by(&pair, text), None, "{text}");
        }
    }
}
