//! What is kept of packets: the content of sent ones, the numbers of received ones with the replay window, when to
//! acknowledge, and the encryption level that observers are told.

pub(crate) mod ack_policy;
pub(crate) mod content;
pub(crate) mod encryption_level;
pub(crate) mod received;
pub(crate) mod replay;

/// The size of datagrams that every path must carry, in bytes (spec 6.33).
pub(crate) const BASE_DATAGRAM: u16 = 1200;
