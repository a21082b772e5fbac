//! What an agent keeps until a store elsewhere has it: its results, and the highest lease that it was given.
//!
//! When [`Outbox::put`] or [`Outbox::raise`] returns, it is on stable storage as a campaign's runs are. A result that cannot be
//! written is kept in memory until it can.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::lock::Lock;
use crate::write::settings;
use crate::{StoreError, lock};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS result (turn TEXT PRIMARY KEY, at_s INTEGER NOT NULL, body BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS lease (id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL) STRICT;
";

/// Largest file, in pages of 4,096 bytes: 1 GiB. What does not fit is as what the disk has no room for.
const MOST_PAGES: i64 = 1 << 18;

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
    /// What could not be written: turn, time and body, the oldest first.
    unwritten: Vec<(String, u64, Vec<u8>)>,
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
        let limited =
            connection.pragma_update_and_check(None, "max_page_count", MOST_PAGES, |_| Ok(()));
        limited.and_then(|()| connection.execute_batch(SCHEMA)).map_err(|e| fail(&e))?;
        Ok(Self { connection, path: path.to_owned(), unwritten: Vec::new(), _lock: held })
    }

    fn change(&self, what: &str, values: impl Params) -> Result<usize, StoreError> {
        let changed = self.connection.execute(what, values);
        changed.map_err(|e| StoreError::sqlite("write to", &self.path, &e))
    }

    /// Keeps a result under the name of its turn; one that is there already stays as it is. `at_s` are seconds since
    /// 1970.
    ///
    /// # Errors
    /// When it cannot be written: it is here all the same while this process lives, and [`Outbox::settle`] tries again.
    pub fn put(&mut self, turn: &str, at_s: u64, body: &[u8]) -> Result<(), StoreError> {
        self.unwritten.push((turn.to_owned(), at_s, body.to_owned()));
        self.settle().map(|_| ())
    }

    /// Writes what could not be written before. Says how much that was.
    ///
    /// # Errors
    /// When there is something that still cannot be written.
    pub fn settle(&mut self) -> Result<usize, StoreError> {
        let what = "INSERT OR IGNORE INTO result (turn, at_s, body) VALUES (?1, ?2, ?3)";
        let mut written: usize = 0;
        while let Some((turn, at_s, body)) = self.unwritten.first() {
            self.change(what, params![turn, signed(*at_s), body])?;
            self.unwritten.remove(0);
            written = written.saturating_add(1);
        }
        Ok(written)
    }

    /// Forgets a result: a store has it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn remove(&mut self, turn: &str) -> Result<bool, StoreError> {
        let unwritten = self.unwritten.extract_if(.., |(of, ..)| of.as_str() == turn).count();
        let written = self.change("DELETE FROM result WHERE turn = ?1", [turn])?;
        Ok(unwritten > 0 || written > 0)
    }

    /// Forgets what was put in before `at_s`. Says how much that was.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn forget_before(&mut self, at_s: u64) -> Result<usize, StoreError> {
        self.change("DELETE FROM result WHERE at_s < ?1", [signed(at_s)])
    }

    /// Names of all turns that wait, the oldest first; after them what could not be written.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn turns(&self) -> Result<Vec<String>, StoreError> {
        let read = || {
            let mut all =
                self.connection.prepare("SELECT turn FROM result ORDER BY at_s, rowid")?;
            let turns = all.query_map([], |row| row.get::<_, String>(0))?;
            let unwritten = self.unwritten.iter().map(|(turn, ..)| Ok(turn.clone()));
            turns.chain(unwritten).collect::<rusqlite::Result<Vec<String>>>()
        };
        read().map_err(|e| self.unread(&e))
    }

    /// A result, if it still waits.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn body(&self, turn: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some((.., body)) = self.unwritten.iter().find(|(of, ..)| of == turn) {
            return Ok(Some(body.clone()));
        }
        let what = "SELECT body FROM result WHERE turn = ?1";
        let body = self.connection.query_row(what, [turn], |row| row.get(0)).optional();
        body.map_err(|e| self.unread(&e))
    }

    /// How much waits, with what could not be written.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn waiting(&self) -> Result<Waiting, StoreError> {
        let what = "SELECT count(*), min(at_s) FROM result";
        let read = self.connection.query_row(what, [], |row| {
            let (count, oldest): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(Waiting { count: count.unsigned_abs(), oldest_s: oldest.map(i64::unsigned_abs) })
        });
        let mut waiting = read.map_err(|e| self.unread(&e))?;
        for (_, at_s, _) in &self.unwritten {
            waiting.count = waiting.count.saturating_add(1);
            waiting.oldest_s = waiting.oldest_s.into_iter().chain([*at_s]).min();
        }
        Ok(waiting)
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
    /// When it cannot be written, or a result could not: no more of them are to come to be in memory alone.
    pub fn raise(&mut self, epoch: u64) -> Result<(), StoreError> {
        self.settle()?;
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
    fn what_cannot_be_written_is_kept_and_written_when_there_is_room() {
        let place = Place::new("room");
        let mut outbox = place.open().unwrap();
        let number = |outbox: &Outbox, pragma: &str| {
            let found = outbox.connection.pragma_query_value(None, pragma, |row| row.get(0));
            found.unwrap_or(0_i64)
        };
        assert_eq!(number(&outbox, "max_page_count") * number(&outbox, "page_size"), 1 << 30);
        outbox.put("run.0.1", 10, b"{}").unwrap();
        let most = |outbox: &Outbox, pages: i64| {
            let set = &outbox.connection;
            set.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
        };
        let pages = outbox.connection.query_row("PRAGMA page_count", [], |row| row.get(0));
        most(&outbox, pages.unwrap());
        let body = vec![b' '; 1 << 17];
        let full = outbox.put("run.1.1", 20, &body).unwrap_err();
        assert!(matches!(full, StoreError::Io { full: true, .. }), "{full:?}");
        assert_eq!(outbox.turns().unwrap(), ["run.0.1", "run.1.1"], "it can be sent");
        assert_eq!(outbox.body("run.1.1").unwrap().as_ref(), Some(&body));
        assert_eq!(outbox.waiting().unwrap(), Waiting { count: 2, oldest_s: Some(10) });
        assert!(outbox.raise(7).is_err(), "no other test may end with one that cannot be written");
        outbox.put("run.2.1", 30, &body).unwrap_err();
        assert!(outbox.remove("run.2.1").unwrap(), "a store has it");
        most(&outbox, 1 << 20);
        assert_eq!((outbox.settle().unwrap(), outbox.settle().unwrap()), (1, 0));
        drop(outbox);
        let outbox = place.open().unwrap();
        assert_eq!(outbox.turns().unwrap(), ["run.0.1", "run.1.1"]);
        assert_eq!(outbox.body("run.1.1").unwrap().as_ref(), Some(&body));
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
