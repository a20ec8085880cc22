//! Addresses of a path, the amplification limit before they are validated, and the validated addresses to fall
//! back to after the peer migrated (RFC 9000, sections 8 and 9.3).

use std::time::Duration;

use super::Amplification;
use crate::{FourTuple, Instant};

/// Shortest time between two migrations of the peer, unless the last address was validated (spec 6.30).
const BETWEEN_MIGRATIONS: Duration = Duration::from_secs(1);

/// The addresses of a path. Only this file changes them.
#[derive(Debug)]
pub(crate) struct PathAddresses {
    tuple: FourTuple,
    amplification: Amplification,
    /// The validated addresses before the peer migrated, until the new ones are validated.
    fallback: Option<Box<FourTuple>>,
    /// When the peer last migrated; `None` once the new address was validated.
    migrated_at: Option<Instant>,
}

/// The result of following a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Migration {
    /// The peer is back at the validated addresses.
    Reverted,
    /// The peer is at unvalidated addresses.
    Started,
}

impl PathAddresses {
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
    pub(crate) fn is_validated(&self) -> bool {
        self.amplification.is_lifted()
    }

    /// The amplification limit of these addresses.
    pub(crate) fn amplification(&self) -> &Amplification {
        &self.amplification
    }

    /// Whether these are the addresses.
    #[inline]
    pub(crate) fn are(&self, tuple: &FourTuple) -> bool {
        self.tuple == *tuple
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.amplification.on_sent(bytes);
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.amplification.on_received(bytes);
    }

    /// This end chose other addresses. The validation of the peer stays.
    pub(crate) fn set(&mut self, tuple: FourTuple) {
        debug_assert_eq!(self.tuple.carrier, tuple.carrier, "spec 6.100");
        self.tuple = tuple;
    }

    /// The peer answered from these addresses.
    pub(crate) fn validate(&mut self, tuple: FourTuple) {
        self.tuple = tuple;
        self.amplification.lift();
        self.migrated_at = None;
        self.fallback = None;
    }

    /// The peer migrated before any of its addresses was validated.
    pub(crate) fn reset(&mut self, tuple: FourTuple, received: usize) {
        debug_assert_eq!(self.tuple.carrier, tuple.carrier, "spec 6.100");
        self.tuple = tuple;
        self.amplification = Amplification::unvalidated(tuple.carrier);
        self.amplification.on_received(received);
    }

    /// Whether this end may follow the peer to other addresses now.
    pub(crate) fn may_migrate(&self, now: Instant, tuple: &FourTuple) -> bool {
        let too_soon = self.migrated_at.is_some_and(|migrated_at| now - migrated_at < BETWEEN_MIGRATIONS);
        !too_soon || self.fallback.as_deref() == Some(tuple)
    }

    /// Follows the peer to other addresses.
    pub(crate) fn migrate(&mut self, now: Instant, tuple: FourTuple, received: usize) -> Migration {
        if self.fallback.as_deref() == Some(&tuple) {
            // The migration was caused by a copy of the peer's packets from elsewhere, or by a NAT rebinding that was
            // undone.
            self.revert();
            return Migration::Reverted;
        }
        let before = self.tuple;
        if self.is_validated() {
            self.fallback = Some(Box::new(before));
        }
        self.reset(tuple, received);
        self.migrated_at = Some(now);
        Migration::Started
    }

    /// Returns to the validated addresses, if the path migrated since.
    pub(crate) fn revert(&mut self) {
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
        let (mut addresses, now) = (PathAddresses::new(tuple(1)), Instant::from_nanos(1));
        addresses.validate(tuple(1));
        assert_eq!(addresses.migrate(now, tuple(2), 100), Migration::Started);
        assert_eq!(
            (addresses.tuple(), addresses.fallback(), addresses.amplification().room()),
            (tuple(2), Some(tuple(1)), 300)
        );
        assert!(!addresses.may_migrate(now, &tuple(3)) && addresses.may_migrate(now, &tuple(1)));
        assert_eq!(addresses.migrate(now, tuple(1), 100), Migration::Reverted);
        assert!(addresses.is_validated() && addresses.fallback().is_none());
    }

    #[test]
    fn a_path_that_was_never_validated_has_no_fallback() {
        let (mut addresses, now) = (PathAddresses::new(tuple(1)), Instant::from_nanos(1));
        assert_eq!(addresses.migrate(now, tuple(2), 100), Migration::Started);
        addresses.revert();
        assert_eq!((addresses.tuple(), addresses.fallback()), (tuple(2), None));
        addresses.validate(tuple(2));
        assert!(addresses.may_migrate(now, &tuple(3)));
    }
}
