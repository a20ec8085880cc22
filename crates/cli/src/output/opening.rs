//! The first lines of a command: data on standard output, and messages about it for people on standard error.

use manyway_terminal::{CommandError, note, print_line};

/// Lines in the order in which they appear.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opening(Vec<Line>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Data(String),
    Message(String),
}

impl Opening {
    /// The same, then a line for standard output.
    #[must_use]
    pub fn data(mut self, text: impl Into<String>) -> Self {
        self.0.push(Line::Data(text.into()));
        self
    }

    /// The same, then a message.
    #[must_use]
    pub fn message(mut self, text: impl Into<String>) -> Self {
        self.0.push(Line::Message(text.into()));
        self
    }

    /// The same, then a message if there is one.
    #[must_use]
    pub fn message_if_some(self, text: Option<impl Into<String>>) -> Self {
        text.into_iter().fold(self, Self::message)
    }

    /// Prints the lines; a quiet command prints its data alone.
    ///
    /// # Errors
    /// Standard output is closed or full.
    pub fn print(&self, quiet: bool) -> Result<(), CommandError> {
        for line in &self.0 {
            match line {
                Line::Data(text) => print_line(text)?,
                Line::Message(text) if !quiet => note(text),
                Line::Message(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    impl Opening {
        /// The lines on a terminal of that width.
        pub(crate) fn screen(&self, width: usize) -> String {
            let shown = |line: &Line| match line {
                Line::Data(text) => text.clone(),
                Line::Message(text) => message(text, width),
            };
            self.0.iter().map(shown).collect::<Vec<_>>().join("\n")
        }
    }

    /// A message on a terminal of that width. Only what is meant to be copied may be wider.
    pub(crate) fn message(text: &str, width: usize) -> String {
        let wrapped = manyway_terminal::wrap(text, width);
        for line in wrapped.lines() {
            let is_copied = line.starts_with(' ') || line.contains('`') || !line.contains(' ');
            assert!(is_copied || manyway_terminal::text_width(line) <= width, "wider than {width}: {line}");
        }
        wrapped
    }

    #[test]
    fn data_stay_whole_and_messages_are_wrapped() {
        let opening = Opening::default()
            .data("a line of data that another program reads")
            .message("a message for people")
            .message_if_some(None::<String>);
        assert_eq!(opening.screen(12), "a line of data that another program reads\na message\nfor people");
    }
}
