//! What is varied: factors and their levels.

use std::str::FromStr;

use linerate_model::plan::{EngineChoice, TestPlan, Traffic, TrafficKind};
use linerate_model::setting::{Setting, SettingName, core_list};
use linerate_model::units::{ByteCount, DatagramSize, Nanos};
use linerate_runner::client::Request;

use crate::usage::{self, Refusal};
use crate::value::{Cpus, of_setting};

/// Most levels of a factor, the default's among them: the screen grows with the square.
const MOST_LEVELS: usize = 9;
/// Most factors.
const MOST_FACTORS: usize = 12;

/// What can be varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactorName {
    /// Payload of a datagram.
    Size,
    /// Socket buffers at both ends.
    Window,
    /// Streams.
    Streams,
    /// System calls that carry datagrams.
    Engine,
    /// Longest burst of datagrams.
    Burst,
    /// Bytes of a write and a read.
    Block,
    /// Congestion control.
    Congestion,
    /// Cores of the data threads here.
    Cores,
    /// The same at the server.
    FarCores,
    /// A setting of this host.
    Setting(SettingName),
}

const NAMES: [(FactorName, &str); 9] = [
    (FactorName::Size, "size"),
    (FactorName::Window, "window"),
    (FactorName::Streams, "streams"),
    (FactorName::Engine, "engine"),
    (FactorName::Burst, "burst"),
    (FactorName::Block, "block"),
    (FactorName::Congestion, "congestion"),
    (FactorName::Cores, "cores"),
    (FactorName::FarCores, "far-cores"),
];

impl FactorName {
    /// As `--factor` takes it.
    pub fn text(&self) -> String {
        match self {
            Self::Setting(name) => name.to_string(),
            other => {
                let found = NAMES.iter().find(|(name, _)| name == other);
                found.map_or(String::new(), |(_, text)| (*text).to_owned())
            }
        }
    }

    /// The option of a test that it is.
    pub fn option(&self) -> Option<&'static str> {
        match self {
            Self::Cores | Self::FarCores => Some("cpu"),
            Self::Setting(_) => None,
            other => NAMES.iter().find(|(name, _)| name == other).map(|(_, text)| *text),
        }
    }

    /// Whether tests of this kind have it.
    fn is_of(&self, verb: TrafficKind) -> bool {
        match self {
            Self::Size | Self::Engine | Self::Burst => verb == TrafficKind::Udp,
            Self::Block | Self::Congestion => verb == TrafficKind::Tcp,
            _ => true,
        }
    }
}

/// A level other than the default's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Level {
    /// Bytes.
    Size(DatagramSize),
    /// Bytes.
    Window(u32),
    /// How many.
    Streams(u16),
    /// Which.
    Engine(EngineChoice),
    /// How long.
    Burst(Nanos),
    /// Bytes.
    Block(u32),
    /// Its name.
    Congestion(String),
    /// Their numbers, and what they are near to.
    Cores(Vec<u16>, String),
    /// The same of the server's.
    FarCores(Vec<u16>, String),
    /// A setting of this host.
    Setting(Setting),
}

impl Level {
    /// Makes a test one of this level.
    pub fn apply(&self, request: &mut Request) {
        let plan = &mut request.plan;
        match (self, &mut plan.traffic) {
            (Self::Size(size), Traffic::Udp(udp)) => {
                udp.size = *size;
                request.size_from_mtu = false;
            }
            (Self::Engine(engine), Traffic::Udp(udp)) => udp.engine = *engine,
            (Self::Burst(burst), Traffic::Udp(udp)) => udp.burst = *burst,
            (Self::Block(block), Traffic::Tcp(tcp)) => tcp.block = *block,
            (Self::Congestion(name), Traffic::Tcp(tcp)) => tcp.congestion = Some(name.clone()),
            (Self::Window(window), _) => plan.window = Some(*window),
            (Self::Streams(streams), _) => plan.streams = *streams,
            (Self::Cores(cores, _), _) => plan.client_cpus.clone_from(cores),
            (Self::FarCores(cores, _), _) => plan.server_cpus.clone_from(cores),
            _ => {}
        }
    }

