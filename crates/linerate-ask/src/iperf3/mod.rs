//! iperf3's command line.

mod line;
mod parse;
mod request;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub use self::line::Line;
pub use self::parse::parse;
pub use self::request::request;
use crate::getopt;

/// Why a command line is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// `-h`.
    Help,
    /// `-v`.
    Version,
    /// A parameter is wrong: shown with how to use the program.
    Parameter(String),
    /// getopt's words.
    Unknown(String),
    /// An option that cannot be had.
    Refused(String),
}

/// An option or value, or why there is none.
type Parsed<T> = Result<T, Stop>;

impl From<getopt::Fault> for Stop {
    fn from(fault: getopt::Fault) -> Self {
        match fault {
            getopt::Fault::Word(word) => Self::Parameter(format!("`{word}` is no option")),
            getopt::Fault::Option(text) => Self::Unknown(text),
        }
    }
}

fn wrong<T>(text: impl Into<String>) -> Parsed<T> {
    Err(Stop::Parameter(text.into()))
}

/// The options of a command line by their long names, if iperf3 would know all of them.
pub fn pairs(args: &[String]) -> Option<Vec<(&'static str, Option<String>)>> {
    let found = getopt::options(args, table::OPTIONS).ok()?;
    Some(found.into_iter().map(|(row, value)| (row.1, value)).collect())
}
