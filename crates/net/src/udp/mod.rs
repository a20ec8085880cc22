//! UDP sockets for the driver: many datagrams a call, bound to an address and an interface, each datagram with both of
//! its addresses and its ECN mark.
//!
//! Two kinds of sockets:
//! - bound to an address of one interface: a client has one for each network it uses;
//! - bound to a wildcard address (`0.0.0.0`, `::`): a server has one for each family. A datagram then has the local
//!   address to which it was sent, and the answer leaves from there.
//!
//! An IPv6 socket never carries IPv4, so that both wildcards can share a port and an address has one form only.
//!
//! Everything here must be called within a tokio runtime with I/O enabled.
//!
//! ```
//! use manyway::udp::{BindOptions, ReceiveBuffer, UdpSocket};
//! use manyway_proto::{Ecn, FourTuple, LocalAddress, Transmit};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let local = LocalAddress { interface: 0, address: "127.0.0.1:0".parse()? };
//! let here = UdpSocket::bind(&BindOptions::new(local))?;
//! let there = UdpSocket::bind(&BindOptions::new(local))?;
//!
//! let tuple = FourTuple::udp(here.local(), there.local().address);
//! here.try_send(&Transmit { tuple, length: 10, segment: 5, ecn: Ecn::Ect0 }, b"one..two..")?;
//!
//! let mut buffer = ReceiveBuffer::new();
//! let mut lengths = Vec::new();
//! while lengths.len() < 2 {
//!     there.readable().await?;
//!     match there.try_receive(&mut buffer) {
//!         Ok(rows) => {
//!             for mut row in rows {
//!                 lengths.extend(row.datagrams().map(|datagram| datagram.len()));
//!             }
//!         }
//!         Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! assert_eq!(lengths, [5, 5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod plain;
mod receive;
mod send;
pub(crate) mod share;
mod socket;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod tests_in_namespace;
mod unreachable;

pub use receive::{ReceiveBuffer, Row, Rows};
pub use send::{SendError, SendFailure};
pub use socket::{BindError, BindOptions, BindStep, BufferSizes, Capabilities, Segmentation, UdpSocket};
pub use unreachable::Unreachable;

pub use crate::device::DeviceBinding;
