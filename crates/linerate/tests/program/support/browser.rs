//! Pages in a real browser, where this machine has one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::skip;

/// A browser without a screen, with a profile of its test's own.
pub struct Browser {
    program: &'static str,
    folder: PathBuf,
}

impl Browser {
    /// The one of this machine; without one the test is skipped.
    pub fn new(test: &str) -> Option<Self> {
        let programs = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
        let Some(program) = programs.into_iter().find(|b| Path::new(b).exists()) else {
            skip(test, "chromium is not installed: NO PAGE WAS OPENED");
            return None;
        };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{test}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        Some(Self { program, folder })
    }

    /// What a page has become when it is loaded.
    pub fn opens(&self, address: &str, options: &[&str]) -> String {
        let out = self.run("--dump-dom", address, options);
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// A picture of a page, a PNG.
    pub fn draws(&self, address: &str, options: &[&str]) -> Vec<u8> {
        let picture = self.folder.join("picture.png");
        self.run(&format!("--screenshot={}", picture.display()), address, options);
        let bytes = std::fs::read(&picture).expect("a picture");
        assert!(bytes.starts_with(b"\x89PNG"), "{address} {options:?}");
        bytes
    }

    fn run(&self, does: &str, address: &str, options: &[&str]) -> Output {
        let out = Command::new(self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-sync", "--disable-background-networking"])
            .args(["--disable-component-update", does])
            .arg(format!("--user-data-dir={}", self.folder.display()))
            .args(options)
            .arg(address)
            .output()
            .expect("it starts");
        let words = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{address}: {words}");
        println!("{words}");
        out
    }
}

/// The address of a file.
pub fn file(folder: &Path, name: &str) -> String {
    format!("file://{}/{name}", folder.display())
}
