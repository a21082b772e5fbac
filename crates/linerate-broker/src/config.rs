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
        text.push_str(believed);
        text
    }
}

fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}
