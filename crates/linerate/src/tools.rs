//! What is made from the code itself: schemas, completions and manual pages.

use std::io;
use std::path::Path;

use clap::{CommandFactory as _, ValueEnum as _};
use linerate_model::record::{ErrorKind as Kind, ErrorRecord};

use crate::args::Cli;
use crate::args::tools::Document;
use crate::output::print;
use linerate_model::exit::Exit;

/// `linerate schema`.
pub fn schema(document: Document) -> Result<Exit, ErrorRecord> {
    print(format!("{:#}\n", kept(document).unwrap_or_default()).as_bytes())
}

/// The schema of a document. A test sees to it that each has one.
fn kept(document: Document) -> Option<serde_json::Value> {
    linerate_report::schema::of(document.to_possible_value()?.get_name())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_has_a_schema() {
        let all = <Document as clap::ValueEnum>::value_variants();
        let without: Vec<_> = all.iter().filter(|document| kept(**document).is_none()).collect();
        assert!(without.is_empty(), "{without:?}: a line of linerate-report/tests/schemas.rs");
    }
}
