//! The file of keys and budgets: TOML, a table `[[key]]` for each client and `[[network]]` for each network.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use linerate_model::hours::{self, Hours};
use linerate_model::units::{BitRate, ByteCount};
use linerate_wire::native::auth::{self, ID_DIGITS, SECRET_DIGITS, is_hex};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::network::Cidr;

/// Keys, or networks, of one file. Each key is compared with what a client names.
const MOST: usize = 4_096;
/// Bytes of the longest name: it is in every line of the log.
const MOST_NAME: usize = 64;

/// What a key lets its client do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Tests with the server.
    Test,
    /// As a controller of campaigns: tests with this host as the client.
    Control,
    /// The same, and settings of this host; commands and reboots where the server's flags allow them.
    Settings,
}

impl Right {
    /// Each.
    pub const ALL: [Self; 3] = [Self::Test, Self::Control, Self::Settings];

    /// As the file has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Control => "control",
            Self::Settings => "settings",
        }
    }
}

impl FromStr for Right {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|right| right.name() == text);
        found.ok_or_else(|| "it is test, control or settings".to_owned())
    }
}

/// What a key or a network may have of the server; what is absent has no limit but the server's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budget {
    /// Tests at once.
    pub tests: Option<usize>,
    /// Bytes of all tests in 24 h, both ways together.
    pub bytes_per_day: Option<u64>,
    /// Largest rate of one direction of one test.
    pub rate: Option<BitRate>,
    /// Hours of the day in which there are tests; none is every hour.
    pub hours: Vec<Hours>,
}

/// What is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The key of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// What its owner calls it: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// [`ID_DIGITS`] hexadecimal digits, which travel in clear.
    pub id: String,
    /// [`SECRET_DIGITS`] hexadecimal digits.
    pub secret: Secret,
    /// When it was made.
    pub created: Timestamp,
    /// From when on it does not hold any more.
    pub expires: Option<Timestamp>,
    /// Since when it is revoked.
    pub revoked: Option<Timestamp>,
    /// What it lets its client do.
    pub rights: Vec<Right>,
    /// What it may have.
    pub budget: Budget,
}

impl Key {
    /// The client's file, without a line end.
    pub fn text(&self) -> String {
        auth::own_key(&self.id, &self.secret.0)
    }

    /// Whether its client may do that.
    pub fn may(&self, right: Right) -> bool {
        // Who may change settings may do what they are changed for.
        let within = right == Right::Control && self.rights.contains(&Right::Settings);
        within || self.rights.contains(&right)
    }

    /// Whether it holds at `now`.
    ///
    /// # Errors
    /// Why it does not, in words.
    pub fn holds(&self, now: Timestamp) -> Result<(), String> {
        match (self.revoked, self.expires) {
            (Some(at), _) => Err(format!("the key `{}` was revoked (on {at})", self.name)),
            (_, Some(at)) if now >= at => {
                Err(format!("the key `{}` has expired (at {at})", self.name))
            }
            _ => Ok(()),
        }
    }
}

/// The budget of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkBudget {
    /// Which.
    pub cidr: Cidr,
    /// What all of its addresses together may have.
    pub budget: Budget,
}

/// A whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// In the order of the file.
    pub keys: Vec<Arc<Key>>,
    /// The same.
    pub networks: Vec<Arc<NetworkBudget>>,
    /// Where the name of each key is, in bytes of the file.
    pub(super) names: Vec<Range<usize>>,
}

/// Why a file is none. Nothing of what it holds is in the words: they go to logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 1, where it is of one.
    pub line: Option<usize>,
    /// In words.
    pub why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => self.why.fmt(f),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    key: Vec<WrittenKey>,
    #[serde(default)]
    network: Vec<WrittenNetwork>,
}

// The limits stand twice: with a flattened table misspelt ones would pass for none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenKey {
    name: Spanned<String>,
    id: String,
    secret: String,
    #[serde(deserialize_with = "time")]
    created: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    expires: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    revoked: Option<Timestamp>,
    rights: Vec<Right>,
    #[serde(default)]
    max_tests: Option<usize>,
    #[serde(default, deserialize_with = "text")]
    max_bytes_per_day: Option<ByteCount>,
    #[serde(default, deserialize_with = "text")]
    max_rate: Option<BitRate>,
    #[serde(default, deserialize_with = "day")]
    hours: Vec<Hours>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenNetwork {
    cidr: Spanned<String>,
    #[serde(default)]
    max_tests: Option<usize>,
    #[serde(default, deserialize_with = "text")]
    max_bytes_per_day: Option<ByteCount>,
    #[serde(default, deserialize_with = "text")]
    max_rate: Option<BitRate>,
    #[serde(default, deserialize_with = "day")]
    hours: Vec<Hours>,
}

