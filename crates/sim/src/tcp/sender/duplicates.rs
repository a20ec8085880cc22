//! Losses by repeated acknowledgements, as TCP found them before it had selective ones: fast retransmit and fast
//! recovery (RFC 2581) as NewReno has them (RFC 2582), without a tail loss probe, and timeouts of at least a second (RFC
//! 2988). Reordering by three packets or more is taken for a loss.

use std::time::Duration;

use manyway_proto::Instant;

use super::{Recovery, Sender, State};

/// So many repeated acknowledgements are a loss.
const LOSS_SIGNS: u64 = 3;
/// Shortest retransmission timeout.
pub(super) const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// What a sender without selective acknowledgements remembers.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    /// Acknowledgements that repeated the last one: each stands for a segment that has left the network.
    count: u64,
    /// Repeated acknowledgements of less than this are of segments that were sent twice (RFC 2582, `send_high`).
    recover: u64,
    /// A segment that leaves whatever is in flight.
    pub(super) is_urgent: bool,
}

impl Duplicates {
    /// Bytes that have left the network, but are not acknowledged.
    pub(super) const fn bytes(&self, segment: u64) -> u64 {
        self.count.saturating_mul(segment)
    }

    /// Everything up to here is sent again after a timeout.
    pub(super) fn on_timeout(&mut self, next: u64) {
        *self = Self { recover: next, ..Self::default() };
    }
}

impl Sender {
    /// Takes an acknowledgement without data of bytes that were acknowledged before.
    pub(crate) fn on_repeated_ack(&mut self, now: Instant) {
        let Some(duplicates) = self.duplicates.as_mut().filter(|_| !self.segments.is_empty()) else { return };
        duplicates.count += 1;
        let is_loss = duplicates.count == LOSS_SIGNS && self.acknowledged >= duplicates.recover;
        if is_loss && self.recovery.is_none() {
            duplicates.recover = self.next;
            let sent_at = self.segments.values().next().map_or(now, |sent| sent.at);
            self.reduce(now, sent_at, self.segment);
            self.recovery = Some(Recovery { end: self.next, reduction: None, is_fast: true });
            self.repeat_first();
            self.set_timer(now);
        }
    }

    /// Takes an acknowledgement of bytes that were not acknowledged before. Returns the bytes by which the congestion window
    /// may grow.
    pub(super) fn on_progress(&mut self, bytes: u64, has_recovered: bool) -> u64 {
        let is_fast = self.recovery.as_ref().is_some_and(|recovery| recovery.is_fast);
        if let Some(duplicates) = &mut self.duplicates {
            // Of those the first was missing, and the others had left the network before.
            let left = (bytes / self.segment.max(1)).saturating_sub(1);
            duplicates.count = if is_fast { duplicates.count.saturating_sub(left) } else { 0 };
        }
        if is_fast {
            self.repeat_first();
        }
        if has_recovered || is_fast { 0 } else { bytes }
    }

    /// Sends the first segment again, at once.
    fn repeat_first(&mut self) {
        let Some(sent) = self.segments.values_mut().next() else { return };
        if sent.state == State::InFlight {
            sent.state = State::Lost;
            self.lost += 1;
            self.in_flight -= sent.length;
        }
        if let Some(duplicates) = &mut self.duplicates {
            duplicates.is_urgent = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use manyway_proto::congestion::{ControllerConfig, NewReno};

    use super::super::SlowStart;
    use super::*;

    const SEGMENT: u64 = 1000;
    const START: Instant = Instant::from_nanos(0);

    fn ms(millis: u64) -> Instant {
        START + Duration::from_millis(millis)
    }

    /// A sender with ten segments in flight.
    fn sender() -> Sender {
        let controller = Box::new(NewReno::new(&ControllerConfig::new(1000)));
        let mut sender = Sender::new(controller, SlowStart::UntilLoss, 1000).without_selective_acks();
        assert_eq!(sent(&mut sender, START), (0..10).collect::<Vec<_>>());
        sender
    }

    /// The segments that leave now.
    fn sent(sender: &mut Sender, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| sender.poll(now, 100 * SEGMENT, u64::MAX))
            .map(|range| range.start / SEGMENT)
            .collect()
    }

    fn repeat(sender: &mut Sender, now: Instant, times: usize) {
        for _ in 0..times {
            sender.on_ack(now, sender.acknowledged(), std::iter::once(3 * SEGMENT..4 * SEGMENT));
            sender.on_repeated_ack(now);
        }
    }

    #[test]
    fn the_third_repeated_acknowledgement_repeats_the_first_segment_and_halves_the_window() {
        let mut sender = sender();
        repeat(&mut sender, ms(50), 2);
        assert_eq!(sent(&mut sender, ms(50)), []);
        repeat(&mut sender, ms(50), 1);
        assert_eq!(sent(&mut sender, ms(50)), [0]);
        assert_eq!(sender.window().get(), 5 * SEGMENT);
        // Six more have arrived: of ten in flight nine have left, so that four fit into the window of five.
        repeat(&mut sender, ms(51), 6);
        assert_eq!(sent(&mut sender, ms(51)), [10, 11, 12, 13]);
        sender.on_ack(ms(100), 14 * SEGMENT, std::iter::empty());
        assert!(sender.recovery.is_none());
        assert_eq!(sent(&mut sender, ms(100)), [14, 15, 16, 17, 18], "the window is that of the loss");
    }

    #[test]
    fn a_partial_acknowledgement_repeats_the_next_missing_segment() {
        let mut sender = sender();
        repeat(&mut sender, ms(50), 3);
        assert_eq!(sent(&mut sender, ms(50)), [0]);
        sender.on_ack(ms(100), 2 * SEGMENT, std::iter::empty());
        assert_eq!(sent(&mut sender, ms(100)), [2]);
        assert_eq!(sender.window().get(), 5 * SEGMENT, "it is one loss");
    }

    #[test]
    fn after_a_timeout_of_a_second_everything_leaves_again_and_repeated_acknowledgements_are_no_loss() {
        let mut sender = sender();
        assert_eq!(sender.deadline(), Some(ms(1000)));
        sender.on_timeout(ms(1000));
        assert_eq!(sent(&mut sender, ms(1000)), [0, 1]);
        let window = sender.window();
        repeat(&mut sender, ms(1001), 5);
        assert_eq!((sent(&mut sender, ms(1001)), sender.window()), (vec![], window));
        // What follows had arrived already.
        sender.on_ack(ms(1050), 10 * SEGMENT, std::iter::empty());
        assert_eq!(sender.acknowledged(), 10 * SEGMENT);
        assert!(!sent(&mut sender, ms(1050)).is_empty());
    }
}
