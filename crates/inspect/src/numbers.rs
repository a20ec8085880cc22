//! The largest packet numbers seen, to expand truncated ones.

use std::collections::BTreeMap;

use manyway_wire::mmsp2::packet_number;
use manyway_wire::{PathId, Side};

use crate::packet::Level;

/// A packet number space.
pub(crate) type Space = (Side, Level, PathId);

/// The next expected number of each space.
#[derive(Debug, Default)]
pub(crate) struct Numbers(BTreeMap<Space, u64>);

impl Numbers {
    /// Expands a number (spec 4.6).
    pub(crate) fn expand(&self, space: Space, truncated: u32, length: usize) -> u64 {
        packet_number::expand(truncated, length, self.0.get(&space).copied().unwrap_or(0))
    }

    /// Records the number of a decrypted packet.
    pub(crate) fn on_opened(&mut self, space: Space, number: u64) {
        let next = self.0.entry(space).or_insert(0);
        *next = (*next).max(number.saturating_add(1));
    }
}
