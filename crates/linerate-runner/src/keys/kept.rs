//! The file as a server has it: read again when it has changed, and kept as it was where it is damaged.

use std::fs::{Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use linerate_model::clean::shell_word;
use linerate_model::record::{ErrorKind, ErrorRecord};
use linerate_wire::native::auth;
use nix::libc::O_NONBLOCK;

use super::file::{Key, Secret, Table};
use crate::event::Event;

/// As many keys as there may be, with all that can be said of each, are half of this; a longer file is another one
/// given by mistake.
const MOST_BYTES: u64 = 4 << 20;

/// What a client proves.
pub(crate) struct Asked {
    /// All of its file; of a key that is not known, one that nobody has.
    pub(crate) proof: Vec<u8>,
    /// Which it is.
    pub(crate) key: Option<Arc<Key>>,
}

/// A file of keys and budgets that a server goes by.
#[derive(Debug)]
pub struct Keys {
    path: PathBuf,
    proven: bool,
    /// Tried in place of one that is not known, so that neither time nor words tell which there are.
    nobodys: Secret,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stamp: Option<Stamp>,
    table: Arc<Table>,
    fault: Option<String>,
}

/// What tells one file, and one state of it, from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    bytes: u64,
    written: (i64, i64),
    /// Rights and owner, too.
    changed: (i64, i64),
}

impl Stamp {
    fn of(facts: &Metadata) -> Self {
        Self {
            place: (facts.dev(), facts.ino()),
            bytes: facts.size(),
            written: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        }
    }
}

/// The file's text, and which state of it that is.
fn read(path: &Path) -> io::Result<(Stamp, String)> {
    // A pipe would hold this thread up until somebody writes.
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let stamp = Stamp::of(&facts);
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::other(format!("it is longer than {MOST_BYTES} bytes")));
    }
    if text.trim().is_empty() {
        // A file that is just being written begins so, and would end every test.
        return Err(io::Error::other("it is empty"));
    }
    Ok((stamp, text))
}

impl Keys {
    /// Reads the file. With `proven` clients must prove a key of it; otherwise its networks alone count.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    pub fn open(path: &Path, proven: bool) -> Result<Self, ErrorRecord> {
        let unusable = |why: String| {
            let what = format!("cannot use the file of keys `{}`", path.display());
            let file = shell_word(&path.to_string_lossy());
            let hint = format!("make one: linerate keys new NAME --keys {file}");
            ErrorRecord::new(ErrorKind::Usage, what, why, &[&hint])
        };
        let (stamp, text) = read(path).map_err(|e| unusable(e.to_string()))?;
        let table = Arc::new(Table::read(&text).map_err(|fault| unusable(fault.to_string()))?);
        let (id, secret) = super::fresh();
        let nobodys = auth::own_key(&id, &secret);
        Ok(Self {
            path: path.to_owned(),
            proven,
            nobodys: Secret(nobodys),
            state: Mutex::new(State { stamp: Some(stamp), table, fault: None }),
        })
    }

    /// Whether clients must prove a key.
    pub fn proven(&self) -> bool {
        self.proven
    }

    /// Whether a key or a network has a budget of bytes a day.
    pub fn count_bytes(&self) -> bool {
        let table = self.table();
        let keys = table.keys.iter().map(|key| &key.budget);
        let mut all = keys.chain(table.networks.iter().map(|network| &network.budget));
        all.any(|budget| budget.bytes_per_day.is_some())
    }

    /// Whether the file can be read by who this process is by now: one that could not would miss a revocation.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn readable(&self) -> Result<(), ErrorRecord> {
        read(&self.path).map(drop).map_err(|e| {
            ErrorRecord::new(
                ErrorKind::Unable,
                format!("cannot read the file of keys `{}` while serving", self.path.display()),
                e.to_string(),
                &["let the user of --user read it, and not write it: root's, with a group of that user's (chgrp) and \
                   mode 0640, in a directory that this user may enter"],
            )
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it whole: every change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What holds now.
    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.lock().table)
    }

    /// Reads the file again if it has changed; what is to be said of that.
    pub(crate) fn look(&self, now: Timestamp) -> Option<Event> {
        self.look_with(now, read)
    }

    fn look_with(
        &self,
        now: Timestamp,
        read: impl Fn(&Path) -> io::Result<(Stamp, String)>,
    ) -> Option<Event> {
        let mut state = self.lock();
        let stamp = std::fs::metadata(&self.path).map(|facts| Stamp::of(&facts)).ok();
        if stamp == state.stamp && stamp.is_some() {
            return None;
        }
        let read = read(&self.path);
        // One that could not be read now, for want of descriptors say, is read the next time, and so is one that
        // changed since.
        state.stamp = stamp.filter(|_| read.is_ok());
        let table = read
            .map_err(|e| e.to_string())
            .and_then(|(_, text)| Table::read(&text).map_err(|fault| fault.to_string()));
        match table {
            Ok(table) => {
                state.table = Arc::new(table);
                state.fault = None;
            }
            Err(why) if state.fault.as_ref() == Some(&why) => return None,
            Err(why) => state.fault = Some(why),
        }
        Some(said(&state.table, state.fault.clone(), now))
    }

    /// What is said of the file at the start.
    pub(crate) fn begun(&self, now: Timestamp) -> Event {
        said(&self.table(), None, now)
    }

    /// Whether a key of that id stands in the file.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.table().find(id).is_some()
    }

    /// What a client that names the key of that id must prove.
    pub(crate) fn asked(&self, id: &str) -> Asked {
        let table = self.table();
        let key = table.find(id).cloned();
        let text = key.as_ref().map_or_else(|| self.nobodys.0.clone(), |key| key.text());
        Asked { proof: text.into_bytes(), key }
    }
}

