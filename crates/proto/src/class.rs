//! What bytes are for: that decides what goes first and how much may be spent on them.

use std::fmt;

/// What a stream or a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Class {
    /// May wait for everything else: sent on paths that cost nothing only, with a queue of about 25 ms (spec 8.44).
    Background,
    /// As much as possible in the time there is; the default.
    #[default]
    Bulk,
    /// Few bytes for which somebody waits: a lower delay is worth some bytes sent twice.
    Interactive,
    /// Worth nothing after a moment.
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
