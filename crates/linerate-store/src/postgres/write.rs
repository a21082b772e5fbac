//! The one writer of results.

use linerate_model::campaign::{Event, StoredRun};
use postgres::types::ToSql;
use postgres::{Client, Error, GenericClient, Transaction};

use super::connect::{Server, is_away};
use super::read::View;
use super::{Counts, SCHEMA, SCHEMA_VERSION, STOP, alone, counts, identify, is_there, lock};
use crate::meta::{DELETED, Deleted};
use crate::row::RunRow;
use crate::{Address, Meta, StoreError, StoreWriter};

/// A server that goes away in the middle of the same step each time is given up.
const ROUNDS: u32 = 5;
/// A process that was killed a moment ago may still have the lock.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Where the session is lost, each of so many questions after the end of it is one for another session: whoever asks twice
/// a second is kept by a server that does not answer once in five.
const ASKS_A_TRY: u32 = 10;
/// So often the lock may be another's: for half a minute, the server may not have seen that this writer's session is over.
const MOST_REFUSALS: u32 = 6;
const OTHERS: &str = "another process wrote it while the server was away";

/// Whoever writes results: one session at a time, by a lock that ends with it.
pub(crate) struct Writer {
    server: Server,
    client: Client,
    written: Counts,
    /// After an error what is on the disk is not known to this process for good.
    broken: bool,
    /// How often it was asked for its end without a session, and how often the lock was another's.
    asks: u32,
    refusals: u32,
}

/// What one step does. It may be done again where a server was killed before it had said that it is done.
type Step<'a> = dyn Fn(&mut Transaction<'_>) -> Result<(), Error> + 'a;

fn transact(client: &mut Client, step: &Step<'_>) -> Result<(), Error> {
    let mut transaction = client.transaction()?;
    step(&mut transaction)?;
    transaction.commit()
}

/// Takes the lock. What was asked of a writer before is forgotten while nobody can ask: from now on others see this one.
fn take(client: &mut Client) -> Result<bool, Error> {
    let mut transaction = alone(client)?;
    let taken = lock(&mut transaction)?;
    if taken && is_there(&mut transaction)? {
        is_asked_to_stop(&mut transaction);
    }
    // The lock is the session's, and stays.
    transaction.commit()?;
    Ok(taken)
}

