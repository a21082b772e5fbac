//! One writer. The lock is the kernel's (`flock`), so that it dies with its process.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::StoreError;

/// Readers that ask whether a writer is there hold the lock for microseconds.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// A file that belongs to a store: its name with an ending.
pub(crate) fn beside(store: &Path, ending: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Takes the lock; it is held until the file is dropped.
pub(crate) fn take(store: &Path) -> Result<File, StoreError> {
    let path = beside(store, ".lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| StoreError::io("open", &path, &e))?;
    for attempt in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if attempt + 1 < TRIES => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", &path, &e)),
        }
    }
    Err(StoreError::Locked(store.to_owned()))
}

/// Whether a process writes this store now.
pub fn is_locked(store: &Path) -> bool {
    let Ok(file) = File::open(beside(store, ".lock")) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}
