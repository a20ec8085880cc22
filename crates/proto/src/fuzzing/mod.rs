//! Entry points for fuzzing: established connections without a handshake, packets of any content, and internal parts.
//! Available only with the feature `fuzzing`, and not stable.

mod cookies;
mod keys;
mod recovery;
mod streams;

pub use crate::endpoint::established::EstablishedEnd;
pub use cookies::Cookies;
pub use keys::SharedKeys;
pub use recovery::{Kind, Recovery, Told};
pub use streams::{StreamPacket, Streams};
