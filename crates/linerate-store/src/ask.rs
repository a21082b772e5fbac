//! All that is asked of a place where results of a fleet are kept.

use std::time::Duration;

use linerate_model::campaign::{Event, StoredRun};

use crate::{Deleted, Meta, StoreError};

/// Writes results: one at a time for each place, in all processes. What was kept is on stable storage; after an error
/// nothing more is.
pub trait StoreWriter: Send {
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

    /// Whether its end was asked for since it was opened ([`crate::Place::stop`]). Says so once; what cannot be known now
    /// is no.
    ///
    /// # Errors
    /// When this writer is the writer no more: another process is, or has been.
    fn asked_to_stop(&mut self) -> Result<bool, StoreError>;
}

/// Reads results as they were at one moment. Each may fail as the place does.
pub trait StoreReader {
    /// What was kept when they began.
    fn meta(&mut self) -> Result<Meta, StoreError>;
    /// What was deleted. It may be as much as all that is there: whoever reads again asks for it where
    /// [`Self::firsts`] are others.
    fn deleted(&mut self) -> Result<Deleted, StoreError>;
    /// The numbers of the first event and the first run that are there: others than before where some were deleted since.
    fn firsts(&mut self) -> Result<[Option<u64>; 2], StoreError>;
    /// How many events and runs were written, those that were deleted among them.
    fn counts(&mut self) -> Result<(u64, u64), StoreError>;
    /// The events after so many, with their times, in their order.
    fn events_after(&mut self, read: u64) -> Result<Vec<(String, Event)>, StoreError>;
    /// The runs after so many, in the order of their ends, without their records, and whether each has one.
    fn runs_after(&mut self, read: u64) -> Result<Vec<(StoredRun, bool)>, StoreError>;
    /// The run of this number with its record; none where there is no such run.
    fn run(&mut self, number: u64) -> Result<Option<StoredRun>, StoreError>;
}

/// Writes down what coordinators of a fleet of agents were granted. Two leases of one resource cannot overlap there.
pub trait LeaseAudit: Send + Sync {
    /// A lease was granted just now: something may be sent under it for `length` more.
    ///
    /// # Errors
    /// When another lease of one of `resources` is not over, or it cannot be written.
    fn granted(
        &self,
        epoch: u64,
        turn: &str,
        resources: &[String],
        length: Duration,
    ) -> Result<(), StoreError>;

    /// It is to be given back: nothing uses it any more.
    ///
    /// # Errors
    /// When it cannot be written.
    fn ended(&self, epoch: u64) -> Result<(), StoreError>;
}
