//! linerate: measures what a network path and the hosts at its ends can carry, and says what limits
//! it. The binary turns arguments into requests, wires the parts and words every failure.

#![forbid(unsafe_code)]

mod agent;
mod args;
mod audit;
mod campaign;
mod compare;
mod doctor;
mod face;
mod fleet;
mod iperf2;
mod iperf3;
mod keys;
mod metrics;
mod ministat;
mod netperf;
mod nuttcp;
mod output;
mod probe;
mod profile;
mod report;
mod run;
mod screen;
mod search;
mod serve;
mod status;
mod sweep;
mod tools;
mod tune;
mod watch;
mod web;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use args::{Cli, Command};
use linerate_ask::Measure;
use linerate_model::exit::Exit;
use linerate_model::record::ErrorRecord;

fn main() -> ExitCode {
    let argv: Vec<_> = std::env::args_os().collect();
    if let Some(code) = drop_in(&argv) {
        return code;
    }
    let wish = output::OutputMode::of(&argv);
    let done = args::parse(argv).and_then(|cli| match cli {
        Some(cli) => dispatch(cli),
        None => Ok(Exit::Complete.into()),
    });
    done.unwrap_or_else(|error| {
        output::report_error(&error, wish);
        Exit::from_code(error.exit_code).into()
    })
}

/// The drop-in faces parse their own arguments, as the originals do: by the program's name, or past
/// the verb.
fn drop_in(argv: &[std::ffi::OsString]) -> Option<ExitCode> {
    let [program, args @ ..] = argv else { return None };
    match Path::new(program).file_name().and_then(OsStr::to_str) {
        Some("ministat") => return Some(ministat::run(program, args.to_vec())),
        Some("iperf3") => return Some(iperf3::run(args.to_vec())),
        Some("iperf") => return Some(iperf2::run(args.to_vec())),
        Some("netperf") => return Some(netperf::run(args.to_vec())),
        Some("netserver") => return Some(netperf::run_server(args.to_vec())),
        Some("nuttcp") => return Some(nuttcp::run(args.to_vec())),
        _ => {}
    }
    let [verb, args @ ..] = args else { return None };
    match verb.to_str() {
        Some("ministat") => Some(ministat::run(verb, args.to_vec())),
        Some("iperf3") => Some(iperf3::run(args.to_vec())),
        Some("iperf") => Some(iperf2::run(args.to_vec())),
        Some("netperf") => Some(netperf::run(args.to_vec())),
        Some("netserver") => Some(netperf::run_server(args.to_vec())),
        Some("nuttcp") => Some(nuttcp::run(args.to_vec())),
        _ => None,
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode, ErrorRecord> {
    let look = output::Look { color: cli.color };
    let exit = match cli.command {
        Command::Serve(args) => serve::serve(&args)?,
        Command::SettingsHelper(args) => {
            linerate_runner::agent::helper(&args.state_dir).map(|()| Exit::Complete)?
        }
        Command::SettingsMonitor(args) => {
            linerate_runner::agent::monitor(&args.options()?).map(|()| Exit::Complete)?
        }
        Command::SettingsGuard => linerate_runner::agent::keep().map(|()| Exit::Complete)?,
        Command::Measure(measure) => match measure {
            Measure::Udp(args) => run::run(args.asked()?, args.show, look)?,
            Measure::Tcp(args) => run::run(args.asked()?, args.show, look)?,
            Measure::Rr(args) => run::run(args.asked()?, args.show, look)?,
            Measure::Sweep(args) => sweep::run(&args, look)?,
            Measure::Search(args) => search::run(&args, look)?,
            Measure::Tune(args) => tune::run(&args, look)?,
        },
        Command::Doctor(args) => doctor::run(&args, look)?,
        Command::Profile(args) => profile::run(&args, look)?,
        Command::Keys(args) => keys::run(&args)?,
        Command::Campaign(args) => campaign::run(&args)?,
        Command::Fleet(args) => fleet::run(&args, look)?,
        Command::Agent(args) => agent::run(&args)?,
        Command::Compare(args) => return Ok(compare::run(&args)),
        Command::Iperf { args } => return Ok(iperf2::run(args)),
        Command::Iperf3 { args } => return Ok(iperf3::run(args)),
        Command::Netperf { args } => return Ok(netperf::run(args)),
        Command::Netserver { args } => return Ok(netperf::run_server(args)),
        Command::Nuttcp { args } => return Ok(nuttcp::run(args)),
        Command::Ministat { args } => return Ok(ministat::run(OsStr::new("ministat"), args)),
        Command::Report(args) => report::run(&args)?,
        Command::Probe(args) => probe::run(&args)?,
        Command::Watch(args) => watch::run(&args, look)?,
        Command::Schema(args) => tools::schema(args.document)?,
        Command::Completions(args) => tools::completions(args.shell)?,
        Command::Man(args) => tools::man(args.dir.as_deref())?,
    };
    Ok(exit.into())
}
