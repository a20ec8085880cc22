//! Streams: reliable bytes in order, or messages, many at a time, each in both directions.
//!
//! A stream has two halves that live and end apart: [`send`] and [`receive`], with their lives in [`state`].
//! [`set`] holds the streams of a connection and is the only part that others talk to. Bytes on their way out are
//! in a [`send_buffer`], on their way in in a [`byte_reassembly`], messages in the rooms of
//! [`message`](crate::message); [`flow_control`] counts credit, [`priority`]
//! decides whose turn it is.

pub(crate) mod byte_reassembly;
pub(crate) mod event;
pub(crate) mod flow_control;
pub(crate) mod priority;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod send_buffer;
pub(crate) mod set;
pub(crate) mod state;

pub use event::{ReadOutcome, StreamEvent, WriteError};
