//! Flow-control credit that this end grants: of a stream, of a connection, and the window of MMSP/1 (RFC 9000,
//! section 4).
//!
//! Credit is counted in bytes of stream offset, absolute and never withdrawn. A byte costs credit the first time its
//! offset is reached: a retransmission costs nothing, and the order of arrival does not matter. A reset counts up to
//! the final size, on both sides.

/// A period of two round trips, see [`ReceiveCredit::consume`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Epoch(pub(crate) u64);

/// The credit that this end grants to the peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveCredit {
    /// The limit last advertised to the peer.
    limit: u64,
    received: u64,
    consumed: u64,
    window: u64,
    max_window: u64,
    epoch: Option<Epoch>,
    consumed_before_epoch: u64,
}

impl ReceiveCredit {
    /// Starts with the window in the transport parameters; it never grows beyond `max_window`.
    pub(crate) fn new(window: u64, max_window: u64) -> Self {
        Self {
            limit: window,
            received: 0,
            consumed: 0,
            window,
            max_window: max_window.max(window),
            epoch: None,
            consumed_before_epoch: 0,
        }
    }

    /// Counts `bytes` at offsets not reached before; the caller has checked them against [`Self::left`].
    pub(crate) fn receive(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.left(), "checked by the caller");
        self.received += bytes;
    }

    /// The application read `bytes`. The window doubles when the application reads more than half of it within an
    /// epoch of two round trips: so it ends between four and eight times the bytes read in a round trip. Without an
    /// epoch (before the first RTT sample) it stays. Returns true if it grew.
    pub(crate) fn consume(&mut self, bytes: u64, now: Option<Epoch>) -> bool {
        if self.epoch != now {
            self.epoch = now;
            self.consumed_before_epoch = self.consumed;
        }
        self.consumed += bytes;
        let much = self.consumed - self.consumed_before_epoch > self.window / 2;
        if !much || now.is_none() || self.window >= self.max_window {
            return false;
        }
        self.consumed_before_epoch = self.consumed;
        self.window_at_least(self.window.saturating_mul(2));
        true
    }

    /// Returns the credit of `bytes` that the application will not read.
    pub(crate) fn discard(&mut self, bytes: u64) {
        self.consumed += bytes;
        self.consumed_before_epoch += bytes;
    }

    /// Widens the window to `window`, as far as it may grow.
    pub(crate) fn window_at_least(&mut self, window: u64) {
        self.window = self.window.max(window.min(self.max_window));
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes counted so far: for a stream the highest offset reached.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.received)
    }

    /// Whether to advertise new credit: a quarter of the window is due.
    pub(crate) fn should_update(&self) -> bool {
        self.due() >= (self.window / 4).max(1)
    }

    /// Credit not yet advertised to the peer, in bytes.
    pub(crate) fn due(&self) -> u64 {
        self.offer() - self.limit
    }

    /// The limit that could be advertised now.
    pub(crate) fn offer(&self) -> u64 {
        self.limit.max(self.consumed + self.window)
    }

    /// Records that this limit is advertised to the peer.
    pub(crate) fn advertise(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Updates the limit and returns it, to be sent.
    pub(crate) fn update(&mut self) -> u64 {
        self.advertise(self.offer());
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_credit_is_advertised_from_a_quarter_of_the_window_on() {
        let mut credit = ReceiveCredit::new(100, 100);
        credit.receive(50);
        credit.consume(24, None);
        assert!(!credit.should_update());
        credit.consume(1, None);
        assert!(credit.should_update());
        assert_eq!(credit.update(), 125);
        assert!(!credit.should_update());
    }

    #[test]
    fn the_window_doubles_only_for_a_quick_reader_and_up_to_its_limit() {
        let mut credit = ReceiveCredit::new(100, 300);
        credit.receive(100);
        assert!(!credit.consume(40, Some(Epoch(0))));
        assert!(!credit.consume(40, Some(Epoch(1))));
        assert!(credit.consume(20, Some(Epoch(1))));
        assert_eq!(credit.window(), 200);
        credit.update();
        credit.receive(200);
        assert!(credit.consume(200, Some(Epoch(1))));
        assert_eq!(credit.window(), 300);
    }

    #[test]
    fn the_window_ends_between_four_and_eight_times_the_bytes_read_in_a_round_trip() {
        for in_round_trip in [1_000, 1_300, 5_000, 100_000] {
            let mut credit = ReceiveCredit::new(100, 1_000_000);
            for tenth in 0..1_000 {
                // The sender is limited by the window or by its paths.
                let bytes = credit.left().min(in_round_trip / 10);
                credit.receive(bytes);
                credit.consume(bytes, Some(Epoch(tenth / 20)));
                credit.update();
            }
            let range = in_round_trip * 4..=in_round_trip * 8;
            assert!(range.contains(&credit.window()), "{in_round_trip}: {}", credit.window());
        }
    }

    #[test]
    fn unread_bytes_return_their_credit_but_do_not_widen_the_window() {
        let mut credit = ReceiveCredit::new(100, 300);
        credit.receive(100);
        credit.discard(90);
        assert!(!credit.consume(10, Some(Epoch(0))));
        assert_eq!((credit.window(), credit.due()), (100, 100));
    }
}
