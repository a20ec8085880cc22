//! A connection in memory.

use std::io;

use manyway_transfer::Session;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, mpsc};

pub(crate) struct MemorySession {
    open: mpsc::UnboundedSender<DuplexStream>,
    accept: Mutex<mpsc::UnboundedReceiver<DuplexStream>>,
    buffer: usize,
}

/// Two ends whose streams hold `buffer` bytes in each direction.
pub(crate) fn pair(buffer: usize) -> (MemorySession, MemorySession) {
    let (to_right, from_left) = mpsc::unbounded_channel();
    let (to_left, from_right) = mpsc::unbounded_channel();
    (
        MemorySession { open: to_right, accept: Mutex::new(from_right), buffer },
        MemorySession { open: to_left, accept: Mutex::new(from_left), buffer },
    )
}

impl Session for MemorySession {
    type Send = WriteHalf<DuplexStream>;
    type Receive = ReadHalf<DuplexStream>;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        let (near, far) = tokio::io::duplex(self.buffer);
        self.open.send(far).map_err(|_| io::ErrorKind::ConnectionReset)?;
        let (receive, send) = tokio::io::split(near);
        Ok((send, receive))
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        let stream = self.accept.lock().await.recv().await?;
        let (receive, send) = tokio::io::split(stream);
        Some((send, receive))
    }
}
