//! The bytes of a TCP connection: plain, or within TLS.
//!
//! TLS is here for networks that let nothing else through. It protects nothing: packets are sealed, and their handshake
//! authenticates both ends.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connected stream of bytes.
#[derive(Debug)]
pub(super) enum Pipe {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Pipe {
    /// The TCP connection below.
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Reads what has arrived, as far as it fits. Returns the number of bytes; 0 is the end.
    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => loop {
                match stream.poll_read_ready(context) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
                match stream.try_read(buffer) {
                    // The readiness was stale.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return Poll::Ready(result),
                }
            },
            Self::Tls(stream) => {
                let mut buffer = ReadBuf::new(buffer);
                match Pin::new(stream.as_mut()).poll_read(context, &mut buffer) {
                    Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    /// Writes as much as is taken at once; 0 if that is nothing.
    pub(super) fn try_write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let taken = match self {
            Self::Plain(stream) => stream.try_write_vectored(parts),
            Self::Tls(stream) => {
                // The caller polls with its own waker where it has to wait.
                let mut context = Context::from_waker(Waker::noop());
                match Pin::new(stream.as_mut()).poll_write_vectored(&mut context, parts) {
                    Poll::Ready(result) => result,
                    Poll::Pending => Ok(0),
                }
            }
        };
        match taken {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            taken => taken,
        }
    }

    /// Whether the system has everything that was written.
    pub(super) fn is_flushed(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(stream) => {
                let mut context = Context::from_waker(Waker::noop());
                match Pin::new(stream.as_mut()).poll_flush(&mut context) {
                    Poll::Ready(result) => result.map(|()| true),
                    Poll::Pending => Ok(false),
                }
            }
        }
    }

    /// Passes on what was written; ready when the system has it and takes more.
    pub(super) fn poll_writable(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => stream.poll_write_ready(context),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }
}
