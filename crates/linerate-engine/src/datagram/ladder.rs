//! Which engine goes on where another cannot.

use std::io;

use linerate_model::plan::EngineChoice;

use super::{Config, Context, DatagramPort, Engine};

/// The engines of one end of one stream: the asked one, and those after it in the list.
#[derive(Debug)]
pub struct Ladder {
    config: Config,
    context: Context,
    /// Place of the next one to try.
    next: usize,
    used: Vec<String>,
    given_up: Vec<String>,
}

impl Ladder {
    /// Begins with `first`, or with the last of all if there is none of that name.
    pub fn new(first: EngineChoice, config: Config, context: Context) -> Self {
        let engines = context.engines;
        let named = |engine: &&dyn Engine| engine.name() == first.name();
        let next = engines.iter().position(named).unwrap_or(engines.len().saturating_sub(1));
        Self { config, context, next, used: Vec::new(), given_up: Vec::new() }
    }

    /// Opens the next engine that can be opened.
    ///
    /// # Errors
    /// When none is left, with what each of them said.
    pub fn open(&mut self) -> io::Result<Box<dyn DatagramPort>> {
        let mut kind = io::ErrorKind::Unsupported;
        while let Some(engine) = self.context.engines.get(self.next) {
            self.next += 1;
            match engine.open(&self.config, &self.context) {
                Ok(port) => {
                    self.used.push(engine.name().to_owned());
                    return Ok(port);
                }
                Err(error) => {
                    kind = error.kind();
                    self.given_up.push(format!("{} could not be opened: {error}", engine.name()));
                }
            }
        }
        Err(io::Error::new(kind, format!("no engine is left: {}", self.given_up.join("; "))))
    }

    /// The engine that runs was refused while it ran: opens the next.
    ///
    /// # Errors
    /// As [`Ladder::open`].
    pub fn after_refusal(&mut self, error: &io::Error) -> io::Result<Box<dyn DatagramPort>> {
        let engine = self.used.last().map_or("the engine", String::as_str);
        self.given_up.push(format!("{engine} was refused: {error}"));
        self.open()
    }

    /// Engines that ran, in order.
    pub fn used(&self) -> &[String] {
        &self.used
    }

    /// Which engines were given up, and why.
    pub fn why(&self) -> Option<String> {
        (!self.given_up.is_empty()).then(|| self.given_up.join("; "))
    }
}
