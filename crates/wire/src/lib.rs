//! MMSP on the wire: packets and blocks as values, and back.
//!
//! Nothing here allocates what a peer asked for, and nothing panics on foreign bytes.
#![forbid(unsafe_code)]

mod ids;
mod writer;

pub use ids::{ConnectionId, Initiator, PathId, StreamId};
pub use writer::Writer;
