//! Logins of iperf3's clients: users of a file, proven by a token that is encrypted for the server.
//!
//! Built with the feature `iperf3-auth` only; without it nobody can make a [`Logins`].

use std::path::PathBuf;

#[cfg(not(feature = "iperf3-auth"))]
mod absent;
#[cfg(feature = "iperf3-auth")]
mod rsa;
#[cfg(feature = "iperf3-auth")]
mod users;

#[cfg(not(feature = "iperf3-auth"))]
pub use absent::Logins;
#[cfg(feature = "iperf3-auth")]
pub use rsa::Logins;

/// Whether this program can check logins.
pub const BUILT: bool = cfg!(feature = "iperf3-auth");

/// Why it cannot.
pub const NOT_BUILT: &str = "this program was built without logins of iperf3's clients";

/// What to do about that.
pub const HOW_TO_BUILD: &str =
    "build linerate with them: cargo build --release --features iperf3-auth (needs a C compiler)";

/// How logins are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// RSA private key, PEM.
    pub private_key: PathBuf,
    /// Users: a line `NAME,SHA256` each, of the text `{NAME}PASSWORD` in hexadecimal.
    pub users: PathBuf,
    /// Take the padding PKCS#1 v1.5 of releases up to 3.16, not OAEP.
    pub pkcs1: bool,
    /// Most seconds between the clocks of client and server.
    pub skew_s: u64,
}

/// Seconds that [`Settings::skew_s`] is unless set otherwise, as iperf3's.
pub const SKEW_S: u64 = 10;
