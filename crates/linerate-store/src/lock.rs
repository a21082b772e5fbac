//! One writer. The lock is the kernel's (`flock`), so that it dies with its process.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::StoreError;
use crate::error::shown;

/// Readers that ask whether a writer is there hold the lock for microseconds.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// A file beside a store with which its writer is asked for its end.
pub(crate) const STOP: &str = ".stop";

/// A file that belongs to a store: its name with an ending.
pub(crate) fn beside(store: &Path, ending: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A file that is locked.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    /// Closing alone would leave it to any child of this process that is between its fork and its exec.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Takes the lock; it is held until what this returns is dropped. What was asked of a writer before is forgotten, at once:
/// from now on others may see this one, and ask it for its end.
pub(crate) fn take(store: &Path) -> Result<Lock, StoreError> {
    let path = beside(store, ".lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| StoreError::io("open", &path, &e))?;
    for attempt in 0..TRIES {
        match file.try_lock() {
            Ok(()) => {
                let _ = std::fs::remove_file(beside(store, STOP));
                return Ok(Lock(file));
            }
            Err(TryLockError::WouldBlock) if attempt + 1 < TRIES => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", &path, &e)),
        }
    }
    Err(StoreError::Locked(shown(store)))
}

/// Whether a process writes this store now.
pub fn is_locked(store: &Path) -> bool {
    let Ok(file) = File::open(beside(store, ".lock")) else { return false };
    match file.try_lock_shared() {
        Ok(()) => {
            drop(Lock(file));
            false
        }
        Err(error) => matches!(error, TryLockError::WouldBlock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_forgets_what_was_asked_of_one_before_it_while_nobody_can_ask_it_yet() {
        let store = std::env::temp_dir().join(format!("linerate-asked-{}", std::process::id()));
        std::fs::write(beside(&store, STOP), "").unwrap();
        let held = take(&store).unwrap();
        assert!(!beside(&store, STOP).exists());
        drop(held);
        std::fs::remove_file(beside(&store, ".lock")).unwrap();
    }

    #[test]
    fn a_child_that_has_not_begun_yet_keeps_no_lock() {
        let store = std::env::temp_dir().join(format!("linerate-lock-{}", std::process::id()));
        let held = take(&store).unwrap();
        let of_child = held.0.try_clone().unwrap();
        assert!(is_locked(&store));
        drop(held);
        assert!(!is_locked(&store));
        drop((take(&store).unwrap(), of_child));
        std::fs::remove_file(beside(&store, ".lock")).unwrap();
    }
}
