//! The bytes of the day of keys and networks, in a file where the server that is started next finds them.
//!
//! The file is opened before the server gives up its rights, so that no directory need be writable while it serves.
//! Two places in it take turns, each with a checksum: a write that is cut short leaves the one before.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use linerate_model::record::{ErrorKind, ErrorRecord};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

use super::permit::Permits;
use crate::errors;
use crate::event::Event;
use crate::event_log::Events;
use crate::shares::{Carried, Whom};

/// Begins each place.
const MAGIC: &str = "linerate-budgets-1";
/// Bytes of a place. A file of keys and networks with as many as it may have, each at its longest, takes 0.9 of it.
const PLACE_BYTES: usize = 1 << 20;
/// What was carried since is lost when the server is killed.
const EVERY: Duration = Duration::from_secs(1);
/// A wall clock that differs by more than so many seconds from what has passed was set.
const CLOCK_S: u64 = 5;
/// A server that ends waits so long for a disk.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// Where the bytes of the day are kept.
#[derive(Debug)]
pub struct BudgetState {
    path: PathBuf,
    /// Or why they are not.
    places: Result<Places, String>,
    found: Vec<Carried>,
    /// What could not be read.
    damage: Option<String>,
}

#[derive(Debug)]
struct Places {
    file: File,
    /// Grows with each write.
    turn: AtomicU64,
}

impl Drop for Places {
    fn drop(&mut self) {
        // A child that another thread starts has the lock too, until it runs its own program.
        let _ = self.file.unlock();
    }
}

impl BudgetState {
    /// Reads the file, or makes it for its owner alone. One that is damaged counts as empty, and that is said.
    ///
    /// # Errors
    /// When it cannot be opened, or belongs to another server that runs.
    pub fn open(path: &Path) -> Result<Self, ErrorRecord> {
        open(path).map_err(|why| {
            let what = format!("cannot keep the bytes of the day in `{}`", path.display());
            let hint = "--budget-state FILE in a directory that this user may write";
            ErrorRecord::new(ErrorKind::Output, what, why, &[hint])
        })
    }

    /// The file of the server on that port, in `directory`; where it cannot be had, the server says so and goes
    /// without.
    pub fn of_port(directory: &Path, port: u16) -> Self {
        let path = directory.join(format!("budgets-{port}"));
        if port == 0 {
            let why = "a server on any free port is another one each time (--budget-state FILE)";
            return Self { path, places: Err(why.to_owned()), found: vec![], damage: None };
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|e| e.to_string()).and_then(|()| open(&path)).unwrap_or_else(|why| {
            let why = format!("{}: {why} (--budget-state FILE)", path.display());
            Self { path, places: Err(why), found: vec![], damage: None }
        })
    }

    /// What is said of it at the start.
    fn begun(&self, days: usize) -> Event {
        match &self.places {
            Ok(_) => self.event(days, self.damage.clone()),
            Err(why) => Event::BudgetState { file: None, days, why: Some(why.clone()) },
        }
    }

    fn event(&self, days: usize, why: Option<String>) -> Event {
        Event::BudgetState { file: Some(self.path.display().to_string()), days, why }
    }
}

fn open(path: &Path) -> Result<BudgetState, String> {
    // Not through a link: the directory may be of a user who shall not choose what root opens. A pipe would hold
    // this thread up until somebody reads.
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).mode(0o600).custom_flags(O_NOFOLLOW | O_NONBLOCK);
    let opened = how.open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (facts, file) = opened.map_err(|e| e.to_string())?;
    if !facts.is_file() {
        return Err("it is no file".to_owned());
    }
    if facts.nlink() != 1 || facts.mode() & 0o022 != 0 {
        return Err("it has another name (a hard link), or others may write it".to_owned());
    }
    let places = match file.try_lock() {
        Ok(()) => Places { file, turn: AtomicU64::new(0) },
        Err(TryLockError::WouldBlock) => {
            return Err("another server keeps its own there".to_owned());
        }
        Err(TryLockError::Error(e)) => return Err(e.to_string()),
    };
    let found = read(&places.file).map_err(|e| e.to_string())?;
    let Found { turn, carried, damage, foreign } = found;
    if foreign {
        return Err("it holds something else, which is left alone".to_owned());
    }
    places.turn.store(turn, Ordering::Relaxed);
    Ok(BudgetState { path: path.to_owned(), places: Ok(places), found: carried, damage })
}

