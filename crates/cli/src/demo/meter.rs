//! Measures when bytes arrive at the receiving application, which is what a user notices.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use manyway::{Connection, ReceiveStream, SendStream};
use manyway_transfer::Session;
use tokio::io::{AsyncRead, ReadBuf};

/// What arrived so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrivals {
    /// Bytes of all streams.
    pub bytes: u64,
    /// The longest time between two arrivals.
    pub longest_stall: Duration,
    /// When bytes arrived last; `None` before the first ones.
    pub last: Option<Instant>,
}

impl Arrivals {
    fn note(&mut self, now: Instant, bytes: u64) {
        if let Some(last) = self.last {
            self.longest_stall = self.longest_stall.max(now.saturating_duration_since(last));
        }
        self.last = Some(now);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Records every arrival; clones share the record.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<Arrivals>>);

impl Meter {
    /// What arrived so far.
    pub fn arrivals(&self) -> Arrivals {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, bytes: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).note(Instant::now(), bytes);
    }
}

/// A [`Connection`] whose incoming streams are metered.
#[derive(Debug, Clone)]
pub struct MeteredSession {
    connection: Connection,
    meter: Meter,
}

impl MeteredSession {
    /// Meters what `connection` receives on streams that the peer opens.
    pub fn new(connection: Connection, meter: Meter) -> Self {
        Self { connection, meter }
    }
}

impl Session for MeteredSession {
    type Send = SendStream;
    type Receive = Metered<ReceiveStream>;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        let (send, receive) = self.connection.open().await.map_err(io::Error::other)?;
        Ok((send, Metered { stream: receive, meter: self.meter.clone() }))
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        let (send, receive) = self.connection.accept().await.ok()?;
        Some((send, Metered { stream: receive, meter: self.meter.clone() }))
    }
}

/// A stream with recorded arrivals.
#[derive(Debug)]
pub struct Metered<R> {
    stream: R,
    meter: Meter,
}

impl<R: AsyncRead + Unpin> AsyncRead for Metered<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = buffer.filled().len().saturating_sub(before);
        if read > 0 {
            self.meter.note(u64::try_from(read).unwrap_or(u64::MAX));
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stall_lies_between_arrivals() {
        let start = Instant::now();
        let mut arrivals = Arrivals::default();
        for (at, bytes) in [(500, 10), (510, 20), (700, 30), (701, 40)] {
            arrivals.note(start + Duration::from_millis(at), bytes);
        }
        assert_eq!((arrivals.bytes, arrivals.longest_stall), (100, Duration::from_millis(190)));
    }
}
