//! Streams as tokio sees them: [`SendStream`] and [`ReceiveStream`].

pub(crate) mod budget;
pub(crate) mod pipe;
mod receive;
mod send;

use std::sync::Arc;

pub use receive::ReceiveStream;
pub use send::SendStream;

use crate::connection::Link;
use pipe::Pipes;

/// Makes the two halves that an application holds.
pub(crate) fn halves(link: &Arc<Link>, pipes: &Arc<Pipes>) -> (SendStream, ReceiveStream) {
    (
        SendStream::new(Arc::clone(link), Arc::clone(pipes)),
        ReceiveStream::new(Arc::clone(link), Arc::clone(pipes)),
    )
}
