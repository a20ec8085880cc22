//! The built-in scenarios, and how they are found by name.

use std::io;
use std::path::Path;

use super::Scenario;
use super::builtin::FILES;
use crate::LabError;
use crate::experiment;

/// Scenarios that can be found by name.
///
/// ```
/// use manyway_lab::scenario::Library;
/// let library = Library::builtin()?;
/// assert_eq!(library.find("wifi-lte")?.len(), 1);
/// assert_eq!(library.find("environments")?.len(), 16);
/// assert!(library.find("wifi-let").unwrap_err().to_string().contains("did you mean wifi-lte?"));
/// # Ok::<(), manyway_lab::LabError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Library {
    scenarios: Vec<Scenario>,
}

impl Library {
    /// The built-in ones.
    ///
    /// # Errors
    /// A built-in file is invalid, which its tests exclude.
    pub fn builtin() -> Result<Self, LabError> {
        let alone =
            |_: &str| Err(io::Error::new(io::ErrorKind::NotFound, "a built-in scenario stands alone"));
        let read = |(file, text): &(&str, &str)| Scenario::parse(file, text, &alone);
        Ok(Self { scenarios: FILES.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// Finds scenarios by name, by group, by the word `all`, or by the path of a `.toml` file.
    ///
    /// # Errors
    /// There is none of that name, or the file is invalid; the text lists the existing ones.
    pub fn find(&self, name: &str) -> Result<Vec<Scenario>, LabError> {
        if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
            return Ok(vec![Scenario::read(Path::new(name))?]);
        }
        let meant = |scenario: &&Scenario| name == "all" || scenario.name == name || scenario.group == name;
        let found: Vec<_> = self.scenarios.iter().filter(meant).cloned().collect();
        if found.is_empty() { Err(LabError::Scenario(self.unknown(name))) } else { Ok(found) }
    }

    /// All, in the order of the design's table, then the published environments, then those of Linux.
    pub fn all(&self) -> &[Scenario] {
        &self.scenarios
    }

    /// The names of the groups, each once, in order.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<_> = self.scenarios.iter().map(|scenario| scenario.group.as_str()).collect();
        groups.dedup();
        groups
    }

    fn unknown(&self, name: &str) -> String {
        let groups = self.groups();
        let names = self.scenarios.iter().map(|scenario| scenario.name.as_str());
        let experiments = experiment::all().map(|experiment| experiment.name);
        let near =
            names.chain(groups.iter().copied()).chain(experiments).min_by_key(|known| distance(known, name));
        let near = near.filter(|near| distance(near, name) <= 2);
        let hint = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
        format!(
            "no scenario or group is called {name:?}{hint}; known are `all`, the groups {}, {} scenarios, {} \
             experiments, and files whose names end in .toml",
            groups.join(", "),
            self.scenarios.len(),
            experiment::all().count(),
        )
    }
}

/// The edit distance of two words.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut corner = above;
        let mut left = above + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, against) in row.iter_mut().skip(1).zip(other.chars()) {
            let changed = corner + usize::from(letter != against);
            corner = *cell;
            *cell = changed.min(left + 1).min(corner + 1);
            left = *cell;
        }
    }
    row.last().copied().unwrap_or(0)
}
