//! linerate: measures what a network path and the hosts at its ends can carry, and says what limits
//! it. The binary turns arguments into requests, wires the parts and words every failure.

#![forbid(unsafe_code)]

mod args;
mod exit;
mod help;
mod key;
mod output;
mod run;
mod serve;
mod tools;
mod usage;

use std::process::ExitCode;

use args::{Cli, Command};
use exit::Exit;
use linerate_model::record::ErrorRecord;

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    let wish = output::Wish::of(&argv);
    let done = args::parse(argv).and_then(|cli| match cli {
        Some(cli) => dispatch(cli),
        None => Ok(Exit::Complete),
    });
    done.unwrap_or_else(|error| {
        output::tell_error(&error, wish);
        Exit::from_code(error.exit_code)
    })
    .into()
}

fn dispatch(cli: Cli) -> Result<Exit, ErrorRecord> {
    let color = cli.color;
    match cli.command {
        Command::Serve(args) => serve::serve(&args),
        Command::Udp(args) => run::run(&args.asked()?, args.output, color),
        Command::Tcp(args) => run::run(&args.asked()?, args.output, color),
        Command::Rr(args) => run::run(&args.asked()?, args.output, color),
        Command::Schema => tools::schema(),
        Command::Completions(args) => tools::completions(args.shell),
        Command::Man(args) => tools::man(args.dir.as_deref()),
    }
}
