//! What is made from the code itself: the schema, completions and manual pages.

use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use linerate_model::campaign::CampaignStatus;
use linerate_model::doctor::DoctorDocument;
use linerate_model::fleet::{FleetDocument, FleetNotice};
use linerate_model::fleet_agents::FleetHosts;
use linerate_model::fleet_doctor::FleetDoctor;
use linerate_model::fleet_events::FleetEvents;
use linerate_model::key_list::KeyList;
use linerate_model::lines::{
    CampaignLine, ExportedRun, NoDocument, RunLine, SearchLine, SweepLine, TuneLine, WatchLine,
};
use linerate_model::profile::ProfileDocument;
use linerate_model::record::{ErrorKind as Kind, ErrorRecord, RunRecord};
use linerate_model::search::SearchDocument;
use linerate_model::served::ServerLine;
use linerate_model::sweep::SweepDocument;
use linerate_model::tune::TuneDocument;
use linerate_report::compare::view::View;

use crate::args::Cli;
use crate::args::tools::Document;
use crate::output::print;
use linerate_model::exit::Exit;

/// `linerate schema`.
pub fn schema(document: Document) -> Result<Exit, ErrorRecord> {
    let schema = match document {
        Document::Run => schemars::schema_for!(RunRecord),
        Document::RunLine => schemars::schema_for!(RunLine<'_>),
        Document::Sweep => schemars::schema_for!(SweepDocument),
        Document::SweepLine => schemars::schema_for!(SweepLine<'_>),
        Document::Search => schemars::schema_for!(SearchDocument),
        Document::SearchLine => schemars::schema_for!(SearchLine<'_>),
        Document::WatchLine => schemars::schema_for!(WatchLine<'_>),
        Document::Tune => schemars::schema_for!(TuneDocument),
        Document::TuneLine => schemars::schema_for!(TuneLine<'_>),
        Document::Fleet => schemars::schema_for!(FleetDocument),
        Document::FleetChange => schemars::schema_for!(FleetNotice),
        Document::FleetHosts => schemars::schema_for!(FleetHosts),
        Document::FleetDoctor => schemars::schema_for!(FleetDoctor),
        Document::FleetEvents => schemars::schema_for!(FleetEvents),
        Document::Doctor => schemars::schema_for!(DoctorDocument),
        Document::Profile => schemars::schema_for!(ProfileDocument),
        Document::Compare => schemars::schema_for!(View),
        Document::Campaign => schemars::schema_for!(CampaignLine<'_>),
        Document::CampaignStatus => schemars::schema_for!(CampaignStatus),
        Document::CampaignExport => schemars::schema_for!(ExportedRun),
        Document::Keys => schemars::schema_for!(KeyList),
        Document::Serve => schemars::schema_for!(ServerLine),
        Document::Error => schemars::schema_for!(NoDocument<'_>),
    };
    print(format!("{:#}\n", schema.as_value()).as_bytes())
}

/// `linerate completions SHELL`.
pub fn completions(shell: clap_complete::Shell) -> Result<Exit, ErrorRecord> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "linerate", &mut script);
    print(&script)
}

/// `linerate man`.
pub fn man(dir: Option<&Path>) -> Result<Exit, ErrorRecord> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(dir) = dir else {
        let page = page(&command).map_err(|e| failure("cannot make the manual page", &e))?;
        return print(page.as_bytes());
    };
    pages(&command, dir)
        .map_err(|e| failure(&format!("cannot write manual pages into `{}`", dir.display()), &e))?;
    Ok(Exit::Complete)
}

/// A page of the command and of each of its own, into a directory.
fn pages(command: &clap::Command, dir: &Path) -> io::Result<()> {
    for own in command.get_subcommands().filter(|own| !own.is_hide_set()) {
        pages(own, dir)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    std::fs::write(dir.join(format!("{name}.1")), page(command)?)
}

/// A page as man(7) has it: `clap_mangen` knows neither date nor release, breaks lines that end by themselves, and has
/// one section for what comes after the options.
fn page(command: &clap::Command) -> io::Result<String> {
    let source = concat!("linerate ", env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    let made = clap_mangen::Man::new(command.clone()).date(date()).source(source);
    made.manual("linerate").render(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    Ok(page
        .replace("\n.br\n\n.br\n", "\n.sp\n")
        .replace("\n.SH EXTRA\nExamples:\n", "\n.SH EXAMPLES\n")
        .replace("\nExit codes:\n", "\n.SH EXIT STATUS\n"))
}

/// The day of the release that a package is made of (reproducible-builds.org/specs/source-date-epoch), or a blank where
/// nobody says: an empty word would be left out.
fn date() -> String {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let day = epoch.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    day.map_or_else(|| " ".to_owned(), |day| day.strftime("%Y-%m-%d").to_string())
}

fn failure(what: &str, why: &io::Error) -> ErrorRecord {
    ErrorRecord::new(Kind::Output, what, why.to_string(), &[])
}
