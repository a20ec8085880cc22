//! MMSP on the wire: packets and blocks as values, and back.
//!
//! Nothing here allocates what a peer asked for, and nothing panics on foreign bytes. The rules are those of
//! `docs/specification`; a comment such as `spec 5.80` cites one.
//!
//! - A datagram: [`decode_protected`] reads the header of its first packet, whoever holds the keys opens it,
//!   [`Blocks`] walks over its inside.
//! - A packet to send: [`LongHeader`] or [`encode_short`] into a [`Writer`], then blocks, each by its own
//!   `encode` after asking `encoded_len`.
//! - The TLS extension: [`Parameters`].
//! - To and from a rendezvous server: [`rendezvous::Message`].
#![forbid(unsafe_code)]

mod address;
mod block;
mod decode_error;
mod error_code;
mod fields;
mod header;
mod ids;
mod mmsp2;
pub mod packet_number;
mod parameter;
mod parameters;
mod reader;
pub mod rendezvous;
mod varint;
mod writer;

#[cfg(test)]
mod testing;

pub use block::{BLOCK_HEADER_LEN, Block, Blocks, encode_padding};
pub use decode_error::{DecodeError, Part};
pub use error_code::ErrorCode;
pub use fields::Field;
pub use header::{
    HeaderForm, LengthField, LongHeader, LongKind, MIN_SEALED, ProtectedPacket, VERSION, decode_protected,
    encode_short, encode_version_list, key_phase, number_length, patch_length, reserved_bits_are_clear,
    short_header_len,
};
pub use ids::{ConnectionId, Initiator, PathId, StreamId};
pub use mmsp2::{
    AckNow, AckRanges, AckRangesIter, AddAddress, Blocked, BlockedBy, Close, CloseStep, EcnCounts,
    HandshakeBytes, Liveness, MessageData, MessageId, MessagePlace, NewCid, Pad, PathAck, PathAvailability,
    PathClose, PathLimit, PathStatus, Ping, Pong, Probe, ProbeAck, RemoveAddress, RetireCid, Skip, Skipped,
    SkippedIter, SkippedMessages, StreamData, StreamLimit, StreamReset, StreamStop, StreamWindow, Syn,
    SynAck, Window, encode_message_header, encode_path_ack, encode_skip, encode_stream_header,
    handshake_overhead, message_overhead, stream_overhead,
};
pub use parameters::Parameters;
pub use reader::Reader;
pub use varint::{VARINT_MAX, varint_len};
pub use writer::Writer;
