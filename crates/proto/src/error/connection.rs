//! Why a connection ended.

use std::fmt;
use std::net::SocketAddr;

use crate::identity::PublicKey;

/// Which end closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedBy {
    /// The application of this end.
    Us,
    /// The application of the other end.
    Peer,
}

/// Why a packet was not delivered, by the word of a host or router (ICMP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undelivered {
    /// The host is there, and nothing listens at the port.
    PortClosed,
    /// The host or its network is not reached, or a firewall forbids it.
    Unreachable,
}

/// The end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionError {
    /// An application closed it in order.
    Closed {
        /// The end that closed first.
        by: ClosedBy,
        /// The application's code.
        code: u64,
        /// The application's text, at most 512 bytes.
        reason: String,
    },
    /// The peer broke the protocol.
    Violation(crate::Violation),
    /// The peer says that this end broke the protocol, or gave up for a reason of its own.
    AbortedByPeer {
        /// An [error code](crate::Violation::code), or the application's.
        code: u64,
        /// Text for people, at most 512 bytes.
        reason: String,
    },
    /// The peer has forgotten the connection.
    Reset,
    /// No answer to the set-up on any address.
    ConnectTimeout,
    /// Hosts or routers say of every address of the peer that packets of the set-up were not delivered.
    Unreachable {
        /// The address that was told of last.
        remote: SocketAddr,
        /// What was said of it.
        undelivered: Undelivered,
    },
    /// Nothing was heard for the agreed time.
    IdleTimeout,
    /// No path was left for too long.
    NoPath,
    /// The peer speaks other versions of the protocol only.
    VersionMismatch {
        /// The versions that the peer names.
        offered: Vec<u32>,
    },
    /// The other end is not who it should be, or does not accept this end's key.
    Authentication {
        /// What is wrong with the key or the certificate.
        reason: String,
        /// The key that the server showed, if it is not the expected one.
        shown: Option<PublicKey>,
    },
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { by: ClosedBy::Us, .. } => write!(f, "closed by this end"),
            Self::Closed { by: ClosedBy::Peer, code, reason } if reason.is_empty() => {
                write!(f, "closed by the peer with code {code}")
            }
            Self::Closed { by: ClosedBy::Peer, code, reason } => {
                write!(f, "closed by the peer with code {code}: {reason}")
            }
            Self::Violation(violation) => write!(f, "the peer broke the protocol: {violation}"),
            Self::AbortedByPeer { code, reason } => {
                write!(f, "the peer gave up with code {code:#x}: {reason}")
            }
            Self::Reset => write!(f, "the peer has forgotten this connection (was it restarted?)"),
            Self::ConnectTimeout => write!(f, "no answer to the set-up from any address of the peer"),
            Self::Unreachable { remote, undelivered: Undelivered::PortClosed } => {
                write!(f, "nothing listens at {remote}: its host says that this UDP port is closed")
            }
            Self::Unreachable { remote, undelivered: Undelivered::Unreachable } => {
                write!(f, "{remote} is unreachable: a host or router on the way says so")
            }
            Self::IdleTimeout => write!(f, "nothing was heard from the peer for too long"),
            Self::NoPath => write!(f, "no working path to the peer for too long"),
            Self::VersionMismatch { offered } => {
                write!(f, "the peer speaks other versions of the protocol:")?;
                offered.iter().try_for_each(|version| write!(f, " {version:#010x}"))
            }
            Self::Authentication { reason, .. } => write!(f, "authentication failed: {reason}"),
        }
    }
}

impl std::error::Error for ConnectionError {}
