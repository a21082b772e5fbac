//! Colours, and the signs that stand beside them where there are none.

use ratatui_core::style::{Color, Modifier, Style};

/// How a screen looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Colours may be used.
    pub colour: bool,
}

/// What a core's time went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    User,
    System,
    Softirq,
    Steal,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::User, Self::System, Self::Softirq, Self::Steal];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::System => "system",
            Self::Softirq => "irq",
            Self::Steal => "steal",
        }
    }

    /// Its sign in a bar, which tells parts apart without colours too.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::User => "█",
            Self::System => "▓",
            Self::Softirq => "▒",
            Self::Steal => "░",
        }
    }
}

impl Look {
    fn of(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    pub(crate) fn part(self, part: Part) -> Style {
        self.of(match part {
            Part::User => Color::Green,
            Part::System => Color::Blue,
            Part::Softirq => Color::Magenta,
            Part::Steal => Color::Red,
        })
    }

    pub(crate) fn plain(self) -> Style {
        Style::new()
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The first line, and what has to be seen before all else.
    pub(crate) fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Something is lost, or full.
    pub(crate) fn bad(self) -> Style {
        self.of(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What arrives, and what is sent.
    pub(crate) fn received(self) -> Style {
        self.of(Color::Cyan)
    }

    pub(crate) fn sent(self) -> Style {
        self.of(Color::Yellow)
    }
}
