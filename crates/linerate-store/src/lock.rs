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

/// A file that belongs to a store: its name with an ending. Of a link it is beside what that names, where SQLite has its
/// log as well: whatever a store is called, it has one lock.
pub(crate) fn beside(store: &Path, ending: &str) -> PathBuf {
    let store = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    let mut name = store.into_os_string();
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

/// Takes the lock; it is held until what this returns is dropped.
pub(crate) fn take(store: &Path) -> Result<Lock, StoreError> {
    let path = beside(store, ".lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(|e| StoreError::io("open", &path, &e))?;
    for attempt in 0..TRIES {
        match try_take(&file, store) {
            Ok(()) => return Ok(Lock(file)),
            Err(TryLockError::WouldBlock) if attempt + 1 < TRIES => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", &path, &e)),
        }
    }
    Err(StoreError::Locked(shown(store)))
}

/// What was asked of a writer before is forgotten while the lock is shared: no writer is there then, and whoever would ask one
/// for its end sees none. What is asked once the lock is held is asked of this writer, and stays.
fn try_take(lock: &File, store: &Path) -> Result<(), TryLockError> {
    lock.try_lock_shared()?;
    let _ = std::fs::remove_file(beside(store, STOP));
    lock.try_lock().inspect_err(|_| {
        // Some systems leave it shared: of two who begin at once neither would ever have it.
        let _ = lock.unlock();
    })
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
    fn what_is_asked_of_a_writer_is_never_forgotten() {
        let store = std::env::temp_dir().join(format!("linerate-first-{}", std::process::id()));
        let (stop, path) = (beside(&store, STOP), beside(&store, ".lock"));
        let open = || {
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).read(true).write(true).open(&path).unwrap()
        };
        let (other, own) = (open(), open());
        std::fs::write(&stop, "").unwrap();
        // Whoever looks for a writer now sees none: before there is one, the word for one before it is gone.
        other.lock_shared().unwrap();
        assert!(try_take(&own, &store).is_err() && !stop.exists());
        other.unlock().unwrap();
        other.lock().unwrap();
        std::fs::write(&stop, "").unwrap();
        assert!(try_take(&own, &store).is_err() && stop.exists(), "it is for the other");
        for file in [stop, path] {
            std::fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn a_store_has_one_lock_whatever_it_is_called() {
        let store = std::env::temp_dir().join(format!("linerate-called-{}", std::process::id()));
        let link = store.with_extension("link");
        std::fs::write(&store, "").unwrap();
        std::os::unix::fs::symlink(&store, &link).unwrap();
        let held = take(&link).unwrap();
        assert!(is_locked(&store) && is_locked(&link));
        drop(held);
        assert!(!is_locked(&store));
        for file in [beside(&store, ".lock"), link, store] {
            std::fs::remove_file(file).unwrap();
        }
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
