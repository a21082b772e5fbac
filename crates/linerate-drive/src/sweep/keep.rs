//! Files of a sweep: what `--save` writes and `--resume` reads.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use linerate_ask::Measure;
use linerate_ask::sweep::SweepArgs;
use linerate_model::clean::shell_word;
use linerate_model::record::{ErrorKind, ErrorRecord, RunRecord};
use linerate_model::sweep::SweepDocument;

use crate::keep::{Resumed, alone, replace};

/// The sweep itself beside its runs.
pub const SWEEP: &str = "sweep.json";
const RESUMED: Resumed = Resumed {
    kind: "sweep",
    hint: "it is the JSON of `linerate sweep`: sweep.json in the directory of --save, or what --json printed",
};

/// Writes runs and the sweep into a directory. A failure is reported once and the sweep goes on.
pub struct SweepFolder {
    dir: PathBuf,
    /// The first; the rest would be the same.
    pub failure: Option<ErrorRecord>,
    /// Locked as long as this lives.
    _opened: File,
}

impl SweepFolder {
    /// Makes the directory and tries it. A sweep that is in it already is somebody's measurement: only
    /// the one with the id `own` is written over, which is the one that goes on.
    pub fn new(dir: &Path, own: Option<&str>) -> Result<Self, ErrorRecord> {
        let there = dir.join(SWEEP);
        let is_own = || own.is_some_and(|own| read(&there).is_ok_and(|(found, _)| found.id == own));
        if fs::symlink_metadata(&there).is_ok() && !is_own() {
            let place = shell_word(&dir.to_string_lossy());
            return Err(ErrorRecord::new(
                ErrorKind::Output,
                format!("cannot keep this sweep in `{}`", dir.display()),
                "sweep.json there is another sweep, which would be lost",
                &[],
            )
            .hint(format!("go on with it: linerate sweep --resume {place}"))
            .hint("another directory: --save DIR"));
        }
        let trial = dir.join(".linerate-sweep");
        let opened = fs::create_dir_all(dir)
            .and_then(|()| fs::write(&trial, b""))
            .and_then(|()| fs::remove_file(&trial))
            .and_then(|()| File::open(dir))
            .map_err(|e| unwritable(dir, &e))?;
        alone(&opened, format!("cannot keep this sweep in `{}`", dir.display()))?;
        Ok(Self { dir: dir.to_owned(), failure: None, _opened: opened })
    }

    /// For a hint.
    pub fn place(&self) -> String {
        self.dir.display().to_string()
    }

    /// Keeps a run's record; says whether it could.
    pub fn run(&mut self, record: &RunRecord) -> bool {
        self.write(&format!("{}.json", record.id), crate::document(record))
    }

    /// Keeps the sweep so far; says whether it could.
    pub fn sweep(&mut self, document: &SweepDocument) -> bool {
        self.write(SWEEP, crate::document(document))
    }

    fn write(&mut self, name: &str, text: io::Result<String>) -> bool {
        let path = self.dir.join(name);
        match text.and_then(|text| replace(&path, &text)) {
            Ok(()) => true,
            // Said once.
            Err(_) if self.failure.is_some() => true,
            Err(error) => {
                self.failure = Some(unwritable(&path, &error));
                false
            }
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> ErrorRecord {
    ErrorRecord::new(
        ErrorKind::Output,
        format!("cannot write to `{}`", path.display()),
        error.to_string(),
        &["give a directory that can be written: --save DIR"],
    )
}

/// A file that holds no sweep to go on with.
pub fn unusable(path: &Path, why: &str) -> ErrorRecord {
    RESUMED.unusable(path, why)
}

/// Reads a sweep from its file, or from the directory of `--save`. Returns the file as well.
pub fn read(path: &Path) -> Result<(SweepDocument, PathBuf), ErrorRecord> {
    let file = if path.is_dir() { path.join(SWEEP) } else { path.to_owned() };
    let document = RESUMED.read(&file, |sweep: &SweepDocument| (sweep.format, &sweep.kind))?;
    Ok((document, file))
}

/// The command line that began the sweep, understood once more.
pub fn arguments(document: &SweepDocument, file: &Path) -> Result<Box<SweepArgs>, ErrorRecord> {
    let cannot = |why: &str| unusable(file, &format!("its command cannot be repeated: {why}"));
    match Measure::from_words(&document.command) {
        Ok(Measure::Sweep(args)) if args.resume.is_none() => Ok(args),
        Ok(_) => Err(cannot("it is no sweep")),
        Err(error) => Err(cannot(&error.why)),
    }
}
