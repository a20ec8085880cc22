//! Streams as tokio sees them: [`SendStream`] and [`ReceiveStream`].

pub(crate) mod budget;
pub(crate) mod pipe;
mod receive;
mod send;

pub use receive::ReceiveStream;
pub use send::SendStream;

use crate::link::{ReceiveHalf, SendHalf};

/// The two halves of a stream as the application holds them.
pub(crate) fn streams((send, receive): (SendHalf, ReceiveHalf)) -> (SendStream, ReceiveStream) {
    (SendStream::new(send), ReceiveStream::new(receive))
}
