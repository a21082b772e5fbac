//! What coordinators were granted, in the database of their results.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, Error};

use super::connect::{Server, is_away};
use crate::{Address, LeaseAudit, StoreError};

/// A session for the audit alone, beside that of who writes results.
pub(crate) struct Audit {
    server: Server,
    client: Mutex<Option<Client>>,
}

impl Audit {
    /// For a database; it is connected to with the first lease.
    pub(crate) fn of(address: &Address) -> Result<Self, StoreError> {
        Ok(Self { server: Server::of(address)?, client: Mutex::new(None) })
    }

    fn client(&self) -> MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something that may be done twice; a server that is away is waited for, once.
    fn change(&self, what: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), StoreError> {
        let mut held = self.client();
        let mut client = match held.take() {
            Some(client) => client,
            None => self.server.connect()?,
        };
        let mut done = client.execute(what, values);
        if done.as_ref().is_err_and(is_away) {
            client = self.server.await_it(|_| Ok(true))?;
            done = client.execute(what, values);
        }
        if !client.is_closed() {
            *held = Some(client);
        }
        done.map(|_| ()).map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &Error) -> StoreError {
        if error.code() != Some(&SqlState::EXCLUSION_VIOLATION) {
            return self.server.fault("keep a lease in", error);
        }
        let why = format!("it overlaps another: {}", super::connect::words(error));
        self.server.io("keep a lease in", &why)
    }
}

impl LeaseAudit for Audit {
    fn granted(
        &self,
        epoch: u64,
        turn: &str,
        resources: &[String],
        length: Duration,
    ) -> Result<(), StoreError> {
        // By the server's clock alone: it is one for all coordinators.
        let insert = "INSERT INTO linerate.lease_audit (epoch, resource, turn, during)
            SELECT $1::bigint, resource, $2::text, tstzrange(now(), now() + make_interval(secs => $3))
            FROM unnest($4::text[]) AS resource ON CONFLICT (epoch, resource) DO NOTHING";
        let seconds = length.as_secs_f64();
        self.change(insert, &[&signed(epoch), &turn, &seconds, &resources])
    }

    fn ended(&self, epoch: u64) -> Result<(), StoreError> {
        let cut = "UPDATE linerate.lease_audit
            SET during = tstzrange(lower(during), greatest(lower(during), now()))
            WHERE epoch = $1 AND upper(during) > now()";
        self.change(cut, &[&signed(epoch)])
    }
}

/// PostgreSQL has no larger number.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
