//! `--save FILE`: a result in a file of its own, beside what is shown; and what `--resume` reads again.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use linerate_model::record::{ErrorKind as Kind, ErrorRecord, FORMAT};
use serde::de::DeserializeOwned;

/// A larger file is no experiment: ten thousand trials of ten intervals are a fifth of it.
const MOST_BYTES: u64 = 64 << 20;

/// A file that a result will be kept in. It is made whole or not at all, and nothing is written over.
#[derive(Debug)]
pub struct SavedFile {
    path: PathBuf,
}

impl SavedFile {
    /// Before anything is measured: the file must not be there, and its folder must take one.
    pub fn new(path: &Path) -> Result<Self, ErrorRecord> {
        let kept = Self { path: path.to_owned() };
        if fs::symlink_metadata(path).is_ok() {
            return Err(kept.unable(&ErrorKind::AlreadyExists.into()));
        }
        let draft = kept.draft();
        let tried = OpenOptions::new().write(true).create_new(true).open(&draft);
        match tried.and_then(|_| fs::remove_file(&draft)) {
            Ok(()) => Ok(kept),
            Err(why) => Err(kept.unable(&why)),
        }
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the text.
    pub fn keep(&self, text: io::Result<String>) -> Result<(), ErrorRecord> {
        let draft = self.draft();
        let written = text.and_then(|text| fs::write(&draft, text)).and_then(|()| {
            // A link is made only where nothing is, also if it came meanwhile. Not every file system has them.
            match fs::hard_link(&draft, &self.path) {
                Err(why) if why.kind() != ErrorKind::AlreadyExists && !self.path.exists() => {
                    fs::rename(&draft, &self.path)
                }
                linked => linked,
            }
        });
        // Gone already where it was renamed.
        let _ = fs::remove_file(&draft);
        written.map_err(|why| self.unable(&why))
    }

    fn draft(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!(".{name}.{}.part", std::process::id()))
    }

    fn unable(&self, why: &io::Error) -> ErrorRecord {
        let (why, hint) = match why.kind() {
            ErrorKind::AlreadyExists => (
                "the file is there, and what is in it would be lost".to_owned(),
                "another name, or move that file away",
            ),
            _ => (why.to_string(), "--save FILE in a folder that may be written"),
        };
        let what = format!("cannot keep the result in `{}`", self.path.display());
        ErrorRecord::new(Kind::Output, what, why, &[hint])
    }
}

/// A file in which a result is kept while it grows, so that whoever is killed loses nothing.
#[derive(Debug)]
pub(crate) struct GrowingFile {
    file: SavedFile,
    /// What is there is an earlier state of this very result.
    is_own: bool,
}

impl GrowingFile {
    /// One that is not there yet; see [`SavedFile::new`].
    pub fn new(path: &Path) -> Result<Self, ErrorRecord> {
        Ok(Self { file: SavedFile::new(path)?, is_own: false })
    }

    /// The file of the result that goes on. Before anything is measured: it must be one that can be replaced.
    pub fn own(path: &Path) -> Result<Self, ErrorRecord> {
        // A link keeps pointing where it does.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let file = SavedFile { path };
        let regular = fs::metadata(&file.path).and_then(|found| match found.is_file() {
            true => Ok(()),
            false => Err(io::Error::other("it is no file that can be replaced")),
        });
        let opened = || OpenOptions::new().append(true).open(&file.path).map(drop);
        let tried = || {
            let draft = file.draft();
            OpenOptions::new().write(true).create_new(true).open(&draft)?;
            fs::remove_file(&draft)
        };
        match regular.and_then(|()| opened()).and_then(|()| tried()) {
            Ok(()) => Ok(Self { file, is_own: true }),
            Err(why) => Err(file.unable(&why)),
        }
    }

    /// Where.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Keeps the text, in place of what this result was before.
    pub fn keep(&mut self, text: io::Result<String>) -> Result<(), ErrorRecord> {
        if self.is_own {
            let kept = text.and_then(|text| replace(self.path(), &text));
            return kept.map_err(|why| self.file.unable(&why));
        }
        self.file.keep(text)?;
        self.is_own = true;
        Ok(())
    }
}

/// What an experiment is called that goes on, and what its file is.
pub(crate) struct Resumed {
    /// `sweep`, `tune`.
    pub kind: &'static str,
    /// Where its file comes from, for a hint.
    pub hint: &'static str,
}

impl Resumed {
    /// A file that holds nothing to go on with.
    pub fn unusable(&self, path: &Path, why: &str) -> ErrorRecord {
        let what = format!("cannot resume `{}`", path.display());
        ErrorRecord::new(Kind::Resume, what, why, &[self.hint])
    }

