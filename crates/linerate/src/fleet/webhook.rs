//! Tells a program of others what has changed: one POST over plain HTTP.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::Duration;

use linerate_model::fleet::FleetNotice;
use linerate_report::run::json;
use linerate_runner::clock::Stopwatch;

/// For connecting, for sending and for the answer, each: nothing is measured meanwhile, and it is told again.
const PATIENCE: Duration = Duration::from_secs(5);
/// No status line is longer.
const MOST_ANSWER: usize = 1_024;

/// Where to post: `http://HOST[:PORT][/PATH]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// As the user gave it.
    pub text: String,
    /// As in the URL: an IPv6 address in brackets.
    host: String,
    port: u16,
    path: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("https:") {
            return Err(
                "https is not spoken: give the http address of a relay on this host that does"
                    .into(),
            );
        }
        let rest = text.strip_prefix("http://").ok_or("it does not begin with http://")?;
        if !rest.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@' && byte != b'#') {
            return Err("it has a space, @, # or what is not ASCII".into());
        }
        let (place, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| "its port is no number")?)
            }
            _ => (place, 80),
        };
        if host.is_empty() || port == 0 {
            return Err("it names no host, or port 0".into());
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{path}");
        Ok(Self { text: text.to_owned(), host: host.to_owned(), port, path })
    }
}

impl Address {
    /// Without what may let whoever knows it post as well: its path and query.
    pub fn shown(&self) -> String {
        let path = if self.path == "/" { "/" } else { "/***" };
        format!("http://{}:{}{path}", self.host, self.port)
    }

    /// Posts it, and waits for an answer of 200 to 299.
    ///
    /// # Errors
    /// Why nobody took it, in words.
    pub fn post(&self, notice: &FleetNotice) -> Result<(), String> {
        let body = json::line(notice).map_err(|error| error.to_string())?;
        let (host, path) = (&self.host, &self.path);
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}:{}\r\nUser-Agent: linerate/{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.port,
            env!("CARGO_PKG_VERSION"),
            body.len()
        );
        let answer = self.exchange(request.as_bytes()).map_err(|error| error.to_string())?;
        let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        match status {
            Some(code) if code.starts_with('2') => Ok(()),
            Some(code) => Err(format!("it answered {code}")),
            None => Err("its answer is not HTTP".into()),
        }
    }

    /// The first bytes of the answer.
    fn exchange(&self, request: &[u8]) -> std::io::Result<String> {
        let name = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut stream = Err(std::io::ErrorKind::AddrNotAvailable.into());
        for address in (name, self.port).to_socket_addrs()?.take(2) {
            stream = TcpStream::connect_timeout(&address, PATIENCE);
            if stream.is_ok() {
                break;
            }
        }
        let mut stream = stream?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request)?;
        let (mut answer, asked) = (Vec::new(), Stopwatch::start());
        let mut piece = [0; 256];
        while !answer.contains(&b'\n') && answer.len() < MOST_ANSWER && asked.elapsed() < PATIENCE {
            match stream.read(&mut piece)? {
                0 => break,
                count => answer.extend_from_slice(piece.get(..count).unwrap_or_default()),
            }
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_plain_http() {
        for (text, host, port, path) in [
            ("http://127.0.0.1:8080/changes?a=b", "127.0.0.1", 8_080, "/changes?a=b"),
            ("http://relay", "relay", 80, "/"),
            ("http://[::1]:81", "[::1]", 81, "/"),
            ("http://[::1]/x", "[::1]", 80, "/x"),
            ("http://relay?a", "relay", 80, "/?a"),
        ] {
            let found: Address = text.parse().unwrap();
            assert_eq!((&*found.host, found.port, &*found.path), (host, port, path), "{text}");
        }
        for text in [
            "",
            "relay",
            "ftp://a",
            "http://",
            "http://:80",
            "http://a:b",
            "http://a:0",
            "http://a/\r\nX: y",
            "http://me@a",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        assert!("https://a".parse::<Address>().unwrap_err().contains("relay"));
    }
}
