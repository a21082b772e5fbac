//! Words as nuttcp reads them: a letter each, with the value joined to it or as the next word.

use linerate_model::plan::IpVersion;

use super::value::{bytes, speed, time};
use super::{Asked, Stop};

/// Figures as `key=value`.
pub(super) const PARSE: u32 = 0x40;
/// Names of `-f`, and the bits they set, or with a dash clear or set.
const FORMATS: [(&str, u32); 10] = [
    ("xmitstats", 0x1),
    ("runningtotal", 0x4),
    ("-drops", 0x8),
    ("-percentloss", 0x10),
    ("parse", PARSE),
    ("-retrans", 0x100),
    ("-beta", 0x400),
    ("-cwnd", 0x2000),
    ("rtt", super::RTT),
    ("-rtt", 0),
];
/// These have no value; what is joined to them is a mistake.
const FLAGS: &str = "tr46DB1";
/// Their value may be the next word.
const APART: &str = "TwlnIpPNMciR";

/// What nuttcp has and this has not, by the beginning of its word, with what there is instead. The first that
/// fits is meant.
const REFUSED: [(&str, &str); 17] = [
    ("-3", "no server of linerate's tests with a third host: run the client there"),
    ("-xt", "no server of linerate's runs traceroute: run it yourself"),
    ("-xP", "run it with nice(1) or chrt(1)"),
    ("-s", "what is sent is made here, what is received is counted: for files there is nc(1)"),
    ("-m", "groups are not tested: iperf -u sends to them"),
    ("-g", "groups are not tested: iperf -u sends to them"),
    ("-j", "`linerate udp HOST` measures jitter and the variation of delay"),
    ("-o", "`linerate udp HOST` measures one-way delay"),
    (
        "-F",
        "who sends connects: where a firewall is in the way, `linerate serve` and `linerate tcp HOST -R` have one \
            port and the client connects",
    ),
    ("-a", "a server that does not answer is said: try again"),
    ("-d", "SO_DEBUG says nothing on Linux: -v, or `linerate tcp HOST`"),
    ("-wb", "it is for Solaris 2.8: -w"),
    ("-br", "`linerate tcp HOST --dialect nuttcp -P 4 --json` has each stream's retransmissions"),
    ("-bc", "`linerate tcp HOST --dialect nuttcp -P 4 --json` has each stream's window"),
    ("-Ris", "rates are not smoothed: -Ri"),
    ("--idle-data-timeout", "a test in which nothing moves for 30 s ends"),
    ("--single-threaded", "--nofork serves one test at a time"),
];

fn wrong(text: impl Into<String>) -> Stop {
    Stop::Wrong(text.into())
}

