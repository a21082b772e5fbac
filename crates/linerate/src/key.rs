//! The shared key of `--key-file`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use linerate_model::record::ErrorRecord;

use crate::usage;

/// No key is longer; a longer file is another one given by mistake.
const MOST_OCTETS: usize = 4_096;

/// 128 bits: whoever captures one proof can try keys against it at leisure.
const LEAST_OCTETS: usize = 16;

/// The file's octets without a line end at the end, which editors put there.
pub fn read(path: &Path) -> Result<Vec<u8>, ErrorRecord> {
    let what = || format!("cannot use the key file `{}`", path.display());
    let mut key = Vec::new();
    File::open(path)
        .and_then(|f| f.take(MOST_OCTETS as u64 + 1).read_to_end(&mut key))
        .map_err(|e| usage::error(what(), e.to_string(), &[]))?;
    if key.len() > MOST_OCTETS {
        return Err(usage::error(what(), format!("it is longer than {MOST_OCTETS} bytes"), &[]));
    }
    while key.last().is_some_and(|&b| b == b'\n' || b == b'\r') {
        key.pop();
    }
    if key.len() < LEAST_OCTETS {
        return Err(usage::error(
            what(),
            format!(
                "it holds {} bytes, and a key of fewer than {LEAST_OCTETS} can be guessed",
                key.len()
            ),
            &["make one: head -c 32 /dev/urandom | base64 > linerate.key"],
        ));
    }
    Ok(key)
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
        let path = file("good", b"sixteen octets!!\r\n");
        assert_eq!(read(&path).unwrap(), b"sixteen octets!!");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn empty_long_and_missing_files_are_refused() {
        for (name, content) in [
            ("empty", &b"\n"[..]),
            ("short", b"fifteen octets!"),
            ("long", &[b'x'; MOST_OCTETS + 1]),
        ] {
            let path = file(name, content);
            assert_eq!(read(&path).unwrap_err().exit_code, 2);
            std::fs::remove_file(path).unwrap();
        }
        assert!(read(Path::new("/nonexistent/key")).unwrap_err().why.contains("No such file"));
    }
}
