//! Ways in for fuzzing: established connections without a handshake, packets of any content, and the parts that
//! nobody outside sees. Only there with the feature `fuzzing`; nothing of it is stable.

mod cookies;
mod keys;
mod recovery;
mod streams;

pub use crate::endpoint::established::EstablishedEnd;
pub use cookies::Cookies;
pub use keys::SharedKeys;
pub use recovery::{Kind, Recovery, Told};
pub use streams::{StreamPacket, Streams};
