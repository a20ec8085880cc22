//! Streams over MMSP/2: reliable bytes in order, or messages, many at a time, each in both directions.
//!
//! A stream has two halves with separate life cycles: [`send`] and [`receive`], whose states are in [`state`].
//! [`set`] holds the streams of a connection and is the only interface for the rest of the crate. Outgoing bytes are
//! in a [`send_buffer`], incoming ones in a [`byte_reassembly`], messages in the buffers of
//! [`message`](super::message); [`send_credit`] counts the credit of the peer, and
//! [`priority`](crate::stream::priority) decides which stream sends next.

pub(crate) mod byte_reassembly;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod send_buffer;
pub(crate) mod send_credit;
pub(crate) mod set;
pub(crate) mod state;