fn said(table: &Table, why: Option<String>, now: Timestamp) -> Event {
    let (keys, networks) = (table.holding(now), table.networks.len());
    Event::KeysRead { keys, networks, why }
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::written;
    use super::*;

    #[test]
    fn a_changed_file_is_read_again_and_a_damaged_one_changes_nothing_and_is_said_once() {
        let path = std::env::temp_dir().join(format!("linerate-kept-{}", std::process::id()));
        let now: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        let write = |text: &str| {
            // As the writer does it: another file in its place.
            let draft = path.with_extension("part");
            std::fs::write(&draft, text).unwrap();
            std::fs::rename(draft, &path).unwrap();
        };
        assert!(Keys::open(&path, true).unwrap_err().hints[0].contains("keys new"));
        write(&written("ci", 'a', ""));
        let keys = Keys::open(&path, true).unwrap();
        assert_eq!(keys.look(now), None);
        let read = |keys, why: Option<&str>| Event::KeysRead {
            keys,
            networks: 0,
            why: why.map(Into::into),
        };
        write(&(written("ci", 'a', "") + &written("lab", 'b', "")));
        assert_eq!(keys.look(now), Some(read(2, None)));
        assert_eq!(keys.look(now), None);
        for (text, why) in [("[[key]]\nname = 5\n", "line 2"), ("", "it is empty"), ("\n", "")] {
            write(text);
            let said = keys.look(now);
            match &said {
                Some(Event::KeysRead { keys: 2, why: Some(said), .. }) => {
                    assert!(said.contains(why), "{said}");
                }
                // The same as before.
                None if why.is_empty() => {}
                other => panic!("{text:?}: {other:?}"),
            }
            assert_eq!(keys.look(now), None, "{text:?}");
            assert!(keys.asked(&"b".repeat(16)).key.is_some(), "{text:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(keys.look(now), Some(Event::KeysRead { why: Some(_), .. })));
        assert_eq!(keys.look(now), None);
        write(&written("lab", 'b', "revoked = \"2026-01-02T00:00:00Z\""));
        assert_eq!(keys.look(now), Some(read(0, None)));
        let known = keys.asked(&"b".repeat(16));
        assert_eq!(known.key.map(|key| key.text().into_bytes()), Some(known.proof.clone()));
        let unknown = keys.asked("no such id");
        assert!(unknown.key.is_none() && unknown.proof.len() == known.proof.len());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_could_not_be_read_once_is_read_the_next_time() {
        let path = std::env::temp_dir().join(format!("linerate-once-{}", std::process::id()));
        let now: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        std::fs::write(&path, written("ci", 'a', "")).unwrap();
        let keys = Keys::open(&path, true).unwrap();
        let next = path.with_extension("part");
        std::fs::write(&next, written("ci", 'a', "revoked = \"2026-01-02T00:00:00Z\"")).unwrap();
        std::fs::rename(&next, &path).unwrap();
        let full = |_: &Path| Err(io::Error::from_raw_os_error(nix::libc::EMFILE));
        let said = |event| match event {
            Some(Event::KeysRead { keys, why, .. }) => (keys, why.is_some()),
            other => panic!("{other:?}"),
        };
        assert_eq!(said(keys.look_with(now, full)), (1, true));
        assert_eq!(keys.look_with(now, full), None, "it is said once");
        assert_eq!(said(keys.look(now)), (0, false));
        std::fs::remove_file(&path).unwrap();
    }
}
