//! Whether text has colours.

use std::io::IsTerminal as _;

/// Whether colours are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// By the codes of terminals.
    With,
    /// Not at all.
    Without,
}

impl Colour {
    /// What suits standard output.
    pub fn of_output() -> Self {
        Self::suits(std::io::stdout().is_terminal())
    }

    /// What suits standard error.
    pub fn of_messages() -> Self {
        Self::suits(std::io::stderr().is_terminal())
    }

    fn suits(is_terminal: bool) -> Self {
        if is_terminal && !no_colour() { Self::With } else { Self::Without }
    }
}

/// Whether the user asks for output without colours (<https://no-color.org>).
fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
