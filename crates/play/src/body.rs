//! The bodies of answers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::buffer::Waiting;
use crate::viewing::Viewing;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Body {
    /// All of it.
    Whole(Bytes),
    /// A part of a file that arrives.
    Part(PartBody),
}

/// A part of a file that arrives.
#[derive(Debug)]
pub(crate) struct PartBody {
    pub(crate) queue: mpsc::UnboundedReceiver<io::Result<Bytes>>,
    pub(crate) waiting: Arc<Waiting>,
    /// Bytes that have not been taken.
    pub(crate) left: u64,
    /// The film, and the number of the request.
    pub(crate) viewing: Option<(Viewing, u64)>,
}

impl PartBody {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let polled = self.queue.poll_recv(context);
        match &polled {
            Poll::Ready(Some(Ok(bytes))) => {
                let length = bytes.len() as u64;
                self.left = self.left.saturating_sub(length);
                self.waiting.take(length);
                if let Some((viewing, request)) = &self.viewing {
                    viewing.on_taken(*request, length);
                }
            }
            Poll::Ready(None) if self.left > 0 => {
                return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
            }
            Poll::Ready(_) => {}
            Poll::Pending => self.set_waiting(true),
        }
        polled
    }

    fn set_waiting(&self, is_waiting: bool) {
        if let Some((viewing, request)) = &self.viewing {
            viewing.set_waiting(*request, is_waiting);
        }
    }
}

impl Drop for PartBody {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Part(part) => part.poll_next(context).map(|next| next.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Part(part) => part.left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Part(part) => part.left,
        })
    }
}
