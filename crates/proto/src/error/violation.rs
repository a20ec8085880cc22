//! Violations of the peer, and their error codes.

use std::fmt;

use manyway_wire::mmsp2::ErrorCode;
use manyway_wire::{DecodeError, PathId, StreamId};

/// A violation of the protocol by the peer; it ends the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A block that cannot be read, or that was not negotiated.
    Decode(DecodeError),
    /// Reserved bits are not zero.
    ReservedBits,
    /// More bytes than the credit of a stream or of the connection permits.
    FlowControl {
        /// The stream; `None` if it was the connection's credit.
        stream: Option<StreamId>,
        /// The limit of the credit, in bytes.
        credit: u64,
        /// The offset that the bytes reached.
        offset: u64,
    },
    /// A stream beyond the number allowed.
    StreamLimit {
        /// The stream.
        stream: StreamId,
        /// How many streams the peer may open.
        allowed: u64,
    },
    /// A block that the state of the stream does not permit.
    StreamState {
        /// The stream.
        stream: StreamId,
    },
    /// Two different final sizes of one stream, or bytes beyond the final size.
    FinalSize {
        /// The stream.
        stream: StreamId,
        /// Its known size, in bytes.
        known: u64,
        /// The size that this block claims, in bytes.
        claimed: u64,
    },
    /// More gaps than the receiver remembers.
    TooManyGaps {
        /// The stream; `None` for the bytes of the TLS handshake.
        stream: Option<StreamId>,
    },
    /// A message that breaks the rules.
    Message {
        /// The stream.
        stream: StreamId,
        /// The number of the message.
        number: u64,
        /// The problem with it.
        reason: &'static str,
    },
    /// An acknowledgement of a packet that was never sent.
    AckOfUnsent {
        /// The path of the packet number.
        path: PathId,
        /// The number that was never used.
        packet_number: u64,
    },
    /// The TLS handshake failed; the alert that was sent.
    Tls {
        /// The alert's number (RFC 8446, section 6).
        alert: u8,
        /// The reason from TLS.
        reason: String,
    },
    /// The TLS parameters contradict the packets, or are out of range.
    Parameters {
        /// The contradiction.
        reason: &'static str,
    },
    /// A block that is not permitted in this kind of packet, or not from this end.
    UnexpectedBlock {
        /// Its type on the wire.
        kind: u8,
    },
    /// A connection id or path id out of order or out of range.
    ConnectionId {
        /// The path that the id is for.
        path: PathId,
        /// The rule that was broken.
        reason: &'static str,
    },
    /// The peer broke the rules of key update.
    KeyUpdate,
    /// More packets failed to decrypt than the cipher permits.
    IntegrityLimit,
    /// A violation of MMSP/1, whose RST has this code (rule 3.71 of the specification).
    Mmsp1 {
        /// The code of RST.
        code: u16,
        /// What was wrong.
        reason: &'static str,
    },
    /// A key sealed as many packets as its cipher permits, and the peer acknowledged none of them.
    KeyLimitReached,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(f),
            Self::ReservedBits => write!(f, "reserved bits of a header are set"),
            Self::FlowControl { stream: Some(stream), credit, offset } => {
                write!(f, "stream {stream} went to {offset}, its credit ends at {credit}")
            }
            Self::FlowControl { stream: None, credit, offset } => {
                write!(f, "the streams together went to {offset}, the connection's credit ends at {credit}")
            }
            Self::StreamLimit { stream, allowed } => {
                write!(f, "stream {stream} was opened, {allowed} streams are allowed")
            }
            Self::StreamState { stream } => write!(f, "stream {stream} is not in a state for this block"),
            Self::FinalSize { stream, known, claimed } => {
                write!(f, "stream {stream} ended at {known}, now it is said to reach {claimed}")
            }
            Self::TooManyGaps { stream: Some(stream) } => write!(f, "too many gaps in stream {stream}"),
            Self::TooManyGaps { stream: None } => write!(f, "too many gaps in the handshake bytes"),
            Self::Message { stream, number, reason } => {
                write!(f, "message {number} of stream {stream}: {reason}")
            }
            Self::AckOfUnsent { path, packet_number } => {
                write!(f, "packet {packet_number} of path {path} was acknowledged but never sent")
            }
            Self::Tls { alert, reason } => write!(f, "{reason} (TLS alert {alert})"),
            Self::Parameters { reason } => write!(f, "parameters refused: {reason}"),
            Self::UnexpectedBlock { kind } => write!(f, "a block of type {kind:#04x} has no place here"),
            Self::ConnectionId { path, reason } => write!(f, "connection ids of path {path}: {reason}"),
            Self::KeyUpdate => write!(f, "keys were changed too early"),
            Self::Mmsp1 { code, reason } => write!(f, "{reason} (code {code:#06x})"),
            Self::IntegrityLimit => write!(f, "too many packets failed to open"),
            Self::KeyLimitReached => {
                write!(f, "AEAD limit of a key reached, and the peer acknowledged no packet of it")
            }
        }
    }
}

impl Violation {
    /// The code for a peer over MMSP/2.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Decode(error) => ErrorCode::from(error),
            Self::FlowControl { .. } => ErrorCode::FLOW_CONTROL,
            Self::StreamLimit { .. } => ErrorCode::STREAM_LIMIT,
            Self::StreamState { .. } => ErrorCode::STREAM_STATE,
            Self::FinalSize { .. } => ErrorCode::FINAL_SIZE,
            Self::Tls { alert, .. } => ErrorCode::from_alert(*alert),
            Self::Parameters { .. } => ErrorCode::PARAMETERS,
            Self::ConnectionId { .. } => ErrorCode::CONNECTION_ID,
            Self::KeyUpdate => ErrorCode::KEY_UPDATE,
            Self::IntegrityLimit | Self::KeyLimitReached => ErrorCode::AEAD_LIMIT,
            Self::ReservedBits
            | Self::TooManyGaps { .. }
            | Self::Message { .. }
            | Self::AckOfUnsent { .. }
            | Self::Mmsp1 { .. }
            | Self::UnexpectedBlock { .. } => ErrorCode::PROTOCOL,
        }
    }
}

impl std::error::Error for Violation {}
