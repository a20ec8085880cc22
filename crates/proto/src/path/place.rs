//! Addresses of a path, the amplification limit before they are validated, and the validated addresses to fall
//! back to after the peer migrated (RFC 9000, sections 8 and 9.3).

use std::time::Duration;

use super::Amplification;
use crate::{FourTuple, Instant};

/// Shortest time between two migrations of the peer, unless the last address was validated (spec 6.30).
const BETWEEN_MOVES: Duration = Duration::from_secs(1);

/// The addresses of a path. Only this file changes them.
#[derive(Debug)]
pub(crate) struct Place {
    tuple: FourTuple,
    amplification: Amplification,
    /// The validated addresses before the peer migrated, until the new ones are validated.
    fallback: Option<Box<FourTuple>>,
    /// When the peer last migrated; `None` once the new address was validated.
    migrated_at: Option<Instant>,
}

/// The result of following a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The peer is back at the validated addresses.
    Back,
    /// The peer is at unvalidated addresses.
    Away,
}

impl Place {
    /// A path between unvalidated addresses.
    pub(crate) fn new(tuple: FourTuple) -> Self {
        let amplification = Amplification::unvalidated(tuple.carrier);
        Self { tuple, amplification, fallback: None, migrated_at: None }
    }

    pub(crate) fn tuple(&self) -> FourTuple {
        self.tuple
    }

    /// The validated addresses before the peer migrated, while the new ones are not validated.
    pub(crate) fn fallback(&self) -> Option<FourTuple> {
        self.fallback.as_deref().copied()
    }

    /// Whether the peer answered from these addresses.
    pub(crate) fn is_proven(&self) -> bool {
        self.amplification.is_lifted()
    }

    /// The amplification limit of these addresses.
    pub(crate) fn amplification(&self) -> &Amplification {
        &self.amplification
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.amplification.on_sent(bytes);
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.amplification.on_received(bytes);
    }

    /// This end chose other addresses. The validation of the peer stays.
    pub(crate) fn choose(&mut self, tuple: FourTuple) {
        debug_assert_eq!(self.tuple.carrier, tuple.carrier, "spec 6.100");
        self.tuple = tuple;
    }

    /// The peer answered from these addresses.
    pub(crate) fn prove(&mut self, tuple: FourTuple) {
        self.tuple = tuple;
        self.amplification.lift();
        self.migrated_at = None;
        self.fallback = None;
    }

    /// The peer migrated before any of its addresses was validated.
    pub(crate) fn start_anew(&mut self, tuple: FourTuple, received: usize) {
        debug_assert_eq!(self.tuple.carrier, tuple.carrier, "spec 6.100");
        self.tuple = tuple;
        self.amplification = Amplification::unvalidated(tuple.carrier);
        self.amplification.on_received(received);
    }

    /// Whether this end may follow the peer to other addresses now.
    pub(crate) fn may_follow(&self, now: Instant, tuple: &FourTuple) -> bool {
        let too_soon = self.migrated_at.is_some_and(|moved| now - moved < BETWEEN_MOVES);
        !too_soon || self.fallback.as_deref() == Some(tuple)
    }

    /// Follows the peer to other addresses.
    pub(crate) fn follow(&mut self, now: Instant, tuple: FourTuple, received: usize) -> Followed {
        if self.fallback.as_deref() == Some(&tuple) {
            // The migration was caused by a copy of the peer's packets from elsewhere, or by a NAT rebinding that was
            // undone.
            self.move_back();
            return Followed::Back;
        }
        let before = self.tuple;
        if self.is_proven() {
            self.fallback = Some(Box::new(before));
        }
        self.start_anew(tuple, received);
        self.migrated_at = Some(now);
        Followed::Away
    }

    /// Returns to the validated addresses, if the path migrated since.
    pub(crate) fn move_back(&mut self) {
        if let Some(before) = self.fallback.take() {
            self.tuple = *before;
            self.amplification.lift();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::testing::tuple;

    #[test]
    fn a_migrated_path_is_limited_until_validated_and_falls_back_to_its_old_addresses() {
        let (mut place, now) = (Place::new(tuple(1)), Instant::from_nanos(1));
        place.prove(tuple(1));
        assert_eq!(place.follow(now, tuple(2), 100), Followed::Away);
        assert_eq!(
            (place.tuple(), place.fallback(), place.amplification().room()),
            (tuple(2), Some(tuple(1)), 300)
        );
        assert!(!place.may_follow(now, &tuple(3)) && place.may_follow(now, &tuple(1)));
        assert_eq!(place.follow(now, tuple(1), 100), Followed::Back);
        assert!(place.is_proven() && place.fallback().is_none());
    }

    #[test]
    fn a_path_that_was_never_validated_has_no_fallback() {
        let (mut place, now) = (Place::new(tuple(1)), Instant::from_nanos(1));
        assert_eq!(place.follow(now, tuple(2), 100), Followed::Away);
        place.move_back();
        assert_eq!((place.tuple(), place.fallback()), (tuple(2), None));
        place.prove(tuple(2));
        assert!(place.may_follow(now, &tuple(3)));
    }
}
