//! `.stat` files: one run a line. Fields are parted by semicolons where a line has one, else by commas, else by white
//! space; between two commas may be an empty one, as in CSV, and text in double quotes is one field.
//!
//! `#` starts a comment; `# boot NAME` begins a boot, `# unit: NAME` gives the unit. A first line
//! without any number is a header; a column of it called `boot` holds the boot and never the values. Behind
//! `#` it is one as well, if it names `boot` and as many columns as the first run has. A unit may stand right behind
//! a number (`941Mbit/s`), then behind all of them.

use super::{BootRule, Boots, InputError, ReadOptions, Set, finish, in_range};
use linerate_stats::strtod::{parse_c_double, plain_number};

const ONE_UNIT: &str = "write all values in one unit";

pub(super) fn read(
    file: &str,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<Vec<Set>, InputError> {
    let mut reader = Reader {
        file,
        options,
        value_field: 0,
        boot_field: None,
        started: false,
        values: Vec::new(),
        boots: Vec::new(),
        boot: None,
        commented: None,
        first_without_boot: None,
        unit: None,
        stated: None,
    };
    reader.choose_fields()?;
    // A guess at the count: doubling a vector of millions would hold it one and a half times.
    reader.values.reserve_exact(memchr::memchr_iter(b'\n', bytes).count() + 1);
    let mut start = 0;
    let mut index = 0;
    while start <= bytes.len() {
        let rest = bytes.get(start..).unwrap_or_default();
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..end).unwrap_or_default();
        start += end + 1;
        index += 1;
        // Nearly every line of nearly every file is a bare number.
        if reader.bare()
            && let Some(value) = plain_number(line)
        {
            reader.started = true;
            reader.values.push(value);
            if reader.first_without_boot.is_none() {
                reader.first_without_boot = Some(index);
            }
            continue;
        }
        let text = std::str::from_utf8(line).map_err(|_| {
            InputError::new(file, "expected a number, found bytes that are no text").at(index, None)
        })?;
        reader.line(index, text)?;
    }
    reader.finish()
}

/// The fields of a line.
struct Fields<'t> {
    left: Option<&'t str>,
    /// `None`: any white space.
    mark: Option<char>,
}

impl<'t> Fields<'t> {
    fn of(line: &'t str) -> Self {
        let mark = [';', ','].into_iter().find(|mark| line.contains(*mark));
        Self { left: Some(line.trim()), mark }
    }
}

impl<'t> Iterator for Fields<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let left = self.left?;
        let Some(mark) = self.mark else {
            let (field, rest) = left.split_once(char::is_whitespace).unwrap_or((left, ""));
            self.left = Some(rest.trim_start());
            return Some(field).filter(|field| !field.is_empty());
        };
        let quoted = left.strip_prefix('"').and_then(|text| text.split_once('"'));
        let (field, rest) = quoted.unwrap_or(("", left));
        let (more, rest) = match rest.split_once(mark) {
            Some((more, rest)) => (more, Some(rest.trim_start())),
            None => (rest, None),
        };
        self.left = rest;
        Some(if quoted.is_some() { field } else { more.trim_end() })
    }
}

fn number_of_field(column: &str) -> Option<usize> {
    column.parse::<usize>().ok()?.checked_sub(1)
}

struct Reader<'a> {
    file: &'a str,
    options: &'a ReadOptions,
    /// From 0.
    value_field: usize,
    boot_field: Option<usize>,
    /// A line other than a comment was seen.
    started: bool,
    values: Vec<f64>,
    boots: Vec<String>,
    /// Of the last `# boot` comment.
    boot: Option<String>,
    /// Words of a comment before the first run that may be the header: `# boot rate`.
    commented: Option<Vec<String>>,
    first_without_boot: Option<usize>,
    /// Behind the numbers; the inner one is absent when numbers stand bare.
    unit: Option<Option<String>>,
    /// In a comment.
    stated: Option<String>,
}

