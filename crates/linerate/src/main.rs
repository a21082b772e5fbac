//! The `linerate` program.

mod compare;
mod ministat;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

/// Measures what a network path carries and proves whether a change made it better.
#[derive(Debug, Parser)]
#[command(name = "linerate", version)]
enum Command {
    Compare(Box<compare::CompareArgs>),
    /// The original's options and output; see `man ministat`
    #[command(disable_help_flag = true)]
    Ministat {
        /// Options and files, as ministat takes them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let program = args.next().unwrap_or_else(|| OsString::from("linerate"));
    if Path::new(&program).file_name() == Some(OsStr::new("ministat")) {
        return ministat::run(&program, args.collect());
    }
    // Past this word every argument is the drop-in's own, `--` included.
    if args.next().as_deref() == Some(OsStr::new("ministat")) {
        return ministat::run(OsStr::new("ministat"), args.collect());
    }
    match Command::parse() {
        Command::Compare(args) => compare::run(&args),
        Command::Ministat { args } => ministat::run(OsStr::new("ministat"), args),
    }
}
