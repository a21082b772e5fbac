//! `--save FILE`: a result in a file of its own, beside what is shown.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use linerate_model::record::{ErrorKind as Kind, ErrorRecord};

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

/// Writes a file whole or not at all, over what was there: who reads it, or is killed, never sees half.
///
/// # Errors
/// What the system says; what was there is unharmed.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".part");
    let draft = PathBuf::from(draft);
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, path))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "no draft stays");
        fs::remove_dir_all(&dir).unwrap();
    }
}