/// What a file holds.
#[derive(Debug, Default)]
struct Found {
    turn: u64,
    carried: Vec<Carried>,
    damage: Option<String>,
    /// It begins as no file of ours does.
    foreign: bool,
}

fn read(file: &File) -> io::Result<Found> {
    let mut found = Found::default();
    let (mut bad, mut good, mut foreign) = (0, 0, false);
    for at in [0, PLACE_BYTES] {
        let mut bytes = vec![0; PLACE_BYTES];
        let length = read_at(file, &mut bytes, at as u64)?;
        let bytes = bytes.get(..length).unwrap_or_default();
        let head = bytes.get(..MAGIC.len().min(length)).unwrap_or_default();
        let is_ours = MAGIC.as_bytes().starts_with(head) || head.iter().all(|byte| *byte == 0);
        foreign |= at == 0 && !is_ours;
        match place(bytes) {
            Some((turn, carried)) => {
                good += 1;
                if turn >= found.turn {
                    found = Found { turn, carried, ..Found::default() };
                }
            }
            None if bytes.iter().all(|byte| *byte == 0) => {}
            None => bad += 1,
        }
    }
    found.damage = match (bad, good) {
        (0, _) => None,
        (_, 0) => Some("it is damaged, and what it held is not known".to_owned()),
        _ => Some("its last write is damaged, and the one before it counts".to_owned()),
    };
    // With one good place the other is a write that was cut short.
    found.foreign = foreign && good == 0;
    Ok(found)
}

fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(length)
}

fn checksum(turn: u64, body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&turn.to_be_bytes());
    sum.update(body);
    sum.finalize()
}

/// A whole place: a line that says of what length and checksum the lines after it are.
fn place(bytes: &[u8]) -> Option<(u64, Vec<Carried>)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let mut words = head.strip_prefix(MAGIC)?.strip_prefix(' ')?.split(' ');
    let (turn, length) = (words.next()?.parse().ok()?, words.next()?.parse::<usize>().ok()?);
    let sum = u32::from_str_radix(words.next()?, 16).ok()?;
    let body = bytes.get(end + 1..)?.get(..length)?;
    if words.next().is_some() || checksum(turn, body) != sum {
        return None;
    }
    let lines = std::str::from_utf8(body).ok()?.lines().map(line);
    Some((turn, lines.collect::<Option<_>>()?))
}