impl Reader<'_> {
    /// Whether a bare number on a line is all that is needed of it.
    fn bare(&self) -> bool {
        // The first line may be a header, and says whether numbers have units.
        self.unit == Some(None)
            && self.value_field == 0
            && self.boot_field.is_none()
            && self.boot.is_none()
    }

    /// As far as the options tell, without a header.
    fn choose_fields(&mut self) -> Result<(), InputError> {
        if let BootRule::Column(column) = &self.options.boots {
            self.boot_field = number_of_field(column);
        }
        let Some(column) = &self.options.column else {
            // The first that is not the boot.
            self.value_field = usize::from(self.boot_field == Some(0));
            return Ok(());
        };
        let field = number_of_field(column);
        let wrong = match column.parse::<usize>() {
            Ok(0) => "there is no column 0",
            Ok(_) if field == self.boot_field => "this column holds boots, no values",
            _ => {
                self.value_field = field.unwrap_or(0);
                return Ok(());
            }
        };
        let hint = "--column takes the column with the values, counted from 1";
        Err(InputError::new(self.file, wrong).hint(hint))
    }

    fn fail(&self, line: usize, field: Option<usize>, what: String) -> InputError {
        InputError::new(self.file, what).at(line, field.map(|f| f + 1))
    }

    fn line(&mut self, number: usize, text: &str) -> Result<(), InputError> {
        let (data, comment) = text.split_once('#').unwrap_or((text, ""));
        if data.trim().is_empty() {
            self.comment(number, comment.trim())?;
            return Ok(());
        }
        let fields = Fields::of(data);
        if !std::mem::replace(&mut self.started, true) {
            let fields: Vec<&str> = fields.collect();
            let bare = |f: &&str| parse_c_double(f.as_bytes()).1 == 0;
            let named = self.options.column.as_ref().is_some_and(|c| c.parse::<usize>().is_err());
            if fields.len() > 1 && fields.iter().all(bare) || named {
                return self.header(number, &fields);
            }
            if let Some(words) = self.commented.take().filter(|words| words.len() == fields.len()) {
                self.boot = None;
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.header(number, &words)?;
            }
            return self.run(number, fields.into_iter());
        }
        self.run(number, fields)
    }

    fn comment(&mut self, number: usize, text: &str) -> Result<(), InputError> {
        if let Some(unit) = text.strip_prefix("unit:").map(str::trim).filter(|u| !u.is_empty()) {
            if let Some(before) = self.stated.as_deref().filter(|before| *before != unit) {
                let what = format!("the unit is `{unit}`, above it is `{before}`");
                return Err(self.fail(number, None, what).hint(ONE_UNIT));
            }
            self.stated = Some(unit.to_owned());
        }
        if !self.started {
            let words: Vec<&str> = Fields::of(text).collect();
            let is_name = |w: &&str| parse_c_double(w.as_bytes()).1 == 0;
            let has_boot = words.iter().any(|w| w.eq_ignore_ascii_case("boot"));
            if words.len() > 1 && has_boot && words.iter().all(is_name) {
                self.commented = Some(words.into_iter().map(str::to_owned).collect());
            }
        }
        let rest = text.strip_prefix("boot").filter(|r| r.starts_with([' ', ':', '\t']));
        let Some(name) = rest.map(|r| r.trim_start_matches(':').trim()) else { return Ok(()) };
        if name.is_empty() {
            return Err(self.fail(number, None, "expected the boot's name after `# boot`".into()));
        }
        if self.options.boots != BootRule::Auto {
            return Ok(());
        }
        if let Some(line) = self.first_without_boot {
            return Err(self.missing_boot(line, None));
        }
        self.boot = Some(name.to_owned());
        Ok(())
    }

    fn missing_boot(&self, line: usize, field: Option<usize>) -> InputError {
        self.fail(line, field, "the boot is missing".into())
            .hint("every run needs its boot; --boots none takes the runs as independent")
    }

    fn header(&mut self, number: usize, fields: &[&str]) -> Result<(), InputError> {
        let find = |name: &str| fields.iter().position(|f| f.eq_ignore_ascii_case(name));
        let file = self.file;
        let absent = |name: &str| {
            let what = format!("no column `{name}` in the header `{}`", fields.join(" "));
            InputError::new(file, what).at(number, None)
        };
        // However boots are given, a column of this name holds no values.
        let named_boot = find("boot");
        match &self.options.boots {
            BootRule::Column(name) if self.boot_field.is_none() => {
                self.boot_field = Some(find(name).ok_or_else(|| absent(name))?);
            }
            BootRule::Auto => self.boot_field = named_boot,
            _ => {}
        }
        let is_boot = |field: usize| Some(field) == self.boot_field || Some(field) == named_boot;
        let value_field = match &self.options.column {
            Some(name) if number_of_field(name).is_none() => {
                Some(find(name).ok_or_else(|| absent(name))?)
            }
            Some(_) => Some(self.value_field),
            None => (0..fields.len()).find(|field| !is_boot(*field)),
        };
        let Some(value_field) = value_field.filter(|field| !is_boot(*field)) else {
            let what = "this column holds boots, no values".to_owned();
            return Err(self
                .fail(number, value_field.or(named_boot), what)
                .hint("--column NAME takes the column with the values"));
        };
        self.value_field = value_field;
        Ok(())
    }

    fn run<'t>(
        &mut self,
        number: usize,
        fields: impl Iterator<Item = &'t str>,
    ) -> Result<(), InputError> {
        let (mut value, mut boot) = (None, None);
        for (index, field) in fields.enumerate() {
            if index == self.value_field {
                value = Some(field);
            }
            if Some(index) == self.boot_field {
                boot = Some(field);
            }
        }
        let Some(field) = value else {
            let what = "expected a number, found no such column".to_owned();
            return Err(self.fail(number, Some(self.value_field), what));
        };
        let (value, length) = parse_c_double(field.as_bytes());
        let at = Some(self.value_field);
        if length == 0 {
            let found = if field.is_empty() { "nothing".into() } else { format!("`{field}`") };
            return Err(self.fail(number, at, format!("expected a number, found {found}")));
        }
        let unit = field.get(length..).unwrap_or_default();
        if !unit.is_empty() && !unit.starts_with(|c: char| c.is_alphabetic() || c == '%') {
            return Err(self.fail(number, at, format!("expected a number, found `{field}`")));
        }
        if !value.is_finite() {
            let what = format!("`{field}` is not a finite number");
            let hint = "a failed run has no value: take the line out and run again";
            return Err(self.fail(number, at, what).hint(hint));
        }
        if !in_range(value) {
            let what = format!("`{field}` is beyond the range from 1e-140 to 1e140");
            return Err(self.fail(number, at, what));
        }
        self.check_unit(number, unit)?;
        self.values.push(value);
        if let Some(column) = self.boot_field {
            let boot = boot.filter(|boot| !boot.is_empty());
            let Some(boot) = boot else { return Err(self.missing_boot(number, Some(column))) };
            self.boots.push(boot.to_owned());
        } else if let Some(boot) = &self.boot {
            self.boots.push(boot.clone());
        } else if self.first_without_boot.is_none() {
            self.first_without_boot = Some(number);
        }
        Ok(())
    }

    fn check_unit(&mut self, number: usize, unit: &str) -> Result<(), InputError> {
        let this = (!unit.is_empty()).then(|| unit.to_owned());
        let Some(before) = &self.unit else {
            self.unit = Some(this);
            return Ok(());
        };
        if before.as_deref() == this.as_deref() {
            return Ok(());
        }
        let what = match (before, &this) {
            (Some(b), Some(t)) => format!("the unit is `{t}`, above it is `{b}`"),
            (Some(b), None) => format!("the value has no unit, above it is `{b}`"),
            (None, _) => format!("the unit is `{unit}`, the values above have none"),
        };
        Err(self.fail(number, Some(self.value_field), what).hint(ONE_UNIT))
    }

    fn finish(self) -> Result<Vec<Set>, InputError> {
        let boots = (!self.boots.is_empty()).then(|| Boots::of_labels(self.boots, false));
        let behind = self.unit.flatten();
        if let (Some(behind), Some(stated)) = (&behind, &self.stated)
            && behind != stated
        {
            let what = format!("the values are in `{behind}`, and a comment says `{stated}`");
            return Err(InputError::new(self.file, what).hint(ONE_UNIT));
        }
        let unit = behind.or(self.stated);
        finish(self.file, self.values, unit, boots, self.options, Vec::new()).map(|set| vec![set])
    }
}
