//! The one line in which a client says what it wants.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::greeting::Release;
use super::{VERSION, block};

/// Of a test without a count; a real client puts it there when time ends its test.
const NO_COUNT: u64 = 2_147_483_647;
/// Of a test without a rate.
const NO_RATE: u64 = 4_294_967_295;

/// Asks for figures as `key=value`.
const PARSE_STYLE: u32 = 0x40;
/// Asks for what was sent beside what came.
const SENT_TOO: u32 = 0x1;
/// Asks for the running total beside each interval.
const RUNNING_TOTAL: u32 = 0x4;
/// Wants to see no retransmissions.
const NO_RETRANS: u32 = 0x100;
/// Wants no loss counted …
const NO_DROPS: u32 = 0x8;
/// … or no percentage of it.
const NO_PERCENT: u32 = 0x10;

/// From this release on a server can be told on which core to run …
pub const KNOWS_CORES: Release = [6, 2, 6];
/// … and how many datagrams leave it at once.
pub const KNOWS_BURSTS: Release = [6, 2, 7];

/// What a client asks for, seen from the client. What is absent is not asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Bytes of a write, or of a datagram.
    pub length: u32,
    /// So many of them end the test.
    pub count: Option<u64>,
    /// Socket buffers, in bytes.
    pub window: Option<u64>,
    /// Streams, each on a port of its own.
    pub streams: u32,
    /// Payload of all streams together, in kbit/s.
    pub rate_kbps: Option<u64>,
    /// Each datagram or block keeps its time, and not their mean alone.
    pub instantaneous: bool,
    /// The first stream's data port; the next has the next.
    pub port: u32,
    /// The client sends.
    pub client_sends: bool,
    /// Datagrams.
    pub udp: bool,
    /// So many microseconds end the test.
    pub time_us: Option<u64>,
    /// Interval of reports, in microseconds.
    pub interval_us: Option<u64>,
    /// Who sends listens, and who receives connects.
    pub flipped: bool,
    /// How text is to look: see the methods.
    pub format: u32,
    /// The server is to run traceroute.
    pub traceroute: bool,
    /// The server is to test against a third host.
    pub third_party: bool,
    /// To or from a group.
    pub multicast: bool,
    /// Maximum segment size of TCP.
    pub mss: Option<u32>,
    /// The type of service byte.
    pub tos: Option<u8>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// The server's core.
    pub core: Option<u32>,
    /// Datagrams that leave at once.
    pub burst: Option<u32>,
    /// Ports and addresses step in another way.
    pub striding: bool,
}

/// Why a line is none of parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// One that every release sends.
    #[error("no `{0}` in the parameters")]
    Missing(&'static str),
    /// Not a number, or one that nobody means.
    #[error("`{0}` in the parameters is no number that fits")]
    Number(&'static str),
    /// Not text.
    #[error("parameters that are no text")]
    Text,
}

/// Fields of one line, by name.
struct Fields<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    fn of(line: &'a str) -> Self {
        let pairs = line.split(',').filter_map(|pair| pair.split_once('='));
        // The first of a name counts.
        Self(pairs.rev().map(|(name, value)| (name.trim(), value.trim())).collect())
    }

    fn number<T: TryFrom<u64>>(&self, name: &'static str) -> Result<Option<T>, Unfit> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let number = text.parse::<u64>().map_err(|_| Unfit::Number(name))?;
        T::try_from(number).map(Some).map_err(|_| Unfit::Number(name))
    }

    fn needed<T: TryFrom<u64>>(&self, name: &'static str) -> Result<T, Unfit> {
        self.number(name)?.ok_or(Unfit::Missing(name))
    }

    fn flag(&self, name: &'static str) -> Result<bool, Unfit> {
        Ok(self.number::<u64>(name)?.unwrap_or(0) != 0)
    }

    /// Seconds with up to six decimals, in microseconds; 0 is none.
    fn micros(&self, name: &'static str) -> Result<Option<u64>, Unfit> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let bad = || Unfit::Number(name);
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) {
            return Err(bad());
        }
        let part: String = part.chars().chain("000000".chars()).take(6).collect();
        let (whole, part) = (whole.parse::<u64>(), part.parse::<u64>());
        let (Ok(whole), Ok(part)) = (whole, part) else { return Err(bad()) };
        let micros = whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(part));
        Ok(Some(micros.ok_or_else(bad)?).filter(|micros| *micros > 0))
    }

    /// A name that is not the word for none.
    fn named(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| *value != "_NULL_")
    }
}

