//! Reading a campaign, also while another process writes it, and where nothing may be written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use linerate_model::campaign::{Event, RunState, Slot, StoredRun};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags, Row};

use crate::error::shown;
use crate::meta::{DELETED, Deleted, Meta};
use crate::row::{self, RunRow};
use crate::{APPLICATION_ID, Damage, SCHEMA_VERSION, StoreError, lock};

/// How a store is opened to read.
#[derive(Clone, Copy)]
enum How {
    /// Beside a writer.
    Shared,
    /// Where nobody writes it, with its log.
    Alone,
    /// Without a log.
    Immutable,
}

/// A store opened to read, as it was at that moment: what is written meanwhile another one sees.
#[derive(Debug)]
pub struct Reader {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
}

impl Reader {
    /// Opens it. Writes nothing, and needs no permission to; a log that a dead writer left is read
    /// too.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(StoreError::io("open", path, &missing));
        }
        let reader = match Self::try_open(path, How::Shared) {
            Ok(reader) => reader,
            // SQLite wants to make the log's index beside a file whose log is empty; where it may
            // not, and no log holds anything, the file itself is all there is.
            Err(StoreError::Io { .. }) if log_is_empty(path) => {
                Self::try_open(path, How::Immutable)?
            }
            // A writer that was killed in the middle of a change to the index left it so that only
            // one who may write can put it right.
            Err(error) if !lock::is_locked(path) => {
                Self::try_open(path, How::Alone).map_err(|_| error)?
            }
            Err(error) => return Err(error),
        };
        reader.identify()?;
        Ok(reader)
    }

    fn try_open(path: &Path, how: How) -> Result<Self, StoreError> {
        let fail = |e: &rusqlite::Error| StoreError::sqlite("read", path, e);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let uri = |query: &str| format!("file:{}?{query}", uri_path(path));
        let connection = match how {
            How::Shared => Connection::open_with_flags(path, flags - OpenFlags::SQLITE_OPEN_URI),
            How::Alone => Connection::open_with_flags(uri("vfs=unix-none"), flags),
            How::Immutable => Connection::open_with_flags(uri("immutable=1"), flags),
        }
        .map_err(|e| fail(&e))?;
        let alone = match how {
            // The index is made anew in this process' own memory (https://sqlite.org/wal.html, section 8).
            How::Alone => connection.pragma_update(None, "locking_mode", "EXCLUSIVE"),
            How::Shared | How::Immutable => Ok(()),
        };
        let ready = alone
            .and_then(|()| connection.busy_timeout(std::time::Duration::from_secs(10)))
            .and_then(|()| connection.pragma_update(None, "trusted_schema", false))
            .and_then(|()| connection.pragma_update(None, "cell_size_check", true))
            // One moment for all that is read: counts and rows of two would contradict each other beside a writer.
            .and_then(|()| connection.execute_batch("BEGIN"))
            // The first read shows whether the file can be read at all.
            .and_then(|()| {
                connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
            });
        ready.map_err(|e| fail(&e))?;
        Ok(Self { connection, path: path.to_owned() })
    }

    fn identify(&self) -> Result<(), StoreError> {
        let number = |pragma: &str| -> Result<i32, StoreError> {
            self.connection
                .pragma_query_value(None, pragma, |row| row.get(0))
                .map_err(|e| StoreError::sqlite("read", &self.path, &e))
        };
        if number("application_id")? != APPLICATION_ID {
            let why = "it is another program's SQLite file, or its header is damaged".into();
            return Err(StoreError::Foreign(shown(&self.path), why));
        }
        match number("user_version")? {
            SCHEMA_VERSION => Ok(()),
            other => Err(StoreError::Version(shown(&self.path), other)),
        }
    }

    /// What was kept when the campaign began.
    pub fn meta(&self) -> Result<Meta, StoreError> {
        // What must be known of what was deleted is beside it, and may be as much as all the rest.
        let (found, damage) = self.read_meta(&format!("WHERE key <> '{DELETED}' "));
        if let Some(damage) = damage.first() {
            return Err(self.damaged(damage));
        }
        Meta::of(&found).map_err(|what| StoreError::Damaged(shown(&self.path), what))
    }

    /// What was deleted; nothing of most stores.
    pub fn deleted(&self) -> Result<Deleted, StoreError> {
        let (found, damage) = self.readable_meta();
        match damage.first() {
            Some(damage) => Err(self.damaged(damage)),
            None => Deleted::of(&found)
                .map_err(|what| self.damaged(&Damage { table: "meta", row: None, what })),
        }
    }

    /// The number of the first row of events or runs that is there.
    pub(crate) fn first(&self, of: impl Fn(&Deleted) -> u64) -> i64 {
        // What cannot be read is told of the rows that are missing.
        let deleted = Deleted::of(&self.readable_meta().0).unwrap_or_default();
        i64::try_from(of(&deleted)).unwrap_or(i64::MAX).saturating_add(1)
    }

    /// The design.
    pub fn slots(&self) -> Result<Vec<Slot>, StoreError> {
        self.whole(self.read_slots())
    }

    /// All events with their times, in their order.
    pub fn events(&self) -> Result<Vec<(String, Event)>, StoreError> {
        self.whole(self.readable_events())
    }

    /// All runs without their records, which may be more than memory holds.
    pub fn figures(&self) -> Result<Vec<StoredRun>, StoreError> {
        self.whole(self.read_runs(false))
    }

    /// All runs, in the order of their ends.
    pub fn runs(&self) -> Result<Vec<StoredRun>, StoreError> {
        self.whole(self.readable_runs())
    }

    /// Everything that is not as it was written; nothing in a sound file.
    pub fn check(&self) -> Vec<Damage> {
        fn count<T>(damage: &mut Vec<Damage>, (rows, found): (Vec<T>, Vec<Damage>)) -> i64 {
            damage.extend(found);
            rows.len() as i64
        }
        let (_, mut damage) = self.readable_meta();
        let slots = count(&mut damage, self.read_slots());
        let deleted = |of: fn(&Deleted) -> u64| self.first(of).saturating_sub(1);
        let events = deleted(|d| d.events) + count(&mut damage, self.readable_events());
        let runs = deleted(|d| d.runs) + count(&mut damage, self.read_runs(false));
        let head = self.connection.query_row(
            "SELECT slots, events, runs, sum FROM head WHERE id = 1",
            [],
            |row| {
                let sum: Vec<u8> = row.get(3)?;
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, sum))
            },
        );
        match head {
            Err(e) => damage.push(Damage { table: "head", row: None, what: e.to_string() }),
            Ok((s, e, r, sum)) => {
                if row::head_sum(s, e, r).as_slice() != sum {
                    let what = "its checksum is another".to_owned();
                    damage.push(Damage { table: "head", row: None, what });
                }
                for (table, want, have) in
                    [("slot", s, slots), ("event", e, events), ("run", r, runs)]
                {
                    if want != have && !damage.iter().any(|d| d.table == table) {
                        let what = format!("{have} rows can be read, and {want} were written");
                        damage.push(Damage { table, row: None, what });
                    }
                }
            }
        }
        damage
    }

    /// Acknowledged runs that are missing, and slots that are filled twice. Both are 0, or the file
    /// is damaged.
    pub fn lost_and_doubled(&self) -> (u64, u64) {
        let (runs, damage) = self.read_runs(false);
        let written: i64 = self
            .connection
            .query_row("SELECT runs FROM head WHERE id = 1", [], |row| row.get(0))
            .unwrap_or(0);
        let deleted = self.first(|deleted| deleted.runs) - 1;
        let lost = (written - deleted - runs.len() as i64).max(damage.len() as i64).max(0);
        let mut filled = BTreeMap::new();
        for run in runs.iter().filter(|r| r.state == RunState::Counted) {
            *filled.entry(run.slot).or_insert(0u64) += 1;
        }
        (lost.unsigned_abs(), filled.values().map(|n| n - 1).sum())
    }

    pub(crate) fn damaged(&self, damage: &Damage) -> StoreError {
        StoreError::Damaged(shown(&self.path), damage.to_string())
    }

    pub(crate) fn whole<T>(
        &self,
        (rows, damage): (Vec<T>, Vec<Damage>),
    ) -> Result<Vec<T>, StoreError> {
        match damage.first() {
            Some(damage) => Err(self.damaged(damage)),
            None => Ok(rows),
        }
    }

    /// Reads every row that can be read. Rows count from `first` without a gap; from a later one than the table's
    /// own, those before it are left alone.
    pub(crate) fn rows<T>(
        &self,
        table: &'static str,
        columns: &str,
        first: Option<i64>,
        read: impl FnMut(i64, &Row<'_>) -> Result<T, String>,
    ) -> (Vec<T>, Vec<Damage>) {
        let later = first.filter(|first| *first > 1);
        let later = later.map_or_else(String::new, |first| format!("WHERE rowid >= {first} "));
        self.rows_of(table, (columns, &later), first, read)
    }

    fn rows_of<T>(
        &self,
        table: &'static str,
        (columns, which): (&str, &str),
        first: Option<i64>,
        mut read: impl FnMut(i64, &Row<'_>) -> Result<T, String>,
    ) -> (Vec<T>, Vec<Damage>) {
        let mut found = Vec::new();
        let mut damage = Vec::new();
        let mut fault = |row, what: String| damage.push(Damage { table, row, what });
        // NOT INDEXED: what an index says of a row need not be what the row says.
        let query = format!("SELECT {columns} FROM {table} NOT INDEXED {which}ORDER BY rowid");
        let mut statement = self.connection.prepare(&query);
        let asked = statement.as_mut().map_err(|e| e.to_string());
        let mut rows = match asked.and_then(|s| s.query([]).map_err(|e| e.to_string())) {
            Ok(rows) => rows,
            Err(why) => {
                fault(None, why);
                return (found, damage);
            }
        };
        let mut next = first;
        loop {
            match rows.next() {
                Ok(None) => break,
                Ok(Some(row)) => {
                    let id: i64 = match (first, get(row, 0)) {
                        (None, _) => 0,
                        (_, Ok(id)) => id,
                        (_, Err(e)) => {
                            fault(None, e);
                            continue;
                        }
                    };
                    if let Some(want) = next {
                        if id != want {
                            fault(Some(want), format!("the next row is {id}"));
                        }
                        next = Some(id.saturating_add(1));
                    }
                    match read(id, row) {
                        Ok(value) => found.push(value),
                        Err(e) => fault(first.map(|_| id), e),
                    }
                }
                Err(e) => {
                    // The tree itself is broken here; what comes after cannot be reached.
                    fault(next, e.to_string());
                    break;
                }
            }
        }
        (found, damage)
    }

    /// What is whole of what was kept when the campaign began, by the names of [`Meta`]'s fields.
    pub fn readable_meta(&self) -> (BTreeMap<String, String>, Vec<Damage>) {
        self.read_meta("")
    }

    fn read_meta(&self, which: &str) -> (BTreeMap<String, String>, Vec<Damage>) {
        let columns = "key, value, sum";
        let (pairs, damage) = self.rows_of("meta", (columns, which), None, |_, row| {
            let (key, value): (String, String) = (get(row, 0)?, get(row, 1)?);
            verify(row::sum("meta", &[key.as_bytes(), value.as_bytes()]), row, 2)?;
            Ok((key, value))
        });
        (pairs.into_iter().collect(), damage)
    }

    fn read_slots(&self) -> (Vec<Slot>, Vec<Damage>) {
        self.rows("slot", "id, body, sum", Some(0), |id, row| {
            let body: String = get(row, 1)?;
            verify(row::sum("slot", &[&id.to_le_bytes(), body.as_bytes()]), row, 2)?;
            serde_json::from_str(&body).map_err(|e| e.to_string())
        })
    }

    /// The events whose rows are whole, with their times, in a file that is damaged elsewhere.
    pub fn readable_events(&self) -> (Vec<(String, Event)>, Vec<Damage>) {
        let first = self.first(|deleted| deleted.events);
        self.rows("event", EVENT_COLUMNS, Some(first), read_event)
    }

    /// The runs whose rows are whole, in a file that is damaged elsewhere.
    pub fn readable_runs(&self) -> (Vec<StoredRun>, Vec<Damage>) {
        self.read_runs(true)
    }

    fn read_runs(&self, records: bool) -> (Vec<StoredRun>, Vec<Damage>) {
        let first = self.first(|deleted| deleted.runs);
        self.rows("run", RUN_COLUMNS, Some(first), |id, row| {
            let run = read_run(id, row)?;
            Ok(if records { run } else { StoredRun { record: None, ..run } })
        })
    }
}

pub(crate) const EVENT_COLUMNS: &str = "id, at, body, sum";
pub(crate) const RUN_COLUMNS: &str =
    "id, slot, state, setting, boot, warmup, value, body, record, sum";

pub(crate) fn read_event(id: i64, row: &Row<'_>) -> Result<(String, Event), String> {
    let (at, body): (String, String) = (get(row, 1)?, get(row, 2)?);
    let sum = row::sum("event", &[&id.to_le_bytes(), at.as_bytes(), body.as_bytes()]);
    verify(sum, row, 3)?;
    Ok((at, Event::from_json(body.as_bytes()).map_err(|e| e.to_string())?))
}

pub(crate) fn read_run(id: i64, row: &Row<'_>) -> Result<StoredRun, String> {
    let kept = RunRow {
        slot: get(row, 1)?,
        state: get(row, 2)?,
        setting: get(row, 3)?,
        boot: get(row, 4)?,
        warmup: get(row, 5)?,
        value: get(row, 6)?,
        body: get(row, 7)?,
        record: get(row, 8)?,
    };
    verify(row::run_sum(id, &kept), row, 9)?;
    kept.run()
}

fn get<T: FromSql>(row: &Row<'_>, column: usize) -> Result<T, String> {
    row.get(column).map_err(|e| e.to_string())
}

fn verify(sum: row::Sum, row: &Row<'_>, column: usize) -> Result<(), String> {
    let kept: Vec<u8> = get(row, column)?;
    if kept == sum { Ok(()) } else { Err("its checksum is another".into()) }
}

fn log_is_empty(path: &Path) -> bool {
    std::fs::metadata(lock::beside(path, "-wal")).map_or(true, |m| m.len() == 0)
}

/// `path` in a `file:` URI of SQLite.
fn uri_path(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut out = String::new();
    for &byte in absolute.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}
