//! `serve --audit-log`: the events of `--json-lines` in a file of bounded length, with those before it beside it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use linerate_model::record::{ErrorKind as Kind, ErrorRecord};
use linerate_model::served::ServerLine;
use linerate_report::clean::clean_json;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

/// An event as a line, without its end.
pub fn line(event: &ServerLine) -> String {
    // Nothing in it can fail to become JSON: its keys are names and its values plain.
    clean_json(&serde_json::to_string(event).unwrap_or_default()).into_owned()
}

/// The file that is written, and how long it may be.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    file: File,
    /// Bytes that it has by now, by this process' count.
    bytes: u64,
    most: u64,
    keep: u64,
    /// The last line has no end.
    torn: bool,
    /// Lines that could not be written, and why the first could not.
    lost: u64,
    why: Option<String>,
    /// It could not be rotated, and that was said.
    stuck: bool,
}

impl Audit {
    /// Goes on at the end of the file, or makes it for its owner alone. `most` bytes make it full; `keep` full ones stay.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path, most: u64, keep: u64) -> Result<Self, ErrorRecord> {
        let unable = |e: io::Error| {
            let what = format!("cannot write the audit log `{}`", path.display());
            let hint = "--audit-log FILE in a folder that this user may write";
            ErrorRecord::new(Kind::Output, what, e.to_string(), &[hint])
        };
        let (mut file, bytes) = begin(path).map_err(unable)?;
        let mut last = [b'\n'];
        if bytes > 0 {
            file.seek(SeekFrom::End(-1))
                .and_then(|_| file.read_exact(&mut last))
                .map_err(unable)?;
        }
        // Relative to where this process is now.
        let path = path.canonicalize().map_err(unable)?;
        let torn = last != [b'\n'];
        Ok(Self { path, file, bytes, most, keep, torn, lost: 0, why: None, stuck: false })
    }

    /// Writes an event; what is to be said to the server's owner of the log itself. `time` is the event's.
    pub fn write(&mut self, event: &ServerLine, time: &str) -> Option<String> {
        let mut said = Vec::new();
        let mut text = if self.torn { "\n".to_owned() } else { String::new() };
        if self.lost > 0 {
            let (events, why) = (self.lost, self.why.clone());
            let lost = ServerLine::LogDropped { time: time.to_owned(), events, why };
            text.push_str(&(line(&lost) + "\n"));
        }
        text.push_str(&(line(event) + "\n"));
        let length = text.len() as u64;
        if self.bytes > 0 && self.bytes.saturating_add(length) > self.most {
            match self.rotate() {
                Ok(()) => {
                    self.stuck = false;
                    // Half a line is in the file before.
                    if std::mem::take(&mut self.torn) {
                        text.remove(0);
                    }
                }
                Err(_) if self.stuck => {}
                Err(why) => {
                    self.stuck = true;
                    let what = "cannot be rotated, and goes on growing";
                    said.push(format!("the audit log {what}: {why}"));
                }
            }
        }
        match self.append(text.as_bytes()) {
            Ok(()) => {
                self.bytes = self.bytes.saturating_add(text.len() as u64);
                self.torn = false;
                self.why = None;
                let lost = std::mem::take(&mut self.lost);
                if lost > 0 {
                    said.push(format!("the audit log goes on; {lost} events are not in it"));
                }
            }
            Err(why) => {
                if self.lost == 0 {
                    said.push(format!(
                        "the audit log cannot be written, and events are counted: {why}"
                    ));
                }
                self.lost += 1;
                self.why.get_or_insert(why.to_string());
            }
        }
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// All of it, or nothing: half a line is no JSON.
    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        let mut left = text;
        let failed = loop {
            if left.is_empty() {
                return Ok(());
            }
            match self.file.write(left) {
                Ok(0) => break ErrorKind::WriteZero.into(),
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => break e,
            }
        };
        let written = text.len().saturating_sub(left.len()) as u64;
        if written > 0 {
            let length = self.file.metadata().map(|facts| facts.len());
            let back = length.and_then(|all| self.file.set_len(all.saturating_sub(written)));
            self.torn |= back.is_err();
        }
        Err(failed)
    }

    /// Begins another file. One that was full is `.1` from now on, the one before it `.2`.
    fn rotate(&mut self) -> io::Result<()> {
        // Else an earlier attempt has moved it, and could make no other.
        if self.path.exists() {
            for number in (1..self.keep).rev() {
                match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                    Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
            fs::rename(&self.path, self.numbered(1))?;
        }
        (self.file, self.bytes) = begin(&self.path)?;
        Ok(())
    }

    fn numbered(&self, number: u64) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn begin(path: &Path) -> io::Result<(File, u64)> {
    // Not through a link: the folder may be of a user who shall not choose what root opens. A pipe would hold this thread
    // up until somebody reads.
    let mut how = OpenOptions::new();
    let flags = O_NOFOLLOW | O_NONBLOCK;
    how.read(true).append(true).create(true).mode(0o600).custom_flags(flags);
    let file = how.open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if facts.nlink() != 1 {
        return Err(io::Error::other("it has another name (a hard link)"));
    }
    Ok((file, facts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("linerate-audit-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn event(n: u64) -> ServerLine {
        ServerLine::RefusedMore { time: "T".into(), network: "192.0.2.7".into(), count: n }
    }

    /// Every line of a file.
    fn lines(path: &Path) -> Vec<ServerLine> {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }

    #[test]
    fn files_are_rotated_by_size_and_the_oldest_goes() {
        let folder = Folder::new("rotated");
        let path = folder.0.join("audit");
        let one = line(&event(0)).len() as u64 + 1;
        // Three lines fit.
        let mut audit = Audit::open(&path, 3 * one, 2).unwrap();
        for n in 0..10 {
            assert_eq!(audit.write(&event(n), "T"), None);
        }
        let file = |name: &str| lines(&folder.0.join(name));
        assert_eq!(file("audit"), [event(9)]);
        assert_eq!(file("audit.1"), [6, 7, 8].map(event));
        assert_eq!(file("audit.2"), [3, 4, 5].map(event));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 3);
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o077, 0);
        // Another process goes on where this one ended, after half a line too.
        drop(audit);
        fs::write(&path, format!("{}\n{{\"ev", line(&event(9)))).unwrap();
        let mut audit = Audit::open(&path, 10 * one, 2).unwrap();
        audit.write(&event(10), "T");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().last(), Some(&*line(&event(10))));
        assert_eq!(text.lines().nth(1), Some("{\"ev"));
    }

    #[test]
    fn a_file_that_is_begun_after_half_a_line_begins_with_a_whole_one() {
        let folder = Folder::new("torn");
        let path = folder.0.join("audit");
        fs::write(&path, "{\"ev").unwrap();
        let mut audit = Audit::open(&path, 10, 2).unwrap();
        assert_eq!(audit.write(&event(1), "T"), None);
        assert_eq!(lines(&path), [event(1)]);
        assert_eq!(fs::read_to_string(folder.0.join("audit.1")).unwrap(), "{\"ev");
    }

    #[test]
    fn what_is_no_file_or_has_another_name_is_left_alone() {
        let folder = Folder::new("named");
        let (path, other) = (folder.0.join("audit"), folder.0.join("other"));
        fs::write(&other, "theirs").unwrap();
        fs::hard_link(&other, &path).unwrap();
        let why = Audit::open(&path, 1 << 20, 2).unwrap_err().why;
        assert!(why.contains("another name"), "{why}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "theirs");
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let why = Audit::open(&path, 1 << 20, 2).unwrap_err().why;
        assert!(why.contains("no file"), "{why}");
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_said_once() {
        let folder = Folder::new("unwritten");
        let path = folder.0.join("audit");
        let mut audit = Audit::open(&path, 1 << 20, 2).unwrap();
        assert_eq!(audit.write(&event(1), "T"), None);
        // Open for reading alone, it takes nothing.
        let whole = std::mem::replace(&mut audit.file, File::open(&path).unwrap());
        let said = audit.write(&event(2), "T").expect("it is said");
        assert!(said.contains("cannot be written"), "{said}");
        assert_eq!(audit.write(&event(3), "T"), None);
        audit.file = whole;
        assert_eq!(
            audit.write(&event(4), "T").as_deref(),
            Some("the audit log goes on; 2 events are not in it")
        );
        let all = lines(&path);
        assert_eq!((&all[0], &all[2]), (&event(1), &event(4)));
        assert!(
            matches!(&all[1], ServerLine::LogDropped { events: 2, why: Some(_), .. }),
            "{all:?}"
        );
        assert_eq!(audit.write(&event(5), "T"), None);
    }

    #[test]
    fn a_file_that_cannot_be_rotated_grows_and_that_is_said_once() {
        let folder = Folder::new("stuck");
        let path = folder.0.join("audit");
        // A folder that is not empty cannot be written over.
        fs::create_dir_all(folder.0.join("audit.1/full")).unwrap();
        let one = line(&event(0)).len() as u64 + 1;
        let mut audit = Audit::open(&path, 2 * one, 1).unwrap();
        assert_eq!((audit.write(&event(0), "T"), audit.write(&event(1), "T")), (None, None));
        assert!(audit.write(&event(2), "T").is_some_and(|said| said.contains("cannot be rotated")));
        assert_eq!(audit.write(&event(3), "T"), None);
        assert_eq!(lines(&path).len(), 4);
        fs::remove_dir_all(folder.0.join("audit.1")).unwrap();
        assert_eq!(audit.write(&event(4), "T"), None);
        assert_eq!(lines(&path), [event(4)]);
    }
}
