//! What is made from the code itself: the schema, completions and manual pages.

use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use linerate_model::campaign::CampaignStatus;
use linerate_model::doctor::DoctorDocument;
use linerate_model::key_list::KeyList;
use linerate_model::lines::{
    CampaignLine, ExportedRun, NoDocument, RunLine, SearchLine, SweepLine,
};
use linerate_model::record::{ErrorKind as Kind, ErrorRecord, RunRecord};
use linerate_model::search::SearchDocument;
use linerate_model::served::ServerLine;
use linerate_model::sweep::SweepDocument;
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
        Document::Doctor => schemars::schema_for!(DoctorDocument),
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
    if let Some(dir) = dir {
        clap_mangen::generate_to(Cli::command(), dir).map_err(|e| {
            failure(&format!("cannot write manual pages into `{}`", dir.display()), &e)
        })?;
        return Ok(Exit::Complete);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|e| failure("cannot make the manual page", &e))?;
    print(&page)
}

fn failure(what: &str, why: &io::Error) -> ErrorRecord {
    ErrorRecord::new(Kind::Output, what, why.to_string(), &[])
}
