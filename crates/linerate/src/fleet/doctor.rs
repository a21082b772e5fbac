//! `linerate fleet doctor`: what is not well with agents and broker.

use linerate_broker::{Broker, Credentials};
use linerate_fleet::health::judge;
use linerate_model::doctor::Severity;
use linerate_model::exit::Exit;
use linerate_model::fleet_agents::FleetHosts;
use linerate_model::fleet_doctor::{FORMAT, FleetDoctor, FleetFacts};
use linerate_model::record::ErrorRecord;
use linerate_report::fleet::doctor::text;
use linerate_report::run::json;

use super::args::DoctorArgs;
use super::broker::{credentials, millis, runtime, system};
use super::hosts;
use crate::output::{self, Look};

/// Runs the verb.
pub fn run(args: &DoctorArgs, look: Look) -> Result<Exit, ErrorRecord> {
    let own = credentials(&args.dir)?;
    // Who only measures has no key of the broker's own account.
    let asked = system(&args.dir, &own).map_err(|error| format!("{}: {}", error.what, error.why));
    let document = runtime()?.block_on(document(&own, asked))?;
    let shown = match args.json {
        true => json::document(&document).map_err(|why| output::failed(&why, &[]))?,
        false => text(&document, look.layout(), args.verbose),
    };
    let exit = output::print(shown.as_bytes())?;
    let grave = document.judged.findings.iter().any(|found| found.severity > Severity::Note);
    Ok(if grave && exit == Exit::Complete { Exit::Found } else { exit })
}

async fn document(
    own: &Credentials,
    asked: Result<Credentials, String>,
) -> Result<FleetDoctor, ErrorRecord> {
    let broker = Broker::connect(own).await?;
    broker.make_streams(millis()).await?;
    let FleetHosts { agents, at, linerate, .. } = hosts::document(&broker).await?;
    let facts = FleetFacts { broker: broker.facts(own, asked).await?, agents };
    let (kind, judged) = ("fleet_doctor".to_owned(), judge(&facts));
    Ok(FleetDoctor { format: FORMAT, kind, at, linerate, facts, judged })
}
