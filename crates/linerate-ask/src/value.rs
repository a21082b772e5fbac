//! Values of options that are no plain unit, with their parsers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use linerate_model::limits;
use linerate_model::setting::SettingValue;
use linerate_model::units::{BitRate, ByteCount, ParseUnitError, Rate};

/// The value of a setting of a host: `on`, `off`, a number, or words.
pub fn of_setting(word: &str) -> SettingValue {
    match (word, word.parse()) {
        ("on" | "true", _) => SettingValue::Switch(true),
        ("off" | "false", _) => SettingValue::Switch(false),
        (_, Ok(number)) => SettingValue::Number(number),
        _ => SettingValue::Text(word.to_owned()),
    }
}

/// A rate, or `max` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateOrMax(pub Option<Rate>);

impl FromStr for RateOrMax {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Rate::parse_or_max(text).map(Self).map_err(|e| e.to_string())
    }
}

/// A rate in bits per second, or `max` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitRateOrMax(pub Option<BitRate>);

impl FromStr for BitRateOrMax {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" || text == "0" {
            return Ok(Self(None));
        }
        let rate: Result<BitRate, ParseUnitError> = text.parse();
        rate.map(|rate| Self(Some(rate))).map_err(|e| format!("{e}, or max"))
    }
}

/// A number with a decimal prefix: `500`, `10k`, `1.5M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = !text.contains(['i', 'B']);
        match text.parse::<ByteCount>() {
            Ok(count) if plain => Ok(Self(count.0)),
            _ => Err(format!("`{text}` is not a number, such as 500, 10k or 1.5M")),
        }
    }
}

/// Where a page is served: this host alone and `PORT`, unless either is said; 0 is a free port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebAddress<const PORT: u16 = 0>(pub SocketAddr);

impl WebAddress {
    /// Where nothing is said.
    pub const DEFAULT: &str = "127.0.0.1:0";
}

impl<const PORT: u16> FromStr for WebAddress<PORT> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
        // `parse` would take a plus sign.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let port = || {
            let port = text.parse().ok().filter(|_| digits)?;
            Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))
        };
        let found = text.parse().ok().or_else(address).or_else(port);
        found.map(Self).ok_or_else(|| {
            format!(
                "`{text}` is no address to serve a page at, such as 8080, 192.0.2.1, 192.0.2.1:8080 or [::1]:8080"
            )
        })
    }
}

/// A share, such as `2%` or `0.02`, from 0 to 1.
pub fn share(text: &str) -> Option<f64> {
    let (number, of) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.parse::<f64>().ok()? / of;
    (0.0..=1.0).contains(&share).then_some(share)
}

/// Bytes of a datagram, or what the path's MTU leaves for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Path MTU less headers.
    Mtu,
    /// This many.
    Bytes(u64),
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mtu" {
            return Ok(Self::Mtu);
        }
        text.parse::<ByteCount>()
            .map(|n| Self::Bytes(n.0))
            .map_err(|_| format!("`{text}` is not a number of bytes, such as 1472 or 8k, or mtu"))
    }
}

/// Cores of the data threads at both ends: `LOCAL`, `LOCAL/REMOTE` or `/REMOTE`, each a list of
/// cores and ranges, an entry a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cpus {
    /// At the client.
    pub local: Vec<u16>,
    /// At the server.
    pub remote: Vec<u16>,
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (local, remote) = match text.split_once('/') {
            Some((local, remote)) => (local, Some(remote)),
            None => (text, None),
        };
        let cpus = Self {
            local: if local.is_empty() && remote.is_some() { Vec::new() } else { list(local)? },
            remote: remote.map(list).transpose()?.unwrap_or_default(),
        };
        Ok(cpus)
    }
}

fn list(text: &str) -> Result<Vec<u16>, String> {
    const SHAPE: &str = "cores are given as 2 or 2,4-6, and those of the server after a slash: 2/3";
    let most = limits::STREAMS.max as usize;
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (core(first), core(last));
        let (Some(first), Some(last)) = (first, last) else {
            return Err(format!("`{part}` is no core or range of cores; {SHAPE}"));
        };
        if last < first {
            return Err(format!("the range `{part}` runs backward"));
        }
        if cores.len() + usize::from(last - first) + 1 > most {
            return Err(format!("`{text}` has more than {most} cores, one for each stream"));
        }
        cores.extend(first..=last);
    }
    Ok(cores)
}

