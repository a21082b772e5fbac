//! A request's bytes to what it asks for, and answers as bytes (RFC 9112): as much as pages, metrics and probes need. A
//! request's line is read, of its fields those that say for whom a browser asks, and each connection has one answer.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use subtle::ConstantTimeEq;

/// Bytes of a request's head at most, its fields and the empty line included. Browsers send some hundred; cookies of
/// other services on the same host may come along.
pub const MOST_HEAD: usize = 8 << 10;

/// What whoever asks must know: 128 bits in hexadecimal digits.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Of bytes that nobody can foresee.
    pub fn new(random: [u8; 16]) -> Self {
        Self(random.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Takes the same time wherever they differ.
    fn is(&self, said: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(said).into()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<'a> {
    /// Its head is not whole yet.
    Part,
    /// `GET /TOKEN/events`.
    Events,
    /// `GET /TOKEN/` and this, with the query; the page itself is empty.
    Path(&'a str),
    /// Nothing that is here, or no request.
    Nothing,
}

/// A request, as far as it is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Its head is not whole yet.
    Part,
    /// GET of this path, with the query.
    Get(&'a str),
    /// Another, or none.
    Other,
}

/// What these first bytes of a connection are.
pub fn request(head: &[u8]) -> Request<'_> {
    if !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        return if head.len() < MOST_HEAD { Request::Part } else { Request::Other };
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let words = [words.next(), words.next(), words.next(), words.next()];
    let [Some(b"GET"), Some(path), Some(b"HTTP/1.1" | b"HTTP/1.0"), None] = words else {
        return Request::Other;
    };
    std::str::from_utf8(path).map_or(Request::Other, Request::Get)
}

/// What these first bytes of a connection ask for, of who knows the token.
pub fn asked<'a>(head: &'a [u8], token: &Token) -> Asked<'a> {
    let path = match request(head) {
        Request::Part => return Asked::Part,
        Request::Other => return Asked::Nothing,
        Request::Get(path) => path,
    };
    let mut parts = path.splitn(3, '/');
    match [parts.next(), parts.next(), parts.next()] {
        [Some(""), Some(said), Some(rest)] if token.is(said.as_bytes()) => match rest {
            "events" => Asked::Events,
            rest => Asked::Path(rest),
        },
        _ => Asked::Nothing,
    }
}

/// Whether a browser sent this request on behalf of another site's page, as its fields say. Over loopback also whether it
/// is for a name that is not this host's own: whoever has a name may let it lead here.
pub fn is_foreign(head: &[u8], over_loopback: bool) -> bool {
    let head = String::from_utf8_lossy(head);
    let fields = || head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let is = |(name, value): (&str, &str), wanted: &str| {
        name.eq_ignore_ascii_case(wanted) && value.trim() == "navigate"
    };
    // Where a link of another page leads, a reader sees figures and that page does not.
    let is_read =
        head.starts_with("GET /metrics ") && fields().any(|field| is(field, "sec-fetch-mode"));
    fields().any(|(name, value)| match (name.to_ascii_lowercase().as_str(), value.trim()) {
        ("origin", _) => true,
        ("sec-fetch-site", site) => !is_read && !matches!(site, "none" | "same-origin"),
        ("host", host) => over_loopback && !is_loopback(host),
        _ => false,
    })
}

/// With or without a port. A name without a dot is of this network's, and none that a stranger can let lead here.
fn is_loopback(host: &str) -> bool {
    let bare = || host.trim_matches(['[', ']']).parse::<IpAddr>();
    match host.parse::<SocketAddr>().map(|at| at.ip()).or_else(|_| bare()) {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => {
            let name = host.split(':').next().unwrap_or_default().trim_end_matches('.');
            !name.contains('.') || name.eq_ignore_ascii_case("localhost.localdomain")
        }
    }
}

/// What is said to who asks so where there is no token.
pub const FOREIGN: &str = "refused: another site's page asks, or for a name that is not this host's; \
                           ask at localhost, 127.0.0.1 or [::1], or serve at another address\n";

/// Nothing is said to who does not know the token.
pub const NOT_FOUND: &str =
    "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// For who knows it, where too many listen.
pub const TOO_MANY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";