    /// The value of its option, as the command line and profiles take it.
    pub fn value(&self) -> Option<String> {
        Some(match self {
            Self::Size(size) => size.bytes().to_string(),
            Self::Window(bytes) | Self::Block(bytes) => short(u64::from(*bytes)),
            Self::Streams(streams) => streams.to_string(),
            Self::Engine(engine) => engine.name().to_owned(),
            Self::Burst(burst) => burst.to_string().replace(' ', ""),
            Self::Congestion(name) => name.clone(),
            Self::Cores(cores, _) => list(cores),
            Self::FarCores(cores, _) => format!("/{}", list(cores)),
            Self::Setting(_) => return None,
        })
    }

    /// For people.
    pub fn name(&self) -> String {
        match self {
            Self::Size(size) => format!("{} B", size.bytes()),
            Self::Window(bytes) | Self::Block(bytes) => ByteCount(u64::from(*bytes)).to_string(),
            Self::Cores(cores, near) | Self::FarCores(cores, near) => {
                let near = if near.is_empty() { String::new() } else { format!(" ({near})") };
                format!("{}{near}", list(cores))
            }
            Self::Setting(setting) => setting.value.to_string(),
            Self::Burst(burst) => burst.to_string(),
            other => other.value().unwrap_or_default(),
        }
    }

    /// The setting of this host that it is.
    pub fn setting(&self) -> Option<&Setting> {
        match self {
            Self::Setting(setting) => Some(setting),
            _ => None,
        }
    }

    /// Whether a test without it would be the same.
    pub fn is_default(&self, plan: &TestPlan) -> bool {
        match (self, &plan.traffic) {
            (Self::Size(size), Traffic::Udp(udp)) => udp.size == *size,
            (Self::Engine(engine), Traffic::Udp(udp)) => udp.engine == *engine,
            (Self::Burst(burst), Traffic::Udp(udp)) => udp.burst == *burst,
            (Self::Block(block), Traffic::Tcp(tcp)) => tcp.block == *block,
            (Self::Congestion(name), Traffic::Tcp(tcp)) => tcp.congestion.as_ref() == Some(name),
            (Self::Window(window), _) => plan.window == Some(*window),
            (Self::Streams(streams), _) => plan.streams == *streams,
            (Self::Cores(cores, _), _) => plan.client_cpus == *cores,
            (Self::FarCores(cores, _), _) => plan.server_cpus == *cores,
            _ => false,
        }
    }
}

fn list(cores: &[u16]) -> String {
    core_list(&cores.iter().map(|core| u32::from(*core)).collect::<Vec<_>>())
}

