//! The verbs beside those of a server, and the programs whose names and command lines this one takes.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use linerate_ask::Measure;
use linerate_model::exit::Exit;
use linerate_model::record::ErrorRecord;

use crate::args::verb::Verb;
use crate::output::Look;
use crate::{
    agent, campaign, compare, doctor, fleet, iperf2, iperf3, keys, ministat, netperf, nuttcp,
    probe, profile, report, run, search, sweep, tools, tune, watch,
};

/// The drop-in faces parse their own arguments, as the originals do: by the program's name, or past
/// the verb.
pub fn drop_in(argv: &[OsString]) -> Option<ExitCode> {
    let [program, args @ ..] = argv else { return None };
    let name = Path::new(program).file_name().unwrap_or_default();
    face(name, program, args).or_else(|| {
        let [verb, args @ ..] = args else { return None };
        face(verb, verb, args)
    })
}

/// Runs the one of that name, as `called`.
fn face(name: &OsStr, called: &OsStr, args: &[OsString]) -> Option<ExitCode> {
    let args = || args.to_vec();
    Some(match name.to_str()? {
        "ministat" => ministat::run(called, args()),
        "iperf3" => iperf3::run(args()),
        "iperf" => iperf2::run(args()),
        "netperf" => netperf::run(args()),
        "netserver" => netperf::run_server(args()),
        "nuttcp" => nuttcp::run(args()),
        _ => return None,
    })
}

/// Does what a verb says.
pub fn run(verb: Verb, look: Look) -> Result<ExitCode, ErrorRecord> {
    let exit = match verb {
        Verb::SettingsHelper(args) => {
            linerate_runner::agent::helper(&args.state_dir).map(|()| Exit::Complete)?
        }
        Verb::SettingsMonitor(args) => {
            linerate_runner::agent::monitor(&args.options()?).map(|()| Exit::Complete)?
        }
        Verb::SettingsGuard => linerate_runner::agent::keep().map(|()| Exit::Complete)?,
        Verb::Measure(measure) => match *measure {
            Measure::Udp(args) => run::run(args.asked()?, args.show, look)?,
            Measure::Tcp(args) => run::run(args.asked()?, args.show, look)?,
            Measure::Rr(args) => run::run(args.asked()?, args.show, look)?,
            Measure::Sweep(args) => sweep::run(&args, look)?,
            Measure::Search(args) => search::run(&args, look)?,
            Measure::Tune(args) => tune::run(&args, look)?,
        },
        Verb::Doctor(args) => doctor::run(&args, look)?,
        Verb::Profile(args) => profile::run(&args, look)?,
        Verb::Keys(args) => keys::run(&args)?,
        Verb::Campaign(args) => campaign::run(&args)?,
        Verb::Fleet(args) => fleet::run(&args, look)?,
        Verb::Agent(args) => agent::run(&args)?,
        Verb::Compare(args) => return Ok(compare::run(&args)),
        Verb::Iperf { args } => return Ok(iperf2::run(args)),
        Verb::Iperf3 { args } => return Ok(iperf3::run(args)),
        Verb::Netperf { args } => return Ok(netperf::run(args)),
        Verb::Netserver { args } => return Ok(netperf::run_server(args)),
        Verb::Nuttcp { args } => return Ok(nuttcp::run(args)),
        Verb::Ministat { args } => return Ok(ministat::run(OsStr::new("ministat"), args)),
        Verb::Report(args) => report::run(&args)?,
        Verb::Probe(args) => probe::run(&args)?,
        Verb::Watch(args) => watch::run(&args, look)?,
        Verb::Schema(args) => tools::schema(args.document)?,
        Verb::Completions(args) => tools::completions(args.shell)?,
        Verb::Man(args) => tools::man(args.dir.as_deref())?,
    };
    Ok(exit.into())
}
