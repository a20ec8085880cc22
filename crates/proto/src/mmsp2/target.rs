//! The rates at which the application wants its streams (spec 6.85), and what was done for them.
//!
//! All targets of a connection are held together, as their sum, because all streams share the paths.

use std::collections::BTreeMap;

use manyway_wire::{PathId, StreamId};

use crate::target::{RateController, TargetReport};
use crate::{ByteCount, Instant, Rate};

/// The targets of this end, and what the peer wants.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    pub(super) held: Option<Box<Held>>,
    /// How many TCP connections the server wants, and the sequence number of that statement.
    pub(super) wished: Option<Box<(u64, u64)>>,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) streams: BTreeMap<StreamId, Stream>,
    pub(super) controller: RateController,
    /// The windows of paths over TCP, which the system has to set.
    pub(super) carriers: BTreeMap<PathId, ByteCount>,
    pub(super) report: Option<TargetReport>,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) rate: Rate,
    /// Payload that was counted.
    pub(super) counted: u64,
}

impl Targets {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(|held| held.controller.deadline())
    }

    /// What was last measured and done.
    pub(crate) fn report(&self) -> Option<&TargetReport> {
        self.held.as_ref()?.report.as_ref()
    }

    /// How many TCP connections on each interface this end or the server wants, if any does.
    pub(crate) fn wanted_connections(&self) -> Option<u8> {
        let own = self.held.as_ref().map(|held| held.controller.connections());
        let wished = self.wished.as_ref().map(|wished| u8::try_from(wished.1).unwrap_or(u8::MAX));
        own.max(wished.filter(|count| *count > 0))
    }
}