impl Asked {
    pub(super) fn take(&mut self, args: &[String]) -> Result<(), Stop> {
        let mut words = args.iter().peekable();
        while let Some(word) = words.next() {
            if let Some(long) = word.strip_prefix("--") {
                let value = || words.next().cloned().unwrap_or_default();
                self.long(word, long, value)?;
                continue;
            }
            let Some(rest) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                self.host(word)?;
                continue;
            };
            refused(word)?;
            let mut letters = rest.chars();
            let letter = letters.next().unwrap_or_default();
            let joined = letters.as_str();
            // Of a window and a core, another letter says whose it is.
            let (which, joined) = match (letter, joined.chars().next()) {
                ('w', Some(end @ ('s' | 'r'))) | ('x', Some(end @ 'c')) => {
                    (Some(end), &joined[1..])
                }
                _ => (None, joined),
            };
            let apart = APART.contains(letter) || which == Some('c');
            // -xcs has one more letter.
            let bare = joined.is_empty() || (which == Some('c') && joined == "s");
            let value =
                match words.next_if(|next| apart && bare && (letter != 'i' || is_number(next))) {
                    Some(next) => format!("{joined}{next}"),
                    None => joined.to_owned(),
                };
            if FLAGS.contains(letter) && !value.is_empty() {
                return Err(Stop::Usage(format!("-{letter} has no value: {word}")));
            }
            self.option((letter, which), &value, word)?;
        }
        Ok(())
    }

    fn host(&mut self, word: &str) -> Result<(), Stop> {
        if let Some(first) = &self.host {
            let why =
                format!("{first} {word}: a test with a third host is not run: run nuttcp there");
            return Err(wrong(why));
        }
        if word.contains(['/', '+']) {
            return Err(wrong(format!("{word}: data goes to the host of the control connection")));
        }
        self.host = Some(word.to_owned());
        Ok(())
    }

    fn long(&mut self, word: &str, name: &str, value: impl FnOnce() -> String) -> Result<(), Stop> {
        refused(word)?;
        match name {
            "help" => return Err(Stop::Help),
            "json" => self.json = true,
            "nofork" => self.nofork = true,
            "packet-burst" => {
                let text = value();
                let burst = text.parse().map_err(|_| wrong(format!("invalid maxburst = {text}")));
                self.burst = burst?;
            }
            "no3rdparty" | "disable-v4-mapped" | "enable-v4-mapped" => {}
            _ => return Err(Stop::Usage(format!("{word} is none of nuttcp's options"))),
        }
        Ok(())
    }

    fn option(
        &mut self,
        (letter, which): (char, Option<char>),
        text: &str,
        word: &str,
    ) -> Result<(), Stop> {
        let invalid = |what: &str| wrong(format!("invalid {what} = {text}"));
        let small = |text: &str, each, what: &str| {
            let bytes = bytes(text, each).and_then(|bytes| u32::try_from(bytes).ok());
            bytes.ok_or_else(|| invalid(what))
        };
        match (letter, which) {
            ('h', _) => return Err(Stop::Help),
            ('V', _) => return Err(Stop::Version),
            ('t', _) => self.receives = false,
            ('r', _) => self.receives = true,
            ('4', _) => self.ip = Some(IpVersion::V4),
            ('6', _) => self.ip = Some(IpVersion::V6),
            ('D', _) => self.nodelay = true,
            ('B', _) => {}
            ('1', _) => (self.server, self.one_off) = (true, true),
            // Its f and P are of inetd and of third hosts.
            ('S', _) if text.chars().all(|letter| "fP".contains(letter)) => self.server = true,
            ('u', _) if text.is_empty() => self.udp = true,
            ('u', _) if text == "u" => (self.udp, self.unlimited) = (true, true),
            ('v', _) if text.chars().all(|c| c == 'v') => {
                self.verbosity = u8::try_from(text.len().min(8)).unwrap_or(8) + 1;
            }
            ('b', _) if text == "0" => self.verbosity = 1,
            ('b', _) if text.chars().all(|c| c.is_ascii_digit()) => self.verbosity = 0,
            ('T', _) => {
                let time = time(text, super::SECONDS as f64, true);
                self.time_ns = Some(positive(time, || invalid("timeout"))?);
            }
            ('i', _) if text.is_empty() => self.interval_ns = Some(1_000_000_000),
            ('i', _) => {
                let interval = time(text, 1.0, false);
                self.interval_ns = Some(positive(interval, || invalid("interval"))?);
            }
            ('n', _) => {
                let count = positive(bytes(text, 1), || invalid("nbuf"))?;
                let in_bytes = text.ends_with(|c: char| c.is_ascii_alphabetic());
                self.amount = Some((count, in_bytes));
            }
            ('l', _) => self.length = Some(positive(bytes(text, 1), || invalid("buflen"))?),
            ('N', _) => self.streams = Some(number(text, || invalid("nstream"))?),
            ('w', Some('s')) => self.far_window = Some(small(text, 1 << 10, "srvrwin")?),
            // No release has it: all read a -w of no number.
            ('w', Some(_)) => {
                small(text, 1 << 10, "recvwin")?;
                let note = "-wr is read as -w0, as there: this end's buffers are the system's";
                self.notes.push(note.into());
                self.near_window(None);
            }
            ('w', None) => {
                let bytes = small(text, 1 << 10, "sendwin")?;
                self.near_window(Some(bytes).filter(|bytes| *bytes > 0));
            }
            ('M', _) => self.mss = Some(number(text, || invalid("datamss"))?),
            ('p', _) => self.data_port = Some(number(text, || invalid("port"))?),
            ('P', _) => self.port = Some(number(text, || invalid("ctlport"))?),
            ('I', _) => self.name = Some(text.chars().take(40).collect()),
            ('c', _) => self.service(text)?,
            ('R', _) => self.rate(text)?,
            ('f', _) => self.format(text)?,
            ('x', Some(_)) => self.core(text)?,
            _ => return Err(Stop::Usage(format!("{word} is none of nuttcp's options"))),
        }
        Ok(())
    }

    /// This end's, and the server's where nothing was said of it before; none is the system's.
    fn near_window(&mut self, bytes: Option<u32>) {
        self.window = bytes;
        self.far_window.get_or_insert(bytes.unwrap_or(0));
    }

    fn service(&mut self, text: &str) -> Result<(), Stop> {
        // Behind the number stands whether it is the whole byte, or the precedence in its first three bits.
        let (digits, shift) = match text.strip_suffix(['t', 'T', 'p', 'P']) {
            Some(digits) if text.ends_with(['t', 'T']) => (digits, 0),
            Some(digits) => (digits, 5),
            None => (text, 2),
        };
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u8::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        };
        let byte = value.and_then(|value: u8| u8::try_from(u32::from(value) << shift).ok());
        let dscp = byte.map(|byte| byte >> 2);
        self.dscp = Some(dscp.ok_or_else(|| wrong(format!("invalid dscp = {text}")))?);
        Ok(())
    }

    fn rate(&mut self, text: &str) -> Result<(), Stop> {
        let (how, rest) = match text.chars().next() {
            Some(how @ ('i' | 'a' | 'u')) => (Some(how), &text[1..]),
            _ => (None, text),
        };
        self.unlimited = how == Some('u');
        self.instantaneous = how == Some('i');
        if self.unlimited && rest.is_empty() {
            return Ok(());
        }
        let invalid = || Stop::Usage(format!("-R{text}: no rate, as in -Ri500m or -R 1g"));
        let (rate, burst) = match rest.split_once('/') {
            Some((rate, burst)) => (rate, Some(burst)),
            None => (rest, None),
        };
        self.rate = Some(speed(rate).ok_or_else(invalid)?);
        if let Some(burst) = burst {
            self.burst = number(burst, || wrong(format!("invalid maxburst = {burst}")))?;
        }
        Ok(())
    }

    fn format(&mut self, text: &str) -> Result<(), Stop> {
        if text == "-rtt" {
            self.format &= !super::RTT;
            return Ok(());
        }
        let named = FORMATS.iter().find(|(name, _)| *name == text && !text.is_empty());
        let names = FORMATS.map(|(name, _)| format!("-f{name}")).join(", ");
        let (_, bit) = named
            .ok_or_else(|| wrong(format!("invalid format option \"{text}\": there are {names}")))?;
        self.format |= bit;
        Ok(())
    }

    /// This end's, the server's, or both.
    fn core(&mut self, text: &str) -> Result<(), Stop> {
        let core = |text: &str| number(text, || wrong(format!("invalid affinity = {text}")));
        if let Some(there) = text.strip_prefix('s') {
            self.far_core = Some(core(there)?);
            return Ok(());
        }
        let (here, there) = text.split_once('/').unwrap_or((text, ""));
        if here.is_empty() && there.is_empty() {
            return Err(wrong(format!("invalid affinity = {text}")));
        }
        if !here.is_empty() {
            self.core = Some(core(here)?);
        }
        if !there.is_empty() {
            self.far_core = Some(core(there)?);
        }
        Ok(())
    }
}

fn refused(word: &str) -> Result<(), Stop> {
    // Neither a format nor the name of this run is one of them.
    let found = REFUSED.iter().find(|(begin, _)| word.starts_with(begin));
    match found {
        Some((begin, instead)) => Err(wrong(format!("{begin} is not done here: {instead}"))),
        None => Ok(()),
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || c == '.') && time(text, 1.0, false).is_some()
}

fn positive(value: Option<u64>, invalid: impl Fn() -> Stop) -> Result<u64, Stop> {
    value.filter(|value| *value > 0).ok_or_else(invalid)
}

fn number<N: std::str::FromStr>(text: &str, invalid: impl Fn() -> Stop) -> Result<N, Stop> {
    text.parse().map_err(|_| invalid())
}
