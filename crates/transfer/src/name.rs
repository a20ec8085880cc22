//! Names of files on the wire: relative, checked component by component.

use std::fmt;

/// The name of a file or directory below the directory that is served or written to.
///
/// Components are separated by `/`. A value of this type never leads outside: it has no `..`, no empty component, no
/// root, no drive and no backslash, and it is no name of a temporary file.
///
/// ```
/// use manyway_transfer::RelativePath;
/// assert_eq!(RelativePath::parse("video/take-1.mp4")?.last(), "take-1.mp4");
/// assert!(RelativePath::parse("../etc/passwd").is_err());
/// # Ok::<(), manyway_transfer::NameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelativePath(String);

impl RelativePath {
    /// Most bytes in a whole name.
    pub const MAX_LENGTH: usize = 4096;
    /// Most bytes in one component, the limit of common file systems.
    pub const MAX_COMPONENT: usize = 255;
    /// Most components in a name.
    pub const MAX_DEPTH: usize = 64;

    /// Checks a name from any source.
    ///
    /// # Errors
    /// The first rule that the name breaks.
    // transfer 2.1: the definition of a name
    pub fn parse(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > Self::MAX_LENGTH {
            return Err(NameError::TooLong { length: name.len(), limit: Self::MAX_LENGTH });
        }
        if name.starts_with('/') {
            return Err(NameError::Absolute);
        }
        if has_drive(name) {
            return Err(NameError::Drive);
        }
        let mut depth = 0;
        for component in name.split('/') {
            check_component(component)?;
            depth += 1;
        }
        if depth > Self::MAX_DEPTH {
            return Err(NameError::TooDeep { depth, limit: Self::MAX_DEPTH });
        }
        Ok(Self(name.to_owned()))
    }

    /// The name of `child` inside this directory.
    ///
    /// # Errors
    /// `child` is no valid component, or the whole grows too long or too deep.
    pub fn join(&self, child: &str) -> Result<Self, NameError> {
        check_component(child)?;
        Self::parse(&format!("{}/{child}", self.0))
    }

    /// The name as text, as it travels.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The components from the outermost to the innermost; at least one.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The innermost component: the name of the file itself.
    pub fn last(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The outermost component.
    pub fn first(&self) -> &str {
        self.0.split('/').next().unwrap_or(&self.0)
    }

    /// Whether it lies inside the directory of that name, at any depth.
    pub fn is_below(&self, directory: &Self) -> bool {
        self.0.strip_prefix(&directory.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The directory that holds it, `None` at the top.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }
}

/// Prints the name with control and direction characters escaped, so that a name from the peer cannot move the cursor.
impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0))
    }
}

/// A text of unknown origin with control and direction characters escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || changes_direction(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Empty, or an empty component.
    Empty,
    /// Starts with a slash.
    Absolute,
    /// Starts with a letter and a colon.
    Drive,
    /// A component is `.` or `..`.
    Dots,
    /// A NUL or a backslash.
    Character {
        /// The character.
        character: char,
    },
    /// The name is reserved for files that are still being received.
    Reserved,
    /// The name or a component has too many bytes.
    TooLong {
        /// Bytes of the name or component.
        length: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Too many components.
    TooDeep {
        /// Components of the name.
        depth: usize,
        /// Components allowed.
        limit: usize,
    },
    /// Not UTF-8.
    NotText,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty or has an empty part"),
            Self::Absolute => f.write_str("the name is absolute"),
            Self::Drive => f.write_str(
                "the name starts with a letter and a colon, which Windows takes for a drive; rename it",
            ),
            Self::Dots => f.write_str("the name has a part that is \".\" or \"..\""),
            Self::Character { character } => write!(f, "the name contains {character:?}"),
            Self::Reserved => f.write_str("the name is kept for unfinished files"),
            Self::TooLong { length, limit } => write!(f, "the name has {length} bytes, {limit} are allowed"),
            Self::TooDeep { depth, limit } => write!(f, "the name has {depth} parts, {limit} are allowed"),
            Self::NotText => f.write_str("the name is not UTF-8"),
        }
    }
}

impl std::error::Error for NameError {}

