//! linerate: measures what a network path and the hosts at its ends can carry, and says what limits
//! it. The binary turns arguments into requests, wires the parts and words every failure.

#![forbid(unsafe_code)]

mod args;
mod audit;
#[cfg_attr(not(feature = "full"), allow(dead_code))]
mod output;
#[cfg_attr(not(feature = "full"), path = "no_pages.rs")]
mod pages;
mod serve;

#[cfg(feature = "full")]
mod agent;
#[cfg(feature = "full")]
mod campaign;
#[cfg(feature = "full")]
mod compare;
#[cfg(feature = "full")]
mod doctor;
#[cfg(feature = "full")]
mod face;
#[cfg(feature = "full")]
mod fleet;
#[cfg(feature = "full")]
mod iperf2;
#[cfg(feature = "full")]
mod iperf3;
#[cfg(feature = "full")]
mod keys;
#[cfg(feature = "full")]
mod metrics;
#[cfg(feature = "full")]
mod ministat;
#[cfg(feature = "full")]
mod netperf;
#[cfg(feature = "full")]
mod nuttcp;
#[cfg(feature = "full")]
mod probe;
#[cfg(feature = "full")]
mod profile;
#[cfg(feature = "full")]
mod report;
#[cfg(feature = "full")]
mod run;
#[cfg(feature = "full")]
mod screen;
#[cfg(feature = "full")]
mod search;
#[cfg(feature = "full")]
mod status;
#[cfg(feature = "full")]
mod sweep;
#[cfg(feature = "full")]
mod tools;
#[cfg(feature = "full")]
mod tune;
#[cfg(feature = "full")]
mod verbs;
#[cfg(feature = "full")]
mod watch;
#[cfg(feature = "full")]
mod web;

use std::process::ExitCode;

use args::{Cli, Command};
use linerate_model::exit::Exit;
use linerate_model::record::ErrorRecord;

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    #[cfg(feature = "full")]
    if let Some(code) = verbs::drop_in(&argv) {
        return code;
    }
    let wish = output::OutputMode::of(&argv);
    let done = args::parse(argv.clone()).and_then(|cli| match cli {
        Some(cli) => dispatch(cli),
        None => Ok(Exit::Complete.into()),
    });
    done.unwrap_or_else(|error| {
        let error = args::with_equals_sign(error, &argv);
        output::report_error(&error, wish);
        Exit::from_code(error.exit_code).into()
    })
}

fn dispatch(cli: Cli) -> Result<ExitCode, ErrorRecord> {
    let exit = match cli.command {
        Command::Serve(args) => serve::serve(&args)?,
        #[cfg(feature = "full")]
        Command::Other(verb) => return verbs::run(verb, output::Look { color: cli.color }),
    };
    Ok(exit.into())
}
