//! A copy of the program where every user can start it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use linerate_testkit::runnable::runnable;

/// A folder with the copy, gone afterwards.
pub struct Program(PathBuf);

impl Program {
    pub fn copy() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("linerate-program-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        runnable(env!("CARGO_BIN_EXE_linerate").as_ref(), &folder.join("linerate"));
        Self(folder)
    }

    pub fn path(&self) -> PathBuf {
        self.0.join("linerate")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
