//! What each letter of the command line means.

use linerate_model::plan::IpVersion;

use super::words::{both, family, length, maybe, number, parts, service, size};
use super::{Line, Stop, Style, Test, Way};

impl Line {
    pub(super) fn take(&mut self, letter: char, text: &str) -> Result<(), Stop> {
        match letter {
            'h' => return Err(Stop::Help),
            'V' => return Err(Stop::Version),
            't' => self.test = Test::named(text).ok_or_else(|| Stop::Unknown(text.to_owned()))?,
            'H' => {
                let (host, family) = parts(text);
                if !host.is_empty() {
                    host.clone_into(&mut self.host);
                }
                self.family(family)?;
            }
            'L' => self.local(text)?,
            '4' => self.ip = Some(IpVersion::V4),
            '6' => self.ip = Some(IpVersion::V6),
            'p' => self.port = number(parts(text).0)?,
            'l' => self.length = length(text)?,
            'D' => {
                let seconds: f64 = number(parts(text).0)?;
                if !(seconds.abs() > 0.0 && seconds.is_finite()) {
                    return Err(Stop::Wrong("an interval is a time in seconds".into()));
                }
                self.interim_s = Some(seconds.abs());
            }
            'P' => self.headers = number::<i32>(text)? != 0,
            'v' => self.verbosity = number(text)?,
            'f' => self.format = text.chars().next().filter(|c| "GMKgmkxu".contains(*c)),
            'B' => text.clone_into(&mut self.brand),
            'c' => self.cpu_here = true,
            'C' => self.cpu_there = true,
            'I' => {
                let (level, width) = parts(text);
                let level: u8 = number(level)?;
                if level != 95 && level != 99 {
                    return Err(Stop::Wrong("netperf knows levels of 95 and 99 percent".into()));
                }
                let width = maybe(width, number::<f64>)?.unwrap_or(5.0);
                self.confidence = Some((level, width));
                if self.runs == (1, 1) {
                    self.runs = (3, 10);
                }
            }
            'i' => {
                let (max, min) = both(text);
                let max = maybe(max, number::<usize>)?.unwrap_or(self.runs.1);
                let min = maybe(min, number::<usize>)?.unwrap_or(self.runs.0);
                // As there: at most is never below at least, and then both have limits.
                self.runs = (min.clamp(3, 30), max.max(min).clamp(3, 30));
            }
            'r' => self.rate_only = true,
            's' => self.wait_s = number(text)?,
            'T' => {
                let (here, there) = both(text);
                self.cores = (maybe(here, number)?, maybe(there, number)?);
            }
            'y' => {
                let why = "priorities of sockets are not set; -Y marks packets, from which Linux takes one as well";
                return Err(Stop::Wrong(why.into()));
            }
            'Y' => {
                let (here, there) = both(text);
                self.services = (maybe(here, service)?, maybe(there, service)?);
            }
            'b' => {
                self.pace.0 = maybe(here_alone(text)?, number::<u32>)?.filter(|burst| *burst > 0)
            }
            'w' => self.pace.1 = maybe(here_alone(text)?, pause)?,
            'N' => {
                let why = "a test without the server's word is `linerate udp HOST --send-only`";
                return Err(Stop::Wrong(why.into()));
            }
            'Z' => return Err(Stop::Wrong("passphrases in clear text are not sent".into())),
            'a' | 'A' | 'o' | 'O' | 'W' => self.one_buffer(letter),
            // Contents, histograms, log: what is sent is linerate's.
            _ => {}
        }
        Ok(())
    }

    /// Rings of buffers, their alignments and offsets.
    fn one_buffer(&mut self, letter: char) {
        self.notes.push(format!("-{letter} has no effect: each end has one buffer"));
    }

    fn family(&mut self, text: &str) -> Result<(), Stop> {
        self.ip = family(text)?.or(self.ip);
        Ok(())
    }

    fn local(&mut self, text: &str) -> Result<(), Stop> {
        let (name, family) = parts(text);
        if !name.is_empty() {
            self.local = Some(name.to_owned());
        }
        self.family(family)
    }

    /// What follows from the test, before its own options.
    pub(super) fn settle(&mut self) {
        use Test::{TcpCc, TcpCrr, TcpMaerts, TcpRr, UdpRr, UdpStream};
        self.udp = matches!(self.test, UdpStream | UdpRr);
        self.connections = matches!(self.test, TcpCrr | TcpCc);
        self.way = match self.test {
            TcpRr | UdpRr | TcpCrr | TcpCc => Way::Asks,
            TcpMaerts => Way::Receives,
            _ => Way::Sends,
        };
        if matches!(self.test, TcpRr | UdpRr | TcpCrr) {
            self.sizes = Some((1, 1));
        }
        if let (None, (_, 2..)) = (self.confidence, self.runs) {
            self.confidence = Some((99, 5.0));
        }
    }

