//! Where results of a fleet are kept.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::path::PathBuf;

use linerate_model::campaign::{Event, StoredRun};

use crate::error::shown;
#[cfg(feature = "postgres")]
use crate::postgres as database;
#[cfg(not(feature = "postgres"))]
use crate::unbuilt as database;
use crate::{
    Address, Campaign, Deleted, LeaseAudit, Meta, Reader, StoreError, StoreReader, StoreWriter,
    is_locked, lock,
};

/// Where results of a fleet are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of PostgreSQL.
    Database(Address),
}

impl From<OsString> for Place {
    /// As a user names it: an address, or a file.
    fn from(text: OsString) -> Self {
        match text.to_str().and_then(Address::of) {
            Some(address) => Self::Database(address),
            None => Self::File(text.into()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(&shown(path)),
            Self::Database(address) => address.fmt(f),
        }
    }
}

impl Place {
    /// Whether results are kept there.
    ///
    /// # Errors
    /// When it cannot be known.
    pub fn exists(&self) -> Result<bool, StoreError> {
        match self {
            Self::File(path) => Ok(path.exists()),
            Self::Database(address) => database::exists(address),
        }
    }

    /// Begins to keep results.
    ///
    /// # Errors
    /// When some are kept there already, another process writes it, or it cannot be written.
    pub fn create(&self, meta: &Meta) -> Result<Box<dyn StoreWriter>, StoreError> {
        match self {
            Self::File(path) => Ok(Box::new(Campaign::create(path, meta, &[])?)),
            Self::Database(address) => database::create(address, meta),
        }
    }

    /// Goes on with what is kept there. Refuses what is damaged.
    ///
    /// # Errors
    /// When nothing is kept there, another process writes it, or it cannot be written.
    pub fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        match self {
            Self::File(path) => Ok(Box::new(Campaign::open(path)?)),
            Self::Database(address) => database::open(address),
        }
    }

    /// Reads what is kept there, also while another process writes it.
    ///
    /// # Errors
    /// When nothing is kept there, or it cannot be read.
    pub fn read(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        match self {
            Self::File(path) => Ok(Box::new(Reader::open(path)?)),
            Self::Database(address) => database::read(address),
        }
    }

    /// Where what coordinators are granted is written down beside the results; nothing of a file, which has one
    /// coordinator.
    ///
    /// # Errors
    /// When the address of the database cannot be understood.
    pub fn audit(&self) -> Result<Option<Box<dyn LeaseAudit>>, StoreError> {
        match self {
            Self::File(_) => Ok(None),
            Self::Database(address) => database::audit(address).map(Some),
        }
    }

    /// Whether a process writes it now.
    ///
    /// # Errors
    /// When it cannot be known.
    pub fn is_locked(&self) -> Result<bool, StoreError> {
        match self {
            Self::File(path) => Ok(is_locked(path)),
            Self::Database(address) => database::is_locked(address),
        }
    }

    /// Asks the process that writes it for its end, and says whether there is one.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn stop(&self) -> Result<bool, StoreError> {
        match self {
            Self::File(path) if is_locked(path) => {
                let asks = lock::beside(path, lock::STOP);
                let made = File::create(&asks).map_err(|e| StoreError::io("create", &asks, &e));
                made.map(|_| true)
            }
            Self::File(_) => Ok(false),
            Self::Database(address) => database::stop(address),
        }
    }
}

impl StoreWriter for Campaign {
    fn keep(&mut self, at: &str, event: &Event) -> Result<(), StoreError> {
        Campaign::keep(self, at, event)
    }

    fn keep_run(&mut self, at: &str, run: &StoredRun, event: &Event) -> Result<u64, StoreError> {
        Campaign::keep_run(self, at, run, event)
    }

    fn delete_before(&mut self, slot: u32, state: &str) -> Result<(), StoreError> {
        Campaign::delete_before(self, slot, state)
    }

    fn asked_to_stop(&mut self) -> Result<bool, StoreError> {
        Ok(Campaign::asked_to_stop(self))
    }
}

impl StoreReader for Reader {
    fn meta(&mut self) -> Result<Meta, StoreError> {
        Reader::meta(self)
    }

    fn deleted(&mut self) -> Result<Deleted, StoreError> {
        Reader::deleted(self)
    }

    fn firsts(&mut self) -> Result<[Option<u64>; 2], StoreError> {
        Reader::firsts(self)
    }

    fn counts(&mut self) -> Result<(u64, u64), StoreError> {
        Reader::counts(self)
    }

    fn events_after(&mut self, read: u64) -> Result<Vec<(String, Event)>, StoreError> {
        Reader::events_after(self, read)
    }

    fn runs_after(&mut self, read: u64) -> Result<Vec<(StoredRun, bool)>, StoreError> {
        Reader::runs_after(self, read)
    }

    fn run(&mut self, number: u64) -> Result<Option<StoredRun>, StoreError> {
        Reader::run(self, number)
    }
}
