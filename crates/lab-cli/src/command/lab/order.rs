//! Commands for a running emulation, one per line.

use std::path::Path;

use manyway_lab::Scenario;
use manyway_lab::scenario::Change;

/// The command of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// Changes of a link or an interface.
    Changes(Vec<Change>),
    /// The figures so far.
    Figures,
    /// Ends the emulation.
    Quit,
}

impl Order {
    /// Parses a line; `None` if it is empty. Traces are looked up in `folder`.
    ///
    /// # Errors
    /// The syntax error.
    pub(super) fn read(line: &str, scenario: &Scenario, folder: &Path) -> Result<Option<Self>, String> {
        match line.trim() {
            "" => Ok(None),
            "figures" => Ok(Some(Self::Figures)),
            "quit" | "exit" => Ok(Some(Self::Quit)),
            words => {
                let changes =
                    Change::read(words, scenario, &|name| std::fs::read_to_string(folder.join(name)));
                changes.map(|changes| Some(Self::Changes(changes))).map_err(|error| error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manyway_lab::scenario::{Direction, Library};

    #[test]
    fn a_line_is_a_command_or_an_event() {
        let scenario = Library::builtin().unwrap().find("wifi-lte").unwrap().remove(0);
        let read = |line: &str| Order::read(line, &scenario, Path::new(""));
        let cut = Change::Cut { link: 1, direction: Direction::Both };
        assert_eq!(read("cut lte"), Ok(Some(Order::Changes(vec![cut]))));
        assert_eq!(read(" figures "), Ok(Some(Order::Figures)));
        assert_eq!((read("quit"), read("  ")), (Ok(Some(Order::Quit)), Ok(None)));
        assert!(read("set lte delay 99s").unwrap_err().contains("from 0ns to 30s"));
    }

    #[test]
    fn a_trace_lies_beside_the_scenario() {
        let scenario = Library::builtin().unwrap().find("wifi-lte").unwrap().remove(0);
        let place = tempfile::TempDir::new().unwrap();
        std::fs::write(place.path().join("drive.trace"), "1\n5\n").unwrap();
        let read = |folder| Order::read("set lte trace drive.trace", &scenario, folder);
        assert!(matches!(read(place.path()), Ok(Some(Order::Changes(changes))) if changes.len() == 1));
        assert!(read(Path::new("")).unwrap_err().contains("cannot be read"));
    }
}
