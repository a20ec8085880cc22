//! Text with a few colours, for a terminal, a file, or a live screen.

use manyway::PathState;
use manyway_terminal::Colour;

/// The meaning of a text, shown by the terminal's own colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tint {
    /// Nothing special.
    #[default]
    Plain,
    /// Works.
    Good,
    /// Works with a restriction.
    Warning,
    /// Does not work.
    Bad,
    /// Secondary.
    Faint,
    /// A heading.
    Strong,
}

impl Tint {
    /// The meaning of a path's state.
    pub fn of_state(state: PathState) -> Self {
        match state {
            PathState::Active => Self::Good,
            PathState::Validating | PathState::Suspect | PathState::Probation => Self::Warning,
            PathState::Dead => Self::Bad,
            PathState::Closed => Self::Faint,
            PathState::Backup | PathState::Parked | _ => Self::Plain,
        }
    }

    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Warning => Some("33"),
            Self::Bad => Some("31"),
            Self::Faint => Some("2"),
            Self::Strong => Some("1"),
        }
    }
}

/// A line in pieces of one tint each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// From left to right.
    pub pieces: Vec<(String, Tint)>,
}

impl Line {
    /// A line of one piece.
    pub fn new(text: impl Into<String>, tint: Tint) -> Self {
        Self { pieces: vec![(text.into(), tint)] }
    }

    /// Adds a piece.
    pub fn push(&mut self, text: impl Into<String>, tint: Tint) {
        self.pieces.push((text.into(), tint));
    }

    /// The text alone, without spaces at its end.
    pub fn plain(&self) -> String {
        let text: String = self.pieces.iter().map(|(text, _)| text.as_str()).collect();
        text.trim_end().to_owned()
    }

    /// The text with the colours of a terminal, if those are wanted.
    pub fn text(&self, colour: Colour) -> String {
        if colour == Colour::Without {
            return self.plain();
        }
        let mut line = String::new();
        for (text, tint) in &self.pieces {
            match tint.code().filter(|_| !text.trim().is_empty()) {
                Some(code) => line.extend(["\x1b[", code, "m", text, "\x1b[0m"]),
                None => line.push_str(text),
            }
        }
        line.trim_end().to_owned()
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::new(text, Tint::Plain)
    }
}

/// Lines as one text, each ended.
pub fn block(lines: &[Line], colour: Colour) -> String {
    lines.iter().map(|line| line.text(colour) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tint_is_an_escape_code_only_with_colours() {
        let mut line = Line::from("wifi0  ");
        line.push("dead", Tint::Bad);
        line.push("   ", Tint::Bad);
        assert_eq!(line.text(Colour::Without), "wifi0  dead");
        assert_eq!(line.text(Colour::With), "wifi0  \x1b[31mdead\x1b[0m");
        assert_eq!(line.plain(), "wifi0  dead");
    }
}
