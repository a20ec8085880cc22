//! Decides whether text has colours.

use std::io::IsTerminal as _;

/// Whether colours are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// With the escape codes of terminals.
    With,
    /// Without colours.
    Without,
}

impl Colour {
    /// The choice for standard output.
    pub fn of_output() -> Self {
        Self::suits(std::io::stdout().is_terminal())
    }

    /// The choice for standard error.
    pub fn of_messages() -> Self {
        Self::suits(std::io::stderr().is_terminal())
    }

    fn suits(is_terminal: bool) -> Self {
        if is_terminal && !no_colour() { Self::With } else { Self::Without }
    }
}

/// Whether the user disabled colours (<https://no-color.org>).
fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