/// Connects, and takes the lock.
fn locked(server: &Server) -> Result<Client, StoreError> {
    let mut client = server.connect()?;
    for _ in 0..LOCK_TRIES {
        if take(&mut client).map_err(|error| server.fault("lock", &error))? {
            return Ok(client);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(StoreError::Locked(server.shown()))
}

/// Whether whoever writes was asked for its end; says so once.
fn is_asked_to_stop(client: &mut impl GenericClient) -> bool {
    let asked = client.execute("DELETE FROM linerate.meta WHERE key = $1", &[&STOP]);
    asked.is_ok_and(|rows| rows > 0)
}

impl Writer {
    /// Begins: until this returns nothing is there.
    pub(crate) fn create(address: &Address, meta: &Meta) -> Result<Self, StoreError> {
        let server = Server::of(address)?;
        let mut client = locked(&server)?;
        let fault = |error: &Error| server.fault("keep results in", error);
        if is_there(&mut client).map_err(|e| fault(&e))? {
            return Err(StoreError::Exists(server.shown()));
        }
        let fill = |transaction: &mut Transaction<'_>| {
            transaction.batch_execute(SCHEMA)?;
            for (key, value) in meta.rows() {
                let insert = "INSERT INTO linerate.meta (key, value) VALUES ($1, $2)";
                transaction.execute(insert, &[&key, &value])?;
            }
            let head = "INSERT INTO linerate.head (id, version, events, runs) VALUES (1, $1, 0, 0)";
            transaction.execute(head, &[&SCHEMA_VERSION]).map(|_| ())
        };
        transact(&mut client, &fill).map_err(|e| fault(&e))?;
        Ok(Self { server, client, written: (0, 0), broken: false, asks: 0, refusals: 0 })
    }

    /// Goes on. Refuses what is damaged.
    pub(crate) fn open(address: &Address) -> Result<Self, StoreError> {
        let server = Server::of(address)?;
        let mut client = locked(&server)?;
        identify(&server, &mut client)?;
        View::open(address)?.check()?;
        let written = counts(&mut client).map_err(|error| server.fault("read", &error))?;
        Ok(Self { server, client, written, broken: false, asks: 0, refusals: 0 })
    }

    /// Begins another session where the server has ended the one before, and with it the lock: without it others would
    /// take nobody for the writer, whom they could ask for its end. Says whether that was done.
    fn return_to_it(&mut self) -> Result<bool, StoreError> {
        let Ok(mut client) = self.server.connect() else { return Ok(false) };
        match lock(&mut client) {
            Ok(true) => {}
            Ok(false) if self.refusals < MOST_REFUSALS => {
                self.refusals = self.refusals.saturating_add(1);
                return Ok(false);
            }
            Ok(false) => return Err(StoreError::Locked(self.server.shown())),
            Err(_) => return Ok(false),
        }
        match counts(&mut client) {
            Ok(found) if found == self.written => {
                self.client = client;
                Ok(true)
            }
            Ok(_) => Err(self.server.io("write to", OTHERS)),
            Err(_) => Ok(false),
        }
    }

    /// Does one step, after which so much is written. A server that is killed meanwhile is waited for; what was written
    /// says whether the step was done.
    fn commit(&mut self, after: Counts, step: &Step<'_>) -> Result<(), StoreError> {
        if self.broken {
            let why = "an earlier write failed; what of it is on the disk is not known";
            return Err(self.server.io("write to", why));
        }
        self.broken = true;
        let mut done = transact(&mut self.client, step);
        for _ in 0..ROUNDS {
            if !done.as_ref().is_err_and(is_away) {
                break;
            }
            self.client = self.server.await_it(lock)?;
            let found = counts(&mut self.client).map_err(|e| self.server.fault("read", &e))?;
            if found == after && after != self.written {
                done = Ok(());
            } else if found == self.written {
                done = transact(&mut self.client, step);
            } else {
                return Err(self.server.io("write to", OTHERS));
            }
        }
        done.map_err(|error| self.server.fault("write to", &error))?;
        (self.written, self.broken) = (after, false);
        Ok(())
    }

    fn json(&self, value: &impl serde::Serialize) -> Result<String, StoreError> {
        serde_json::to_string(value).map_err(|why| self.server.io("write to", &why.to_string()))
    }
}

impl Drop for Writer {
    /// The server may see a little later that the session is over.
    fn drop(&mut self) {
        let _ = self.client.batch_execute("SELECT pg_advisory_unlock_all()");
    }
}

const EVENT: &str = "INSERT INTO linerate.event (id, at, body) VALUES ($1, $2, $3::text::json)";
const RUN: &str = "INSERT INTO linerate.run (id, slot, state, setting, value, body, record)
    VALUES ($1, $2, $3, $4, $5, $6::text::json, $7::text::json)";
const HEAD: &str = "UPDATE linerate.head SET events = $1, runs = $2 WHERE id = 1";

impl StoreWriter for Writer {
    fn keep(&mut self, at: &str, event: &Event) -> Result<(), StoreError> {
        let body = self.json(event)?;
        let (events, runs) = (self.written.0.saturating_add(1), self.written.1);
        self.commit((events, runs), &|transaction| {
            transaction.execute(EVENT, &[&events, &at, &body])?;
            transaction.execute(HEAD, &[&events, &runs]).map(|_| ())
        })
    }

    fn keep_run(&mut self, at: &str, run: &StoredRun, event: &Event) -> Result<u64, StoreError> {
        let (events, runs) = (self.written.0.saturating_add(1), self.written.1.saturating_add(1));
        let run = StoredRun { id: runs.unsigned_abs(), ..run.clone() };
        let body = self.json(event)?;
        let row = RunRow::of(&run);
        let row = row.map_err(|why| self.server.io("write to", &why.to_string()))?;
        let columns: [&(dyn ToSql + Sync); 7] =
            [&runs, &row.slot, &row.state, &row.setting, &row.value, &row.body, &row.record];
        self.commit((events, runs), &|transaction| {
            transaction.execute(RUN, &columns)?;
            transaction.execute(EVENT, &[&events, &at, &body])?;
            transaction.execute(HEAD, &[&events, &runs]).map(|_| ())
        })?;
        Ok(run.id)
    }

    fn delete_before(&mut self, slot: u32, state: &str) -> Result<(), StoreError> {
        let slot = i64::from(slot);
        self.commit(self.written, &|transaction| {
            let last = |transaction: &mut Transaction<'_>, table: &str, slot_of: &str| {
                let query = format!(
                    "SELECT coalesce((SELECT min(id) FROM linerate.{table} WHERE {slot_of} >= $1),
                         (SELECT {table}s + 1 FROM linerate.head)) - 1"
                );
                transaction.query_one(&query, &[&slot])?.try_get::<_, i64>(0)
            };
            let events = last(transaction, "event", "(body->>'slot')::bigint")?;
            let runs = last(transaction, "run", "slot")?;
            transaction.execute("DELETE FROM linerate.event WHERE id <= $1", &[&events])?;
            transaction.execute("DELETE FROM linerate.run WHERE id <= $1", &[&runs])?;
            // What a turn was is `RUN.SLOT.ATTEMPT`.
            let audit = "DELETE FROM linerate.lease_audit
                WHERE substring(turn from '\\.([0-9]+)\\.[0-9]+$')::bigint < $1";
            transaction.execute(audit, &[&slot])?;
            let (events, runs) = (events.unsigned_abs(), runs.unsigned_abs());
            let body = Deleted { events, runs, state: state.to_owned() }.row();
            let insert = "INSERT INTO linerate.meta (key, value) VALUES ($1, $2)
                ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            transaction.execute(insert, &[&DELETED, &body]).map(|_| ())
        })
    }

    fn asked_to_stop(&mut self) -> Result<bool, StoreError> {
        if self.client.is_closed() {
            self.asks = self.asks.saturating_add(1);
            if !self.asks.is_multiple_of(ASKS_A_TRY) || !self.return_to_it()? {
                return Ok(false);
            }
        }
        (self.asks, self.refusals) = (0, 0);
        Ok(is_asked_to_stop(&mut self.client))
    }
}
