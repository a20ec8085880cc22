//! Identifiers of the wire, each a type of its own.

use std::fmt;

/// Number of a path within its connection. Numbers ascend from 0 and are never reused.
///
/// A reused number would repeat a nonce under the same key (spec 4.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(pub u32);

impl PathId {
    /// The path on which the handshake completed.
    pub const FIRST: Self = Self(0);
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The endpoint that sent SYN.
    Client,
    /// The endpoint that answered SYN.
    Server,
}

impl Side {
    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Number of a bidirectional stream: bit 0 is its initiator (0 client, 1 server), the other bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// Makes the id of the `index`-th stream that `initiator` opens.
    pub fn new(initiator: Side, index: u64) -> Self {
        let low = match initiator {
            Side::Client => 0,
            Side::Server => 1,
        };
        Self((index << 1) | low)
    }

    /// The end that opened the stream.
    pub fn initiator(self) -> Side {
        if self.0 & 1 == 0 { Side::Client } else { Side::Server }
    }

    /// How many streams its initiator opened before it.
    pub fn index(self) -> u64 {
        self.0 >> 1
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Connection id of 0 to 20 bytes, as in QUIC's invariants (RFC 8999, section 5.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    length: u8,
    bytes: [u8; Self::MAX_LENGTH],
}

impl ConnectionId {
    /// Most bytes an id may have.
    pub const MAX_LENGTH: usize = 20;
    /// Fewest bytes of an id that an endpoint issues, or that a client invents for a server (spec 4.2).
    pub const MIN_ISSUED: usize = 8;

    /// The id without bytes.
    pub const EMPTY: Self = Self { length: 0, bytes: [0; Self::MAX_LENGTH] };

    /// Takes an id from its bytes; `None` if there are more than [`Self::MAX_LENGTH`].
    #[inline]
    pub fn from_slice(slice: &[u8]) -> Option<Self> {
        // Nearly all ids have this length, and a copy of a known length is cheaper.
        if let Ok(bytes) = <[u8; Self::MIN_ISSUED]>::try_from(slice) {
            return Some(Self::from_u64(u64::from_be_bytes(bytes)));
        }
        let length = u8::try_from(slice.len()).ok()?;
        let mut bytes = [0; Self::MAX_LENGTH];
        bytes.get_mut(..slice.len())?.copy_from_slice(slice);
        Some(Self { length, bytes })
    }

    /// Makes an id of 8 bytes.
    pub fn from_u64(value: u64) -> Self {
        let mut bytes = [0; Self::MAX_LENGTH];
        for (to, from) in bytes.iter_mut().zip(value.to_be_bytes()) {
            *to = from;
        }
        Self { length: 8, bytes }
    }

    /// The bytes of the id, and zeros behind them.
    pub fn padded(&self) -> &[u8; Self::MAX_LENGTH] {
        &self.bytes
    }

    /// The first 8 bytes as a number, short ids filled up with zeros.
    ///
    /// For an id of 8 bytes this is the inverse of [`Self::from_u64`].
    pub fn leading_u64(&self) -> u64 {
        self.bytes.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
    }

    /// The bytes of the id.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.as_slice() {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
