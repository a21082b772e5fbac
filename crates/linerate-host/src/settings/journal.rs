//! The undo journal as a file: on the disk before anything is changed, and gone when all is undone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_model::undo::{self, Damage, Device, Held, Knob, Place, Record, Turn, Turned};

/// The calls that must not fail unnoticed, so that tests can let each of them fail.
pub(crate) trait Disk: Send {
    /// Appends bytes to the file, which is made if need be.
    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Returns when the file's content is on the disk.
    fn sync(&mut self, path: &Path) -> io::Result<()>;
    /// Returns when the directory's entries are on the disk.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()>;
    /// Empties the file and takes it away.
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

/// The file system.
#[derive(Debug, Default)]
pub(crate) struct RealDisk {
    file: Option<File>,
}

impl Disk for RealDisk {
    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                none.insert(OpenOptions::new().create(true).append(true).mode(0o600).open(path)?)
            }
        };
        file.write_all(bytes)
    }

    fn sync(&mut self, _path: &Path) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_all)
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.file = None;
        // Emptied first: a name that stays must not bring old values back.
        match OpenOptions::new().write(true).open(path) {
            Ok(file) => {
                file.set_len(0)?;
                file.sync_all()?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        }
        fs::remove_file(path)
    }
}

/// The journal of one network namespace.
pub(crate) struct Journal {
    directory: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) place: Place,
    records: Vec<Record>,
    damages: Vec<Damage>,
    last: u64,
    /// Length of the file.
    bytes: usize,
    /// The file ends within a line, which must not become a part of the next.
    torn: bool,
    disk: Box<dyn Disk>,
    /// After a failed write or sync nobody knows what is on the disk: nothing more may be changed.
    broken: Option<String>,
    /// Held as long as this lives, and free again when the process ends in whatever way.
    _lock: Lock,
}

/// A file that is locked.
struct Lock(File);

impl Drop for Lock {
    /// Closing alone would leave it to any child of this process that is between its fork and its exec.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Why a journal cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// Another process has it.
    #[error("another linerate (process {0}) changes settings here now")]
    Taken(String),
    /// The file system says no.
    #[error("{what} {}: {why}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        why: io::Error,
    },
}

fn fault<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> JournalError + 'a {
    move |why| JournalError::Io { what, path: path.to_owned(), why }
}

