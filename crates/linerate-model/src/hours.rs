//! Hours of the day, as an owner allows them.

use std::fmt;
use std::str::FromStr;

/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// A part of each day in local time, from its first minute up to but without its last; over midnight where that
/// is the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    /// Minutes since midnight, below 1,440.
    from: u16,
    /// The same, at most 1,440.
    to: u16,
}

impl Hours {
    /// Whether this minute of the day, counted from midnight, is in it.
    pub fn has(self, minute: u16) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }

    /// Minutes from this minute of the day to the next at which it begins.
    fn begins_in(self, minute: u16) -> u16 {
        (self.from + DAY - minute.min(DAY)) % DAY
    }
}

/// Whether one of them has this minute of the day; without any, every minute is allowed.
pub fn allow(hours: &[Hours], minute: u16) -> bool {
    hours.is_empty() || hours.iter().any(|hours| hours.has(minute))
}

/// When the next of them begins after this minute of the day, as `22:00`; `None` without any.
pub fn next(hours: &[Hours], minute: u16) -> Option<String> {
    let next = hours.iter().min_by_key(|hours| hours.begins_in(minute))?;
    Some(clock(next.from))
}

/// Minutes from this one of the day to the first that none of them has; `None` where every minute is allowed.
pub fn left(hours: &[Hours], minute: u16) -> Option<u16> {
    (0..DAY).find(|after| !allow(hours, (minute % DAY + after) % DAY))
}

/// Several, one after the other with commas between.
///
/// # Errors
/// When one of them is none.
pub fn list(text: &str) -> Result<Vec<Hours>, String> {
    text.split(',').map(|hours| hours.trim().parse()).collect()
}

fn clock(minute: u16) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", clock(self.from), clock(self.to))
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let two = |digits: &str| {
            let plain = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse::<u16>().ok()).flatten()
        };
        let minute = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            let (hour, minute) = (two(hour)?, two(minute)?);
            let whole = hour * 60 + minute;
            (minute < 60 && whole <= DAY).then_some(whole)
        };
        let ends = text.split_once('-').and_then(|(from, to)| minute(from).zip(minute(to)));
        match ends {
            Some((from, to)) if from < DAY && from != to => Ok(Self { from, to }),
            Some((from, to)) if from == to => {
                Err("it begins when it ends: the whole day is 00:00-24:00".to_owned())
            }
            _ => Err("hours of the day are written as 22:00-06:00, several with commas between"
                .to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> u16 {
        let (hour, minute) = text.split_once(':').unwrap();
        hour.parse::<u16>().unwrap() * 60 + minute.parse::<u16>().unwrap()
    }

    #[test]
    fn a_night_goes_over_midnight_and_a_day_does_not() {
        let night: Hours = "22:00-06:00".parse().unwrap();
        for (time, has) in [
            ("21:59", false),
            ("22:00", true),
            ("23:59", true),
            ("00:00", true),
            ("05:59", true),
            ("06:00", false),
        ] {
            assert_eq!(night.has(at(time)), has, "{time}");
        }
        let day: Hours = "08:30-17:00".parse().unwrap();
        for (time, has) in [("08:29", false), ("08:30", true), ("16:59", true), ("17:00", false)] {
            assert_eq!(day.has(at(time)), has, "{time}");
        }
        let whole: Hours = "00:00-24:00".parse().unwrap();
        assert!((0..DAY).all(|minute| whole.has(minute)));
        let late: Hours = "22:00-00:00".parse().unwrap();
        assert!(late.has(at("23:59")) && !late.has(0));
        assert_eq!(
            [night, day, whole].map(|hours| hours.to_string()),
            ["22:00-06:00", "08:30-17:00", "00:00-24:00"]
        );
    }

    #[test]
    fn the_next_of_several_is_named() {
        let hours = list("22:00-06:00, 12:00-13:00").unwrap();
        assert!(allow(&[], 0) && allow(&hours, at("12:30")) && !allow(&hours, at("13:00")));
        for (time, then) in [("06:00", "12:00"), ("13:00", "22:00"), ("21:59", "22:00")] {
            assert_eq!(next(&hours, at(time)).as_deref(), Some(then), "{time}");
        }
        assert_eq!(next(&[], 0), None);
    }

    #[test]
    fn what_is_left_of_them_ends_where_none_of_them_goes_on() {
        let hours = list("22:00-24:00,00:00-06:00, 12:00-13:00").unwrap();
        for (time, minutes) in
            [("05:59", 1), ("00:00", 360), ("23:59", 361), ("12:30", 30), ("13:00", 0)]
        {
            assert_eq!(left(&hours, at(time)), Some(minutes), "{time}");
        }
        assert_eq!(left(&hours, u16::MAX), Some(45), "12:15 of some day");
        assert_eq!((left(&[], 0), left(&list("00:00-24:00").unwrap(), 0)), (None, None));
    }

    #[test]
    fn what_is_no_part_of_a_day_is_refused() {
        for bad in [
            "",
            "22:00",
            "22:00-",
            "22-06",
            "25:00-06:00",
            "24:00-06:00",
            "06:00-24:01",
            "22:60-06:00",
            "2:00-06:00",
            "+2:00-06:00",
            "06:00-06:00",
            "22:00-06:00-07:00",
            "22:00 - 06:00",
            "é2:00-06:00",
        ] {
            assert!(bad.parse::<Hours>().is_err(), "{bad}");
        }
        assert!(list("22:00-06:00,").is_err());
    }
}
