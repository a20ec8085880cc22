//! Content of a packet, by which its owner is notified of arrival or loss.

use std::ops::Range;

use manyway_wire::{PathId, StreamId};
use smallvec::SmallVec;

/// One item of a sent packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentContent {
    /// A DATA block of MMSP/1, with `length` bytes of its stream.
    Data { tseq: u64, stream: StreamId, length: u16 },
    /// TLS bytes of the packet's own encryption level.
    Handshake { offset: u64, length: u32 },
    /// Bytes of a stream; `end` with the FIN.
    Stream { stream: StreamId, offset: u64, length: u32, end: bool },
    /// A piece of a message; `end` with the end of the message.
    Message { stream: StreamId, key: MessageKey, offset: u32, length: u16, end: bool },
    /// A message that was given up.
    Skip { stream: StreamId, key: MessageKey },
    /// Acknowledgements of `path` up to `largest`.
    PathAck { path: PathId, largest: u64 },
    /// Connection credit.
    MaxData,
    /// Credit of a stream.
    MaxStreamData { stream: StreamId },
    /// Number of streams the peer may open.
    MaxStreams,
    /// Abandons the sending half of a stream.
    ResetStream { stream: StreamId },
    /// Asks the peer to stop sending on a stream.
    StopSending { stream: StreamId },
    /// The limit that blocks this end.
    Blocked { by: Limit },
    /// An id for the peer to use.
    NewCid { path: PathId, sequence: u64 },
    /// Retires an id of the peer.
    RetireCid { path: PathId, sequence: u64 },
    /// Advertises a local address.
    AddAddress { id: u64 },
    /// Withdraws an address.
    RemoveAddress { id: u64 },
    /// State of a path, as of `sequence`.
    PathStatus { path: PathId, sequence: u64 },
    /// The end of a path.
    PathClose { path: PathId },
    /// Highest path id the peer may use.
    PathLimit,
    /// How much the peer may have in flight on a path, as of `sequence`.
    ReceiveLimit { path: PathId, sequence: u64 },
    /// Wanted TCP connections, as of `sequence`.
    TcpConnections { sequence: u64 },
    /// The confirmation of the handshake.
    Pong,
    /// A PMTU probe of this size.
    MtuProbe { size: u16 },
}

impl SentContent {
    /// The stream of these bytes.
    pub(crate) fn stream(&self) -> Option<StreamId> {
        let (Self::Stream { stream, .. } | Self::Message { stream, .. } | Self::Data { stream, .. }) = *self
        else {
            return None;
        };
        Some(stream)
    }

    /// This and the content that was sent next as one, if both are bytes of a stream and without a gap.
    fn joined(&self, next: &Self) -> Option<Self> {
        let Self::Stream { stream, offset, length, end: false } = *self else { return None };
        let Self::Stream { stream: other, offset: start, length: further, end } = *next else { return None };
        let length = length.checked_add(further)?;
        (other == stream && start == offset + u64::from(length - further)).then_some(Self::Stream {
            stream,
            offset,
            length,
            end,
        })
    }

    /// Whether it is data of the application.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self, Self::Stream { .. } | Self::Message { .. } | Self::Data { .. })
    }

    /// The stream and the size of data that can block the head of line.
    pub(crate) fn stream_data(&self) -> Option<(StreamId, u64)> {
        if let Self::Data { stream, length, .. } = *self {
            return Some((stream, length.into()));
        }
        let Self::Stream { stream, length, .. } = *self else { return None };
        Some((stream, length.into()))
    }

    /// The message of this piece.
    pub(crate) fn message(&self) -> Option<MessageKey> {
        let Self::Message { key, .. } = *self else { return None };
        Some(key)
    }

    /// The TSEQ of a DATA block of MMSP/1.
    pub(crate) fn tseq(&self) -> Option<u64> {
        let Self::Data { tseq, .. } = *self else { return None };
        Some(tseq)
    }

    /// The bytes of a stream or of a message; the end of a message counts as one more. A DATA block is one unit.
    pub(crate) fn units(&self) -> Option<Range<u64>> {
        if let Self::Data { tseq, .. } = *self {
            return Some(tseq..tseq.saturating_add(1));
        }
        if let Self::Message { offset, length, end, .. } = *self {
            let start = u64::from(offset);
            return Some(start..start + u64::from(length) + u64::from(end));
        }
        let Self::Stream { offset, length, .. } = *self else { return None };
        Some(offset..offset + u64::from(length))
    }
}

/// Joins bytes of a stream that follow one another: what happens to them costs once for all.
pub(crate) fn in_one_piece(contents: impl Iterator<Item = SentContent>) -> impl Iterator<Item = SentContent> {
    let mut contents = contents.peekable();
    std::iter::from_fn(move || {
        let mut content = contents.next()?;
        while let Some(joined) = contents.peek().and_then(|next| content.joined(next)) {
            content = joined;
            contents.next();
        }
        Some(content)
    })
}

/// Identifies a message of a stream to the wire that sent it, in 8 bytes, so that messages do not enlarge the content
/// of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageKey(pub(crate) u64);

/// A limit of the peer that blocks this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Connection credit.
    Connection,
    /// Credit of a stream.
    Stream(StreamId),
    /// Number of streams.
    Streams,
}

/// The items of one packet; most have one or two.
pub(crate) type Contents = SmallVec<[SentContent; 2]>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_without_a_gap_are_joined() {
        let bytes = |stream, offset, length, end| SentContent::Stream {
            stream: StreamId(stream),
            offset,
            length,
            end,
        };
        let first = bytes(4, 100, 50, false);
        assert_eq!(first.joined(&bytes(4, 150, 7, true)), Some(bytes(4, 100, 57, true)));
        for other in
            [bytes(4, 151, 7, false), bytes(4, 149, 7, false), bytes(8, 150, 7, false), SentContent::MaxData]
        {
            assert_eq!(first.joined(&other), None);
        }
        let row = [first, bytes(4, 150, 7, false), bytes(4, 157, 3, true), SentContent::MaxData, first];
        let pieces = [bytes(4, 100, 60, true), SentContent::MaxData, first];
        assert_eq!(in_one_piece(row.into_iter()).collect::<Vec<_>>(), pieces);
        assert_eq!(bytes(4, 100, 50, true).joined(&bytes(4, 150, 0, false)), None);
        assert_eq!(bytes(4, 0, u32::MAX, false).joined(&bytes(4, u32::MAX.into(), 1, false)), None);
    }

    #[test]
    fn content_stays_small() {
        assert!(size_of::<SentContent>() <= 24, "{}", size_of::<SentContent>());
    }
}
