//! MMSP/2 on the wire: packets, blocks and TLS parameters.
//!
//! - A datagram: [`decode_protected`] reads the header of its first packet, the owner of the keys decrypts it,
//!   [`Blocks`] iterates over its payload.
//! - A packet to send: [`LongHeader`] or [`encode_short`] into a [`Writer`](crate::Writer), then blocks, each by its
//!   own `encode` after asking `encoded_len`. Each block has a file of its own (spec section 5).
//! - The TLS extension: [`Parameters`].

mod ack_now;
mod add_address;
mod block;
mod blocked;
mod close;
mod crypto;
mod error_code;
mod fields;
mod header;
mod liveness;
mod max_data;
mod max_stream_data;
mod max_streams;
mod message;
mod new_cid;
pub mod packet_number;
mod padding;
mod parameters;
mod path_ack;
mod path_close;
mod path_limit;
mod path_status;
mod ping;
mod pong;
mod probe;
mod probe_ack;
mod receive_limit;
mod remove_address;
mod reset_stream;
mod retire_cid;
mod skip;
mod stop_sending;
mod stream;
mod syn;
mod syn_ack;
mod tcp_connections;

pub use ack_now::AckNow;
pub use add_address::AddAddress;
pub use block::{Block, Blocks};
pub use blocked::{Blocked, BlockedBy};
pub use close::{Close, CloseStep};
pub use crypto::{Crypto, crypto_overhead};
pub use error_code::ErrorCode;
pub use fields::Field;
pub use header::{
    HeaderForm, LengthField, LongHeader, LongKind, MIN_SEALED, ProtectedPacket, VERSION, decode_protected,
    encode_short, encode_version_list, key_phase, number_length, patch_length, reserved_bits_are_clear,
    short_destination,
};
pub use liveness::Liveness;
pub use max_data::MaxData;
pub use max_stream_data::MaxStreamData;
pub use max_streams::MaxStreams;
pub use message::{MessageData, MessageId, MessagePlace, encode_message_header, message_overhead};
pub use new_cid::NewCid;
pub use padding::Padding;
pub use parameters::Parameters;
pub use path_ack::{AckRanges, AckRangesIter, EcnCounts, PathAck, encode_path_ack};
pub use path_close::PathClose;
pub use path_limit::PathLimit;
pub use path_status::{PathAvailability, PathStatus};
pub use ping::Ping;
pub use pong::Pong;
pub use probe::Probe;
pub use probe_ack::ProbeAck;
pub use receive_limit::ReceiveLimit;
pub use remove_address::RemoveAddress;
pub use reset_stream::ResetStream;
pub use retire_cid::RetireCid;
pub use skip::{Skip, Skipped, SkippedIter, SkippedMessages, encode_skip};
pub use stop_sending::StopSending;
pub use stream::{StreamData, encode_stream_header, stream_overhead};
pub use syn::Syn;
pub use syn_ack::SynAck;
pub use tcp_connections::TcpConnections;
