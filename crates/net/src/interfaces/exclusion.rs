//! Why an interface is not used.

use std::fmt;

use manyway_proto::{ByteCount, Date, text};

/// The smallest MTU of an interface over which a path goes: 1200 bytes and the headers of IPv4 and UDP. (An interface with
/// IPv6 has 1280 at least.)
pub(super) const LEAST_MTU: u32 = 1228;

/// An interface that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Excluded {
    /// Its name.
    pub interface: String,
    /// Why not.
    pub reason: Exclusion,
}

/// Why an interface is not used; the later in this list, the closer it came to being used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Exclusion {
    /// It was asked for but does not exist.
    NotThere,
    /// The system does not tell its interfaces, so none can be chosen or left out.
    NotListed,
    /// The user said no.
    ByUser,
    /// The user named others.
    NotNamed,
    /// The user wants addresses of the other family only.
    FamilyNotWanted,
    /// This program itself carries it.
    OwnTunnel,
    /// What may go over it is used up.
    CapReached {
        /// How much that was.
        cap: ByteCount,
        /// When there is more.
        renewal: Option<Date>,
    },
    /// Switched off.
    Down,
    /// No cable, or no radio network.
    NoCarrier,
    /// A bridge or bond has it.
    PartOf {
        /// Its name.
        whole: String,
    },
    /// It rides on other interfaces and was not named.
    Tunnel {
        /// The system's word for it.
        kind: String,
    },
    /// It carries smaller packets than every path must (spec 6.33).
    MtuTooSmall {
        /// The largest IP packet that it carries, in bytes.
        mtu: u32,
    },
    /// The peer is not on this host.
    Loopback,
    /// The peer is on this host.
    PeerIsLocal,
    /// It has no address at all.
    NoAddress,
    /// It has no address of a family that the peer has.
    NoAddressOfFamily,
    /// The system still checks whether its address is free, or no longer wants it used.
    AddressNotReady,
    /// The address is good for the link alone, and the peer is not on it.
    LinkLocal,
    /// Another address of the interface fits better.
    OtherAddress,
    /// No route leads through it to the peer.
    NoRoute,
}

impl Exclusion {
    /// Whether the interface stays out as long as the wishes of the user, the peer and the period of a cap are the same.
    /// Any other interface may come back at any moment.
    pub(crate) fn lasts(&self) -> bool {
        match self {
            Self::ByUser
            | Self::NotListed
            | Self::NotNamed
            | Self::FamilyNotWanted
            | Self::OwnTunnel
            | Self::CapReached { .. }
            | Self::Tunnel { .. }
            | Self::Loopback
            | Self::PeerIsLocal => true,
            Self::NotThere
            | Self::Down
            | Self::NoCarrier
            | Self::PartOf { .. }
            | Self::MtuTooSmall { .. }
            | Self::NoAddress
            | Self::NoAddressOfFamily
            | Self::AddressNotReady
            | Self::LinkLocal
            | Self::OtherAddress
            | Self::NoRoute => false,
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere => write!(f, "there is no such interface"),
            Self::NotListed => {
                write!(
                    f,
                    "this system does not tell its interfaces (it refuses netlink), so none can be chosen or left out"
                )
            }
            Self::ByUser => write!(f, "excluded by the user"),
            Self::NotNamed => write!(f, "other interfaces were named; add --interface for this one"),
            Self::FamilyNotWanted => write!(f, "the other address family was asked for"),
            Self::OwnTunnel => write!(f, "it is our own tunnel"),
            Self::CapReached { cap, renewal } => f.write_str(&text::cap_reached(Some(*cap), *renewal)),
            Self::Down => write!(f, "it is switched off; `ip link set dev NAME up`"),
            Self::NoCarrier => write!(f, "no carrier: no cable or no radio network"),
            Self::PartOf { whole } => write!(f, "it is a part of {whole}, which is used instead"),
            Self::Tunnel { kind } => {
                write!(f, "it is a {kind} tunnel over other interfaces; name it with --interface to use it")
            }
            Self::MtuTooSmall { mtu } => write!(
                f,
                "its MTU of {mtu} is below {LEAST_MTU}, the least that a path needs; `ip link set dev NAME mtu 1280`"
            ),
            Self::Loopback => write!(f, "loopback does not lead to another host"),
            Self::PeerIsLocal => write!(f, "the peer is on this host and reached over loopback"),
            Self::NoAddress => write!(f, "it has no address"),
            Self::NoAddressOfFamily => write!(f, "it has no address of the peer's family (IPv4 or IPv6)"),
            Self::AddressNotReady => write!(f, "its address is not ready yet or is being given up"),
            Self::LinkLocal => write!(f, "link-local: it leads no farther than the link"),
            Self::OtherAddress => write!(f, "another address of the interface is used"),
            Self::NoRoute => write!(f, "no route leads through it to the peer"),
        }
    }
}
