//! Entry points for fuzzing: established connections without a handshake, packets of any content, and internal parts.
//! Available only with the feature `fuzzing`, and not stable.

mod arrivals;
mod cookies;
mod keys;
mod recovery;
mod sacks;
mod streams;

pub use crate::endpoint::established::EstablishedEnd;
pub use arrivals::{Arrivals, DataFate};
pub use cookies::Cookies;
pub use keys::SharedKeys;
pub use recovery::{Kind, Recovery, Told};
pub use sacks::{SackTold, Sacks};
pub use streams::{StreamPacket, Streams};