/// The name of a file until it is verified, in the directory of its final name.
// transfer 5.1
pub(crate) fn part_name(last: &str) -> String {
    let plain = format!(".{last}{PART_SUFFIX}");
    if plain.len() <= RelativePath::MAX_COMPONENT {
        return plain;
    }
    // A long name leaves no room for the suffix; its hash replaces it, always the same one.
    let hash = blake3::hash(last.as_bytes()).to_hex();
    format!(".{hash}{PART_SUFFIX}")
}

/// Whether a name is one of unfinished files.
pub(crate) fn is_part(name: &str) -> bool {
    name.starts_with('.') && name.to_ascii_lowercase().ends_with(PART_SUFFIX)
}

fn check_component(component: &str) -> Result<(), NameError> {
    match component {
        "" => return Err(NameError::Empty),
        "." | ".." => return Err(NameError::Dots),
        _ => {}
    }
    if component.len() > RelativePath::MAX_COMPONENT {
        return Err(NameError::TooLong { length: component.len(), limit: RelativePath::MAX_COMPONENT });
    }
    if let Some(character) = component.chars().find(|c| matches!(c, '\0' | '\\' | '/')) {
        return Err(NameError::Character { character });
    }
    if is_part(component) {
        return Err(NameError::Reserved);
    }
    Ok(())
}

pub(crate) fn has_drive(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic()) && characters.next() == Some(':')
}

/// Unicode characters that reorder text on a screen.
fn changes_direction(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

const PART_SUFFIX: &str = ".manyway-part";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn names_that_lead_outside_are_refused() {
        for name in [
            "",
            "/",
            "/etc",
            "..",
            ".",
            "a/..",
            "../a",
            "a/../b",
            "a/./b",
            "a//b",
            "a/",
            "C:x",
            "c:/x",
            "C:\\x",
            "a\\b",
            "\\\\host\\share",
            "a\0b",
        ] {
            assert!(RelativePath::parse(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_starts_as_a_drive_is_not_called_absolute() {
        let error = RelativePath::parse("C:drive.txt").unwrap_err();
        assert_eq!(error, NameError::Drive);
        assert!(error.to_string().contains("Windows") && error.to_string().contains("rename"), "{error}");
    }

    #[test]
    fn names_of_unfinished_files_are_refused() {
        assert_eq!(RelativePath::parse(".film.mp4.manyway-part"), Err(NameError::Reserved));
        assert_eq!(RelativePath::parse("d/.FILM.MANYWAY-PART/x"), Err(NameError::Reserved));
        assert!(RelativePath::parse("notes.manyway-part").is_ok());
    }

    #[test]
    fn unusual_but_harmless_names_are_accepted() {
        for name in ["...", "..a", "a..", " ", "ab:c", "-rf", "ü/λ/名", "\u{ff0e}\u{ff0e}", "new\nline"] {
            assert!(RelativePath::parse(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn too_long_and_too_deep_names_are_refused() {
        assert!(RelativePath::parse(&"x".repeat(255)).is_ok());
        assert!(RelativePath::parse(&"x".repeat(256)).is_err());
        assert!(RelativePath::parse(&["x"; 64].join("/")).is_ok());
        assert!(RelativePath::parse(&["x"; 65].join("/")).is_err());
    }

    #[test]
    fn a_name_from_the_peer_cannot_move_the_cursor() {
        let name = RelativePath::parse("a\u{1b}[2Jb\u{202e}c").unwrap();
        assert_eq!(name.to_string(), "a\\u{1b}[2Jb\\u{202e}c");
    }

    #[test]
    fn the_part_name_always_fits_into_a_component() {
        for length in [1, 200, 241, 242, 255] {
            assert!(part_name(&"x".repeat(length)).len() <= 255);
        }
        assert_eq!(part_name("a"), ".a.manyway-part");
    }

    proptest! {
        #[test]
        fn an_accepted_name_never_leads_outside(name in "([a.]{0,3}[/\\\\:\0]?){0,6}|\\PC*") {
            if let Ok(path) = RelativePath::parse(&name) {
                prop_assert!(Path::new(path.as_str()).components().all(|c| matches!(c, Component::Normal(_))));
                prop_assert_eq!(Path::new(path.as_str()).components().count(), path.components().count());
            }
        }
    }
}
