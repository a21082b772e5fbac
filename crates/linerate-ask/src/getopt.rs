//! Words as GNU getopt_long reads them: short options joined or apart, long ones cut short as far as
//! they stay unique, values after `=` or as the next word. For the faces of other tools.

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    Value,
    /// Only joined to it.
    Maybe,
}

/// Short letter (or `\0`), long name, value, and what the face knows of it. Several rows may share a
/// letter: other names of one option.
pub(crate) type Row<T> = (char, &'static str, Takes, T);

/// A row that was named, with the value.
pub(crate) type Found<T> = (&'static Row<T>, Option<String>);

/// Why words are not understood.
pub(crate) enum Fault {
    /// It is no option.
    Word(String),
    /// In getopt's words.
    Option(String),
}

/// The rows that a command line names, in its order, with their values.
pub(crate) fn options<T>(args: &[String], rows: &'static [Row<T>]) -> Result<Vec<Found<T>>, Fault> {
    let mut found = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            break;
        }
        if let Some(long) = arg.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let row = long_option(name, rows)?;
            let fault = |what: &str| Fault::Option(format!("option '--{}' {what}", row.1));
            let value = match (row.2, value) {
                (Takes::Nothing, Some(_)) => return Err(fault("doesn't allow an argument")),
                (Takes::Value, None) => {
                    Some(args.next().cloned().ok_or_else(|| fault("requires an argument"))?)
                }
                (_, value) => value,
            };
            found.push((row, value));
            continue;
        }
        let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(Fault::Word(arg.clone()));
        };
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let fault = |what: &str| Fault::Option(format!("{what} -- '{letter}'"));
            let row = rows.iter().find(|row| row.0 == letter && letter != '\0');
            let row = row.ok_or_else(|| fault("invalid option"))?;
            let value = if row.2 == Takes::Nothing {
                None
            } else {
                // The rest of the word.
                let joined = std::mem::replace(&mut rest, "".chars()).as_str().to_owned();
                Some(joined).filter(|joined| !joined.is_empty())
            };
            let value = match (row.2, value) {
                (Takes::Value, None) => {
                    let next = args.next().cloned();
                    Some(next.ok_or_else(|| fault("option requires an argument"))?)
                }
                (_, value) => value,
            };
            found.push((row, value));
        }
    }
    Ok(found)
}

fn long_option<T>(name: &str, rows: &'static [Row<T>]) -> Result<&'static Row<T>, Fault> {
    if let Some(row) = rows.iter().find(|row| row.1 == name) {
        return Ok(row);
    }
    let mut like = rows.iter().filter(|row| row.1.starts_with(name));
    match (like.next(), like.next()) {
        (Some(row), None) => Ok(row),
        (Some(_), Some(_)) => Err(Fault::Option(format!("option '--{name}' is ambiguous"))),
        (None, _) => Err(Fault::Option(format!("unrecognized option '--{name}'"))),
    }
}
