//! A connection in memory, which may break.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use manyway_transfer::Session;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, mpsc};

pub(crate) struct MemorySession {
    open: mpsc::UnboundedSender<Breakable>,
    accept: Mutex<mpsc::UnboundedReceiver<Breakable>>,
    buffer: usize,
    budget: Arc<AtomicU64>,
}

/// Two ends whose streams hold `buffer` bytes in each direction.
pub(crate) fn pair(buffer: usize) -> (MemorySession, MemorySession) {
    breakable(buffer, u64::MAX)
}

/// As [`pair`], and both ends break once they have written this many bytes together.
pub(crate) fn breakable(buffer: usize, budget: u64) -> (MemorySession, MemorySession) {
    let (to_right, from_left) = mpsc::unbounded_channel();
    let (to_left, from_right) = mpsc::unbounded_channel();
    let budget = Arc::new(AtomicU64::new(budget));
    let session = |open, accept, budget| MemorySession { open, accept: Mutex::new(accept), buffer, budget };
    (session(to_right, from_right, Arc::clone(&budget)), session(to_left, from_left, budget))
}

impl Session for MemorySession {
    type Send = WriteHalf<Breakable>;
    type Receive = ReadHalf<Breakable>;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        let (near, far) = tokio::io::duplex(self.buffer);
        let far = Breakable { stream: far, budget: Arc::clone(&self.budget) };
        self.open.send(far).map_err(|_| io::ErrorKind::ConnectionReset)?;
        let near = Breakable { stream: near, budget: Arc::clone(&self.budget) };
        let (receive, send) = tokio::io::split(near);
        Ok((send, receive))
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        let stream = self.accept.lock().await.recv().await?;
        let (receive, send) = tokio::io::split(stream);
        Some((send, receive))
    }
}

/// One end of a stream.
#[derive(Debug)]
pub(crate) struct Breakable {
    stream: DuplexStream,
    budget: Arc<AtomicU64>,
}

impl Breakable {
    fn left(&self) -> io::Result<u64> {
        match self.budget.load(Ordering::SeqCst) {
            0 => Err(io::ErrorKind::ConnectionReset.into()),
            left => Ok(left),
        }
    }
}

impl AsyncRead for Breakable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Data in flight still arrives.
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        match (&polled, self.left()) {
            (Poll::Ready(Ok(())), Err(error)) if buffer.filled().len() == before => Poll::Ready(Err(error)),
            (Poll::Pending, Err(error)) => Poll::Ready(Err(error)),
            _ => polled,
        }
    }
}

impl AsyncWrite for Breakable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let left = usize::try_from(self.left()?).unwrap_or(usize::MAX);
        let (piece, _) = data.split_at(data.len().min(left));
        let polled = Pin::new(&mut self.stream).poll_write(context, piece);
        if let Poll::Ready(Ok(written)) = &polled {
            let written = *written as u64;
            let spent = |left: u64| Some(left.saturating_sub(written));
            let _ = self.budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spent);
            if self.left().is_err() {
                // Wakes the reader of the other end.
                let _ = Pin::new(&mut self.stream).poll_shutdown(context);
            }
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.left()?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
