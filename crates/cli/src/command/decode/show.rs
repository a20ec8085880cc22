//! What every output format prints.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_inspect::capture::Skip;
use manyway_inspect::{ClearPacket, Packet};

/// The context of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Number of its frame.
    pub(super) number: u64,
    /// Its timestamp, since 1970.
    pub(super) time: Option<Duration>,
    /// The same since the first frame.
    pub(super) elapsed: Option<Duration>,
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    /// Bytes of its datagram that the capture lacks.
    pub(super) missing: usize,
}

/// An output format.
pub(super) trait Show {
    fn packet(&mut self, place: &Place, packet: &Packet, bytes: &[u8]) -> io::Result<()>;
    /// Prints a packet of MMSP/1.
    fn clear_packet(&mut self, place: &Place, packet: &ClearPacket<'_>) -> io::Result<()>;
    fn skipped(&mut self, place: &Place, why: Skip) -> io::Result<()>;
    /// Prints bare blocks.
    fn blocks(&mut self, payload: &[u8]) -> io::Result<()>;
    fn end(&mut self, summary: &Summary) -> io::Result<()>;
}

/// The counts of a capture.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Summary {
    pub(super) packets: u64,
    pub(super) malformed: u64,
    /// Packets that a key log would decrypt.
    pub(super) without_secret: u64,
    pub(super) skipped: u64,
    pub(super) has_keys: bool,
}

impl Summary {
    /// Number of printed lines of packets and frames.
    pub(super) fn shown(&self) -> u64 {
        self.packets + self.skipped
    }
}