impl Journal {
    /// Takes the journal of `place` in `directory`, which is made if need be, and reads what an
    /// earlier process left in it.
    pub(crate) fn open(
        directory: &Path,
        place: Place,
        disk: Box<dyn Disk>,
    ) -> Result<Self, JournalError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(fault("cannot make the directory", directory))?;
        let name = |end: &str| directory.join(format!("undo-{}.{end}", place.namespace));
        let lock = name("lock");
        let mut file = lock_file(&lock).map_err(fault("cannot open", &lock))?;
        let mut locked = file.try_lock();
        for _ in 0..LOCK_TRIES {
            if !matches!(locked, Err(fs::TryLockError::WouldBlock)) {
                break;
            }
            std::thread::sleep(LOCK_PAUSE);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.take(20).read_to_string(&mut holder);
                return Err(JournalError::Taken(holder.trim().to_owned()));
            }
            Err(fs::TryLockError::Error(e)) => return Err(fault("cannot lock", &lock)(e)),
        }
        // Only for people who ask who has it.
        let _ = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()));
        let path = name("journal");
        let bytes = content(&path).map_err(fault("cannot read", &path))?;
        let (records, damages) = undo::parse(&bytes);
        Ok(Self {
            bytes: bytes.len(),
            torn: bytes.last().is_some_and(|byte| *byte != b'\n'),
            directory: directory.to_owned(),
            path,
            place,
            // Counted on, so that no two changes have one number.
            last: records.iter().map(Record::id).max().unwrap_or(0),
            records,
            damages,
            disk,
            broken: None,
            _lock: Lock(file),
        })
    }

    /// What is known of all changes so far.
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// The interfaces as their knobs in the journal have them: they may be called otherwise by now, or have other addresses.
    pub(crate) fn known(&self) -> Vec<Device> {
        let undos = undo::undos(&self.records, &self.place);
        undos.iter().filter_map(|undo| undo.knob.device().cloned()).collect()
    }

    /// What of an earlier process cannot be read.
    pub(crate) fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Announces a change, and what may move with it. When this returns without an error, the disk
    /// knows how to undo it.
    pub(crate) fn announce(&mut self, wishes: Vec<Turn>, around: Vec<Held>) -> Result<u64, String> {
        self.last = self.last.saturating_add(1);
        let record = Record::Change { id: self.last, place: self.place.clone(), wishes, around };
        // Its name must be on the disk as well as its content.
        self.write(record, true)?;
        Ok(self.last)
    }

    /// Notes what came of a change, and of which knobs that is not known.
    pub(crate) fn note(
        &mut self,
        id: u64,
        turned: Vec<Turned>,
        unread: Vec<Knob>,
    ) -> Result<(), String> {
        self.write(Record::Done { id, place: self.place.clone(), turned, unread }, false)
    }

    /// Forgets these knobs, others being still to put back.
    pub(crate) fn settle(&mut self, knobs: Vec<Knob>) -> Result<(), String> {
        if knobs.is_empty() {
            return Ok(());
        }
        self.write(Record::Settled { id: self.last, place: self.place.clone(), knobs }, false)
    }

    fn write(&mut self, record: Record, named: bool) -> Result<(), String> {
        if let Some(why) = &self.broken {
            return Err(format!("the undo journal could not be written before ({why})"));
        }
        let mut line = undo::line(&record).ok_or("too much for one line of the undo journal")?;
        if self.torn {
            line.insert(0, '\n');
        }
        // A change leaves room for what comes of it.
        let room = if named { ROOM_BYTES } else { 0 };
        let bytes = self.bytes.saturating_add(line.len());
        if bytes.saturating_add(room) > MOST_BYTES {
            let path = self.path.display();
            return Err(format!("the undo journal {path} is full: put back first what it has"));
        }
        self.bytes = bytes;
        // In memory first: if the line reached the disk all the same, both say the same.
        self.records.push(record);
        let written = self
            .disk
            .append(&self.path, line.as_bytes())
            .and_then(|()| self.disk.sync(&self.path))
            .and_then(|()| if named { self.disk.sync_directory(&self.directory) } else { Ok(()) });
        self.torn = false;
        written.map_err(|e| {
            let why = format!("the undo journal {} cannot be written: {e}", self.path.display());
            self.broken = Some(e.to_string());
            why
        })
    }

    /// Forgets everything: all is undone, or left on purpose. A damaged journal is kept aside.
    pub(crate) fn clear(&mut self) -> Result<(), String> {
        let damaged = self.damages.iter().any(|damage| matches!(damage, Damage::Damaged(_)));
        if damaged {
            // A copy, so that the journal itself is emptied in the one tried way.
            let aside = self.path.with_extension("damaged");
            fs::copy(&self.path, &aside)
                .map_err(|e| format!("cannot keep the damaged journal aside: {e}"))?;
        }
        self.disk
            .remove(&self.path)
            .and_then(|()| self.disk.sync_directory(&self.directory))
            .map_err(|e| format!("cannot remove the undo journal {}: {e}", self.path.display()))?;
        self.records.clear();
        self.damages.clear();
        self.broken = None;
        self.torn = false;
        (self.last, self.bytes) = (0, 0);
        Ok(())
    }
}

