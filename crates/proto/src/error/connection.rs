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

/// Why a packet was not delivered, according to a host or router (ICMP), or to this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undelivered {
    /// The host is reachable, and no program listens at the port.
    PortClosed,
    /// The host or its network is unreachable, or a firewall forbids it.
    Unreachable,
    /// On the local network nothing answers for the host, or for the router to it.
    NoNeighbour,
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
        /// The application's text, at most 512 bytes on the wire. In that of the peer, control characters are replaced.
        reason: String,
    },
    /// The peer violated the protocol.
    Violation(crate::Violation),
    /// The peer reports that this end violated the protocol, or gave up for a reason of its own.
    AbortedByPeer {
        /// An [error code](crate::Violation::code) of the protocol, or 0x1000 plus the application's.
        code: u64,
        /// Text for users, at most 512 bytes on the wire, in which control characters are replaced.
        reason: String,
    },
    /// The peer has lost the state of the connection.
    Reset,
    /// No answer to the handshake from any address.
    ConnectTimeout,
    /// Reports about every address of the peer say that handshake packets were not delivered.
    Unreachable {
        /// The address of the last report that a host or router gave, or else of the last one.
        remote: SocketAddr,
        /// The reason of that report.
        undelivered: Undelivered,
    },
    /// No packet arrived for the agreed time.
    IdleTimeout,
    /// No path worked for too long.
    NoPath,
    /// The peer supports only other versions of the protocol.
    VersionMismatch {
        /// The versions that the peer supports.
        offered: Vec<u32>,
    },
    /// The other end is not the expected one, or does not accept this end's key.
    Authentication {
        /// The problem with the key or the certificate.
        reason: String,
        /// The key that the server showed, if it is not the expected one.
        shown: Option<PublicKey>,
    },
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { by: ClosedBy::Us, .. } => write!(f, "closed by this end"),
            Self::Closed { by: ClosedBy::Peer, code, reason } | Self::AbortedByPeer { code, reason } => {
                f.write_str("closed by the peer")?;
                // An application without codes of its own closes with 0; codes of the protocol are hexadecimal in its
                // specification.
                match code {
                    0 => {}
                    1..=0xff => write!(f, " with code {code}")?,
                    code => write!(f, " with code {code:#x}")?,
                }
                if reason.is_empty() { Ok(()) } else { write!(f, ": {reason}") }
            }
            Self::Violation(violation) => write!(f, "the peer broke the protocol: {violation}"),
            Self::Reset => write!(f, "the peer has forgotten this connection (was it restarted?)"),
            Self::ConnectTimeout => write!(f, "no answer from any address of the peer"),
            Self::Unreachable { remote, undelivered: Undelivered::PortClosed } => {
                write!(f, "nothing listens at {remote}: its host says that this UDP port is closed")
            }
            Self::Unreachable { remote, undelivered: Undelivered::Unreachable } => {
                write!(f, "{remote} is unreachable: a host or router on the way says so")
            }
            Self::Unreachable { remote, undelivered: Undelivered::NoNeighbour } => {
                write!(f, "{remote} is unreachable: nothing on the local network answers for it")
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

/// The text of a peer as one line for users: what is not UTF-8 and what would control a terminal is replaced.
pub(crate) fn text_of_peer(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .map(|letter| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_by_the_peer_has_one_form_and_omits_a_code_of_zero() {
        let reason = || "interrupted".to_owned();
        let closed =
            |code| ConnectionError::Closed { by: ClosedBy::Peer, code, reason: reason() }.to_string();
        let aborted = |code| ConnectionError::AbortedByPeer { code, reason: reason() }.to_string();
        for text in [closed(0), aborted(0)] {
            assert_eq!(text, "closed by the peer: interrupted");
        }
        assert_eq!(closed(7), "closed by the peer with code 7: interrupted");
        assert_eq!(aborted(0x1002), "closed by the peer with code 0x1002: interrupted");
        let silent = ConnectionError::Closed { by: ClosedBy::Peer, code: 0, reason: String::new() };
        assert_eq!(silent.to_string(), "closed by the peer");
    }

    #[test]
    fn the_text_of_a_peer_controls_no_terminal() {
        assert_eq!(
            text_of_peer(b"\x1b[2Jgone\r\n\xffgr\xc3\xbcn"),
            "\u{fffd}[2Jgone\u{fffd}\u{fffd}\u{fffd}grün"
        );
    }
}
