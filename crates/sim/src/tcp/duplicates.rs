//! Losses by repeated acknowledgements, as TCP found them before it had selective ones: fast retransmit and fast
//! recovery (RFC 2581) as NewReno has them (RFC 2582), without a tail loss probe, and timeouts of at least a second (RFC
//! 2988). Reordering by three packets or more is taken for a loss.

use std::time::Duration;

/// So many repeated acknowledgements are a loss.
const LOSS_SIGNS: u64 = 3;

/// What a sender without selective acknowledgements remembers.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    /// Acknowledgements that repeated the last one: each stands for a segment that has left the network.
    count: u64,
    /// Repeated acknowledgements of less than this are of segments that were sent twice (RFC 2582, `send_high`).
    recover: u64,
    /// Whether the first segment leaves whatever is in flight.
    is_urgent: bool,
}

impl Duplicates {
    /// Shortest retransmission timeout.
    pub(super) const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

    /// Bytes that have left the network, but are not acknowledged.
    pub(super) const fn bytes(&self, segment: u64) -> u64 {
        self.count.saturating_mul(segment)
    }

    /// The first segment has to leave now.
    pub(super) fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// Whether it has to, once.
    pub(super) fn take_urgent(&mut self) -> bool {
        std::mem::take(&mut self.is_urgent)
    }

    /// Everything up to here is sent again after a timeout.
    pub(super) fn on_timeout(&mut self, next: u64) {
        *self = Self { recover: next, ..Self::default() };
    }

    /// An acknowledgement was repeated; returns whether that tells of a loss before `next`.
    pub(super) fn on_repeated(&mut self, acknowledged: u64, next: u64) -> bool {
        self.count += 1;
        let is_loss = self.count == LOSS_SIGNS && acknowledged >= self.recover;
        if is_loss {
            self.recover = next;
        }
        is_loss
    }

    /// So many segments were acknowledged. In fast recovery the first of them was missing, and the others had left the
    /// network before.
    pub(super) fn on_progress(&mut self, segments: u64, is_fast: bool) {
        self.count = if is_fast { self.count.saturating_sub(segments.saturating_sub(1)) } else { 0 };
    }
}
