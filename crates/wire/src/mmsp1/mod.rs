//! MMSP/1 on the wire: the protocol of the thesis in clear text, completed by chapter 3 of the specification.
//!
//! - A datagram is one packet: [`Packet::decode`] checks ports, checksum and bundling, [`Blocks`] iterates over it.
//! - A packet to send: [`Header::encode`] into a [`Writer`](crate::Writer), then blocks, then [`seal`].
//! - A block that cannot be read: [`Response::to`] tells what the receiver does about it.
//! - [`Info`] is what this server puts into SYN-ACK instead of keeping it.

mod addresses;
mod block;
mod byte_stream;
mod data;
mod error_code;
mod fields;
mod fin;
mod info;
mod packet;
mod parameters;
mod ping;
mod probe;
mod probe_data;
mod report;
mod response;
mod sack;
mod serial;
mod syn;
mod syn_ack;
mod tag;

#[cfg(test)]
mod testing;

pub use addresses::Addresses;
pub use block::{Block, Blocks, SKIPPABLE};
pub use byte_stream::{BYTES, BYTES_END, StreamEnd};
pub use data::{DATA_OVERHEAD, Data, Fragment, encode_data_header};
pub use error_code::ErrorCode;
pub use fields::Field;
pub use fin::{Fin, FinAck, FinDone};
pub use info::{Info, InfoMac};
pub use packet::{HEADER_LEN, Header, MAX_PORT, Packet, PacketError, checksum, seal, travels_alone};
pub use ping::{Ping, Pong};
pub use probe::{Probe, ProbeAck};
pub use probe_data::ProbeData;
pub use report::{Cause, Causes, ErrorReport, Rst, encode_error, encode_rst};
pub use response::Response;
pub use sack::{Duplicates, Sack, SackRanges, encode_sack};
pub use serial::{Sseq, Tseq};
pub use syn::{Opening, Syn};
pub use syn_ack::SynAck;
pub use tag::Tag;
