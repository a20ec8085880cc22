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

/// What carries the packets of a path between its two addresses.
///
/// The carrier is part of the address of a path ([`FourTuple`]): a TCP connection and UDP between the same two
/// addresses are two paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Carrier {
    /// UDP: each datagram stands alone, and may be lost, reordered, or too large for the path.
    #[default]
    Udp,
    /// A TCP connection: a stream of records (spec 4.24) that arrive in order or not at all. The system retransmits
    /// them and controls congestion; what it knows of the path comes as [`CarrierFigures`](crate::CarrierFigures).
    Tcp,
}

impl Carrier {
    /// Whether packets travel as datagrams. Only then do these apply: the amplification limit, the search for the
    /// datagram size, padding, batches of equal size, ECN, loss detection, and congestion control of this end.
    pub const fn is_datagram(self) -> bool {
        match self {
            Self::Udp => true,
            Self::Tcp => false,
        }
    }
}

impl fmt::Display for Carrier {
    /// Writes `udp` or `tcp`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        })
    }
}

/// The address of a path: the addresses of both ends, and the carrier between them.
///
/// ```
/// use manyway_proto::{FourTuple, LocalAddress};
///
/// let local = LocalAddress { interface: 2, address: "10.0.0.1:4455".parse().unwrap() };
/// let remote = "10.0.0.2:4455".parse().unwrap();
/// let (udp, tcp) = (FourTuple::udp(local, remote), FourTuple::tcp(local, remote));
/// assert_ne!(udp, tcp);
/// assert_eq!(udp.to_string(), "10.0.0.1:4455%2 -> 10.0.0.2:4455");
/// assert_eq!(tcp.to_string(), "10.0.0.1:4455%2 -> 10.0.0.2:4455 (tcp)");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FourTuple {
    /// This end.
    pub local: LocalAddress,
    /// The other end.
    pub remote: SocketAddr,
    /// What carries packets between them.
    pub carrier: Carrier,
}

impl FourTuple {
    /// UDP between two addresses.
    pub const fn udp(local: LocalAddress, remote: SocketAddr) -> Self {
        Self { local, remote, carrier: Carrier::Udp }
    }

    /// A TCP connection between two addresses.
    pub const fn tcp(local: LocalAddress, remote: SocketAddr) -> Self {
        Self { local, remote, carrier: Carrier::Tcp }
    }

    /// Whether packets travel as datagrams here ([`Carrier::is_datagram`]).
    pub const fn is_datagram(&self) -> bool {
        self.carrier.is_datagram()
    }

    /// Whether the path between these addresses may be another one than that between `other`: the hosts, the interface
    /// or the carrier differ. A NAT that only changed the port leaves the path as it is.
    pub(crate) fn leads_elsewhere(&self, other: &Self) -> bool {
        let hosts = |tuple: &Self| {
            (tuple.local.interface, tuple.local.address.ip(), tuple.remote.ip(), tuple.carrier)
        };
        hosts(self) != hosts(other)
    }
}

impl fmt::Display for FourTuple {
    /// Writes both addresses, and the carrier unless it is UDP.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.local, self.remote)?;
        match self.carrier {
            Carrier::Udp => Ok(()),
            carrier @ Carrier::Tcp => write!(f, " ({carrier})"),
        }
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

/// What to send in one call; its bytes are in the buffer passed to [`poll_transmit`](crate::Endpoint::poll_transmit).
///
/// On a datagram carrier these are one or more datagrams of equal size, on a stream carrier one record: the driver
/// writes its length ([`Records::prefix`](crate::Records::prefix)) and the record to the stream, all or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// Source and destination.
    pub tuple: FourTuple,
    /// Bytes in the buffer.
    pub length: usize,
    /// Size of every datagram except the last, which may be shorter. Equal to `length` for a single one, and
    /// for a record.
    pub segment: usize,
    /// The ECN mark for the IP header.
    pub ecn: Ecn,
}
