//! Which parts of a tree are sent.

use std::fmt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::codec::{CodecError, Fields, put_text};
use crate::failure::{Failure, Reason};
use crate::name::RelativePath;

/// What happens to symbolic links below the directories that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Links {
    /// They are sent as links, unless they lead out of the tree; those are left out.
    #[default]
    Keep,
    /// What they lead to is sent in their place. A server follows none out of the directory that it serves.
    Follow,
    /// They are left out.
    Skip,
}

/// Which parts of a tree are sent. Default: everything, links as links.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// What happens to symbolic links.
    pub links: Links,
    /// What is left out by its name.
    pub exclude: Excludes,
}

/// Patterns of names that are left out.
///
/// `*` and `?` match anything but a slash, `**` also slashes, `[…]` one of some characters, `{a,b}` alternatives. A
/// pattern matches a name that ends with it (`*.tmp`, `build`, `a/b`); one that begins with a slash matches only from
/// the top. One that ends with a slash matches only directories. The content of an excluded directory is excluded too.
#[derive(Debug, Clone, Default)]
pub struct Excludes {
    patterns: Vec<String>,
    any: GlobSet,
    directories: GlobSet,
}

impl Excludes {
    /// Most patterns.
    pub const MAX_PATTERNS: usize = 64;
    /// Most bytes of one pattern.
    pub const MAX_LENGTH: usize = 256;

    /// Reads patterns.
    ///
    /// # Errors
    /// There are too many, one is too long, or one is invalid; the text says what is wrong.
    pub fn new<I: IntoIterator<Item = S>, S: Into<String>>(patterns: I) -> Result<Self, Failure> {
        let patterns: Vec<String> = patterns.into_iter().map(Into::into).collect();
        if patterns.len() > Self::MAX_PATTERNS {
            let text = format!("{} patterns, {} are allowed", patterns.len(), Self::MAX_PATTERNS);
            return Err(Failure::with_text(Reason::Limit, text));
        }
        let (mut any, mut directories) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in &patterns {
            if pattern.len() > Self::MAX_LENGTH {
                let text = format!("a pattern of {} bytes, {} are allowed", pattern.len(), Self::MAX_LENGTH);
                return Err(Failure::with_text(Reason::Limit, text));
            }
            let name = pattern.trim_end_matches('/');
            if name.is_empty() {
                return Err(Failure::with_text(Reason::Malformed, "an empty pattern of names"));
            }
            let anchored = match name.strip_prefix('/') {
                Some(name) => name.to_owned(),
                None => format!("**/{name}"),
            };
            let glob = GlobBuilder::new(&anchored)
                .literal_separator(true)
                .build()
                .map_err(|error| wrong(pattern, &error))?;
            if name.len() == pattern.len() {
                any.add(glob)
            } else {
                directories.add(glob)
            };
        }
        let built = |set: GlobSetBuilder| set.build().map_err(|error| wrong("", &error));
        Ok(Self { any: built(any)?, directories: built(directories)?, patterns })
    }

    /// The patterns as they were written.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether a name is left out.
    pub(crate) fn fits(&self, name: &RelativePath, is_directory: bool) -> bool {
        self.any.is_match(name.as_str()) || is_directory && self.directories.is_match(name.as_str())
    }
}

fn wrong(pattern: &str, error: &globset::Error) -> Failure {
    let text = format!("{pattern:?} is no pattern of names: {}", error.kind());
    Failure::with_text(Reason::Malformed, text)
}

impl Rules {
    // transfer 7.5
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(match self.links {
            Links::Keep => 0,
            Links::Follow => 1,
            Links::Skip => 2,
        });
        let patterns = self.exclude.patterns();
        out.extend_from_slice(&u16::try_from(patterns.len()).unwrap_or(u16::MAX).to_be_bytes());
        for pattern in patterns {
            put_text(out, pattern);
        }
    }

    pub(crate) fn decode(fields: &mut Fields<'_>) -> Result<Self, CodecError> {
        let links = match fields.u8("links")? {
            0 => Links::Keep,
            1 => Links::Follow,
            2 => Links::Skip,
            value => return Err(CodecError::Value { field: "links", value: value.into() }),
        };
        let count = usize::from(fields.u16("number of patterns")?);
        if count > Excludes::MAX_PATTERNS {
            let (length, limit) = (count, Excludes::MAX_PATTERNS);
            return Err(CodecError::TooLong { field: "list of patterns", length, limit });
        }
        let mut patterns = Vec::new();
        for _ in 0..count {
            patterns.push(fields.text("pattern", Excludes::MAX_LENGTH)?.to_owned());
        }
        let exclude =
            Excludes::new(patterns).map_err(|_| CodecError::Value { field: "pattern", value: 0 })?;
        Ok(Self { links, exclude })
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.links == other.links && self.exclude.patterns == other.exclude.patterns
    }
}

impl Eq for Rules {}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Follow => "follow",
            Self::Skip => "skip",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str, is_directory: bool) -> bool {
        let name = RelativePath::parse(name).unwrap();
        Excludes::new([pattern]).unwrap().fits(&name, is_directory)
    }

    #[test]
    fn a_pattern_matches_names_that_end_with_it() {
        for (pattern, name) in [
            ("*.tmp", "tree/a.tmp"),
            ("build", "tree/deep/build"),
            ("deep/*.o", "tree/deep/x.o"),
            ("/tree/a", "tree/a"),
            ("**/x/**", "tree/x/y/z"),
            ("{a,b}.[ch]", "tree/b.c"),
        ] {
            assert!(fits(pattern, name, false), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*.tmp", "tree/a.tmp.x"), ("build", "tree/builds"), ("/a", "tree/a"), ("t*a", "tree/a")]
        {
            assert!(!fits(pattern, name, false), "{pattern} {name}");
        }
        assert!(fits("build/", "tree/build", true) && !fits("build/", "tree/build", false));
    }

    #[test]
    fn an_invalid_pattern_is_refused_and_named() {
        let failure = Excludes::new(["a[b"]).unwrap_err();
        assert!(failure.to_string().contains("a[b"), "{failure}");
        assert!(Excludes::new(vec!["x"; 65]).is_err() && Excludes::new(["x".repeat(257)]).is_err());
    }
}
