//! The one writer of a campaign.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use linerate_model::campaign::{Event, Slot, StoredRun};
use rusqlite::{Connection, OpenFlags, Transaction, params};

use crate::error::shown;
use crate::lock::Lock;
use crate::meta::{DELETED, Deleted};
use crate::row::{self, RunRow};
use crate::{APPLICATION_ID, Meta, Reader, SCHEMA, SCHEMA_VERSION, StoreError, lock};

/// An open campaign. There is one at a time for each store, in all processes.
#[derive(Debug)]
pub struct Campaign {
    connection: Connection,
    path: PathBuf,
    /// After an error the file's state is unknown to this process for good.
    broken: bool,
    _lock: Lock,
}

impl Campaign {
    /// Makes the store. Until this returns there is none: the file gets its name when it is whole.
    pub fn create(path: &Path, meta: &Meta, slots: &[Slot]) -> Result<Self, StoreError> {
        let held = lock::take(path)?;
        if path.exists() {
            return Err(StoreError::Exists(shown(path)));
        }
        let draft = lock::beside(path, ".new");
        // What an earlier attempt left; a link in its place first, so that nothing is taken away beside what it names.
        let _ = std::fs::remove_file(&draft);
        for end in ["-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(lock::beside(&draft, end));
        }
        let fail = |e: &rusqlite::Error| StoreError::sqlite("create", path, e);
        {
            let mut connection = Connection::open(&draft).map_err(|e| fail(&e))?;
            settings(&connection).map_err(|e| fail(&e))?;
            fill(&mut connection, meta, slots).map_err(|e| fail(&e))?;
            // The log has the draft's name, and is lost with it: all must be in the file.
            truncate_wal(&connection).map_err(|e| fail(&e))?;
            connection.close().map_err(|(_, e)| fail(&e))?;
        }
        let io = |e: &std::io::Error| StoreError::io("create", path, e);
        OpenOptions::new()
            .write(true)
            .open(&draft)
            .and_then(|f| f.sync_all())
            .map_err(|e| io(&e))?;
        std::fs::rename(&draft, path).map_err(|e| io(&e))?;
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))
            .and_then(|f| f.sync_all())
            .map_err(|e| io(&e))?;
        Self::with_lock(path, held)
    }

    /// Opens a store to go on. Refuses one that is damaged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(StoreError::io("open", path, &missing));
        }
        Self::with_lock(path, lock::take(path)?)
    }

    fn with_lock(path: &Path, held: Lock) -> Result<Self, StoreError> {
        let fail = |e: &rusqlite::Error| StoreError::sqlite("open", path, e);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|e| fail(&e))?;
        settings(&connection).map_err(|e| fail(&e))?;
        let campaign = Self { connection, path: path.to_owned(), broken: false, _lock: held };
        let reader = campaign.reader()?;
        if let Some(damage) = reader.check().first() {
            return Err(StoreError::Damaged(shown(path), damage.to_string()));
        }
        drop(reader);
        let _ = truncate_wal(&campaign.connection);
        Ok(campaign)
    }

    /// Whether its end was asked for since it was opened; says so once.
    pub fn asked_to_stop(&self) -> bool {
        std::fs::remove_file(lock::beside(&self.path, lock::STOP)).is_ok()
    }

    /// A reader of the same file.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open(&self.path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps an event. It is acknowledged when this returns.
    pub fn keep(&mut self, at: &str, event: &Event) -> Result<(), StoreError> {
        self.commit(|transaction| insert_event(transaction, at, event))
    }

    /// Keeps a run and the event of its end, both or neither; returns the run's number. A second
    /// run that counts for one slot is refused.
    pub fn keep_run(
        &mut self,
        at: &str,
        run: &StoredRun,
        event: &Event,
    ) -> Result<u64, StoreError> {
        self.commit(|transaction| {
            let id = insert_run(transaction, run)?;
            insert_event(transaction, at, event)?;
            // Rows count from 1.
            Ok(id.unsigned_abs())
        })
    }

    /// Deletes all events and runs before the first that belongs to this slot or a later one, for good. `state` is
    /// what must be known of them; it is kept in the same step ([`Reader::deleted`]).
    pub fn delete_before(&mut self, slot: u32, state: &str) -> Result<(), StoreError> {
        self.commit(|transaction| {
            let last = |table: &str, slot_of: &str, written: &str| {
                let query = format!(
                    "SELECT coalesce((SELECT min(id) FROM {table} WHERE {slot_of} >= ?1),
                         (SELECT {written} + 1 FROM head WHERE id = 1)) - 1"
                );
                transaction.query_row(&query, [slot], |row| row.get::<_, i64>(0))
            };
            let events = last("event", "json_extract(body, '$.slot')", "events")?;
            let runs = last("run", "slot", "runs")?;
            transaction.execute("DELETE FROM event WHERE id <= ?1", [events])?;
            transaction.execute("DELETE FROM run WHERE id <= ?1", [runs])?;
            let (events, runs) = (events.unsigned_abs(), runs.unsigned_abs());
            let body = json(&Deleted { events, runs, state: state.to_owned() })?;
            let sum = row::sum("meta", &[DELETED.as_bytes(), body.as_bytes()]);
            transaction.execute(
                "INSERT OR REPLACE INTO meta (key, value, sum) VALUES (?1, ?2, ?3)",
                params![DELETED, body, sum.as_slice()],
            )?;
            Ok(())
        })
    }

    fn commit<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if self.broken {
            return Err(StoreError::Io {
                what: "write to",
                place: shown(&self.path),
                why: "an earlier write failed; what of it is on the disk is not known".into(),
                full: false,
            });
        }
        let done = self.connection.transaction().and_then(|transaction| {
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        match done {
            Ok(value) => {
                let _ = truncate_wal(&self.connection);
                Ok(value)
            }
            Err(error) => {
                self.broken = true;
                Err(StoreError::sqlite("write to", &self.path, &error))
            }
        }
    }
}

