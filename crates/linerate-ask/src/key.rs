//! The shared key of `--key-file`.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use linerate_model::record::ErrorRecord;

use crate::usage;

/// No key is longer; a longer file is another one given by mistake.
const MOST_BYTES: usize = 4_096;

/// 128 bits: whoever captures one proof can try keys against it at leisure.
const LEAST_BYTES: usize = 16;

/// Files whose permissions were reported: a campaign reads one for each of its hosts.
static WARNED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The file's bytes without a line end at the end, which editors put there. Says once on standard error
/// when others than its owner may read the file.
pub fn read(path: &Path) -> Result<Vec<u8>, ErrorRecord> {
    let what = || format!("cannot use the key file `{}`", path.display());
    let mut key = Vec::new();
    let found = File::open(path).and_then(|f| {
        let facts = f.metadata()?;
        f.take(MOST_BYTES as u64 + 1).read_to_end(&mut key)?;
        Ok(facts)
    });
    let facts = found.map_err(|e| usage::error(what(), e.to_string(), &[]))?;
    report(path, &facts);
    if key.len() > MOST_BYTES {
        return Err(usage::error(what(), format!("it is longer than {MOST_BYTES} bytes"), &[]));
    }
    while key.last().is_some_and(|&b| b == b'\n' || b == b'\r') {
        key.pop();
    }
    if let Err(why) = linerate_runner::keys::whole(&key) {
        let hint = "copy the whole line that `linerate keys new` wrote";
        return Err(usage::error(what(), why, &[hint]));
    }
    if key.len() < LEAST_BYTES {
        return Err(usage::error(
            what(),
            format!(
                "it holds {} bytes, and a key of fewer than {LEAST_BYTES} can be guessed",
                key.len()
            ),
            &["make one: (umask 077; head -c 32 /dev/urandom | base64 > linerate.key)"],
        ));
    }
    Ok(key)
}

/// Says on standard error, once, when others than its owner may read a file with keys.
pub fn warn(path: &Path) {
    if let Ok(facts) = std::fs::metadata(path) {
        report(path, &facts);
    }
}

fn report(path: &Path, facts: &Metadata) {
    if let Some(text) = exposed(path, facts)
        && WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned())
    {
        // Nobody is left to hear of it when even this fails.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// What to say of a file that its group or everybody may read, or worse. Pipes have no reader but this.
fn exposed(path: &Path, facts: &Metadata) -> Option<String> {
    let mode = facts.permissions().mode() & 0o7777;
    (facts.is_file() && mode & 0o077 != 0).then(|| {
        let path = path.display();
        format!(
            "warning: others on this machine have access to the key file `{path}` (mode {mode:04o}); \
             to keep it to its owner: chmod 600 {path}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("linerate-key-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn a_key_is_read_without_its_line_end() {
        let path = file("good", b"sixteen bytes!!!\r\n");
        assert_eq!(read(&path).unwrap(), b"sixteen bytes!!!");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_key_that_others_may_read_is_told() {
        let path = file("mode", b"sixteen bytes!!!");
        for (mode, warned) in [(0o600, false), (0o400, false), (0o640, true), (0o644, true)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let text = exposed(&path, &std::fs::metadata(&path).unwrap());
            assert_eq!(text.is_some(), warned, "{mode:o}");
            if let Some(text) = text {
                assert!(text.contains(&format!("(mode {mode:04o})")), "{text}");
            }
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn empty_long_and_missing_files_are_refused() {
        for (name, content) in [
            ("empty", &b"\n"[..]),
            ("short", b"fifteen bytes!!"),
            ("long", &[b'x'; MOST_BYTES + 1]),
        ] {
            let path = file(name, content);
            assert_eq!(read(&path).unwrap_err().exit_code, 2);
            std::fs::remove_file(path).unwrap();
        }
        assert!(read(Path::new("/nonexistent/key")).unwrap_err().why.contains("No such file"));
    }
}
