//! Where results of a fleet are kept, and all that is asked of such a place.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use linerate_model::campaign::{Event, StoredRun};

use crate::error::shown;
use crate::{Campaign, Deleted, Meta, Reader, StoreError, is_locked};

/// Where results of a fleet are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of SQLite.
    File(PathBuf),
}

impl From<OsString> for Place {
    fn from(text: OsString) -> Self {
        Self::File(text.into())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(&shown(path)),
        }
    }
}

/// Writes results: one at a time for each place, in all processes. What was kept is on stable storage; after an error
/// nothing more is.
pub trait StoreWriter {
    /// Keeps an event, which happened at a date as RFC 3339 has it.
    ///
    /// # Errors
    /// When it cannot be written.
    fn keep(&mut self, at: &str, event: &Event) -> Result<(), StoreError>;

    /// Keeps a run and the event of its end, both or neither; returns the run's number.
    ///
    /// # Errors
    /// When it cannot be written, or another run counts for its slot.
    fn keep_run(&mut self, at: &str, run: &StoredRun, event: &Event) -> Result<u64, StoreError>;

    /// Deletes all events and runs before the first that belongs to this slot or a later one, for good, and keeps
    /// what must be known of them in the same step.
    ///
    /// # Errors
    /// When it cannot be written.
    fn delete_before(&mut self, slot: u32, state: &str) -> Result<(), StoreError>;
}

/// Reads results as they were at one moment. Each may fail as the place does.
pub trait StoreReader {
    /// What was kept when they began.
    fn meta(&mut self) -> Result<Meta, StoreError>;
    /// What was deleted.
    fn deleted(&mut self) -> Result<Deleted, StoreError>;
    /// How many events and runs were written, those that were deleted among them.
    fn counts(&mut self) -> Result<(u64, u64), StoreError>;
    /// The events after so many, with their times, in their order.
    fn events_after(&mut self, read: u64) -> Result<Vec<(String, Event)>, StoreError>;
    /// The runs after so many, in the order of their ends, without their records, and whether each has one.
    fn runs_after(&mut self, read: u64) -> Result<Vec<(StoredRun, bool)>, StoreError>;
    /// The run of this number with its record; none where there is no such run.
    fn run(&mut self, number: u64) -> Result<Option<StoredRun>, StoreError>;
}

impl Place {
    /// Whether results are kept there.
    ///
    /// # Errors
    /// When it cannot be known.
    pub fn exists(&self) -> Result<bool, StoreError> {
        match self {
            Self::File(path) => Ok(path.exists()),
        }
    }

    /// Begins to keep results.
    ///
    /// # Errors
    /// When some are kept there already, another process writes it, or it cannot be written.
    pub fn create(&self, meta: &Meta) -> Result<Box<dyn StoreWriter>, StoreError> {
        match self {
            Self::File(path) => Ok(Box::new(Campaign::create(path, meta, &[])?)),
        }
    }

    /// Goes on with what is kept there. Refuses what is damaged.
    ///
    /// # Errors
    /// When nothing is kept there, another process writes it, or it cannot be written.
    pub fn open(&self) -> Result<Box<dyn StoreWriter>, StoreError> {
        match self {
            Self::File(path) => Ok(Box::new(Campaign::open(path)?)),
        }
    }

    /// Reads what is kept there, also while another process writes it.
    ///
    /// # Errors
    /// When nothing is kept there, or it cannot be read.
    pub fn read(&self) -> Result<Box<dyn StoreReader>, StoreError> {
        match self {
            Self::File(path) => Ok(Box::new(Reader::open(path)?)),
        }
    }

    /// Whether a process writes it now.
    ///
    /// # Errors
    /// When it cannot be known.
    pub fn is_locked(&self) -> Result<bool, StoreError> {
        match self {
            Self::File(path) => Ok(is_locked(path)),
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
}

impl StoreReader for Reader {
    fn meta(&mut self) -> Result<Meta, StoreError> {
        Reader::meta(self)
    }

    fn deleted(&mut self) -> Result<Deleted, StoreError> {
        Reader::deleted(self)
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
