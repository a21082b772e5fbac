//! Opens tokens with the server's private key.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, Pkcs1PrivateDecryptingKey, PrivateDecryptingKey,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_wire::iperf3::Token;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use super::Settings;
use super::users::{Seen, knows, lines};

/// Keys and files of users are smaller; a larger one is another file given by mistake.
const MOST_BYTES: u64 = 1 << 20;

/// Every refusal is said this long after the token came, whatever was wrong: time says nothing about
/// the padding, the user or the password.
const REFUSAL: Duration = Duration::from_secs(1);

/// Checks logins. One at a time, beside the conversations of the server.
#[derive(Debug)]
pub struct Logins {
    check: Arc<Check>,
    turn: Arc<Semaphore>,
}

#[derive(Debug)]
struct Check {
    key: Key,
    users: PathBuf,
    skew_s: u64,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
enum Key {
    Oaep(OaepPrivateDecryptingKey),
    Pkcs1(Pkcs1PrivateDecryptingKey),
}

impl Logins {
    /// Reads the key, and looks at the users, whose file is read again for each login.
    ///
    /// # Errors
    /// When a file cannot be read or is not what it must be.
    pub fn open(settings: &Settings) -> Result<Self, ErrorRecord> {
        let path = &settings.private_key;
        let what = || format!("cannot use the private key `{}`", path.display());
        let pem = read(path).map_err(|e| unusable(what(), e, &[]))?;
        let key = Key::new(&pem, settings.pkcs1).map_err(|why| {
            unusable(what(), why.into(), &["make one: openssl genrsa -out private.pem 2048"])
        })?;
        let path = &settings.users;
        let what = || format!("cannot use the file of users `{}`", path.display());
        let users = read(path)
            .and_then(|users| String::from_utf8(users).map_err(|e| e.to_string()))
            .map_err(|e| unusable(what(), e, &[]))?;
        if lines(&users).next().is_none() {
            let hint = "each line is NAME,HASH; HASH is the output of: printf '{NAME}PASSWORD' | sha256sum";
            return Err(unusable(what(), "it names no user".into(), &[hint]));
        }
        let (users, skew_s, seen) = (path.clone(), settings.skew_s, Mutex::default());
        let check = Arc::new(Check { key, users, skew_s, seen });
        Ok(Self { check, turn: Arc::new(Semaphore::new(1)) })
    }

    /// Whether the `authtoken` of a client's parameters lets it in; `Err` has words for the log. The
    /// client hears the same in every case, and at the same time.
    pub(in super::super) async fn check(&self, token: Option<&str>) -> Result<(), &'static str> {
        let said = Instant::now() + REFUSAL;
        let checked = match token {
            None => Err("no user name and password were given, which this server wants"),
            Some(token) => self.look(token.to_owned()).await,
        };
        if checked.is_err() {
            sleep_until(said).await;
        }
        checked
    }

    async fn look(&self, token: String) -> Result<(), &'static str> {
        let turn = Arc::clone(&self.turn).acquire_owned().await;
        let check = Arc::clone(&self.check);
        // Decryption takes milliseconds, which belong to no conversation.
        let looked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
            check.token(&token, i64::try_from(now_s).unwrap_or(i64::MAX))
        });
        looked.await.unwrap_or(Err("the login could not be checked"))
    }
}

impl Check {
    fn token(&self, token: &str, now_s: i64) -> Result<(), &'static str> {
        let sealed = STANDARD.decode(token).map_err(|_| "a login that is not base64")?;
        let opened = self.key.open(&sealed).as_deref().and_then(Token::decode);
        let users = read(&self.users).map_err(|_| "the file of users cannot be read")?;
        let users = String::from_utf8(users).map_err(|_| "the file of users is not text")?;
        let Some(token) = opened else {
            return Err(match self.key {
                Key::Oaep(_) => {
                    "a login that cannot be decrypted: another key, or the padding of a release up \
                     to 3.16 (--use-pkcs1-padding)"
                }
                Key::Pkcs1(_) => {
                    "a login that cannot be decrypted: another key, or the padding of a release \
                     from 3.17 on (without --use-pkcs1-padding)"
                }
            });
        };
        if !knows(&users, &token) {
            return Err("a user name or a password that is wrong");
        }
        if token.time_s.abs_diff(now_s) > self.skew_s {
            return Err("a login from another time: the clocks are further apart than \
                        --time-skew-threshold, or it is an old one");
        }
        let until_s = token.time_s.saturating_add_unsigned(self.skew_s);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.first(Sha256::digest(&sealed).into(), until_s, now_s) {
            Ok(())
        } else {
            Err("a login that was used before")
        }
    }
}

impl Key {
    fn new(pem: &[u8], pkcs1: bool) -> Result<Self, &'static str> {
        let der = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|_| "it has no PEM private key without a password")?;
        let key = match &der {
            PrivateKeyDer::Pkcs8(der) => PrivateDecryptingKey::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => {
                PrivateDecryptingKey::from_pkcs8(&pkcs8(der.secret_pkcs1_der()))
            }
            _ => return Err("it is not an RSA key"),
        };
        let key = key.map_err(|_| "it is no RSA key of 2048 to 8192 bits")?;
        let unusable = |_| "it cannot decrypt";
        if pkcs1 {
            Pkcs1PrivateDecryptingKey::new(key).map(Self::Pkcs1).map_err(unusable)
        } else {
            OaepPrivateDecryptingKey::new(key).map(Self::Oaep).map_err(unusable)
        }
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let room = match self {
            Self::Oaep(key) => key.min_output_size(),
            Self::Pkcs1(key) => key.min_output_size(),
        };
        let mut plain = vec![0; room];
        let opened = match self {
            Self::Oaep(key) => key.decrypt(&OAEP_SHA1_MGF1SHA1, sealed, &mut plain, None),
            Self::Pkcs1(key) => key.decrypt(sealed, &mut plain),
        };
        let length = opened.ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

/// A bare RSA key (RFC 8017, A.1.2) as a key of any kind (RFC 5208): version 0, the algorithm
/// rsaEncryption, and the key as bytes.
fn pkcs8(rsa: &[u8]) -> Vec<u8> {
    const HEAD: &[u8] = &[
        0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01,
        0x01, 0x05, 0x00,
    ];
    let key = der(0x04, rsa);
    der(0x30, &[HEAD, &key].concat())
}

/// Tag, length in two bytes or more as needed, content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    if let Ok(short) = u8::try_from(length)
        && short < 0x80
    {
        out.push(short);
    } else {
        let bytes = length.to_be_bytes();
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        // At most eight.
        out.push(0x80 | (bytes.len() - zeros) as u8);
        out.extend(bytes.iter().skip(zeros));
    }
    out.extend_from_slice(content);
    out
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut content = vec![];
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut content));
    match read {
        Err(e) => Err(e.to_string()),
        Ok(_) if content.len() as u64 > MOST_BYTES => {
            Err(format!("it is longer than {MOST_BYTES} bytes"))
        }
        Ok(_) => Ok(content),
    }
}

fn unusable(what: String, why: String, hints: &[&str]) -> ErrorRecord {
    ErrorRecord::new(ErrorKind::Usage, what, why, hints)
}
