//! Results of a fleet in a database of PostgreSQL: the same rows as in a file, without sums, since the server has its own.
//!
//! All of it is in the schema `linerate` of the database; its owner may let others read it, for tables of their own.

mod audit;
mod connect;
mod password;
mod read;
mod tls;
mod write;

use postgres::error::SqlState;
use postgres::{Client, Error, GenericClient, IsolationLevel, Transaction};

use self::audit::Audit;
use self::connect::Server;
use self::read::View;
use self::write::Writer;
use crate::{APPLICATION_ID, Address, LeaseAudit, Meta, StoreError, StoreReader, StoreWriter};

/// Number of the schema below.
const SCHEMA_VERSION: i32 = 1;

/// No two leases of one resource that overlap can be in `lease_audit`.
const SCHEMA: &str = "
CREATE SCHEMA IF NOT EXISTS linerate;
CREATE EXTENSION IF NOT EXISTS btree_gist;
CREATE TABLE linerate.meta (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE linerate.event (id bigint PRIMARY KEY, at text NOT NULL, body json NOT NULL);
CREATE TABLE linerate.run (id bigint PRIMARY KEY, slot bigint NOT NULL, state text NOT NULL, setting text NOT NULL,
    value double precision, body json NOT NULL, record json);
CREATE UNIQUE INDEX one_run_a_slot ON linerate.run (slot) WHERE state = 'counted';
CREATE TABLE linerate.lease_audit (epoch bigint NOT NULL, resource text NOT NULL, turn text NOT NULL,
    during tstzrange NOT NULL, PRIMARY KEY (epoch, resource), EXCLUDE USING gist (resource WITH =, during WITH &&));
CREATE TABLE linerate.head (id integer PRIMARY KEY CHECK (id = 1), version integer NOT NULL, events bigint NOT NULL,
    runs bigint NOT NULL);
";

/// Events and runs that were written.
type Counts = (i64, i64);

fn counts(client: &mut Client) -> Result<Counts, Error> {
    let head = client.query_one("SELECT events, runs FROM linerate.head", &[])?;
    Ok((head.try_get(0)?, head.try_get(1)?))
}

fn is_there(client: &mut impl GenericClient) -> Result<bool, Error> {
    let found = client.query_one("SELECT to_regclass('linerate.head') IS NOT NULL", &[])?;
    found.try_get(0)
}

/// Sees that results are there, and of this version.
fn identify(server: &Server, client: &mut Client) -> Result<(), StoreError> {
    let fault = |error: &Error| server.fault("read", error);
    if !is_there(client).map_err(|e| fault(&e))? {
        return Err(server.io("open", "no results are kept in it yet"));
    }
    let version = client.query_opt("SELECT version FROM linerate.head WHERE id = 1", &[]);
    let version = version.and_then(|row| row.map(|row| row.try_get::<_, i32>(0)).transpose());
    match version {
        Ok(Some(SCHEMA_VERSION)) => Ok(()),
        Ok(Some(other)) => Err(StoreError::Version(server.shown(), other)),
        Ok(None) => Err(StoreError::Damaged(server.shown(), "linerate.head is empty".into())),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_COLUMN) => {
            let why = "its linerate.head is another program's".to_owned();
            Err(StoreError::Foreign(server.shown(), why))
        }
        Err(error) => Err(fault(&error)),
    }
}

/// As of [`crate::Place`], like all that follows.
pub(crate) fn exists(address: &Address) -> Result<bool, StoreError> {
    let server = Server::of(address)?;
    let mut client = server.connect()?;
    is_there(&mut client).map_err(|error| server.fault("read", &error))
}

pub(crate) fn create(address: &Address, meta: &Meta) -> Result<Box<dyn StoreWriter>, StoreError> {
    Ok(Box::new(Writer::create(address, meta)?))
}

pub(crate) fn open(address: &Address) -> Result<Box<dyn StoreWriter>, StoreError> {
    Ok(Box::new(Writer::open(address)?))
}

pub(crate) fn read(address: &Address) -> Result<Box<dyn StoreReader>, StoreError> {
    Ok(Box::new(View::open(address)?))
}

pub(crate) fn audit(address: &Address) -> Result<Box<dyn LeaseAudit>, StoreError> {
    Ok(Box::new(Audit::of(address)?))
}

pub(crate) fn is_locked(address: &Address) -> Result<bool, StoreError> {
    let server = Server::of(address)?;
    let mut client = server.connect()?;
    is_held(&mut client).map_err(|error| server.fault("read", &error))
}

/// Whether somebody has the lock of whoever writes results.
fn is_held(client: &mut impl GenericClient) -> Result<bool, Error> {
    let query = "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE l.locktype = 'advisory' AND d.datname = current_database() AND l.granted
        AND l.classid::bigint = $1 AND l.objid::bigint = $2 AND l.objsubid = 2)";
    let (class, object) = (i64::from(APPLICATION_ID), i64::from(WRITES));
    client.query_one(query, &[&class, &object])?.try_get(0)
}

/// Key in the table `meta` that asks whoever writes results for their end.
const STOP: &str = "stop";

pub(crate) fn stop(address: &Address) -> Result<bool, StoreError> {
    let server = Server::of(address)?;
    let mut client = server.connect()?;
    ask(&mut client).map_err(|error| server.fault("write to", &error))
}

/// Asks whoever writes results for their end, and says whether there is somebody.
fn ask(client: &mut Client) -> Result<bool, Error> {
    let mut transaction = alone(client)?;
    let written = is_held(&mut transaction)?;
    if written {
        let insert =
            "INSERT INTO linerate.meta (key, value) VALUES ($1, '') ON CONFLICT DO NOTHING";
        transaction.execute(insert, &[&STOP])?;
    }
    transaction.commit()?;
    Ok(written)
}

/// The advisory lock of whoever writes results, beside [`APPLICATION_ID`]. It ends with its session.
const WRITES: i32 = 1;
/// That of whoever begins to write, or looks who does and asks them for their end: one at a time, until its transaction is
/// over. Else what is asked of one writer could be forgotten by it, or be heard by the next.
const CHANGES: i32 = 2;

/// A transaction beside which nobody begins to write, or is asked for their end; a writer whose session was lost may return.
fn alone(client: &mut Client) -> Result<Transaction<'_>, Error> {
    // What others did while the lock was waited for is to be seen, whatever the database's default is.
    let level = IsolationLevel::ReadCommitted;
    let mut transaction = client.build_transaction().isolation_level(level).start()?;
    let query = "SELECT pg_advisory_xact_lock($1::integer, $2::integer)";
    transaction.execute(query, &[&APPLICATION_ID, &CHANGES])?;
    Ok(transaction)
}

/// Takes the lock, if nobody has it.
fn lock(client: &mut impl GenericClient) -> Result<bool, Error> {
    let query = "SELECT pg_try_advisory_lock($1::integer, $2::integer)";
    client.query_one(query, &[&APPLICATION_ID, &WRITES])?.try_get(0)
}
