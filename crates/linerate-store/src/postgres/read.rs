//! Reading results, also while another process writes them.

use std::collections::BTreeMap;

use linerate_model::campaign::{Event, StoredRun};
use postgres::types::ToSql;
use postgres::{Client, Error, Row};

use super::connect::Server;
use super::{counts, identify};
use crate::meta::{DELETED, Deleted};
use crate::row::parsed;
use crate::{Address, Meta, StoreError, StoreReader};

/// Results as they were at one moment, by a connection of its own.
pub(crate) struct View {
    server: Server,
    client: Client,
}

impl View {
    /// Opens it. Writes nothing, and needs no permission to.
    pub(crate) fn open(address: &Address) -> Result<Self, StoreError> {
        let server = Server::of(address)?;
        let mut client = server.connect()?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        client.batch_execute(begin).map_err(|error| server.fault("read", &error))?;
        identify(&server, &mut client)?;
        Ok(Self { server, client })
    }

    /// Whether as many rows are there as were written.
    pub(crate) fn check(&mut self) -> Result<(), StoreError> {
        let deleted = self.deleted()?;
        let (events, runs) = self.counts()?;
        for (table, written, deleted) in
            [("event", events, deleted.events), ("run", runs, deleted.runs)]
        {
            let rows = self.rows(&format!("SELECT count(*) FROM linerate.{table}"), &[])?;
            let found = rows.first().map_or(Ok(0), |row| get::<i64>(row, 0));
            let found = found.map_err(|what| self.damaged(&what))?.unsigned_abs();
            if Some(found) != written.checked_sub(deleted) {
                return Err(self.damaged(&format!(
                    "{table}: {found} rows are there, {written} were written and {deleted} deleted"
                )));
            }
        }
        Ok(())
    }

    fn rows(
        &mut self,
        query: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.client.query(query, values).map_err(|error| self.fault(&error))
    }

    /// What is known of what was deleted, which may be much, or all else.
    fn meta_rows(&mut self, deleted: bool) -> Result<BTreeMap<String, String>, StoreError> {
        let query = "SELECT key, value FROM linerate.meta WHERE (key = $1) = $2";
        let rows = self.rows(query, &[&DELETED, &deleted])?;
        let pair = |row: &Row| Ok((get(row, 0)?, get(row, 1)?));
        rows.iter().map(pair).collect::<Result<_, String>>().map_err(|what| self.damaged(&what))
    }

    /// So many rows of a table whose first row is `first`, or as many as were deleted where those are more.
    fn after(
        &mut self,
        read: u64,
        first: Option<u64>,
        of: impl Fn(&Deleted) -> u64,
    ) -> Result<u64, StoreError> {
        let whole = first.is_some_and(|first| first <= read.saturating_add(1));
        // Only where rows may be gone, what was deleted matters, of which much may be known.
        if whole { Ok(read) } else { Ok(read.max(of(&self.deleted()?))) }
    }

    fn fault(&self, error: &Error) -> StoreError {
        self.server.fault("read", error)
    }

    fn damaged(&self, what: &str) -> StoreError {
        StoreError::Damaged(self.server.shown(), what.to_owned())
    }

    /// Rows whose numbers follow `read` without a gap.
    fn numbered<T>(
        &self,
        rows: &[Row],
        read: u64,
        of: impl Fn(&Row) -> Result<T, String>,
    ) -> Result<Vec<T>, StoreError> {
        let numbers = read.saturating_add(1)..;
        let numbered = numbers.zip(rows).map(|(number, row)| {
            let found = get::<i64>(row, 0)?;
            match u64::try_from(found) {
                Ok(found) if found == number => {
                    of(row).map_err(|why| format!("row {number}: {why}"))
                }
                _ => Err(format!("row {number} is missing, the next is {found}")),
            }
        });
        numbered.collect::<Result<_, String>>().map_err(|what| self.damaged(&what))
    }
}

/// A column of a row.
fn get<'a, T: postgres::types::FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, String> {
    row.try_get(column).map_err(|error| super::connect::words(&error))
}

/// PostgreSQL has no larger number.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl StoreReader for View {
    fn meta(&mut self) -> Result<Meta, StoreError> {
        let rows = self.meta_rows(false)?;
        Meta::of(&rows).map_err(|what| self.damaged(&what))
    }

    fn deleted(&mut self) -> Result<Deleted, StoreError> {
        let rows = self.meta_rows(true)?;
        Deleted::of(&rows).map_err(|what| self.damaged(&what))
    }

    fn firsts(&mut self) -> Result<[Option<u64>; 2], StoreError> {
        let query =
            "SELECT (SELECT min(id) FROM linerate.event), (SELECT min(id) FROM linerate.run)";
        let rows = self.rows(query, &[])?;
        let first = |column| -> Result<Option<u64>, StoreError> {
            let found = rows.first().map(|row| get::<Option<i64>>(row, column)).transpose();
            let found = found.map_err(|what| self.damaged(&what))?.flatten();
            Ok(found.map(i64::unsigned_abs))
        };
        Ok([first(0)?, first(1)?])
    }

    fn counts(&mut self) -> Result<(u64, u64), StoreError> {
        let (events, runs) = counts(&mut self.client).map_err(|error| self.fault(&error))?;
        // Rows are counted from 1.
        Ok((events.unsigned_abs(), runs.unsigned_abs()))
    }

    fn events_after(&mut self, read: u64) -> Result<Vec<(String, Event)>, StoreError> {
        let [first, _] = self.firsts()?;
        let read = self.after(read, first, |deleted| deleted.events)?;
        let query = "SELECT id, at, body::text FROM linerate.event WHERE id > $1 ORDER BY id";
        let rows = self.rows(query, &[&signed(read)])?;
        self.numbered(&rows, read, |row| {
            let body: &str = get(row, 2)?;
            let event = Event::from_json(body.as_bytes()).map_err(|why| why.to_string())?;
            Ok((get(row, 1)?, event))
        })
    }

    fn runs_after(&mut self, read: u64) -> Result<Vec<(StoredRun, bool)>, StoreError> {
        let [_, first] = self.firsts()?;
        let read = self.after(read, first, |deleted| deleted.runs)?;
        let query = "SELECT id, state, body::text, record IS NOT NULL FROM linerate.run WHERE id > $1 ORDER BY id";
        let rows = self.rows(query, &[&signed(read)])?;
        self.numbered(&rows, read, |row| {
            Ok((parsed(get(row, 1)?, get(row, 2)?, None)?, get(row, 3)?))
        })
    }

    fn run(&mut self, number: u64) -> Result<Option<StoredRun>, StoreError> {
        let query = "SELECT state, body::text, record::text FROM linerate.run WHERE id = $1";
        let rows = self.rows(query, &[&signed(number)])?;
        let run = |row: &Row| parsed(get(row, 0)?, get(row, 1)?, get(row, 2)?);
        rows.first().map(run).transpose().map_err(|what| self.damaged(&what))
    }
}
