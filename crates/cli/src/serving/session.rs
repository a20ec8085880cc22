//! Adapts a client's connection to the transfer protocol, within the client's rate limits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use manyway::{Connection, ReceiveStream, SendStream};
use manyway_transfer::{MessageHalves, Session, Transport, TransportFacts, Urgency};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::carried::Carried;
use super::limit::{Bucket, Limits};
use super::messages::LimitedMessages;
use crate::command::session::NetSession;

/// A connection with the limits of its client.
#[derive(Debug, Clone)]
pub struct ClientSession {
    connection: Connection,
    limits: Option<Arc<Limits>>,
    carried: Carried,
}

/// One half of a stream.
#[derive(Debug)]
pub struct Limited<S> {
    stream: S,
    /// The remaining data of a closed connection is read without a limit: the network has carried it, and a caller that
    /// waits for the end learns of it.
    connection: Option<Connection>,
    limits: Option<Arc<Limits>>,
    carried: Carried,
    pause: Option<Pin<Box<Sleep>>>,
}

impl ClientSession {
    /// A connection with these limits.
    pub fn new(connection: Connection, limits: Option<Arc<Limits>>) -> Self {
        Self { connection, limits, carried: Carried::default() }
    }

    /// The bytes of its streams.
    pub fn carried(&self) -> Carried {
        self.carried.clone()
    }

    fn limited<S>(&self, stream: S) -> Limited<S> {
        let (limits, carried) = (self.limits.clone(), self.carried.clone());
        Limited { stream, connection: Some(self.connection.clone()), limits, carried, pause: None }
    }
}

impl Session for ClientSession {
    type Send = Limited<SendStream>;
    type Receive = Limited<ReceiveStream>;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        let (send, receive) = self.connection.open().await.map_err(io::Error::other)?;
        Ok((self.limited(send), self.limited(receive)))
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        let (send, receive) = self.connection.accept().await.ok()?;
        Some((self.limited(send), self.limited(receive)))
    }

    async fn carries_messages(receive: &mut Self::Receive) -> io::Result<bool> {
        NetSession::carries_messages(&mut receive.stream).await
    }

    fn messages(send: Self::Send, receive: Self::Receive) -> Option<MessageHalves> {
        let (limits, carried) = (send.limits.clone(), send.carried.clone());
        let (sender, receiver) = NetSession::messages(send.stream, receive.stream)?;
        let sender = LimitedMessages::new(sender, limits.clone(), carried.clone());
        Some((Box::new(sender), Box::new(LimitedMessages::new(receiver, limits, carried))))
    }

    fn set_urgency(send: &mut Self::Send, urgency: Urgency) {
        NetSession::set_urgency(&mut send.stream, urgency);
    }

    fn transport(&self) -> Option<Arc<dyn Transport>> {
        let session = NetSession(self.connection.clone());
        // A limit counts the bytes of streams. So that none is bypassed, a limited client has no messages.
        if self.limits.is_some() { Some(Arc::new(WithoutMessages(session))) } else { session.transport() }
    }
}

/// A transport without messages.
struct WithoutMessages(NetSession);

impl Transport for WithoutMessages {
    fn facts(&self) -> Pin<Box<dyn Future<Output = Option<TransportFacts>> + Send + '_>> {
        self.0.facts()
    }

    fn set_congestion<'a>(&'a self, name: &'a str) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        self.0.set_congestion(name)
    }
}

/// Waits until the bucket allows a transfer.
fn poll_bucket(bucket: &Bucket, pause: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> Poll<()> {
    while let Some(wait) = bucket.wait(Instant::now()) {
        let until = Instant::now() + wait;
        let sleep = pause.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        sleep.as_mut().reset(until);
        ready!(sleep.as_mut().poll(context));
    }
    *pause = None;
    Poll::Ready(())
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let has_ended = this.connection.as_ref().is_some_and(|it| it.close_reason().is_some());
        let Some(limits) = this.limits.as_ref().filter(|_| !has_ended) else {
            let before = buffer.filled().len();
            let result = Pin::new(&mut this.stream).poll_read(context, buffer);
            this.carried.on_received(buffer.filled().len().saturating_sub(before));
            return result;
        };
        ready!(poll_bucket(&limits.inwards, &mut this.pause, context));
        let room = buffer.remaining().min(limits.inwards.chunk());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        ready!(Pin::new(&mut this.stream).poll_read(context, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        limits.inwards.spend(read);
        this.carried.on_received(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let Some(limits) = &this.limits else {
            let written = ready!(Pin::new(&mut this.stream).poll_write(context, data))?;
            this.carried.on_sent(written);
            return Poll::Ready(Ok(written));
        };
        ready!(poll_bucket(&limits.outwards, &mut this.pause, context));
        let (part, _) = data.split_at(data.len().min(limits.outwards.chunk()));
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, part))?;
        limits.outwards.spend(written);
        this.carried.on_sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manyway::Rate;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    fn limited(stream: DuplexStream, rate: Option<u64>) -> Limited<DuplexStream> {
        let limits = rate.map(|rate| Arc::new(Limits::new(Rate::from_bytes_per_second(rate))));
        Limited { stream, connection: None, limits, carried: Carried::default(), pause: None }
    }

    #[tokio::test]
    async fn bytes_of_streams_are_counted_with_and_without_a_limit() {
        for rate in [None, Some(1 << 30)] {
            let (a, b) = tokio::io::duplex(64 * 1024);
            let (mut from, mut to) = (limited(a, rate), limited(b, rate));
            from.write_all(&[7; 1000]).await.unwrap();
            to.read_exact(&mut [0; 1000]).await.unwrap();
            assert_eq!((from.carried.bytes(), to.carried.bytes()), ((0, 1000), (1000, 0)));
        }
    }

    /// How long a megabyte takes from the first to the second.
    async fn carry(mut from: Limited<DuplexStream>, mut to: Limited<DuplexStream>) -> Duration {
        let start = Instant::now();
        let data: Vec<u8> = (0..1_000_000_u32).map(|i| i.to_be_bytes()[3]).collect();
        let expected = data.clone();
        let writing = tokio::spawn(async move {
            from.write_all(&data).await.unwrap();
            from.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        to.read_to_end(&mut received).await.unwrap();
        writing.await.unwrap();
        assert!(received == expected);
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_keeps_its_limit_in_both_directions_and_loses_nothing() {
        for (writer, reader) in [(Some(100_000), None), (None, Some(100_000))] {
            let (a, b) = tokio::io::duplex(64 * 1024);
            let took = carry(limited(a, writer), limited(b, reader)).await;
            assert!((9_500..10_100).contains(&took.as_millis()), "{took:?}");
        }
        let (a, b) = tokio::io::duplex(64 * 1024);
        assert!(carry(limited(a, None), limited(b, None)).await < Duration::from_secs(1));
    }
}