    /// Reads the document of a file; `head` gives its format and kind.
    pub fn read<D: DeserializeOwned>(
        &self,
        file: &Path,
        head: fn(&D) -> (u32, &str),
    ) -> Result<D, ErrorRecord> {
        let mut text = String::new();
        let read =
            File::open(file).and_then(|open| open.take(MOST_BYTES + 1).read_to_string(&mut text));
        if let Err(error) = read {
            return Err(self.unusable(file, &error.to_string()));
        }
        let kind = self.kind;
        if text.len() as u64 > MOST_BYTES {
            return Err(self.unusable(file, &format!("it is larger than any {kind}")));
        }
        // As bytes, as reports read it: for a `str` all the code that reads it would be compiled once more.
        let document: D = serde_json::from_slice(text.as_bytes())
            .map_err(|e| self.unusable(file, &format!("it is no {kind}: {e}")))?;
        let (format, found) = head(&document);
        if format != FORMAT || found != kind {
            let why = format!("it is a {found:?} of format {format}");
            return Err(self.unusable(file, &why));
        }
        Ok(document)
    }
}

/// Refuses what another process has open for its results: each would write over what the other had measured. Held until
/// `file` is closed, also by a kill. Where the file system has no locks there is none.
pub(crate) fn alone(file: &File, what: String) -> Result<(), ErrorRecord> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(ErrorRecord::new(
            Kind::Output,
            what,
            "another process writes its results there now",
            &["wait for it to end, or end it"],
        )),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Writes a file whole or not at all, over what was there: who reads it, or is killed, never sees half.
///
/// # Errors
/// What the system says; what was there is unharmed.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".part");
    let draft = PathBuf::from(draft);
    let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // On a full disk it has taken what room was left.
        let _ = fs::remove_file(&draft);
    }
    written
}

/// The same for a file with secrets: for its owner alone where it is new, as it was where it is not, and on the disk
/// before it has its name. A link stays one.
///
/// # Errors
/// What the system says; what was there is unharmed.
pub fn replace_secret(path: &Path, text: &str) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = write_secret(&draft, &path, text).and_then(|()| fs::rename(&draft, &path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all())
}

fn write_secret(draft: &Path, like: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    if let Ok(before) = fs::metadata(like) {
        // A server that runs as another user must be able to read it as before.
        fchown(&file, Some(before.uid()), Some(before.gid()))?;
        file.set_permissions(before.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_with_secrets_keeps_its_rights_and_its_link() {
        let dir = std::env::temp_dir().join(format!("linerate-secret-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (path, link) = (dir.join("keys"), dir.join("link"));
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        replace_secret(&path, "one").unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace_secret(&link, "two").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode()), ("two", 0o640));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(replace_secret(&dir.join("no/such"), "").is_err());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2, "no draft stays");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_growing_result_replaces_itself_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("linerate-growing-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (path, link) = (dir.join("a.json"), dir.join("link"));
        let mut grows = GrowingFile::new(&path).unwrap();
        for text in ["one", "one and two"] {
            grows.keep(Ok(text.into())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        // Of another process it is somebody's result, unless that is what goes on.
        assert!(GrowingFile::new(&path).is_err());
        std::os::unix::fs::symlink(&path, &link).unwrap();
        GrowingFile::own(&link).unwrap().keep(Ok("three".into())).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(GrowingFile::own(&dir.join("none")).is_err());
        assert!(GrowingFile::own(Path::new("/dev/null")).unwrap_err().why.contains("no file"));
        // It came while the first trial ran.
        let other = dir.join("b.json");
        let mut grows = GrowingFile::new(&other).unwrap();
        fs::write(&other, "somebody's").unwrap();
        assert!(grows.keep(Ok("one".into())).is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "somebody's");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3, "no draft stays");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_is_made_whole_and_nothing_is_written_over() {
        let dir = std::env::temp_dir().join(format!("linerate-keep-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a.json");
        let kept = SavedFile::new(&path).unwrap();
        assert!(!path.exists(), "nothing is there before the end");
        kept.keep(Ok("one".into())).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        // It came while the test ran.
        assert!(kept.keep(Ok("two".into())).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        let refused = SavedFile::new(&path).unwrap_err();
        assert!(refused.why.contains("would be lost"), "{refused:?}");
        assert!(SavedFile::new(&dir.join("no/such/folder.json")).is_err());
        assert!(replace(&dir, "").is_err() && !dir.with_extension("part").exists());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "no draft stays");
        fs::remove_dir_all(&dir).unwrap();
    }
}
