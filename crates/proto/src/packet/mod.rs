//! Packets: building them, remembering what they carried, acknowledging them.

pub(crate) mod content;
