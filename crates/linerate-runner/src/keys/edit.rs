//! Changes of the file's text that leave all else of it as its owner wrote it.

use jiff::Timestamp;

use super::file::{Fault, Key, Right, Table, name_fits};

/// The file with one more key at its end.
///
/// # Errors
/// When the file is none, or has a key of that name that is not revoked.
pub fn add(text: &str, key: &Key) -> Result<String, Fault> {
    let before = Table::read(text)?;
    let fault = |why| Fault { line: None, why };
    name_fits(&key.name).map_err(fault)?;
    if let Some(why) = before.clash(key) {
        return Err(fault(why));
    }
    let mut whole = text.to_owned();
    if !whole.is_empty() {
        whole.push_str(if whole.ends_with('\n') { "\n" } else { "\n\n" });
    }
    whole.push_str(&written(key));
    let mut keys = before.keys;
    keys.push(key.clone().into());
    same(whole, &Table { keys, ..before })
}

/// The file with the key of that name, or of that id, revoked at `now`.
///
/// # Errors
/// When the file is none, or has no such key that is not revoked yet.
pub fn revoke(text: &str, name: &str, now: Timestamp) -> Result<String, Fault> {
    let before = Table::read(text)?;
    let is = |key: &Key| (key.name == name || key.id == name) && key.revoked.is_none();
    let Some(index) = before.keys.iter().position(|key| is(key)) else {
        let known = before.keys.iter().any(|key| key.name == name || key.id == name);
        let what = if known { "is revoked already" } else { "is not in it" };
        return Err(Fault { line: None, why: format!("a key `{name}` {what}") });
    };
    let mut keys = before.keys.clone();
    let at = before.names.get(index).map_or(0, |span| span.start);
    let (head, tail) = text.split_at_checked(at).unwrap_or((text, ""));
    let line = head.rfind('\n').map_or(0, |end| end + 1);
    let (head, rest) = head.split_at_checked(line).unwrap_or((head, ""));
    let whole = format!("{head}revoked = \"{now}\"\n{rest}{tail}");
    if let Some(key) = keys.get_mut(index) {
        *key = Key { revoked: Some(now), ..(**key).clone() }.into();
    }
    same(whole, &Table { keys, ..before })
}

/// What was written must be read as what was meant, whatever an owner's hand has made of the file.
fn same(text: String, meant: &Table) -> Result<String, Fault> {
    let read = Table::read(&text);
    if read.is_ok_and(|read| read.keys == meant.keys && read.networks == meant.networks) {
        return Ok(text);
    }
    let why = "it is written in a way that this cannot change: edit it by hand (docs/keys.md)";
    Err(Fault { line: None, why: why.to_owned() })
}

fn written(key: &Key) -> String {
    let rights: Vec<String> =
        key.rights.iter().map(|right: &Right| format!("{:?}", right.name())).collect();
    let mut text = format!(
        "[[key]]\nname = \"{}\"\nid = \"{}\"\nsecret = \"{}\"\ncreated = \"{}\"\nrights = [{}]\n",
        key.name,
        key.id,
        key.secret.0,
        key.created,
        rights.join(", ")
    );
    let hours: Vec<String> = key.budget.hours.iter().map(ToString::to_string).collect();
    let hours = (!hours.is_empty()).then(|| hours.join(","));
    for (name, value) in [
        ("expires", key.expires.map(|at| at.to_string())),
        ("max-bytes-per-day", key.budget.bytes_per_day.map(|bytes| bytes.to_string())),
        ("max-rate", key.budget.rate.map(|rate| rate.bits_per_second().to_string())),
        ("hours", hours),
    ] {
        if let Some(value) = value {
            text.push_str(&format!("{name} = \"{value}\"\n"));
        }
    }
    if let Some(tests) = key.budget.tests {
        text.push_str(&format!("max-tests = {tests}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use linerate_model::units::BitRate;

    use super::super::file::tests::written as by_hand;
    use super::super::file::{Budget, Secret};
    use super::*;

    fn key(name: &str, digit: char) -> Key {
        Key {
            name: name.into(),
            id: digit.to_string().repeat(16),
            secret: Secret(digit.to_string().repeat(64)),
            created: "2026-01-01T00:00:00Z".parse().unwrap(),
            expires: Some("2026-02-01T00:00:00Z".parse().unwrap()),
            revoked: None,
            rights: vec![Right::Test, Right::Settings],
            budget: Budget {
                tests: Some(3),
                bytes_per_day: Some(5),
                rate: BitRate::new(7),
                hours: vec!["22:00-06:00".parse().unwrap(), "12:00-13:00".parse().unwrap()],
            },
        }
    }

    #[test]
    fn what_an_owner_wrote_stays_as_it_is() {
        let now = "2026-01-05T00:00:00Z".parse().unwrap();
        let (one, two) = (key("one", 'a'), key("two", 'b'));
        let mine = "# mine\n[[network]] # all of it\ncidr = \"192.0.2.0/24\"";
        let text = add(&add(mine, &one).unwrap(), &two).unwrap();
        assert!(text.starts_with(mine), "{text}");
        let table = Table::read(&text).unwrap();
        assert_eq!([&*table.keys[0], &*table.keys[1]], [&one, &two]);
        let after = revoke(&text, "one", now).unwrap();
        let without = after.replace("revoked = \"2026-01-05T00:00:00Z\"\n", "");
        assert_eq!(without, text);
        let table = Table::read(&after).unwrap();
        assert_eq!((table.keys[0].revoked, table.keys[1].revoked), (Some(now), None));
        // By its id as well; once; and the name is free again.
        revoke(&after, &two.id, now).unwrap();
        assert!(revoke(&after, "one", now).unwrap_err().why.contains("already"));
        assert!(revoke(&after, "three", now).unwrap_err().why.contains("not in it"));
        assert!(add(&after, &key("two", 'c')).unwrap_err().why.contains("already"));
        assert!(add(&after, &key("one", 'b')).unwrap_err().why.contains("another key's"));
        add(&after, &key("one", 'c')).unwrap();
        assert!(add("", &key("a\"b", 'c')).is_err());
    }

    #[test]
    fn a_file_that_is_damaged_or_written_otherwise_is_not_changed() {
        let now = "2026-01-05T00:00:00Z".parse().unwrap();
        let text = by_hand("one", 'a', "");
        let inline = format!(
            "key = [{{ name = \"one\", id = \"{}\", secret = \"{}\", created = \"2026-01-01T00:00:00Z\", rights = [] }}]\n",
            "a".repeat(16),
            "a".repeat(64)
        );
        Table::read(&inline).unwrap();
        assert!(revoke(&inline, "one", now).unwrap_err().why.contains("by hand"));
        assert!(add(&inline, &key("two", 'b')).unwrap_err().why.contains("by hand"));
        let cut = &text[..text.len() - 5];
        assert!(add(cut, &key("two", 'b')).is_err() && revoke(cut, "one", now).is_err());
        // A line end of another system, and none at the end.
        let text = text.trim_end().replace('\n', "\r\n");
        revoke(&add(&text, &key("two", 'b')).unwrap(), "one", now).unwrap();
    }
}
