//! Which keys protect a packet.

/// The encryption level of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EncryptionLevel {
    /// Keys that any observer of the first packet can derive: integrity against accidents, no secrecy.
    Initial,
    /// Keys of the TLS handshake.
    Handshake,
    /// Keys after the handshake; the only ones with key updates and path ids.
    OneRtt,
}
