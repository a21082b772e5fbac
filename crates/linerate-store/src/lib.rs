//! Keeps and finds run records: one SQLite file per campaign. Results of a fleet are in such a file as well, or
//! where its user says so ([`Place`]).
//!
//! What is promised: when [`Campaign::keep_run`] or [`Campaign::keep`] returns, the run or event is
//! on stable storage (WAL, `synchronous=FULL`, then the log is folded into the file and cut), as far
//! as the disk keeps what `fsync` promises. After any error nothing more is written: whether the
//! last commit reached the disk is then unknown, and only a fresh look can show.
//!
//! Each row carries a SHA-256 of all its columns, and a head row says how many there are. So one
//! altered byte anywhere is either found by [`Reader::check`] or alters nothing that is read.
//!
//! ```
//! use linerate_store::{Campaign, Meta, Reader};
//!
//! let file = std::env::temp_dir().join(format!("linerate-example-{}.db", std::process::id()));
//! let meta = Meta {
//!     name: "tso".into(),
//!     plan: "# the plan's text".into(),
//!     plan_path: "tso.toml".into(),
//!     seed: 1,
//!     created: "2026-01-05T12:00:00Z".into(),
//!     version: "0.1.0".into(),
//! };
//! drop(Campaign::create(&file, &meta, &[])?);
//! let reader = Reader::open(&file)?;
//! assert_eq!(reader.meta()?, meta);
//! assert!(reader.check().is_empty(), "no byte is altered");
//! # drop(reader);
//! # for end in ["", "-wal", "-shm", ".lock"] {
//! #     let _ = std::fs::remove_file(format!("{}{end}", file.display()));
//! # }
//! # Ok::<(), linerate_store::StoreError>(())
//! ```

#![forbid(unsafe_code)]

mod address;
mod ask;
mod error;
mod follow;
mod lock;
mod meta;
pub mod outbox;
mod place;
#[cfg(feature = "postgres")]
mod postgres;
mod read;
mod row;
#[cfg(not(feature = "postgres"))]
mod unbuilt;
mod write;

pub use address::Address;
pub use ask::{LeaseAudit, StoreReader, StoreWriter};
pub use error::{Damage, StoreError};
pub use lock::is_locked;
pub use meta::{Deleted, Meta};
pub use place::Place;
pub use read::Reader;
pub use write::Campaign;

/// `linr`: how `file` and other tools distinguish this from any other SQLite file.
pub const APPLICATION_ID: i32 = 0x6c69_6e72;

/// Number of the schema below.
pub const SCHEMA_VERSION: i32 = 1;

/// The first bytes of every SQLite file.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

const SCHEMA: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, sum BLOB NOT NULL) STRICT;
CREATE TABLE slot (id INTEGER PRIMARY KEY, body TEXT NOT NULL, sum BLOB NOT NULL) STRICT;
CREATE TABLE event (id INTEGER PRIMARY KEY, at TEXT NOT NULL, body TEXT NOT NULL, sum BLOB NOT NULL) STRICT;
CREATE TABLE run (id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, state TEXT NOT NULL, setting TEXT NOT NULL,
    boot INTEGER NOT NULL, warmup INTEGER NOT NULL, value REAL, body TEXT NOT NULL, record TEXT, sum BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX one_run_a_slot ON run (slot) WHERE state = 'counted';
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), slots INTEGER NOT NULL, events INTEGER NOT NULL,
    runs INTEGER NOT NULL, sum BLOB NOT NULL) STRICT;
";
