//! Of systems without perf_event_open(2), and architectures for which it has no bindings here.

use std::convert::Infallible;
use std::io;

use linerate_model::profile::Scope;

use super::{Event, Taken};

/// There are none.
pub(super) struct Rings(Infallible);

impl Rings {
    pub fn open(_: Scope, _: Event) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "not on this system or architecture"))
    }
    pub fn enable(&mut self) -> io::Result<()> {
        match self.0 {}
    }
    pub fn disable(&mut self) {}
    pub fn empty(&mut self, _: &mut Taken) {}
    pub fn scope(&self) -> Scope {
        match self.0 {}
    }
    pub fn event(&self) -> Event {
        match self.0 {}
    }
    pub fn cores(&self) -> u32 {
        0
    }
}
