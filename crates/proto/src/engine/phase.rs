//! How far a connection has come, as far as paths have to know: the steps of its close are the wire's.

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The peer is not known yet.
    Handshaking,
    /// The application may use streams.
    Established,
    /// One of the ends closes, and packets with content are still exchanged.
    Closing,
    /// The end is known; late packets may be answered.
    Draining,
    /// Nothing is left.
    Closed,
}

impl Phase {
    pub(crate) fn is_handshaking(self) -> bool {
        self == Self::Handshaking
    }

    /// Whether streams may be used by the application.
    pub(crate) fn is_established(self) -> bool {
        self == Self::Established
    }

    /// Whether packets with content may still be exchanged.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Handshaking | Self::Established | Self::Closing)
    }
}
