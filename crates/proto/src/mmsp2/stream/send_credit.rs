//! Flow-control credit that the peer grants, of a stream or of the connection (RFC 9000, section 4): the counterpart of
//! [`ReceiveCredit`](crate::stream::receive_credit::ReceiveCredit).

use crate::stream::priority::Urgency;

/// The credit that the peer grants to this end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SendCredit {
    limit: u64,
    used: u64,
    /// The part reserved for urgent bytes.
    reserve: u32,
    /// Whether BLOCKED was sent at this limit.
    reported: bool,
}

impl SendCredit {
    /// Starts with the peer's first limit.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, used: 0, reserve: 0, reported: false }
    }

    /// Takes a new limit of the peer; an older, lower one changes nothing.
    pub(crate) fn raise(&mut self, limit: u64) {
        self.reported &= limit <= self.limit;
        self.limit = self.limit.max(limit);
    }

    /// Reserves a part for urgent bytes: otherwise streams that the peer does not read would block all others.
    pub(crate) fn set_reserve(&mut self, reserve: u32) {
        self.reserve = reserve;
    }

    /// Uses `bytes` of the credit.
    pub(crate) fn spend(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.left(), "credit is never exceeded");
        self.used += bytes;
    }

    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// The remaining credit for bytes of some urgency.
    pub(crate) fn left_for(&self, urgency: Urgency) -> u64 {
        let reserve = if urgency.is_urgent() { 0 } else { self.reserve };
        self.left().saturating_sub(reserve.into())
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the credit of bytes that were not sent.
    pub(crate) fn refund(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.used, "it was used before");
        self.used = self.used.saturating_sub(bytes);
    }

    /// Whether the peer has not yet been notified that the credit is exhausted.
    pub(crate) fn is_unreported(&self) -> bool {
        !self.reported
    }

    /// BLOCKED is being sent to the peer.
    pub(crate) fn on_reported(&mut self) {
        self.reported = true;
    }

    /// The BLOCKED was lost.
    pub(crate) fn on_report_lost(&mut self) {
        self.reported = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_never_withdrawn() {
        let mut credit = SendCredit::new(100);
        credit.raise(50);
        assert_eq!(credit.limit(), 100);
    }

    #[test]
    fn exhausted_credit_is_reported_once_for_each_limit() {
        let mut credit = SendCredit::new(10);
        assert!(credit.is_unreported());
        credit.on_reported();
        assert!(!credit.is_unreported());
        credit.raise(20);
        assert!(credit.is_unreported());
    }
}