/// No cache keeps it, no other page is told where it is or may put it into a frame. What runs in it, the page's own
/// policy says by digests.
const FIELDS: &str = "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
                      X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\
                      Content-Security-Policy: base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
                      Connection: close\r\n";

/// The answer with a page.
pub fn page(html: &str) -> String {
    whole("200 OK", "text/html; charset=utf-8", html)
}

/// The answer with metrics, in the text format of Prometheus.
pub fn metrics(text: &str) -> String {
    whole("200 OK", "text/plain; version=0.0.4; charset=utf-8", text)
}

/// The answer with a JSON document.
pub fn json(text: &str) -> String {
    whole("200 OK", "application/json", text)
}

/// Why there are none: a status of RFC 9110 and a sentence.
pub fn refused(status: &str, why: &str) -> String {
    whole(status, "text/plain; charset=utf-8", why)
}

fn whole(status: &str, kind: &str, text: &str) -> String {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{FIELDS}\r\n{text}"
    )
}

/// The head of the answer with events; a browser that lost them comes again after a second.
pub fn events() -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{FIELDS}\r\nretry: 1000\n\n{STILL_THERE}"
    )
}

/// An event that is none: whoever is gone shows it by not taking it.
pub const STILL_THERE: &str = ":\n\n";

/// An event (WHATWG HTML, server-sent events): of a kind that has a name, or a line of `--json-lines`.
pub fn event(name: Option<&str>, data: &str) -> String {
    let mut event = name.map_or(String::new(), |name| format!("event: {name}\n"));
    for line in data.trim_end().split(['\r', '\n']) {
        event.push_str(&format!("data: {line}\n"));
    }
    event.push('\n');
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "000102030405060708090a0b0c0d0eff";

    fn token() -> Token {
        Token::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255])
    }

    /// What is asked for, in words.
    fn asks(request: &str) -> String {
        format!("{:?}", asked(request.replace("TOKEN", TOKEN).as_bytes(), &token()))
    }

    #[test]
    fn what_is_asked_for_is_what_stands_behind_the_token() {
        assert_eq!(token().to_string(), TOKEN);
        assert_eq!(asks("GET /TOKEN/events HTTP/1.0\r\n\r\n"), "Events");
        for path in ["", "?a", "pair-3", "events/", "../events", "a/b?c"] {
            let asked = asks(&format!("GET /TOKEN/{path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(asked, format!("Path({path:?})"));
        }
        for part in ["", "G", "GET /TOKEN/ HTTP/1.1\r\n", "GET /TOKEN/ HTTP/1.1\r\nHost: a\r\n\r"] {
            assert_eq!(asks(part), "Part", "{part}");
        }
        for line in [
            "GET / HTTP/1.1",
            "GET /TOKEN HTTP/1.1",
            "GET //TOKEN/ HTTP/1.1",
            "GET TOKEN/ HTTP/1.1",
            "GET /TOKEN0/ HTTP/1.1",
            "GET /000102030405060708090A0B0C0D0EFF/ HTTP/1.1",
            "GET /000102030405060708090a0b0c0d0efe/ HTTP/1.1",
            "GET http://127.0.0.1/TOKEN/ HTTP/1.1",
            "HEAD /TOKEN/ HTTP/1.1",
            "POST /TOKEN/ HTTP/1.1",
            "get /TOKEN/ HTTP/1.1",
            "GET  /TOKEN/ HTTP/1.1",
            "GET /TOKEN/ HTTP/1.1 x",
            "GET /TOKEN/ HTTP/2.0",
            "GET /TOKEN/",
            "\n GET /TOKEN/ HTTP/1.1",
            "",
        ] {
            assert_eq!(asks(&format!("{line}\r\n\r\n")), "Nothing", "{line}");
        }
    }

    #[test]
    fn a_request_is_its_path_and_query() {
        let whole = |line: &str| format!("{line}\r\nHost: a\r\n\r\n");
        let head = whole("GET /probe?target=a&module=rr HTTP/1.1");
        assert_eq!(request(head.as_bytes()), Request::Get("/probe?target=a&module=rr"));
        assert_eq!(request(whole("POST /metrics HTTP/1.1").as_bytes()), Request::Other);
        assert_eq!(request(b"GET /\xff HTTP/1.1\r\n\r\n"), Request::Other);
        assert_eq!(request(b"GET /metrics HTTP/1.1\r\n"), Request::Part);
        let answer = metrics("a 1\n");
        assert!(answer.contains("Content-Length: 4\r\n") && answer.ends_with("\r\n\r\na 1\n"));
        let answer = refused("400 Bad Request", "no target\n");
        assert!(
            answer.starts_with("HTTP/1.1 400 Bad Request\r\n")
                && answer.ends_with("\r\n\r\nno target\n")
        );
    }

    #[test]
    fn pages_of_other_sites_and_their_names_are_foreign() {
        let foreign = |fields: &str, over_loopback: bool| {
            let head = format!("GET /metrics HTTP/1.1\r\n{fields}\r\n\r\n");
            is_foreign(head.as_bytes(), over_loopback)
        };
        for own in [
            "Accept: */*",
            "Host: 127.0.0.1:15201",
            "host:127.9.9.9",
            "HOST: LocalHost",
            "Host: localhost:80\r\nSec-Fetch-Site: none",
            "Host: [::1]:15202\r\nsec-fetch-site: same-origin",
            "Host: [::1]",
            "Host: hydra1:15201",
            "Host: localhost.",
            "Host:",
            "Host: localhost:15201\r\nSec-Fetch-Site: same-site\r\nSec-Fetch-Mode: navigate",
        ] {
            assert!(!foreign(own, true) && !foreign(own, false), "{own}");
        }
        for page in [
            "Origin: http://127.0.0.1:15201",
            "origin: null",
            "Host: localhost\r\nSec-Fetch-Site: cross-site",
            "SEC-FETCH-SITE:same-site",
        ] {
            assert!(foreign(page, true) && foreign(page, false), "{page}");
        }
        for name in [
            "Host: evil.example",
            "Host: evil.example:15201",
            "Host: localhost.evil.example",
            "Host: 127.0.0.1.evil.example:80",
            "Host: 192.0.2.1:15201",
            "Host: localhost\r\nHost: evil.example",
        ] {
            assert!(foreign(name, true) && !foreign(name, false), "{name}");
        }
    }

    #[test]
    fn whatever_comes_a_head_is_bounded() {
        let endless = vec![b'a'; MOST_HEAD];
        assert_eq!(asked(&endless, &token()), Asked::Nothing);
        assert_eq!(asked(&endless[1..], &token()), Asked::Part);
        let long = format!("GET /TOKEN/ HTTP/1.1\r\nCookie: {}\r\n\r\n", "a".repeat(4_000));
        assert_eq!(asks(&long), "Path(\"\")");
        // Every byte at every place of a request.
        let request = format!("GET /{TOKEN}/ HTTP/1.1\r\n\r\n");
        for at in 0..request.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = request.clone().into_bytes();
                let as_it_was = std::mem::replace(&mut bytes[at], byte) == byte;
                let found = asked(&bytes, &token());
                let page = found == Asked::Path("");
                let version = at == request.len() - 5 && byte == b'0';
                assert_eq!(page, as_it_was || version, "{at} {byte}");
            }
        }
    }

    #[test]
    fn an_event_is_framed_whatever_it_holds() {
        assert_eq!(event(None, "{\"a\":1}\n"), "data: {\"a\":1}\n\n");
        assert_eq!(event(Some("hosts"), "{}"), "event: hosts\ndata: {}\n\n");
        assert_eq!(event(None, "a\n\nevent: b\rc"), "data: a\ndata: \ndata: event: b\ndata: c\n\n");
    }

    #[test]
    fn answers_say_what_may_be_done_with_them() {
        let page = page("<p>ä</p>");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\n<p>ä</p>"));
        assert!(page.contains("\r\nContent-Length: 9\r\n"));
        for answer in [page, events()] {
            for field in [
                "Cache-Control: no-store",
                "Referrer-Policy: no-referrer",
                "X-Content-Type-Options: nosniff",
                "frame-ancestors 'none'",
            ] {
                assert!(answer.contains(field), "{field}: {answer}");
            }
        }
        assert!(NOT_FOUND.ends_with("\r\n\r\n") && TOO_MANY.ends_with("\r\n\r\n"));
    }
}