fn text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let no_time = |_| serde::de::Error::custom("a time is written as \"2026-01-31T12:00:00Z\"");
    String::deserialize(from)?.parse().map(Some).map_err(no_time)
}

fn day<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Hours>, D::Error> {
    hours::list(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

impl Table {
    /// Reads a file's text.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(text: &str) -> Result<Self, Fault> {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|b| *b == b'\n').count();
        // Not the error's own words, which show the line: it may be the secret's.
        let document: Document = toml::from_str(text).map_err(|e| Fault {
            line: e.span().map(|span| line(span.start)),
            why: without_secrets(e.message()),
        })?;
        if document.key.len().max(document.network.len()) > MOST {
            let why = format!("it has more than {MOST} keys or networks");
            return Err(Fault { line: None, why });
        }
        let mut table = Self::default();
        let (mut ids, mut names) = (HashSet::new(), HashSet::new());
        for written in document.key {
            let span = written.name.span();
            // Lines are counted for a fault only: a server reads this beside its tests.
            let fault = |why| Fault { line: Some(line(span.start)), why };
            let key = key(written).map_err(fault)?;
            let same_id = !ids.insert(key.id.clone());
            let same_name = key.revoked.is_none() && !names.insert(key.name.clone());
            if let Some(why) = clash(&key, same_id, same_name) {
                return Err(fault(why));
            }
            table.keys.push(Arc::new(key));
            table.names.push(span);
        }
        let mut cidrs = HashSet::new();
        for written in document.network {
            let WrittenNetwork { cidr, max_tests, max_bytes_per_day, max_rate, hours } = written;
            let span = cidr.span();
            let fault = |why| Fault { line: Some(line(span.start)), why };
            let cidr = cidr.into_inner().parse::<Cidr>().map_err(fault)?;
            // All that its addresses carry would count twice.
            if !cidrs.insert(cidr) {
                return Err(fault(format!("there is a budget of the network {cidr} already")));
            }
            let bytes_per_day = max_bytes_per_day.map(|bytes| bytes.0);
            let budget = Budget { tests: max_tests, bytes_per_day, rate: max_rate, hours };
            table.networks.push(Arc::new(NetworkBudget { cidr, budget }));
        }
        Ok(table)
    }

    /// Why a key cannot stand beside those before it.
    pub(super) fn clash(&self, key: &Key) -> Option<String> {
        let live = |other: &&Arc<Key>| other.name == key.name && other.revoked.is_none();
        let same_id = self.keys.iter().any(|other| other.id == key.id);
        clash(key, same_id, key.revoked.is_none() && self.keys.iter().any(|other| live(&other)))
    }

    /// The key of that id, as it is known to whoever proves it.
    pub(super) fn find(&self, id: &str) -> Option<&Arc<Key>> {
        let mut found = None;
        // All are compared, so that the time says nothing about which there are.
        for key in &self.keys {
            if auth::equal(key.id.as_bytes(), id.as_bytes()) {
                found = Some(key);
            }
        }
        found
    }

    /// Keys that hold at `now`.
    pub fn holding(&self, now: Timestamp) -> usize {
        self.keys.iter().filter(|key| key.holds(now).is_ok()).count()
    }
}

/// Words that go to logs, without what may be a secret that stands in a wrong place.
fn without_secrets(words: &str) -> String {
    let digits = |word: &str| word.len() >= ID_DIGITS && is_hex(word, word.len());
    let parts = words.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    let shown = parts.map(|part| {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if digits(word) { part.replacen(word, "…", 1) } else { part.to_owned() }
    });
    shown.collect()
}

fn clash(key: &Key, same_id: bool, same_name: bool) -> Option<String> {
    if same_id {
        Some(format!("the id of `{}` is another key's", key.name))
    } else if same_name {
        Some(format!("there is a key `{}` already, which is not revoked", key.name))
    } else {
        None
    }
}

fn key(written: WrittenKey) -> Result<Key, String> {
    let name = written.name.into_inner();
    if is_hex(&name, SECRET_DIGITS) {
        return Err("a name is as long as a secret: were the two exchanged?".to_owned());
    }
    name_fits(&name)?;
    if !is_hex(&written.id, ID_DIGITS) {
        return Err(format!("the id of `{name}` is not {ID_DIGITS} hexadecimal digits"));
    }
    if !is_hex(&written.secret, SECRET_DIGITS) {
        return Err(format!("the secret of `{name}` is not {SECRET_DIGITS} hexadecimal digits"));
    }
    Ok(Key {
        name,
        id: written.id,
        secret: Secret(written.secret),
        created: written.created.unwrap_or_default(),
        expires: written.expires,
        revoked: written.revoked,
        rights: written.rights,
        budget: Budget {
            tests: written.max_tests,
            bytes_per_day: written.max_bytes_per_day.map(|bytes| bytes.0),
            rate: written.max_rate,
            hours: written.hours,
        },
    })
}

/// Whether a key may have that name.
pub(super) fn name_fits(name: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=MOST_NAME).contains(&name.len()) && name.bytes().all(plain) {
        Ok(())
    } else {
        Err(format!("a name has 1 to {MOST_NAME} letters, digits, `.`, `_` or `-`"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_words_of_a_fault_hold_what_may_be_a_secret() {
        let secret = "5e".repeat(32);
        let shown =
            without_secrets(&format!("invalid type: string \"{secret}\", expected a number"));
        assert_eq!(shown, "invalid type: string \"…\", expected a number");
        assert_eq!(without_secrets("unknown variant `root`"), "unknown variant `root`");
        for text in [
            written("ci", 'a', &format!("max-tests = \"{secret}\"")),
            written("ci", 'a', &format!("rights = [\"{secret}\"]")),
            written(&secret, 'a', ""),
        ] {
            let fault = Table::read(&text).unwrap_err().to_string();
            assert!(!fault.contains(&secret[..20]), "{fault}");
        }
    }

    pub(crate) fn written(name: &str, digit: char, more: &str) -> String {
        let (id, secret) = (digit.to_string().repeat(16), digit.to_string().repeat(64));
        format!(
            "[[key]]\nname = \"{name}\"\nid = \"{id}\"\nsecret = \"{secret}\"\n\
             created = \"2026-01-01T00:00:00Z\"\nrights = [\"test\"]\n{more}\n"
        )
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn all_that_a_file_may_say_is_read() {
        let limits = "max-tests = 2\nmax-bytes-per-day = \"10G\"\nmax-rate = \"1G\"\nhours = \"22:00-06:00\"";
        let text = format!(
            "# ours\n{}{}[[network]]\ncidr = \"192.0.2.0/24\"\n{limits}\n",
            written("ci", 'a', &format!("expires = \"2026-02-01T00:00:00Z\"\n{limits}")),
            written("old", 'b', "revoked = \"2026-01-02T00:00:00Z\""),
        );
        let table = Table::read(&text).unwrap();
        let (ci, old) = (&table.keys[0], &table.keys[1]);
        let budget = Budget {
            tests: Some(2),
            bytes_per_day: Some(10_000_000_000),
            rate: BitRate::new(1_000_000_000),
            hours: vec!["22:00-06:00".parse().unwrap()],
        };
        assert_eq!((&ci.budget, &table.networks[0].budget), (&budget, &budget));
        assert_eq!(old.budget, Budget::default());
        assert_eq!(&text[table.names[1].clone()], "\"old\"");
        assert_eq!(table.find(&"a".repeat(16)), Some(ci));
        assert_eq!(table.find("a"), None);
        assert_eq!(ci.holds(at("2026-01-31T23:59:59Z")), Ok(()));
        let expired = ci.holds(at("2026-02-01T00:00:00Z")).unwrap_err();
        assert_eq!(expired, "the key `ci` has expired (at 2026-02-01T00:00:00Z)");
        assert!(old.holds(at("2026-01-01T00:00:00Z")).unwrap_err().contains("was revoked"));
        assert_eq!(table.holding(at("2026-01-03T00:00:00Z")), 1);
        assert!(!format!("{table:?}").contains(&"a".repeat(64)), "a secret is not printed");
        assert_eq!(Table::read(""), Ok(Table::default()));
    }

    #[test]
    fn rights_hold_those_below_them() {
        let with = |rights: &str| {
            let text = written("ci", 'a', "").replace("[\"test\"]", rights);
            let key = Table::read(&text).unwrap().keys.remove(0);
            Right::ALL.map(|right| key.may(right))
        };
        assert_eq!(with("[]"), [false; 3]);
        assert_eq!(with("[\"test\"]"), [true, false, false]);
        assert_eq!(with("[\"control\"]"), [false, true, false]);
        assert_eq!(with("[\"settings\"]"), [false, true, true]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_no_secret_is_shown() {
        let (good, secret) = (written("ci", 'a', ""), "a".repeat(64));
        let named = |name: &str| good.replace("\"ci\"", &format!("\"{name}\""));
        let network = |cidr: &str| format!("[[network]]\ncidr = \"{cidr}\"\n");
        for (text, line, why) in [
            (good.replace("max", ""), None, ""),
            (format!("{good}max-test = 1\n"), Some(8), "max-test"),
            (format!("{good}max-rate = \"fast\"\n"), Some(8), "rate"),
            (format!("{good}max-rate = \"0\"\n"), Some(8), "rate"),
            (format!("{good}max-tests = -1\n"), Some(8), ""),
            (format!("{good}hours = \"6-7\"\n"), Some(8), "22:00-06:00"),
            (format!("{good}expires = \"soon\"\n"), Some(8), "2026-01-31T12:00:00Z"),
            (good.replace(&format!("\"{secret}\""), &secret), Some(4), ""),
            (good.replace(&secret, &secret[1..]), Some(2), "64 hexadecimal digits"),
            (good.replace(&format!("id = \"{}\"", &secret[..16]), "id = \"\""), Some(2), "16 hex"),
            (good.replace("rights", "wrongs"), None, "wrongs"),
            (good.replace("[\"test\"]", "[\"root\"]"), Some(6), "root"),
            (named(""), Some(2), "1 to 64"),
            (named("two words"), Some(2), "1 to 64"),
            (named(&"x".repeat(65)), Some(2), "1 to 64"),
            (format!("{good}{good}"), Some(9), "another key's"),
            (format!("{good}{}", written("ci", 'b', "")), Some(9), "already"),
            (network("192.0.2.7/24"), Some(2), "192.0.2.0/24"),
            (network("192.0.2.0/24") + &network("::ffff:192.0.2.0/120"), Some(4), "24 already"),
            ("[[network]]\nmax-tests = 1\n".to_owned(), Some(1), "cidr"),
            ("[key]\n".to_owned(), Some(1), ""),
            ("{\"key\": []}".to_owned(), Some(1), ""),
        ] {
            let read = Table::read(&text);
            if text == good {
                read.expect("the good one");
                continue;
            }
            let fault = read.expect_err(&text);
            assert!(fault.why.contains(why), "{text}: {fault}");
            assert!(line.is_none() || fault.line == line, "{text}: {fault}");
            assert!(!fault.to_string().contains(&secret[..20]), "{fault}");
        }
        // A name is free again when its key is revoked.
        let revoked = written("ci", 'b', "revoked = \"2026-01-02T00:00:00Z\"");
        Table::read(&format!("{revoked}{good}")).unwrap();
    }
    /// A file with all that one may hold.
    fn full() -> String {
        let limits = "max-tests = 2\nmax-bytes-per-day = \"10G\"\nmax-rate = \"1G\"\nhours = \"22:00-06:00\"";
        let dates = "expires = \"2026-02-01T00:00:00Z\"\nrevoked = \"2026-01-02T00:00:00Z\"";
        format!(
            "{}[[network]]\ncidr = \"192.0.2.0/24\"\n{limits}\n",
            written("ci", 'a', &format!("{dates}\n{limits}"))
        )
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Table::read(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn a_mutilated_file_is_a_fault_or_a_table_and_shows_no_secret(
            cut in 0..full().len(), length in 0usize..40, insert in "[\\[\\]{}=\"'a-z0-9.\n -]{0,8}",
        ) {
            let text = full();
            let end = (cut + length).min(text.len());
            match Table::read(&format!("{}{insert}{}", &text[..cut], &text[end..])) {
                Ok(table) => prop_assert!(table.keys.len() <= 1 && table.networks.len() <= 1),
                Err(fault) => {
                    let shown = fault.to_string();
                    prop_assert!(!shown.contains(&"a".repeat(20)), "{shown}");
                    prop_assert!(fault.line.is_none_or(|line| line <= text.lines().count() + insert.len() + 1));
                }
            }
        }
    }
}
