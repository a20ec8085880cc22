//! The walks of the architecture: the files that a reader visits to follow one thing through the code.
//!
//! A walk is a fenced block below a heading `## Walk: NAME`. Each line of it names one file, its path from `crates/`,
//! as the first word that ends in `.rs`; the rest of the line is for the reader.

use std::collections::BTreeSet;

/// The document that has the walks.
pub(crate) const DOCUMENT: &str = "docs/architecture.md";
/// The walks whose lengths are reported.
pub(crate) const NAMES: [&str; 3] =
    ["from a datagram to a read", "from a byte to a socket", "from the death of a path to its repair"];

const HEADING: &str = "## Walk: ";
const FENCE: &str = "```";

/// A walk, and its lines that are not empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) name: String,
    /// Line of the heading in the document, from 1.
    pub(crate) line: usize,
    pub(crate) steps: Vec<Step>,
}

/// A line of a walk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Its line in the document, from 1.
    pub(crate) line: usize,
    /// The file that it names, from the root of the repository; `None` if it names none.
    pub(crate) file: Option<String>,
}

impl Walk {
    /// How many files it leads through.
    pub(crate) fn length(&self) -> usize {
        self.steps.iter().filter_map(|step| step.file.as_deref()).collect::<BTreeSet<_>>().len()
    }
}

/// The walks of a document.
pub(crate) fn walks(document: &str) -> Vec<Walk> {
    let mut found: Vec<Walk> = Vec::new();
    let (mut below, mut fenced) = (false, false);
    for (line, text) in document.lines().enumerate().map(|(index, text)| (index + 1, text)) {
        if text.starts_with(FENCE) {
            // A second block below the heading does not belong to the walk.
            below &= !fenced;
            fenced = !fenced;
        } else if !fenced && text.starts_with('#') {
            let name = text.strip_prefix(HEADING);
            below = name.is_some();
            found.extend(name.map(|name| Walk { name: name.trim().to_owned(), line, steps: Vec::new() }));
        } else if below && fenced && !text.trim().is_empty() {
            let file = text.split_whitespace().find(|word| word.ends_with(".rs"));
            let file = file.map(|path| format!("crates/{path}"));
            found.last_mut().into_iter().for_each(|walk| walk.steps.push(Step { line, file: file.clone() }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::walks;

    #[test]
    fn a_walk_is_the_block_below_its_heading() {
        let found = walks(
            "# A\n\n```\nnot/this.rs\n```\n\n## Walk: from a byte to a socket\n\nWords.\n\n```text\n\
             net/src/a.rs  AsyncWrite\n-> queue  net/src/b.rs  see c.rs\n\nnet/src/a.rs  again\n   nothing\n```\n\n\
             ```\nnot/this.rs\n```\n\n## Walk: empty\n\n## Other\n\n```\nnot/this.rs\n```\n",
        );
        let [walk, empty] = &found[..] else { panic!("{found:?}") };
        assert_eq!((walk.name.as_str(), walk.line, walk.length()), ("from a byte to a socket", 7, 2));
        let steps: Vec<_> = walk.steps.iter().map(|step| (step.line, step.file.as_deref())).collect();
        assert_eq!(
            steps,
            [
                (12, Some("crates/net/src/a.rs")),
                (13, Some("crates/net/src/b.rs")),
                (15, Some("crates/net/src/a.rs")),
                (16, None)
            ]
        );
        assert_eq!((empty.name.as_str(), empty.length()), ("empty", 0));
    }
}
