//! Types at the boundary between the core and its driver.

use std::fmt;
use std::net::SocketAddr;

/// An address of this host together with the interface that owns it.
///
/// Two modems may assign the same address, so the address alone does not identify a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalAddress {
    /// The system's index of the interface, 0 if the system chooses by its routes.
    pub interface: u32,
    /// Address and port of the socket.
    pub address: SocketAddr,
}

impl LocalAddress {
    /// Whether two addresses share an interface; an address without an interface is one of its own.
    pub(crate) fn shares_interface(&self, other: &Self) -> bool {
        if self.interface == 0 || other.interface == 0 {
            self == other
        } else {
            self.interface == other.interface
        }
    }
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.interface == 0 {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}%{}", self.address, self.interface)
        }
    }
}

/// The addresses of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FourTuple {
    /// This end.
    pub local: LocalAddress,
    /// The other end.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// Whether the path between these addresses may be another one than that between `other`: the hosts or the interface
    /// differ. A NAT that only changed the port leaves the path as it is.
    pub(crate) fn leads_elsewhere(&self, other: &Self) -> bool {
        let hosts = |tuple: &Self| (tuple.local.interface, tuple.local.address.ip(), tuple.remote.ip());
        hosts(self) != hosts(other)
    }
}

impl fmt::Display for FourTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.local, self.remote)
    }
}

/// The two bits of Explicit Congestion Notification (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECN-capable transport, codepoint 1.
    Ect1,
    /// ECN-capable transport, codepoint 0.
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// ECN counts of a path's packets, since the path was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct EcnCounts {
    /// Marked ECT(0).
    pub(crate) ect0: u64,
    /// Marked ECT(1).
    pub(crate) ect1: u64,
    /// Marked "congestion experienced".
    pub(crate) ce: u64,
}

/// One or more datagrams of equal size to send in one call; they are in the buffer passed to
/// [`poll_transmit`](crate::Endpoint::poll_transmit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Source and destination.
    pub tuple: FourTuple,
    /// Bytes in the buffer.
    pub length: usize,
    /// Size of every datagram except the last, which may be shorter. Equal to `length` for a single one.
    pub segment: usize,
    /// The ECN mark for the IP header.
    pub ecn: Ecn,
}
