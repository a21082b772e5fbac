//! Certificates of servers of this host.

use std::path::Path;
use std::process::Command;

/// A certificate for an address, its key, and whose it is; all in a folder.
pub fn certificate(folder: &Path, address: &str) -> [String; 3] {
    let path = |name: &str| folder.join(name).display().to_string();
    let (ca, ca_key, own, key) = (path("ca.pem"), path("ca.key"), path("own.pem"), path("own.key"));
    let new =
        ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let whose = ["-subj", "/CN=ca", "-days", "2", "-keyout", &ca_key, "-out", &ca];
    let name = ["-subj", "/CN=server", "-days", "2", "-keyout", &key, "-out", &own];
    let address = format!("subjectAltName=IP:{address}");
    let by = ["-CA", &ca, "-CAkey", &ca_key, "-addext", &address];
    let leaf = ["-addext", "basicConstraints=CA:FALSE"];
    for args in [[&new[..], &whose].concat(), [&new[..], &name, &by, &leaf].concat()] {
        let made = Command::new("openssl").args(args).output().expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    [own, key, ca]
}
