//! Streams, as far as every wire has them: events, the order of sending, credit, and what schedulers see.

pub(crate) mod backlog;
pub(crate) mod event;
pub(crate) mod priority;
pub(crate) mod receive_credit;
pub(crate) mod tally;

pub use event::{ReadOutcome, StreamEvent, WriteError};