fn core(text: &str) -> Option<u16> {
    // `parse` would take a plus sign.
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|&c: &u16| digits && limits::CORE.check(u64::from(c)).is_ok())
}

/// A differentiated services code point: a number or a name of the RFCs 2474, 2597, 3246, 5865
/// and 8622.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dscp(pub u8);

impl FromStr for Dscp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const SHAPE: &str = "0 to 63, or a name: CS0-CS7, AF11-AF43, EF, VA, LE, BE";
        let upper = text.to_ascii_uppercase();
        let digit = |at: usize, from: u8, to: u8| {
            let d = upper.as_bytes().get(at).copied()?.checked_sub(b'0')?;
            (from..=to).contains(&d).then_some(d)
        };
        let value = match upper.as_str() {
            "EF" => Some(46),
            "VA" | "VOICE-ADMIT" => Some(44),
            "LE" => Some(1),
            "BE" | "DF" | "DEFAULT" => Some(0),
            name if name.starts_with("CS") && name.len() == 3 => digit(2, 0, 7).map(|c| c * 8),
            name if name.starts_with("AF") && name.len() == 4 => {
                digit(2, 1, 4).zip(digit(3, 1, 3)).map(|(class, drop)| class * 8 + drop * 2)
            }
            number if number.bytes().all(|b| b.is_ascii_digit()) => {
                number.parse().ok().filter(|&n| limits::DSCP.check(u64::from(n)).is_ok())
            }
            _ => None,
        };
        value.map(Self).ok_or_else(|| format!("`{text}` is not a DSCP: {SHAPE}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_of_both_ends() {
        let cpus = |text: &str| text.parse::<Cpus>();
        assert_eq!(cpus("4"), Ok(Cpus { local: vec![4], remote: vec![] }));
        assert_eq!(cpus("2,4-6/1"), Ok(Cpus { local: vec![2, 4, 5, 6], remote: vec![1] }));
        assert_eq!(cpus("/3-4"), Ok(Cpus { local: vec![], remote: vec![3, 4] }));
        for bad in ["", "/", "2/", "a", "1,,2", "6-4", "-1", "+1", "99999", "0-8191", "1/2/3", "1-"]
        {
            assert!(cpus(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_page_is_of_this_host_alone_unless_it_is_said() {
        for (text, at) in [
            (WebAddress::DEFAULT, "127.0.0.1:0"),
            ("8080", "127.0.0.1:8080"),
            ("192.0.2.1", "192.0.2.1:0"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("::1", "[::1]:0"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(text.parse(), Ok(WebAddress::<0>(at.parse().unwrap())), "{text}");
        }
        for (text, at) in [("::1", "[::1]:15202"), ("[::1]:0", "[::1]:0"), ("80", "127.0.0.1:80")] {
            assert_eq!(text.parse(), Ok(WebAddress::<15_202>(at.parse().unwrap())), "{text}");
        }
        for bad in ["", ":8080", "+80", "65536", "localhost", "[::1]", "127.0.0.1:", "1.2.3"] {
            assert!(bad.parse::<WebAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn code_points_have_names() {
        for (text, value) in
            [("46", 46), ("ef", 46), ("CS1", 8), ("AF41", 34), ("AF11", 10), ("af43", 38), ("0", 0)]
        {
            assert_eq!(text.parse::<Dscp>(), Ok(Dscp(value)), "{text}");
        }
        for bad in ["64", "256", "", "AF44", "AF51", "CS8", "CSé", "AFé", "EF1", "-1", "0x2e"] {
            assert!(bad.parse::<Dscp>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_sizes_and_rates() {
        assert_eq!("10k".parse(), Ok(Count(10_000)));
        assert!("10Ki".parse::<Count>().is_err());
        assert_eq!("mtu".parse(), Ok(Size::Mtu));
        assert_eq!("1Ki".parse(), Ok(Size::Bytes(1_024)));
        assert_eq!("max".parse(), Ok(BitRateOrMax(None)));
        assert!("100kpps".parse::<BitRateOrMax>().is_err());
        assert!("100kpps".parse::<RateOrMax>().is_ok());
    }
}
