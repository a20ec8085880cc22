//! Where a path lies: its addresses, how much may be sent there before they are proven, and where the path worked before
//! the peer's address changed (RFC 9000, sections 8 and 9.3).

use std::time::Duration;

use super::Amplification;
use crate::{FourTuple, Instant};

/// A peer is followed so often, unless the address that it went to last was proven (spec 6.30).
const BETWEEN_MOVES: Duration = Duration::from_secs(1);

/// The addresses of a path. Only this file changes them.
#[derive(Debug)]
pub(crate) struct Place {
    tuple: FourTuple,
    amplification: Amplification,
    /// Where the path worked before the peer's address changed, until the new one is proven.
    fallback: Option<Box<FourTuple>>,
    /// When the peer's address changed last; `None` once the new one was proven.
    migrated_at: Option<Instant>,
}

/// What became of a move of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// It is back where it was proven.
    Back,
    /// It is where nothing is proven yet.
    Away,
}

impl Place {
    /// Addresses of which nothing is proven.
    pub(crate) fn new(tuple: FourTuple) -> Self {
        Self { tuple, amplification: Amplification::limited(), fallback: None, migrated_at: None }
    }

    pub(crate) fn tuple(&self) -> FourTuple {
        self.tuple
    }

    /// Where the path worked before the peer's address changed, while the new one is not proven.
    pub(crate) fn fallback(&self) -> Option<FourTuple> {
        self.fallback.as_deref().copied()
    }

    /// Whether the peer answered from these addresses.
    pub(crate) fn is_proven(&self) -> bool {
        self.amplification.is_lifted()
    }

    /// What may be sent before these addresses are proven.
    pub(crate) fn amplification(&self) -> &Amplification {
        &self.amplification
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.amplification.on_sent(bytes);
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.amplification.on_received(bytes);
    }

    /// This end chose other addresses. What the peer proved holds on.
    pub(crate) fn choose(&mut self, tuple: FourTuple) {
        self.tuple = tuple;
    }

    /// The peer answered from these addresses.
    pub(crate) fn prove(&mut self, tuple: FourTuple) {
        self.tuple = tuple;
        self.amplification.lift();
        self.migrated_at = None;
        self.fallback = None;
    }

    /// The peer is at other addresses before any of its addresses was proven.
    pub(crate) fn start_anew(&mut self, tuple: FourTuple, received: usize) {
        self.tuple = tuple;
        self.amplification = Amplification::limited();
        self.amplification.on_received(received);
    }

    /// Whether the peer may be followed to other addresses now.
    pub(crate) fn may_follow(&self, now: Instant, tuple: &FourTuple) -> bool {
        let too_soon = self.migrated_at.is_some_and(|moved| now - moved < BETWEEN_MOVES);
        !too_soon || self.fallback.as_deref() == Some(tuple)
    }

    /// Follows the peer to other addresses.
    pub(crate) fn follow(&mut self, now: Instant, tuple: FourTuple, received: usize) -> Followed {
        if self.fallback.as_deref() == Some(&tuple) {
            // The move was a copy of its packets sent from elsewhere, or a NAT rebinding that was undone.
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

    /// Goes back to where the path was proven, if it moved since.
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
    fn a_path_that_moved_is_limited_until_it_is_proven_and_goes_back_to_where_it_was() {
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
    fn a_path_that_was_never_proven_has_no_fallback() {
        let (mut place, now) = (Place::new(tuple(1)), Instant::from_nanos(1));
        assert_eq!(place.follow(now, tuple(2), 100), Followed::Away);
        place.move_back();
        assert_eq!((place.tuple(), place.fallback()), (tuple(2), None));
        place.prove(tuple(2));
        assert!(place.may_follow(now, &tuple(3)));
    }
}