/// Where a process has just ended, a child of it may have the lock for the moment between its fork
/// and its exec.
pub(super) const LOCK_TRIES: u32 = 25;
pub(super) const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// A journal of all settings of a large host is far below.
const MOST_BYTES: usize = if cfg!(test) { 6 << 20 } else { 64 << 20 };
/// For the lines of what came of the last change, and of what is settled then.
const ROOM_BYTES: usize = 4 * undo::MOST_LINE_BYTES;

/// Takes away what earlier boots left behind: their settings are gone, and so are their namespaces.
/// The journal of `here` is left to whoever opens it. Locks stay: one that is taken away while
/// another process has it open would be two.
pub(crate) fn sweep(directory: &Path, here: &Place) {
    let Ok(entries) = directory.read_dir() else { return };
    let own = format!("undo-{}.journal", here.namespace);
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let other = name.to_str().is_some_and(|name| name.starts_with("undo-") && name != own);
        if other
            && path.extension().is_some_and(|end| end == "journal")
            && all_old(&path, &here.boot_id)
            && let Ok(lock) = lock_file(&path.with_extension("lock"))
            && lock.try_lock().is_ok()
            && let _held = Lock(lock)
            // Now that nobody writes it.
            && all_old(&path, &here.boot_id)
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Whether a journal is whole and of other boots only.
fn all_old(path: &Path, boot_id: &str) -> bool {
    let Ok(bytes) = content(path) else { return false };
    let (records, damages) = undo::parse(&bytes);
    !records.is_empty()
        && damages.is_empty()
        && records.iter().all(|record| undo::of_other_boots(std::slice::from_ref(record), boot_id))
}

/// All of a journal; nothing where there is none.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    match File::open(path) {
        Ok(file) => file.take(most.saturating_add(1)).read_to_end(&mut bytes)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
        Err(e) => return Err(e),
    };
    if bytes.len() > MOST_BYTES {
        let why = format!("it has more than {MOST_BYTES} bytes, as none that is whole has");
        return Err(io::Error::other(why));
    }
    Ok(bytes)
}

fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_child_that_has_not_begun_yet_keeps_no_lock() {
        let state = Scratch::new();
        let place = Place { boot_id: "b".into(), namespace: 1 };
        let open = || Journal::open(&state.0, place.clone(), Box::<RealDisk>::default());
        let held = open().unwrap();
        let of_child = held._lock.0.try_clone().unwrap();
        assert!(matches!(open(), Err(JournalError::Taken(_))));
        drop(held);
        drop((open().unwrap(), of_child));
    }

    #[test]
    fn a_full_journal_takes_no_change_and_still_what_came_of_those_before() {
        let state = Scratch::new();
        let place = Place { boot_id: "b".into(), namespace: 1 };
        let open = || Journal::open(&state.0, place.clone(), Box::<RealDisk>::default());
        let wish = Turn { knob: Knob::Governor(7), before: "a".into(), asked: "b".into() };
        let around = vec![Held { knob: Knob::Governor(8), value: "x".repeat(500_000) }];
        let mut journal = open().unwrap();
        let mut last = 0;
        let full = (0..20).find_map(|_| {
            match journal.announce(vec![wish.clone()], around.clone()) {
                Ok(id) => last = id,
                Err(why) => return Some(why),
            }
            None
        });
        assert!(full.as_deref().is_some_and(|why| why.contains("is full")), "{full:?}");
        journal.note(last, vec![], vec![]).unwrap();
        journal.settle(vec![Knob::Governor(7)]).unwrap();
        let (path, records) = (journal.path.clone(), journal.records.len());
        drop(journal);
        // All of it is read again.
        let journal = open().unwrap();
        assert_eq!((journal.records.len(), journal.damages.len()), (records, 0));
        drop(journal);
        // Of one that is longer, what comes first is not taken for all of it.
        let long = OpenOptions::new().write(true).open(&path).unwrap();
        long.set_len(u64::try_from(MOST_BYTES).unwrap() + 1).unwrap();
        let why = open().err().unwrap().to_string();
        assert!(why.contains("more than"), "{why}");
    }
}
