//! Phase of a connection, as far as paths depend on it: the wire has the steps of the close.

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The peer is not authenticated yet.
    Handshaking,
    /// The application may use streams.
    Established,
    /// One of the ends closes, and packets with content are still exchanged.
    Closing,
    /// The outcome is known; late packets may be answered.
    Draining,
    /// The connection has ended.
    Closed,
}

impl Phase {
    pub(crate) fn is_handshaking(self) -> bool {
        self == Self::Handshaking
    }

    /// Whether the application may use streams.
    pub(crate) fn is_established(self) -> bool {
        self == Self::Established
    }

    /// Whether packets with content may still be exchanged.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Handshaking | Self::Established | Self::Closing)
    }
}
