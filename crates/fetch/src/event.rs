//! Events of a download.

use std::sync::Arc;

/// Something that happened during a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The file was found.
    Found {
        /// Its local name.
        name: &'a str,
        /// Its length in bytes, if the server tells it.
        length: Option<u64>,
    },
    /// So many bytes were there already.
    Resumed {
        /// Bytes.
        bytes: u64,
    },
    /// Bytes arrived.
    Advanced {
        /// Bytes.
        bytes: u64,
    },
    /// Something for people to know.
    Said {
        /// A sentence without a full stop.
        text: &'a str,
    },
    /// An interface failed or works again, for people.
    Interface {
        /// Its name and what happened.
        text: &'a str,
    },
}

/// Takes the events of a download.
pub type Observer = Arc<dyn Fn(Event<'_>) + Send + Sync>;
