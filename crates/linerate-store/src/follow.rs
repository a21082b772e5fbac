//! What has come into a store since it was last read: rows are added and never changed.

use linerate_model::campaign::{Event, StoredRun};
use rusqlite::OptionalExtension as _;

use crate::read::{EVENT_COLUMNS, RUN_COLUMNS, read_event, read_run};
use crate::{Damage, Deleted, Reader, StoreError};

impl Reader {
    /// How many events and runs were written, those that were deleted among them.
    pub fn counts(&self) -> Result<(u64, u64), StoreError> {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let head = "SELECT events, runs FROM head WHERE id = 1";
        let (events, runs) = self
            .connection
            .query_row(head, [], read)
            .map_err(|e| StoreError::sqlite("read", &self.path, &e))?;
        // Rows are counted from 1.
        Ok((events.unsigned_abs(), runs.unsigned_abs()))
    }

    /// The numbers of the first event and the first run that are there: others than before where some were deleted
    /// since.
    pub fn firsts(&self) -> Result<[Option<u64>; 2], StoreError> {
        let query = "SELECT (SELECT min(id) FROM event), (SELECT min(id) FROM run)";
        let read = |row: &rusqlite::Row<'_>| Ok([row.get(0)?, row.get(1)?]);
        let found: [Option<i64>; 2] = self
            .connection
            .query_row(query, [], read)
            .map_err(|e| StoreError::sqlite("read", &self.path, &e))?;
        Ok(found.map(|first| first.map(i64::unsigned_abs)))
    }

    /// The number of the first row after so many of a table whose first row is `first`.
    fn first_after(&self, read: u64, first: Option<u64>, of: impl Fn(&Deleted) -> u64) -> i64 {
        let whole = first.is_some_and(|first| first <= read.saturating_add(1));
        // Only where rows may be gone, what was deleted matters, of which much may be known.
        if whole { next(read) } else { next(read).max(self.first(of)) }
    }

    /// The events after so many, with their times, in their order.
    pub fn events_after(&self, read: u64) -> Result<Vec<(String, Event)>, StoreError> {
        let [first, _] = self.firsts()?;
        let first = self.first_after(read, first, |deleted| deleted.events);
        self.whole(self.rows("event", EVENT_COLUMNS, Some(first), read_event))
    }

    /// The runs after so many, in the order of their ends: each checked with its record and without it, and whether
    /// it has one.
    pub fn runs_after(&self, read: u64) -> Result<Vec<(StoredRun, bool)>, StoreError> {
        let [_, first] = self.firsts()?;
        let first = self.first_after(read, first, |deleted| deleted.runs);
        self.whole(self.rows("run", RUN_COLUMNS, Some(first), |id, row| {
            let mut run = read_run(id, row)?;
            let recorded = run.record.take().is_some();
            Ok((run, recorded))
        }))
    }

    /// The run of this number with its record; none where there is no such run.
    pub fn run(&self, number: u64) -> Result<Option<StoredRun>, StoreError> {
        let Ok(id) = i64::try_from(number) else { return Ok(None) };
        let query = format!("SELECT {RUN_COLUMNS} FROM run NOT INDEXED WHERE id = ?1");
        let found = self.connection.query_row(&query, [id], |row| Ok(read_run(id, row))).optional();
        let found = found.map_err(|e| StoreError::sqlite("read", &self.path, &e))?;
        found.transpose().map_err(|what| {
            let damage = Damage { table: "run", row: Some(id), what };
            self.damaged(&damage)
        })
    }
}

fn next(read: u64) -> i64 {
    i64::try_from(read).unwrap_or(i64::MAX).saturating_add(1)
}
