//! What an agent keeps until a store elsewhere has it: its results, and the highest lease that it was given.
//!
//! When [`Outbox::put`] or [`Outbox::raise`] returns, it is on stable storage as a campaign's runs are.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::lock::Lock;
use crate::write::settings;
use crate::{StoreError, lock};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS result (turn TEXT PRIMARY KEY, at_s INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS lease (id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL) STRICT;
";

/// How much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Results.
    pub count: u64,
    /// When the oldest was put in, in seconds since 1970; nothing where there is none.
    pub oldest_s: Option<u64>,
}

/// An open outbox. There is one at a time for each file, in all processes.
#[derive(Debug)]
pub struct Outbox {
    connection: Connection,
    path: PathBuf,
    _lock: Lock,
}

/// SQLite has no larger number.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Outbox {
    /// Opens it; makes it where there is none.
    ///
    /// # Errors
    /// When another process has it, or it cannot be read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let held = lock::take(path)?;
        let fail = |e: &rusqlite::Error| StoreError::sqlite("open", path, e);
        let connection = Connection::open(path).map_err(|e| fail(&e))?;
        settings(&connection).map_err(|e| fail(&e))?;
        connection.execute_batch(SCHEMA).map_err(|e| fail(&e))?;
        Ok(Self { connection, path: path.to_owned(), _lock: held })
    }

    fn change(&self, what: &str, values: impl Params) -> Result<usize, StoreError> {
        let changed = self.connection.execute(what, values);
        changed.map_err(|e| StoreError::sqlite("write to", &self.path, &e))
    }

    /// Keeps a result under the name of its turn; one that is there already stays as it is. `at_s` are seconds since
    /// 1970.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&mut self, turn: &str, at_s: u64, body: &[u8]) -> Result<(), StoreError> {
        let what = "INSERT OR IGNORE INTO result (turn, at_s, body) VALUES (?1, ?2, ?3)";
        self.change(what, params![turn, signed(at_s), body]).map(|_| ())
    }

    /// Forgets a result: a store has it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn remove(&mut self, turn: &str) -> Result<bool, StoreError> {
        self.change("DELETE FROM result WHERE turn = ?1", [turn]).map(|count| count > 0)
    }

    /// Forgets what was put in before `at_s`. Says how much that was.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn forget_before(&mut self, at_s: u64) -> Result<usize, StoreError> {
        self.change("DELETE FROM result WHERE at_s < ?1", [signed(at_s)])
    }

    /// Names of all turns that wait, the oldest first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn turns(&self) -> Result<Vec<String>, StoreError> {
        let read = || {
            let mut all =
                self.connection.prepare("SELECT turn FROM result ORDER BY at_s, rowid")?;
            let turns = all.query_map([], |row| row.get::<_, String>(0))?;
            turns.collect::<rusqlite::Result<Vec<String>>>()
        };
        read().map_err(|e| self.unread(&e))
    }

    /// A result, if it still waits.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn body(&self, turn: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let what = "SELECT body FROM result WHERE turn = ?1";
        let body = self.connection.query_row(what, [turn], |row| row.get(0)).optional();
        body.map_err(|e| self.unread(&e))
    }

    /// How much waits.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn waiting(&self) -> Result<Waiting, StoreError> {
        let what = "SELECT count(*), min(at_s) FROM result";
        let read = self.connection.query_row(what, [], |row| {
            let (count, oldest): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(Waiting { count: count.unsigned_abs(), oldest_s: oldest.map(i64::unsigned_abs) })
        });
        read.map_err(|e| self.unread(&e))
    }

    /// The highest lease that was ever given; 0 before the first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn epoch(&self) -> Result<u64, StoreError> {
        let what = "SELECT epoch FROM lease WHERE id = 1";
        let epoch = self.connection.query_row(what, [], |row| row.get::<_, i64>(0)).optional();
        epoch.map(|epoch| epoch.unwrap_or(0).unsigned_abs()).map_err(|e| self.unread(&e))
    }

    /// A lease was given, so that no earlier one counts any more, also after a restart.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn raise(&mut self, epoch: u64) -> Result<(), StoreError> {
        let what = "INSERT INTO lease (id, epoch) VALUES (1, ?1)
            ON CONFLICT (id) DO UPDATE SET epoch = max(epoch, excluded.epoch)";
        self.change(what, [signed(epoch)]).map(|_| ())
    }

    fn unread(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::sqlite("read", &self.path, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a test's own, which goes with it.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("linerate-outbox-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn open(&self) -> Result<Outbox, StoreError> {
            Outbox::open(&self.0.join("outbox.db"))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_put_in_stays_until_it_is_removed() {
        let place = Place::new("stays");
        let mut outbox = place.open().unwrap();
        assert_eq!(outbox.waiting().unwrap(), Waiting::default());
        for (turn, at_s, body) in [("b", 20, "2"), ("a", 10, "1"), ("b", 30, "3")] {
            outbox.put(turn, at_s, body.as_bytes()).unwrap();
        }
        assert!(matches!(place.open(), Err(StoreError::Locked(_))), "one process at a time");
        drop(outbox);
        let mut outbox = place.open().unwrap();
        assert_eq!(outbox.turns().unwrap(), ["a", "b"]);
        assert_eq!(outbox.waiting().unwrap(), Waiting { count: 2, oldest_s: Some(10) });
        assert_eq!(
            outbox.body("b").unwrap().as_deref(),
            Some(&b"2"[..]),
            "the first is the result"
        );
        assert!(outbox.remove("a").unwrap() && !outbox.remove("a").unwrap());
        assert_eq!(outbox.body("a").unwrap(), None);
        assert_eq!(outbox.forget_before(20).unwrap(), 0);
        assert_eq!(outbox.forget_before(21).unwrap(), 1);
        assert_eq!(outbox.waiting().unwrap(), Waiting::default());
    }

    #[test]
    fn the_highest_lease_is_known_after_a_restart() {
        let place = Place::new("epoch");
        let mut outbox = place.open().unwrap();
        assert_eq!(outbox.epoch().unwrap(), 0);
        for epoch in [1_700_000_000_007, 1_700_000_000_003] {
            outbox.raise(epoch).unwrap();
        }
        drop(outbox);
        assert_eq!(place.open().unwrap().epoch().unwrap(), 1_700_000_000_007);
    }
}
