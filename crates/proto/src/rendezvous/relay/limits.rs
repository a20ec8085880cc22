//! What a rendezvous server keeps and relays, and what it has done.

use std::time::Duration;

use manyway_units::{ByteCount, Rate};

/// Limits of a [`Relay`](super::Relay).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayLimits {
    /// Connections, each about 600 bytes. Default 32 768, at least 1.
    pub tokens: usize,
    /// Connections that one network (/24 of IPv4, /56 of IPv6) registered. Default 4096, at least 1.
    pub tokens_of_network: usize,
    /// Lifetime after the last request of either end. Default 3 min.
    pub lifetime: Duration,
    /// Mailboxes, each about 1000 bytes. Default 4096, at least 1.
    pub mailboxes: usize,
    /// Mailboxes that one network opened. Default 64, at least 1.
    pub mailboxes_of_network: usize,
    /// Lifetime of a mailbox. Default 1 h.
    pub mailbox_lifetime: Duration,
    /// Whether it also relays packets between two ends that met by a code, and how many. Default `None`: it does not.
    pub forwarding: Option<ForwardLimits>,
}

impl Default for RelayLimits {
    fn default() -> Self {
        Self {
            tokens: 32_768,
            tokens_of_network: 4096,
            lifetime: Duration::from_secs(180),
            mailboxes: 4096,
            mailboxes_of_network: 64,
            mailbox_lifetime: Duration::from_secs(3600),
            forwarding: None,
        }
    }
}

/// Counters of a [`Relay`](super::Relay).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RelayCounters {
    /// Requests answered.
    pub answered: u64,
    /// The part of them that returned addresses of the other end.
    pub matched: u64,
    /// Requests answered with a cookie.
    pub retried: u64,
    /// Datagrams that were no request.
    pub refused: u64,
    /// Connections forgotten for lack of space.
    pub evicted: u64,
    /// Requests about mailboxes that were dropped, since their network sent too many.
    pub limited: u64,
    /// Packets relayed between two ends.
    pub forwarded: u64,
    /// Bytes of those.
    pub forwarded_bytes: u64,
}

/// Limits of forwarding, for each pair of ends unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForwardLimits {
    /// Pairs at a time. Default 64, at least 1.
    pub pairs: usize,
    /// Bytes of UDP payload, in both directions together. Default 10 GB.
    pub bytes: ByteCount,
    /// Rate, in both directions together; what comes faster is dropped. Default 20 Mbit/s.
    pub rate: Rate,
    /// Lifetime. Default 1 h.
    pub time: Duration,
}

impl Default for ForwardLimits {
    fn default() -> Self {
        Self {
            pairs: 64,
            bytes: ByteCount(10_000_000_000),
            rate: Rate::from_bits_per_second(20_000_000),
            time: Duration::from_secs(3600),
        }
    }
}
