//! MMSP on the wire: decodes packets and blocks to values and encodes them.
//!
//! Decoding allocates nothing whose size a peer decides, and no input panics. The rules are those of
//! `docs/specification`; a comment such as `spec 5.80` cites one.
//!
//! - [`frame`]: the frame around each block, the same in every version of MMSP.
//! - [`mmsp1`]: packets and blocks of MMSP/1.
//! - [`mmsp2`]: packets, blocks and parameters of MMSP/2.
//! - [`rendezvous`]: messages to and from a rendezvous server.
#![forbid(unsafe_code)]

mod address;
mod block_list;
mod decode_error;
pub mod frame;
mod ids;
pub mod mmsp1;
pub mod mmsp2;
mod parameter;
mod reader;
pub mod rendezvous;
mod varint;
mod writer;

#[cfg(test)]
mod testing;

pub use decode_error::{DecodeError, Part};
pub use ids::{ConnectionId, PathId, Side, StreamId};
pub use reader::Reader;
pub use varint::{VARINT_MAX, varint_len};
pub use writer::Writer;
