//! The configuration of a broker, as nats-server reads it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Largest message, in bytes: a result with its intervals. Larger ones nats-server warns of.
const MOST_BYTES: usize = 8 << 20;

/// A broker.
pub struct Server {
    /// Where agents and coordinators connect to.
    pub listen: SocketAddr,
    /// Folder for what is to outlast it.
    pub store: PathBuf,
    /// Folder for what it is told of its accounts.
    pub accounts: PathBuf,
    /// Certificate and key, files in PEM; without them everything is said in clear text.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl Server {
    /// The whole file; `believed` is what [`crate::keys::found`] says of who is let in.
    pub fn config(&self, believed: &str) -> String {
        let mut text = format!("listen: \"{}\"\nmax_payload: {MOST_BYTES}\n", self.listen);
        // Otherwise what was acknowledged in the last two minutes is gone after a power cut.
        let _ = write!(
            text,
            "jetstream {{\n    store_dir: {}\n    sync_interval: always\n}}\n",
            quoted(&self.store)
        );
        if let Some((certificate, key)) = &self.tls {
            let (certificate, key) = (quoted(certificate), quoted(key));
            let _ = write!(text, "tls {{\n    cert_file: {certificate}\n    key_file: {key}\n}}\n");
        }
        // One that can be told who is let in no more, and does not forget it.
        let accounts = quoted(&self.accounts);
        let _ = write!(text, "resolver: {{\n    type: full\n    dir: {accounts}\n}}\n");
        text.push_str(believed);
        text
    }
}

/// A configuration in which an account is as it was signed last (`jwt`); nothing where it has no such account. A broker
/// whose files are lost begins with that.
pub fn with_account(config: &str, account: &str, jwt: &str) -> Option<String> {
    let (before, rest) = config.split_once(&format!("{account}: "))?;
    let after = rest.find('\n').and_then(|end| rest.get(end..)).unwrap_or_default();
    Some(format!("{before}{account}: {jwt}{after}"))
}

fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_account_is_another_and_all_else_as_it_was() {
        let config = "system_account: AS\nresolver_preload: {\n    AS: one\n    AF: two\n}\n";
        let changed = with_account(config, "AF", "three").unwrap();
        assert_eq!(changed, config.replace("two", "three"));
        assert_eq!(with_account(config, "AX", "three"), None);
        assert_eq!(with_account("AF: two", "AF", "three").unwrap(), "AF: three");
    }
}
