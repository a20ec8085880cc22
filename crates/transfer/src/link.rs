//! Targets of symbolic links: which ones may be transferred, and where they lead.

use std::fmt;

use crate::name::{RelativePath, printable};

/// The target of a symbolic link, relative to the directory that holds the link.
///
/// It begins with any number of `..` and then names components; a `..` after a name is refused. So a chain of such
/// links can be followed without reading the file system: each one leads to where its text says, whatever the
/// components in between are.
// transfer 2.5
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTarget(String);

impl LinkTarget {
    /// Most bytes of a target.
    pub const MAX_LENGTH: usize = 4095;

    /// Checks a target from any source.
    ///
    /// # Errors
    /// The first rule that the target breaks.
    pub fn parse(text: &str) -> Result<Self, LinkError> {
        if text.is_empty() {
            return Err(LinkError::Empty);
        }
        if text.len() > Self::MAX_LENGTH {
            return Err(LinkError::TooLong { length: text.len() });
        }
        if let Some(character) = text.chars().find(|c| matches!(c, '\0' | '\\')) {
            return Err(LinkError::Character { character });
        }
        if text.starts_with('/') || crate::name::has_drive(text) {
            return Err(LinkError::Absolute);
        }
        let mut names = parts(text).skip_while(|part| *part == "..");
        if names.any(|part| part == "..") {
            return Err(LinkError::UpAfterName);
        }
        Ok(Self(text.to_owned()))
    }

    /// The target as text, as it stands in the link.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a link called `link` leads no higher than `tree` components below the top.
    // transfer 2.6
    pub(crate) fn stays_below(&self, link: &RelativePath, tree: usize) -> bool {
        let parent = link.components().count() - 1;
        self.ups().saturating_add(tree) <= parent
    }

    /// Where a link called `link` leads, below the same top; `None` if that is above it, or the top itself.
    pub(crate) fn resolve(&self, link: &RelativePath) -> Option<RelativePath> {
        let parents: Vec<_> = link.components().collect();
        let kept = parents.len().checked_sub(1)?.checked_sub(self.ups())?;
        let parts = parts(&self.0).skip_while(|part| *part == "..");
        let components: Vec<_> = parents.into_iter().take(kept).chain(parts).collect();
        RelativePath::parse(&components.join("/")).ok()
    }

    fn ups(&self) -> usize {
        parts(&self.0).take_while(|part| *part == "..").count()
    }
}

/// Components, without empty ones and dots.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split('/').filter(|part| !matches!(*part, "" | "."))
}

/// Prints the target with control and direction characters escaped.
impl fmt::Display for LinkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0))
    }
}

/// Why a link's target may not be transferred.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
    /// Empty.
    Empty,
    /// It starts with a slash or a drive letter.
    Absolute,
    /// A `..` follows a name, where it may lead elsewhere than it seems to.
    UpAfterName,
    /// A NUL or a backslash.
    Character {
        /// The character.
        character: char,
    },
    /// More than [`LinkTarget::MAX_LENGTH`] bytes.
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the target of a link is empty"),
            Self::Absolute => f.write_str("the target of a link is absolute"),
            Self::UpAfterName => f.write_str("the target of a link has \"..\" after a name"),
            Self::Character { character } => write!(f, "the target of a link contains {character:?}"),
            Self::TooLong { length } => {
                write!(f, "the target of a link has {length} bytes, {} are allowed", LinkTarget::MAX_LENGTH)
            }
        }
    }
}

impl std::error::Error for LinkError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> RelativePath {
        RelativePath::parse(name).unwrap()
    }

    #[test]
    fn a_target_is_relative_and_climbs_only_at_its_beginning() {
        for text in ["a", "../a", "../../a/b", "./a//b/", "..", "...", "a/..b"] {
            assert!(LinkTarget::parse(text).is_ok(), "{text:?}");
        }
        for text in ["", "/etc", "a/../b", "../a/..", "C:x", "a\\b", "a\0"] {
            assert!(LinkTarget::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_target_is_inside_its_tree_or_outside() {
        let stays = |link, target, tree| LinkTarget::parse(target).unwrap().stays_below(&path(link), tree);
        assert!(stays("tree/a/link", "../b", 1));
        assert!(stays("tree/a/link", "..", 1));
        assert!(!stays("tree/a/link", "../../b", 1), "it leaves the tree");
        assert!(stays("tree/a/link", "../../b", 0), "but not the directory");
        assert!(!stays("tree/a/link", "../../../b", 0));
        assert!(!stays("link", "b", 1), "a link at the top has no tree around it");
        assert!(stays("link", "b", 0));
    }

    #[test]
    fn a_link_leads_where_its_text_says() {
        let resolve = |link, target| LinkTarget::parse(target).unwrap().resolve(&path(link));
        assert_eq!(resolve("a/b/link", "../c/./d"), Some(path("a/c/d")));
        assert_eq!(resolve("link", "c"), Some(path("c")));
        assert_eq!(resolve("a/link", ".."), None, "the top itself");
        assert_eq!(resolve("a/link", "../../c"), None);
    }
}
