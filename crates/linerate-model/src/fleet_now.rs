//! What a file of a fleet's results says at a moment, test by test: what the page of `fleet serve` reports beside the
//! document.

use crate::fleet::FleetDocument;

/// What a file says.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetNow {
    /// What `fleet results` says of it.
    pub document: FleetDocument,
    /// The moments of the document's `begun`, seconds since 1970.
    pub begun_s: Vec<Option<f64>>,
    /// Every test that has begun: in the order of their ends, then those without one.
    pub tests: Vec<FleetTest>,
    /// Whether a run writes the file.
    pub running: bool,
}

impl FleetNow {
    /// Tests of a pair, by its place in the document's `pairs`.
    pub fn tests_of(&self, pair: usize) -> impl Iterator<Item = &FleetTest> {
        self.tests.iter().filter(move |test| test.pair == pair)
    }

    /// Tests that are under way now.
    pub fn under_way(&self) -> impl Iterator<Item = &FleetTest> {
        self.tests.iter().filter(|test| self.running && test.end.is_none())
    }
}

/// A test of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetTest {
    /// Place of the pair in the document's `pairs`.
    pub pair: usize,
    /// At which time, from 1; deleted ones are counted.
    pub time: u32,
    /// Which try of the pair at that time, from 1.
    pub attempt: u32,
    /// When it began, RFC 3339, UTC.
    pub began: String,
    /// The same, seconds since 1970; none where that is no date.
    pub began_s: Option<f64>,
    /// How it ended; none of one that is under way, or was when linerate ended.
    pub end: Option<FleetTestEnd>,
}

/// How a test ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetTestEnd {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Wall time from its beginning, seconds.
    pub seconds: f64,
    /// What was measured, in the unit of the metric; or why nothing was.
    pub result: Result<f64, String>,
    /// Whether the file has its record.
    pub recorded: bool,
}