    /// What follows from all options of the test.
    pub(super) fn resolve(&mut self) {
        if self.test == Test::Omni {
            // Without -d sizes say which ways data goes: what this end sends or the server receives, or the other way.
            let asks = self.sizes.is_some();
            let sizes = [&self.send_sizes, &self.receive_sizes];
            let sends = asks || sizes.iter().any(|size| size.0.is_some());
            let receives = asks || sizes.iter().any(|size| size.1.is_some());
            let ways = self.direction.unwrap_or((sends, receives));
            self.way = match ways {
                (false, true) => Way::Receives,
                (true, true) => Way::Asks,
                (false, false) if self.connections => Way::Asks,
                (true, false) | (false, false) => Way::Sends,
            };
            match ways {
                (true, true) => self.sizes = self.sizes.or(Some((1, 1))),
                (false, false) => self.sizes = None,
                _ => {}
            }
        }
        if self.test == Test::TcpCc {
            self.sizes = None;
        }
        if self.way != Way::Asks {
            self.burst = 0;
        }
    }

    pub(super) fn take_of_test(&mut self, letter: char, text: &str) -> Result<(), Stop> {
        match letter {
            'h' => return Err(Stop::Help),
            'O' => self.selection = Some((Style::Columns, text.to_owned())),
            'o' => self.selection = Some((Style::Csv, text.to_owned())),
            'k' => self.selection = Some((Style::Keys, text.to_owned())),
            'm' => self.send_sizes = pair(parts(text), size)?,
            'M' => self.receive_sizes = pair(parts(text), size)?,
            's' => self.buffers[0] = pair(both(text), size)?,
            'S' => self.buffers[1] = pair(both(text), size)?,
            'r' => {
                let (request, response) = pair(both(text), size)?;
                self.sizes = Some((request.unwrap_or(1), response.unwrap_or(1)));
            }
            // Of streams it says nothing; whether this is one may be said later.
            'b' => self.burst = number(text)?,
            'G' => self.mss = Some(number(text)?),
            'q' => self.most_a_second = Some(number::<u32>(text)?).filter(|bytes| *bytes > 0),
            'D' => self.nodelay = true,
            'K' => {
                let text = both(text);
                self.congestion = pair(text, |name| Ok::<_, Stop>(name.to_owned()))?;
            }
            'P' => {
                let (here, there) = both(text);
                self.ports =
                    (maybe(here, number)?.unwrap_or(0), maybe(there, number)?.unwrap_or(0));
            }
            '4' => self.ip = Some(IpVersion::V4),
            '6' => self.ip = Some(IpVersion::V6),
            'H' => {
                let (host, family) = parts(text);
                self.family(family)?;
                if !host.is_empty() && host != self.host {
                    let why = "data goes where the control connection goes: to -H of netperf";
                    return Err(Stop::Wrong(why.into()));
                }
            }
            'L' => self.local(text)?,
            // Other tests have theirs.
            'd' if self.test == Test::Omni => {
                self.direction = Some(direction(text)?);
                self.connections |= text.eq_ignore_ascii_case("cc");
            }
            'T' => match text.to_ascii_lowercase().as_str() {
                "tcp" => self.udp = false,
                "udp" => self.udp = true,
                other => return Err(Stop::Wrong(format!("no test over {other} is made here"))),
            },
            't' => match text.to_ascii_lowercase().as_str() {
                "stream" => self.udp = false,
                "dgram" => self.udp = true,
                other => {
                    return Err(Stop::Wrong(format!("no socket of type {other} is made here")));
                }
            },
            'c' => self.connections = true,
            // As long as there.
            'u' => self.uuid = Some(text.chars().take(37).collect()),
            'W' => self.one_buffer(letter),
            // Timeouts of requests, routing, corks, contents: as linerate has them.
            _ => {}
        }
        Ok(())
    }
}

/// `-d` of `omni`, netperf's words and masks: whether this end sends, and whether it receives.
fn direction(text: &str) -> Result<(bool, bool), Stop> {
    text.split('|').try_fold((false, false), |(sends, receives), word| {
        let (also_sends, also_receives) = match word.to_ascii_lowercase().as_str() {
            "send" | "xmit" | "transmit" | "stream" | "2" => (true, false),
            "recv" | "receive" | "maerts" | "4" => (false, true),
            "rr" | "6" => (true, true),
            // The first of them is linerate's.
            "cc" | "0" => (false, false),
            _ => return Err(Stop::Wrong(format!("no direction is called {word}"))),
        };
        Ok((sends || also_sends, receives || also_receives))
    })
}

/// Each part, where it is named.
fn pair<T, E>(
    (first, second): (&str, &str),
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<(Option<T>, Option<T>), E> {
    Ok((maybe(first, &read)?, maybe(second, &read)?))
}

/// What is asked of this end. A server of linerate's sends as fast as it can, and so do netservers without intervals.
fn here_alone(text: &str) -> Result<&str, Stop> {
    match parts(text) {
        (here, "") => Ok(here),
        _ => Err(Stop::Wrong(
            "a server sends as fast as it can: nothing may follow the comma".into(),
        )),
    }
}

/// A time in milliseconds, or with its unit, as nanoseconds.
fn pause(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let each = match text.strip_prefix(digits).unwrap_or_default() {
        "" | "ms" | "m" => 1_000_000,
        "us" | "u" => 1_000,
        "s" => 1_000_000_000,
        _ => return Err(format!("{text} is no time: 10ms, 500us, 1s")),
    };
    let pause = number::<u64>(digits)?.checked_mul(each).filter(|pause| *pause > 0);
    pause.ok_or_else(|| format!("{text} is no time that can be meant here"))
}
