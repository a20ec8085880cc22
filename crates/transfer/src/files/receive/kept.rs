//! What an earlier transfer has left of a file.

use crate::directory::Identity;

/// What exists of a file from earlier.
pub(super) enum Kept {
    Nothing,
    /// A prefix; the hash covers all of it that can be used, `places` are the lengths at which the sender may resume.
    Part {
        identity: Identity,
        hasher: Box<blake3::Hasher>,
        places: Vec<u64>,
    },
    /// A whole file of the announced size.
    Whole {
        identity: Identity,
        hash: blake3::Hash,
    },
}