fn line(text: &str) -> Option<Carried> {
    let mut words = text.split(' ');
    let whom = match words.next()? {
        "key" => Whom::Key { id: words.next()?.to_owned(), name: words.next()?.to_owned() },
        "network" => Whom::Network(words.next()?.parse().ok()?),
        _ => return None,
    };
    let (since_s, bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(Carried { whom, since_s, bytes })
}

fn written(carried: &Carried) -> String {
    let Carried { whom, since_s, bytes } = carried;
    match whom {
        Whom::Key { id, name } => format!("key {id} {name} {since_s} {bytes}\n"),
        Whom::Network(cidr) => format!("network {cidr} {since_s} {bytes}\n"),
        // Their days end with the server.
        Whom::Address(_) => String::new(),
    }
}

impl Places {
    /// Writes all that there is room for.
    fn write(&self, carried: &[Carried]) -> io::Result<()> {
        let turn = self.turn.load(Ordering::Relaxed).wrapping_add(1);
        let mut body = String::new();
        for line in carried.iter().map(written) {
            // The line before them.
            if body.len() + line.len() + 128 > PLACE_BYTES {
                break;
            }
            body.push_str(&line);
        }
        let sum = checksum(turn, body.as_bytes());
        let text = format!("{MAGIC} {turn} {} {sum:08x}\n{body}", body.len());
        let at = if turn.is_multiple_of(2) { 0 } else { PLACE_BYTES };
        self.file.write_all_at(text.as_bytes(), at as u64)?;
        self.turn.store(turn, Ordering::Relaxed);
        Ok(())
    }
}

/// Writes the days of a server once a second where they have changed, and a last time when this is dropped.
pub(crate) struct Keeping {
    until: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl Keeping {
    /// Goes on with what was found, where there is a file. In a thread of its own, as a disk may take its time.
    ///
    /// # Errors
    /// When there is no thread.
    pub(crate) fn start(
        state: Option<&Arc<BudgetState>>,
        permits: &Arc<Permits>,
        events: &Events,
    ) -> Result<Option<Self>, ErrorRecord> {
        let Some(state) = state else { return Ok(None) };
        let days = permits.take_up(&state.found, (Instant::now(), Timestamp::now().as_second()));
        events.send(state.begun(days));
        let (until, asked) = channel();
        let (over, ended) = channel();
        let (state, permits, events) = (Arc::clone(state), Arc::clone(permits), events.clone());
        let writer = move || {
            let _over: Sender<()> = over;
            if let Ok(places) = &state.places {
                keep(&state, places, &permits, &events, &asked);
            }
        };
        let started = std::thread::Builder::new().name("budgets".into()).spawn(writer);
        started.map_err(|e| errors::unable("keep the bytes of the day", &e.to_string()))?;
        Ok(Some(Self { until: Some(until), ended }))
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.until.take();
        let _ = self.ended.recv_timeout(LAST_WRITE);
    }
}

fn keep(
    state: &BudgetState,
    places: &Places,
    permits: &Permits,
    events: &Events,
    asked: &Receiver<()>,
) {
    let (mut last, mut failed) = ((0, 0), false);
    let (mut begun, mut begun_s) = (Instant::now(), Timestamp::now().as_second());
    loop {
        let ends = asked.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
        let (at, date) = (Instant::now(), Timestamp::now().as_second());
        let carried = permits.carried((at, date));
        let sum = carried.iter().fold(0, |sum: u64, one| sum.wrapping_add(one.bytes));
        let now = (carried.len(), sum);
        // A clock that was set moves the beginnings of days.
        let set = begun.elapsed().as_secs().abs_diff(date.abs_diff(begun_s)) > CLOCK_S;
        if now != last || set || ends {
            match places.write(&carried) {
                Ok(()) => {
                    last = now;
                    (begun, begun_s) = (at, date);
                    if std::mem::take(&mut failed) {
                        events.send(state.event(carried.len(), None));
                    }
                }
                Err(_) if failed => {}
                Err(e) => {
                    failed = true;
                    let why = Some(format!("cannot write {}: {e}", state.path.display()));
                    events.send(Event::BudgetState { file: None, days: carried.len(), why });
                }
            }
        }
        if ends {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_of_a_place_make_the_reader_panic(
            turn in any::<u64>(), body in "(key|network|[a-z0-9:./]{0,20}|[ \n]|[0-9]{1,21}){0,12}", cut in any::<prop::sample::Index>(),
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let sum = checksum(turn, body.as_bytes());
            let whole = format!("{MAGIC} {turn} {} {sum:08x}\n{body}", body.len());
            prop_assert!(place(whole.as_bytes()).is_none_or(|(read, _)| read == turn));
            let cut = cut.index(whole.len() + 1);
            prop_assert!(cut == whole.len() || place(&whole.as_bytes()[..cut]).is_none(), "a part passes for all");
            let _ = place(&noise);
        }

        #[test]
        fn a_place_is_read_as_it_was_written(
            turn in any::<u64>(),
            body in "(key [a-z0-9]{1,16} [a-z]{1,5} [1-9][0-9]{0,8} [1-9][0-9]{0,17}\n|network 10\\.0\\.0\\.0/8 [1-9][0-9]{0,8} [1-9][0-9]{0,17}\n){0,6}",
        ) {
            let sum = checksum(turn, body.as_bytes());
            let whole = format!("{MAGIC} {turn} {} {sum:08x}\n{body}", body.len());
            let (read, carried) = place(whole.as_bytes()).expect("whole");
            prop_assert_eq!((read, carried.len()), (turn, body.lines().count()));
            prop_assert_eq!(carried.iter().map(written).collect::<String>(), body);
        }
    }

    fn scratch(name: &str) -> PathBuf {
        let name = format!("linerate-budget-state-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        path
    }

    fn some(bytes: u64) -> Vec<Carried> {
        let key = Whom::Key { id: "a".repeat(16), name: "ci".into() };
        let network = Whom::Network("2001:db8::/32".parse().unwrap());
        vec![
            Carried { whom: key, since_s: 1_000, bytes },
            Carried { whom: network, since_s: 2_000, bytes: u64::MAX },
        ]
    }

    fn write(path: &Path, carried: &[Carried]) {
        open(path).unwrap().places.unwrap().write(carried).unwrap();
    }

    #[test]
    fn what_was_written_last_is_found_and_no_altered_byte_passes_for_it() {
        let path = scratch("altered");
        assert!(open(&path).unwrap().found.is_empty());
        for bytes in 1..=3 {
            write(&path, &some(bytes));
            let found = open(&path).unwrap();
            assert_eq!((found.found, found.damage), (some(bytes), None));
        }
        // The second of the two places holds the first and the third write, of which the latter counts.
        let whole = std::fs::read(&path).unwrap();
        for at in PLACE_BYTES..whole.len() {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            std::fs::write(&path, &altered).unwrap();
            let found = open(&path).unwrap();
            assert_eq!(found.found, some(2), "byte {at}");
            assert!(found.damage.unwrap().contains("the one before"), "byte {at}");
        }
        for length in [1, 20, PLACE_BYTES - 1, PLACE_BYTES, PLACE_BYTES + 1, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            let found = open(&path).unwrap();
            assert!(found.found.is_empty() || found.found == some(2), "{length}");
        }
        std::fs::write(&path, format!("{MAGIC} and no more\n")).unwrap();
        assert!(open(&path).unwrap().damage.unwrap().contains("not known"));
        // And it is good again.
        write(&path, &some(7));
        assert_eq!(open(&path).unwrap().found, some(7));
        // What somebody else wrote stays as it is.
        std::fs::write(&path, "[[key]]\n").unwrap();
        assert!(open(&path).unwrap_err().contains("something else"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[[key]]\n");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_of_another_server_and_what_is_no_file_are_refused() {
        let path = scratch("refused");
        let first = BudgetState::open(&path).unwrap();
        let why = BudgetState::open(&path).unwrap_err().why;
        assert!(why.contains("another server"), "{why}");
        drop(first);
        let link = scratch("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        BudgetState::open(&link).unwrap_err();
        BudgetState::open(&std::env::temp_dir()).unwrap_err();
        for file in [path, link] {
            std::fs::remove_file(file).unwrap();
        }
        let state = BudgetState::of_port(Path::new("/proc/no-such-directory"), 5_201);
        assert!(state.places.unwrap_err().contains("/proc/no-such-directory/budgets-5201"));
    }

    #[test]
    fn what_there_is_no_room_for_is_left_out() {
        let path = scratch("room");
        let many: Vec<Carried> = (0..20_000).flat_map(|_| some(1)).collect();
        write(&path, &many);
        let found = open(&path).unwrap();
        assert_eq!(found.damage, None);
        assert!((8_192..many.len()).contains(&found.found.len()), "{}", found.found.len());
        std::fs::remove_file(&path).unwrap();
    }
}