/// `4Mi` where that is the whole number of them.
fn short(bytes: u64) -> String {
    for (shift, unit) in [(20, "Mi"), (10, "Ki")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// The value of `--cpu` for the cores of a plan, if it names any.
pub fn cpu_words(plan: &TestPlan) -> Option<String> {
    match (plan.client_cpus.as_slice(), plan.server_cpus.as_slice()) {
        ([], []) => None,
        (here, []) => Some(list(here)),
        ([], far) => Some(format!("/{}", list(far))),
        (here, far) => Some(format!("{}/{}", list(here), list(far))),
    }
}

/// A factor as it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorAsked {
    /// Which.
    pub name: FactorName,
    /// Its levels, where the user chose them.
    pub levels: Option<Vec<Level>>,
}

/// What is varied unless it is said.
fn usual(verb: TrafficKind, settings: bool) -> Vec<FactorAsked> {
    use FactorName::{Block, Congestion, Cores, Engine, FarCores, Size, Streams, Window};
    let mut names = match verb {
        TrafficKind::Udp => vec![Size, Window, Streams, Engine, Cores, FarCores],
        TrafficKind::Tcp => vec![Window, Block, Streams, Congestion, Cores, FarCores],
        TrafficKind::Rr => vec![Cores, FarCores],
    };
    if settings {
        let known = ["offload.gro", "offload.tso", "ring.rx", "coalesce.rx-usecs", "rps"];
        let known = known.iter().filter_map(|name| name.parse().ok());
        names.extend(known.map(FactorName::Setting));
    }
    names.into_iter().map(|name| FactorAsked { name, levels: None }).collect()
}

/// The factors of `--factor`.
pub(super) fn asked(
    words: &[String],
    verb: TrafficKind,
    settings: bool,
    request: &Request,
) -> Result<Vec<FactorAsked>, Refusal> {
    if words.is_empty() {
        return Ok(usual(verb, settings));
    }
    let mut factors: Vec<FactorAsked> = Vec::new();
    for word in words {
        let parts: Vec<(&str, Option<&str>)> = match word.split_once('=') {
            Some((name, levels)) => vec![(name, Some(levels))],
            None => word.split(',').map(|name| (name, None)).collect(),
        };
        for (text, levels) in parts {
            let name = name(text, verb, settings)?;
            let levels = levels.map(|levels| self::levels(&name, levels, request)).transpose()?;
            if factors.iter().any(|factor| factor.name == name) {
                return Err(refusal(word, format!("`{text}` is given twice"), &[]));
            }
            factors.push(FactorAsked { name, levels });
        }
    }
    if factors.len() > MOST_FACTORS {
        let why = format!("more than {MOST_FACTORS} factors take too many trials");
        return Err(refusal(words.last().map_or("", String::as_str), why, &["fewer of them"]));
    }
    Ok(factors)
}

fn refusal(word: &str, why: String, hints: &[&str]) -> Refusal {
    usage::refusal(&["--factor"], format!("cannot use `--factor {word}`"), why, hints)
}

fn name(text: &str, verb: TrafficKind, settings: bool) -> Result<FactorName, Refusal> {
    let known = NAMES.iter().find(|(_, name)| *name == text).map(|(name, _)| name.clone());
    let of_verb = || {
        let names = NAMES.iter().filter(|(name, _)| name.is_of(verb)).map(|(_, text)| *text);
        names.collect::<Vec<_>>().join(", ")
    };
    match known {
        Some(name) if name.is_of(verb) => Ok(name),
        Some(_) => {
            let why = format!("`linerate tune {}` has these: {}", verb.name(), of_verb());
            Err(refusal(text, why, &[]))
        }
        None => match SettingName::from_str(text) {
            Ok(name) if settings => Ok(FactorName::Setting(name)),
            Ok(_) => {
                let why = "it is a setting of this host, which is changed only if that is allowed";
                Err(refusal(text, why.to_owned(), &["--allow-settings"]))
            }
            Err(why) if text.contains('.') => {
                let hints: Vec<&str> = why.hints.iter().map(String::as_str).collect();
                Err(refusal(text, why.why.clone(), &hints))
            }
            Err(_) => {
                let why = format!("it is no setting of a host, and none of {}", of_verb());
                Err(refusal(text, why, &[]))
            }
        },
    }
}

fn levels(name: &FactorName, text: &str, request: &Request) -> Result<Vec<Level>, Refusal> {
    let given = || format!("{}={text}", name.text());
    let mut levels: Vec<Level> = Vec::new();
    for word in text.split(',') {
        let found = level(name, word).map_err(|why| refusal(&given(), why, &[]))?;
        let mut tried = request.clone();
        found.apply(&mut tried);
        tried.plan.check().map_err(|found| usage::out_of_range(&found))?;
        if !levels.contains(&found) {
            levels.push(found);
        }
    }
    if levels.len() >= MOST_LEVELS {
        let why = format!("a factor has at most {} levels beside the default", MOST_LEVELS - 1);
        return Err(refusal(&given(), why, &[]));
    }
    Ok(levels)
}

fn level(name: &FactorName, word: &str) -> Result<Level, String> {
    fn number<T: TryFrom<u64>>(word: &str) -> Result<T, String> {
        let count: ByteCount = word.parse().map_err(|_| format!("`{word}` is no number"))?;
        T::try_from(count.0).map_err(|_| format!("`{word}` is too large"))
    }
    let engines = [EngineChoice::Auto, EngineChoice::Gso, EngineChoice::Mmsg, EngineChoice::Send];
    Ok(match name {
        FactorName::Size => {
            let size = DatagramSize::new(number(word)?);
            Level::Size(size.ok_or_else(|| format!("`{word}` is no size of a datagram"))?)
        }
        FactorName::Window => Level::Window(number(word)?),
        FactorName::Block => Level::Block(number(word)?),
        FactorName::Streams => Level::Streams(number(word)?),
        FactorName::Engine => {
            let engine = engines.into_iter().find(|engine| engine.name() == word);
            Level::Engine(
                engine.ok_or_else(|| format!("`{word}` is none of auto, gso, mmsg, send"))?,
            )
        }
        FactorName::Burst => {
            Level::Burst(word.parse().map_err(|_| format!("`{word}` is no time"))?)
        }
        FactorName::Congestion => {
            crate::tcp::check_congestion(word).map_err(|refused| refused.error.why)?;
            Level::Congestion(word.to_owned())
        }
        FactorName::Cores => Level::Cores(cores(word)?, String::new()),
        FactorName::FarCores => Level::FarCores(cores(word)?, String::new()),
        FactorName::Setting(name) => {
            let setting =
                Setting::new(&name.to_string(), of_setting(word)).map_err(|why| why.why)?;
            Level::Setting(setting)
        }
    })
}

/// Commas part levels, so several cores of one level are a range.
fn cores(word: &str) -> Result<Vec<u16>, String> {
    let cpus: Cpus = word.parse()?;
    if cpus.remote.is_empty() { Ok(cpus.local) } else { Err(format!("`{word}` has a slash")) }
}

#[cfg(test)]
mod tests {
    use crate::Measure;

    use super::*;

    fn asked(line: &str) -> Result<crate::tune::TuneAsked, Refusal> {
        let words = format!("linerate tune {line}");
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        match Measure::from_words(&words)? {
            Measure::Tune(args) => args.asked(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn factors_and_their_levels_are_understood() {
        let found = asked(
            "udp --local --factor size,streams --factor window=256Ki,4Mi --factor cores=0,1-2 --factor burst=1ms",
        )
        .unwrap();
        let names: Vec<String> = found.factors.iter().map(|f| f.name.text()).collect();
        assert_eq!(names, ["size", "streams", "window", "cores", "burst"]);
        assert_eq!(found.factors[0].levels, None);
        assert_eq!(
            found.factors[2].levels,
            Some(vec![Level::Window(256 << 10), Level::Window(4 << 20)])
        );
        let cores = found.factors[3].levels.clone().unwrap();
        assert_eq!(cores[1].value().as_deref(), Some("1-2"));
        let mut request = found.test.request.clone();
        for level in [&cores[1], &Level::FarCores(vec![3], String::new()), &Level::Streams(4)] {
            level.apply(&mut request);
        }
        assert_eq!(cpu_words(&request.plan).as_deref(), Some("1-2/3"));
        assert_eq!((request.plan.streams, Level::Window(4 << 20).name()), (4, "4 MiB".to_owned()));
        assert_eq!((found.width, found.aim.metric), (0.02, "received_bps"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, option) in [
            ("udp --local --factor wnidow", "--factor"),
            ("udp --local --factor congestion", "--factor"),
            ("tcp --local --factor offload.gro", "--factor"),
            ("tcp --local --factor window=much", "--factor"),
            ("tcp --local --factor window,window", "--factor"),
            ("tcp --local --factor streams=500", "--streams"),
            ("tcp --local --width 0", "--width"),
            ("tcp --local --objective p99", "--objective"),
            ("udp --local --objective rate,loss=90%", "--objective"),
            ("udp hydra2", "--rate"),
            ("udp hydra2 --rate 1M --objective rate,loss=1%", "--rate"),
            ("udp hydra2 --rate 1kpps -l 64 --objective rate,loss=1%", "--rate"),
            ("udp --local --both", "--both"),
            ("udp --local -k 10", "--datagrams"),
            ("tcp --local -i 100ms", "--interval"),
            ("tcp --local --quiet", "--quiet"),
            ("rr --local -v", "--verbose"),
            ("udp 192.0.2.7 --send-only", "--send-only"),
        ] {
            let refused = asked(line).expect_err(line);
            assert!(refused.options.iter().any(|o| o == option), "{line}: {refused:?}");
        }
        let loss = asked("udp hydra2 --rate max --objective rate,loss=0.5%").unwrap().aim;
        assert_eq!((loss.metric, loss.loss), ("received_bps", Some(0.005)));
        assert!(asked("udp hydra2 --objective efficiency").is_ok(), "that floods nobody");
        assert_eq!(asked("rr hydra2").unwrap().aim.metric, "latency_p99");
        let setting =
            asked("tcp h --allow-settings --factor offload.gro=off --factor rps").unwrap();
        let levels = setting.factors[0].levels.as_ref().unwrap();
        assert_eq!(
            levels[0].setting().map(ToString::to_string).as_deref(),
            Some("offload.gro = off")
        );
    }
}
