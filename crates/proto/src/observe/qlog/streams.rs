//! The states of streams as last logged.

use std::collections::BTreeMap;

use manyway_wire::StreamId;

/// Most streams whose last state is remembered.
const MOST_STREAMS: usize = 1024;

/// The last state logged of each half of a stream, so that a repeated block is no change.
#[derive(Debug, Default)]
pub(super) struct Streams(BTreeMap<(StreamId, &'static str), &'static str>);

impl Streams {
    /// Whether the state is new.
    pub(super) fn advance(&mut self, stream: StreamId, side: &'static str, state: &'static str) -> bool {
        if self.0.len() >= MOST_STREAMS {
            self.0.pop_first();
        }
        self.0.insert((stream, side), state) != Some(state)
    }
}
