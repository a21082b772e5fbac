//! What may stand beside `--resume` and `--replay`. An experiment that goes on has its options already;
//! whoever gives others would believe that they hold.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use linerate_model::record::ErrorRecord;

use linerate_ask::usage;

/// Verb, the option by which it goes on, what may be given beside it, and what says the rest.
const AGAIN: [(&str, &str, &[&str], &str); 3] = [
    ("sweep", "resume", &["save"], "the sweep that is resumed"),
    ("search", "resume", &["max_time", "key_file", "save"], "the log"),
    ("search", "replay", &["save"], "the log"),
];
/// How something is shown is free.
const SHOWN: [&str; 3] = ["json", "json_lines", "color"];

/// Refuses each argument on the command line that would be ignored.
pub fn refuse_ignored(command: &Command, matches: &ArgMatches) -> Result<(), ErrorRecord> {
    let Some((verb, matches)) = matches.subcommand() else { return Ok(()) };
    let Some(command) = command.find_subcommand(verb) else { return Ok(()) };
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let ids: Vec<&str> = command.get_arguments().map(|arg| arg.get_id().as_str()).collect();
    for (_, by, beside, says) in AGAIN.iter().filter(|(of, ..)| *of == verb) {
        if !ids.contains(by) || !given(by) {
            continue;
        }
        let free = |id: &str| id == *by || beside.contains(&id) || SHOWN.contains(&id);
        for arg in command.get_arguments().filter(|arg| !free(arg.get_id().as_str())) {
            if !given(arg.get_id().as_str()) {
                continue;
            }
            let name = match arg.get_long() {
                Some(long) => format!("--{long}"),
                None => arg.get_id().as_str().to_uppercase(),
            };
            let alone = format!("linerate {verb} --{by} FILE");
            let without = format!("leave out `--{by}` for a {verb} of its own");
            return Err(usage::error(
                format!("cannot use `{name}` with `--{by}`"),
                format!("{says} says how it was begun, and `{name}` would be ignored"),
                &[&alone, &without],
            ));
        }
    }
    Ok(())
}