impl Parameters {
    /// Reads the line. Names that are not known, such as those of a later release, are passed over.
    ///
    /// # Errors
    /// When it is none, or a number of it does not fit.
    pub fn decode(line: &[u8]) -> Result<Self, Unfit> {
        let fields = Fields::of(std::str::from_utf8(line).map_err(|_| Unfit::Text)?);
        // Every release sends this, and uses it.
        fields.0.get("vers").ok_or(Unfit::Missing("vers"))?;
        let time_us = fields.micros("timeout")?;
        let count = fields.needed::<u64>("nbuf")?;
        let positive = |number: Option<u32>| number.filter(|number| *number > 0);
        let tos = fields.0.get("tos").map(|tos| u8::from_str_radix(tos, 16));
        let tos = tos.transpose().map_err(|_| Unfit::Number("tos"))?;
        let core = fields.0.get("affinity").filter(|core| **core != "-1");
        let core = core.map(|core| core.parse::<u32>()).transpose();
        Ok(Self {
            length: fields.needed("buflen")?,
            count: Some(count).filter(|count| *count != NO_COUNT),
            window: Some(fields.needed::<u64>("win")?).filter(|bytes| *bytes > 0),
            streams: fields.needed("nstream")?,
            rate_kbps: Some(fields.needed::<u64>("rate")?).filter(|r| !matches!(*r, 0 | NO_RATE)),
            instantaneous: fields.flag("irate")?,
            port: fields.needed("port")?,
            client_sends: fields.needed::<u64>("trans")? != 0,
            udp: fields.needed::<u64>("udp")? != 0,
            time_us,
            interval_us: fields.micros("interval")?,
            flipped: fields.flag("reverse")?,
            format: fields.number("format")?.unwrap_or(0),
            traceroute: fields.flag("traceroute")?,
            third_party: fields.named("thirdparty"),
            multicast: fields.flag("multicast")? || fields.named("group"),
            mss: positive(fields.number("datamss")?),
            tos: tos.filter(|tos| *tos > 0),
            nodelay: fields.flag("nodelay")?,
            core: core.map_err(|_| Unfit::Number("affinity"))?,
            burst: positive(fields.number("maxburst")?).filter(|burst| *burst > 1),
            striding: fields.flag("stride")? || fields.flag("multilink")?,
        })
    }

    /// The line as 8.2.2 sends it to a server of this release, with its end: a server looks for the names that it knows,
    /// and must find them.
    pub fn encode(&self, server: Release) -> Vec<u8> {
        let seconds = |us: Option<u64>| {
            let us = us.unwrap_or(0);
            format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
        };
        let (length, streams, port) = (self.length, self.streams, self.port);
        let (count, window) = (self.count.unwrap_or(NO_COUNT), self.window.unwrap_or(0));
        let rate = self.rate_kbps.unwrap_or(NO_RATE);
        // Writing to a string does not fail.
        let mut line = format!("buflen = {length}, nbuf = {count}, win = {window}, ");
        let _ = write!(line, "nstream = {streams}, rate = {rate}, port = {port}, ");
        let (trans, udp) = (u8::from(self.client_sends), u8::from(self.udp));
        let _ =
            write!(line, "trans = {trans}, braindead = 0, timeout = {}, ", seconds(self.time_us));
        let _ = write!(
            line,
            "udp = {udp}, vers = {VERSION}, interval = {}, ",
            seconds(self.interval_us)
        );
        let (flip, format, trace) =
            (u8::from(self.flipped), self.format, u8::from(self.traceroute));
        let _ = write!(line, "reverse = {flip}, format = {format}, traceroute = {trace}, ");
        let _ = write!(line, "irate = {}, ", u8::from(self.instantaneous));
        let _ = write!(line, "thirdparty = _NULL_ , multicast = 0");
        let core = self.core.map_or(-1, i64::from);
        let later = [
            ([6, 2, 1], " , ssm = 0".to_owned()),
            ([0; 3], format!(" , datamss = {}", self.mss.unwrap_or(0))),
            ([0; 3], format!(" , tos = {:x}", self.tos.unwrap_or(0))),
            ([0; 3], " , nbuf_bytes = 0 , rate_pps = 0".to_owned()),
            ([0; 3], format!(" , nodelay = {}", u8::from(self.nodelay))),
            (KNOWS_CORES, format!(" , affinity = {core}")),
            (KNOWS_BURSTS, format!(" , maxburst = {}", self.burst.unwrap_or(1))),
            ([7, 0, 1], " , do_jitter = 0 , do_owd = 0".to_owned()),
            ([7, 1, 1], " , stride = 0 , multilink = 0".to_owned()),
            ([7, 2, 1], ", group = _NULL_".to_owned()),
            ([7, 3, 1], " , srcport = 0".to_owned()),
            ([8, 1, 1], ", iratesss = 0".to_owned()),
        ];
        let known = later.into_iter().filter(|(since, _)| server >= *since);
        line.extend(known.map(|(_, field)| field));
        line.push('\n');
        line.into_bytes()
    }

    /// Figures are wanted as `key=value`.
    pub const fn parse_style(&self) -> bool {
        self.format & PARSE_STYLE != 0
    }

    /// Each interval is to show the total so far.
    pub const fn running_total(&self) -> bool {
        self.format & RUNNING_TOTAL != 0
    }

    /// Intervals are to show how much was sent.
    pub const fn shows_sent(&self) -> bool {
        self.format & SENT_TOO != 0
    }

    /// Intervals are to show what was lost …
    pub const fn shows_drops(&self) -> bool {
        self.format & NO_DROPS == 0
    }

    /// … and how much that is.
    pub const fn shows_percent(&self) -> bool {
        self.format & NO_PERCENT == 0
    }

    /// Datagrams say how much was sent so far.
    pub const fn counts_sent(&self) -> bool {
        self.udp
            && self.interval_us.is_some()
            && self.length as usize >= super::datagram::SENT_BYTES
    }

    /// Blocks that the server sends over TCP say how its connection fares.
    pub const fn server_tells(&self) -> bool {
        !self.udp
            && !self.client_sends
            && self.streams == 1
            && self.format & NO_RETRANS == 0
            && self.length as usize >= block::LEAST_BYTES
    }
}