/// Folds the log into the file. A damaged log would take with it what was committed after the
/// damage, without a trace; in the file each row has its checksum. A reader in the way, or a disk
/// that is full, leaves the log as it is, and it holds all that was committed.
fn truncate_wal(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

pub(crate) fn settings(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")
}

fn fill(connection: &mut Connection, meta: &Meta, slots: &[Slot]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    for (key, value) in meta.rows() {
        let sum = row::sum("meta", &[key.as_bytes(), value.as_bytes()]);
        transaction.execute(
            "INSERT INTO meta (key, value, sum) VALUES (?1, ?2, ?3)",
            params![key, value, sum.as_slice()],
        )?;
    }
    for slot in slots {
        let id = i64::from(slot.index);
        let body = json(slot)?;
        let sum = row::sum("slot", &[&id.to_le_bytes(), body.as_bytes()]);
        transaction.execute(
            "INSERT INTO slot (id, body, sum) VALUES (?1, ?2, ?3)",
            params![id, body, sum.as_slice()],
        )?;
    }
    let slots = slots.len() as i64;
    transaction.execute(
        "INSERT INTO head (id, slots, events, runs, sum) VALUES (1, ?1, 0, 0, ?2)",
        params![slots, row::head_sum(slots, 0, 0).as_slice()],
    )?;
    transaction.commit()
}

fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

/// Counts one more row of a table in the head, and returns its number.
fn count(transaction: &Transaction<'_>, events: i64, runs: i64) -> rusqlite::Result<(i64, i64)> {
    let (slots, e, r): (i64, i64, i64) =
        transaction.query_row("SELECT slots, events, runs FROM head WHERE id = 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let (events, runs) = (e + events, r + runs);
    transaction.execute(
        "UPDATE head SET events = ?1, runs = ?2, sum = ?3 WHERE id = 1",
        params![events, runs, row::head_sum(slots, events, runs).as_slice()],
    )?;
    Ok((events, runs))
}

fn insert_event(transaction: &Transaction<'_>, at: &str, event: &Event) -> rusqlite::Result<()> {
    let (id, _) = count(transaction, 1, 0)?;
    let body = json(event)?;
    let sum = row::sum("event", &[&id.to_le_bytes(), at.as_bytes(), body.as_bytes()]);
    transaction.execute(
        "INSERT INTO event (id, at, body, sum) VALUES (?1, ?2, ?3, ?4)",
        params![id, at, body, sum.as_slice()],
    )?;
    Ok(())
}

fn insert_run(transaction: &Transaction<'_>, run: &StoredRun) -> rusqlite::Result<i64> {
    let (_, id) = count(transaction, 0, 1)?;
    let run = StoredRun { id: id.unsigned_abs(), ..run.clone() };
    let kept = RunRow::of(&run).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    let sum = row::run_sum(id, &kept);
    transaction.execute(
        "INSERT INTO run (id, slot, state, setting, boot, warmup, value, body, record, sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            id,
            kept.slot,
            kept.state,
            kept.setting,
            kept.boot,
            kept.warmup,
            kept.value,
            kept.body,
            kept.record,
            sum.as_slice()
        ],
    )?;
    Ok(id)
}
