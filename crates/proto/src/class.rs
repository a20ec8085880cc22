//! Classes of data, which determine its order and the effort spent on it.

use std::fmt;

/// The class of a stream or message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Class {
    /// May wait for everything else: sent only on free paths, with a queue of about 25 ms (spec 8.44).
    Background,
    /// Maximum throughput; the default.
    #[default]
    Bulk,
    /// A few urgent bytes: a lower delay is worth some duplicates.
    Interactive,
    /// Worthless after its deadline.
    Deadline,
}

impl Class {
    /// Every class, the least urgent first.
    pub const ALL: [Self; 4] = [Self::Background, Self::Bulk, Self::Interactive, Self::Deadline];

    /// The word for it, in settings and on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Bulk => "bulk",
            Self::Interactive => "interactive",
            Self::Deadline => "deadline",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
