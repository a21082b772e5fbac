//! Profiles: options of a test under a name, in `~/.config/linerate/profiles/NAME.toml`.
//!
//! ```toml
//! verb = "tcp"
//!
//! [options]
//! window = "4Mi"
//! ```

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _};
use linerate_model::plan::TrafficKind;
use linerate_model::record::ErrorRecord;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::test::VERBS;
use crate::{Line, Measure, usage};

/// A longer file is no profile.
const MOST_BYTES: u64 = 64 << 10;
/// What is asked of the command line alone.
const NOT_OPTIONS: [&str; 3] = ["profile", "help", "version"];

/// As it stands in the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The verb whose options they are.
    verb: String,
    /// By their long names.
    #[serde(default)]
    options: Map<String, Value>,
}

/// The file of a profile: below `$XDG_CONFIG_HOME`, or `~/.config` without it.
///
/// # Errors
/// A name that cannot be one of a file, or no home.
pub fn path(name: &str) -> Result<PathBuf, ErrorRecord> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(usage::error(
            format!("cannot use `--profile {name}`"),
            "a profile has a name of letters, digits, `-`, `_` and `.`, which does not begin with `.`",
            &["--profile fast"],
        ));
    }
    // A relative one is to be ignored (XDG Base Directory Specification 0.8).
    let folder = |variable: &str| {
        std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    let config = config.ok_or_else(|| {
        usage::error(
            format!("cannot find the profile `{name}`"),
            "neither XDG_CONFIG_HOME nor HOME says where profiles are",
            &["HOME=DIR linerate …"],
        )
    })?;
    Ok(config.join("linerate").join("profiles").join(format!("{name}.toml")))
}

/// What a profile says, as a file: options with their values, or none where they are switches that are on. `remark`
/// stands above it, a line a comment.
///
/// # Errors
/// None that a user can cause.
pub fn text(
    verb: TrafficKind,
    options: &[(String, Option<String>)],
    remark: &[String],
) -> Result<String, toml::ser::Error> {
    let options = options.iter().map(|(key, value)| {
        let value = value.clone().map_or(Value::Bool(true), Value::String);
        (key.replace('-', "_"), value)
    });
    let file = File { verb: verb.name().to_owned(), options: options.collect() };
    let body = toml::to_string(&file)?;
    let remark = remark.iter().map(|line| format!("# {}\n", line.replace(char::is_control, " ")));
    Ok(remark.collect::<String>() + &body)
}

/// The options of a profile, for a verb.
fn read(verb: TrafficKind, name: &str) -> Result<(PathBuf, Map<String, Value>), ErrorRecord> {
    let path = path(name)?;
    let shown = path.display();
    let refused = |why: String, hint: &str| {
        Err(usage::error(format!("cannot use the profile `{name}` ({shown})"), why, &[hint]))
    };
    let text = match std::fs::metadata(&path).map(|facts| facts.len()) {
        Ok(bytes) if bytes > MOST_BYTES => {
            return refused("it is too long for a profile".to_owned(), "mend the file");
        }
        _ => std::fs::read_to_string(&path),
    };
    let save = format!("linerate tune {} HOST --profile {name} saves one", verb.name());
    let text = match text {
        Ok(text) => text,
        Err(why) => return refused(why.to_string(), &save),
    };
    let file: File = match toml::from_str(&text) {
        Ok(file) => file,
        Err(why) => return refused(why.to_string().trim_end().to_owned(), "mend the file"),
    };
    if file.verb != verb.name() {
        let why = format!("it is of `linerate {}`", file.verb);
        return refused(why, &save);
    }
    Ok((path, file.options))
}

/// The words of a profile's options but of those that are `given`.
fn words(
    verb: TrafficKind,
    name: &str,
    given: impl Fn(&str) -> bool,
) -> Result<Vec<String>, ErrorRecord> {
    let (path, options) = read(verb, name)?;
    let known = Measure::options(verb.name());
    let mut words = Vec::new();
    for (key, value) in options {
        let option = key.replace('_', "-");
        let long = format!("--{option}");
        if !known.contains(&long) || NOT_OPTIONS.contains(&option.as_str()) {
            return Err(usage::error(
                format!("cannot use the profile `{name}` ({})", path.display()),
                format!(
                    "`{key}` is no option that a profile of `linerate {}` may have",
                    verb.name()
                ),
                &[&format!("`linerate {} --help` lists them", verb.name())],
            ));
        }
        if given(&option) {
            continue;
        }
        match value {
            Value::Bool(true) => words.push(long),
            Value::Bool(false) => {}
            Value::String(text) => words.push(format!("{long}={text}")),
            Value::Number(number) => words.push(format!("{long}={number}")),
            other => {
                return Err(usage::error(
                    format!("cannot use the profile `{name}` ({})", path.display()),
                    format!("`{key}` is {other}, and not a text, a number, true or false"),
                    &["mend the file"],
                ));
            }
        }
    }
    Ok(words)
}

/// The command line with the options of the profile that it names behind its verb, and that name; nothing where it
/// names none. What is given on the command line wins. A test that is profiled has its verb behind `profile`.
///
/// # Errors
/// No such profile, or one that says what is no option of the verb.
pub fn expand(
    argv: &[OsString],
    found: &ArgMatches,
) -> Result<Option<(Vec<OsString>, String)>, ErrorRecord> {
    let Some((mut verb, mut matches)) = found.subcommand() else { return Ok(None) };
    let place = |word: &str| argv.iter().position(|given| given.to_str() == Some(word));
    let mut begin = 0;
    if verb == "profile"
        && let (Some(at), Some(test)) = (place(verb), matches.subcommand())
    {
        (verb, matches) = test;
        begin = at + 1;
    }
    let Some(kind) = VERBS.into_iter().find(|kind| kind.name() == verb) else { return Ok(None) };
    let Some(name) = matches.get_one::<String>("profile") else { return Ok(None) };
    let command = Line::command();
    let command = command.find_subcommand(verb);
    let given = |long: &str| {
        let arg = command.and_then(|c| c.get_arguments().find(|arg| arg.get_long() == Some(long)));
        arg.is_some_and(|a| {
            matches.value_source(a.get_id().as_str()) == Some(ValueSource::CommandLine)
        })
    };
    let more = words(kind, name, given)?;
    let is_verb = |(at, word): (usize, &OsString)| at >= begin && word.to_str() == Some(verb);
    let Some(at) = argv.iter().enumerate().position(is_verb) else { return Ok(None) };
    let (before, behind) = argv.split_at(at + 1);
    let more = more.into_iter().map(OsString::from);
    let argv = before.iter().cloned().chain(more).chain(behind.iter().cloned()).collect();
    Ok(Some((argv, name.clone())))
}
