//! What can go wrong with a store.

use std::fmt;
use std::path::Path;

use rusqlite::ErrorCode;

/// Why a store cannot be read or written. Each says which: a file, or a database without its password.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes it.
    #[error("another process works on {0}")]
    Locked(String),
    /// It is there already.
    #[error("{0} is there already")]
    Exists(String),
    /// Not one of ours.
    #[error("{0} is no store of a linerate campaign: {1}")]
    Foreign(String, String),
    /// A newer version of linerate made it.
    #[error("{0} has schema {1}, and this version of linerate knows {known}", known = crate::SCHEMA_VERSION)]
    Version(String, i32),
    /// Its content is not what was written.
    #[error("{0} is damaged: {1}")]
    Damaged(String, String),
    /// This build has no PostgreSQL.
    #[error("cannot use {0}: this linerate was built without PostgreSQL")]
    Unbuilt(String),
    /// The system reports.
    #[error("cannot {what} {place}: {why}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        place: String,
        /// Why it failed.
        why: String,
        /// There is no room on the disk.
        full: bool,
    },
}

impl StoreError {
    pub(crate) fn sqlite(what: &'static str, path: &Path, error: &rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        match code {
            Some(ErrorCode::NotADatabase) => {
                Self::Foreign(shown(path), "it is no SQLite file".into())
            }
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged(shown(path), error.to_string()),
            _ => Self::Io {
                what,
                place: shown(path),
                why: error.to_string(),
                full: code == Some(ErrorCode::DiskFull),
            },
        }
    }

    pub(crate) fn io(what: &'static str, path: &Path, error: &std::io::Error) -> Self {
        let full = error.kind() == std::io::ErrorKind::StorageFull;
        Self::Io { what, place: shown(path), why: error.to_string(), full }
    }
}

pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// One place where the file is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Table.
    pub table: &'static str,
    /// Row, if one is known.
    pub row: Option<i64>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(f, "{} {row}: {}", self.table, self.what),
            None => write!(f, "{}: {}", self.table, self.what),
        }
    }
}
