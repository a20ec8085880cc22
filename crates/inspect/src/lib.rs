//! Describes captured packets of MMSP.
//!
//! - [`capture::read`] finds the UDP datagrams in a pcap or pcapng file, or in hex text.
//! - [`Inspector`] follows the connections in them and decrypts what it can: Initial packets always, all others with
//!   the secrets of a [`KeyLog`] (`SSLKEYLOGFILE`).
//! - [`clear_packets`] describes the packets of a datagram of MMSP/1, which is in clear text.
//! - [`blocks`] lists the blocks of a decrypted packet with their offsets.
//!
//! Everything here reads untrusted bytes: nothing panics, and memory is bounded for any file.
//!
//! ```
//! use std::ops::ControlFlow;
//! use manyway_inspect::{Inside, Inspector, KeyLog, capture};
//!
//! // A short header, of a connection that is not in the capture.
//! let text = "40 0102030405060708 00112233445566778899aabbccddeeff00112233";
//! let mut inspector = Inspector::new(KeyLog::default());
//! let mut seen = 0;
//! capture::read(text.as_bytes(), &mut |item| {
//!     if let capture::Item::Datagram(datagram) = item {
//!         for packet in inspector.datagram(datagram.payload) {
//!             assert!(matches!(packet.inside, Inside::Sealed(_)));
//!             seen += 1;
//!         }
//!     }
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(seen, 1);
//! # Ok::<(), capture::CaptureError>(())
//! ```
#![forbid(unsafe_code)]

mod blocks;
pub mod capture;
mod clear;
mod inspector;
mod key_log;
mod keys;
mod numbers;
mod open;
mod packet;
mod session;

pub use blocks::{BlockAt, BlocksAt, blocks, handshake_message};
pub use clear::{ClearBlockAt, ClearBlocksAt, ClearPacket, clear_packet, clear_packets};
pub use inspector::Inspector;
pub use key_log::{KeyLog, Label};
pub use packet::{Inside, Level, Opened, Packet, Sealed};
