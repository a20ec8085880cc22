//! Measures messages over a connection in memory that abandons messages.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{MemorySession, pair};
use bytes::Bytes;
use manyway_transfer::{
    Delivery, Message, MessageHalves, MessageOutcome, MessagePlan, MessageReceiver, MessageSender, Server,
    ServerConfig, Session, TransferError, Transport, TransportFacts, bench_messages,
};
use tempfile::TempDir;
use tokio::sync::mpsc;

type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The direction in which messages with a lifetime are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bad {
    ToServer,
    FromServer,
}

// transfer 6.13
#[tokio::test(start_paused = true)]
async fn only_losses_in_the_measured_direction_count() {
    let lost = async |reverse, bad| measure(reverse, bad).await.lost();
    assert_eq!((lost(false, Bad::ToServer).await, lost(false, Bad::FromServer).await), (SENT / 2, 0));
    assert_eq!((lost(true, Bad::FromServer).await, lost(true, Bad::ToServer).await), (SENT / 2, 0));
}

// transfer 6.2
#[tokio::test(start_paused = true)]
async fn the_other_side_uses_the_congestion_control_of_the_plan_or_refuses() {
    let directory = TempDir::new().unwrap();
    for (name, is_known) in [(KNOWN, true), ("magic", false)] {
        let (client, server) = lossy_pair(Bad::ToServer);
        let there = Arc::clone(&server.messages);
        let running = Server::new(directory.path(), ServerConfig::default()).unwrap();
        tokio::spawn(async move { running.run(&server).await });
        let mut plan = MessagePlan::default();
        plan.time = Duration::from_millis(100);
        plan.congestion = Some(name.to_owned());
        let outcome = bench_messages(&client, &plan, std::future::pending()).await;
        assert_eq!((outcome.is_ok(), there.is_changed.load(Ordering::SeqCst)), (is_known, is_known));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_other_side_goes_away_reports_what_it_measured() {
    let directory = TempDir::new().unwrap();
    let (client, server) = lossy_pair(Bad::ToServer);
    let running = Server::new(directory.path(), ServerConfig::default()).unwrap();
    let serving = tokio::spawn(async move { running.run(&server).await });
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(505)).await;
        serving.abort();
    });
    let failure = bench_messages(&client, &MessagePlan::default(), std::future::pending()).await.unwrap_err();
    let partial = failure.partial;
    assert!((50..=52).contains(&partial.sent) && partial.latencies.len() >= 50, "{partial:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_other_side_opens_no_stream_of_messages_ends() {
    let directory = TempDir::new().unwrap();
    let (client, server) = lossy_pair(Bad::ToServer);
    client.messages.is_deaf.store(true, Ordering::SeqCst);
    let running = Server::new(directory.path(), ServerConfig::default()).unwrap();
    tokio::spawn(async move { running.run(&server).await });
    let began = tokio::time::Instant::now();
    let failure = bench_messages(&client, &MessagePlan::default(), std::future::pending()).await.unwrap_err();
    assert!(matches!(failure.error, TransferError::Silent { .. }), "{}", failure.error);
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
}

async fn measure(reverse: bool, bad: Bad) -> MessageOutcome {
    let directory = TempDir::new().unwrap();
    let (client, server) = lossy_pair(bad);
    let running = Server::new(directory.path(), ServerConfig::default()).unwrap();
    tokio::spawn(async move { running.run(&server).await });
    let mut plan = MessagePlan::default();
    plan.time = Duration::from_millis(10 * SENT);
    plan.deadline = Some(Duration::from_millis(150));
    plan.reverse = reverse;
    let outcome = bench_messages(&client, &plan, std::future::pending()).await.unwrap();
    assert_eq!(outcome.sent, SENT);
    outcome
}

/// A connection in memory, with one stream of messages that the server opens.
struct Lossy {
    streams: MemorySession,
    messages: Arc<Messages>,
}

struct Messages {
    halves: Mutex<Option<MessageHalves>>,
    /// Whether the congestion control was changed to the known one.
    is_changed: AtomicBool,
    /// Whether the stream of the other side never comes.
    is_deaf: AtomicBool,
}

fn lossy_pair(bad: Bad) -> (Lossy, Lossy) {
    let (client, server) = pair(1 << 16);
    let (to_server, at_server) = mpsc::unbounded_channel();
    let (to_client, at_client) = mpsc::unbounded_channel();
    let end = |streams, queue, arrived, gives_up| {
        let halves: MessageHalves =
            (Box::new(Sender { queue: Some(queue), gives_up, sent: 0 }), Box::new(Receiver(arrived)));
        let [is_changed, is_deaf] = [AtomicBool::new(false), AtomicBool::new(false)];
        let messages = Messages { halves: Mutex::new(Some(halves)), is_changed, is_deaf };
        Lossy { streams, messages: Arc::new(messages) }
    };
    let client = end(client, to_server, at_client, bad == Bad::ToServer);
    (client, end(server, to_client, at_server, bad == Bad::FromServer))
}

impl Session for Lossy {
    type Send = <MemorySession as Session>::Send;
    type Receive = <MemorySession as Session>::Receive;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        self.streams.open().await
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        self.streams.accept().await
    }

    fn transport(&self) -> Option<Arc<dyn Transport>> {
        Some(Arc::clone(&self.messages) as Arc<dyn Transport>)
    }
}

impl Transport for Messages {
    fn facts(&self) -> Later<'_, Option<TransportFacts>> {
        Box::pin(async { None })
    }

    fn set_congestion<'a>(&'a self, name: &'a str) -> Later<'a, bool> {
        self.is_changed.store(name == KNOWN, Ordering::SeqCst);
        Box::pin(async move { name == KNOWN })
    }

    fn open_messages(&self) -> Later<'_, Option<MessageHalves>> {
        Box::pin(async { self.halves.lock().unwrap().take() })
    }

    fn accept_messages(&self) -> Later<'_, Option<MessageHalves>> {
        if self.is_deaf.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.open_messages()
    }
}

struct Sender {
    /// `Some` until the end.
    queue: Option<mpsc::UnboundedSender<Message>>,
    gives_up: bool,
    /// Number of messages with a lifetime.
    sent: u64,
}

impl MessageSender for Sender {
    /// Drops each second message with a lifetime, if this direction is the bad one.
    fn send(&mut self, message: Bytes, delivery: Delivery) -> Later<'_, io::Result<()>> {
        Box::pin(async move { self.try_send(message, delivery).map(drop) })
    }

    fn try_send(&mut self, data: Bytes, delivery: Delivery) -> io::Result<bool> {
        let may_be_lost = delivery.lifetime.is_some();
        self.sent += u64::from(may_be_lost);
        let is_lost = self.gives_up && may_be_lost && self.sent.is_multiple_of(2);
        match &self.queue {
            Some(queue) if !is_lost => {
                let message = Message { data, protocol: delivery.protocol };
                queue.send(message).map_err(|_| io::ErrorKind::ConnectionReset)?;
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    fn finish(&mut self) {
        self.queue = None;
    }
}

struct Receiver(mpsc::UnboundedReceiver<Message>);

impl MessageReceiver for Receiver {
    fn receive(&mut self) -> Later<'_, io::Result<Option<Message>>> {
        Box::pin(async { Ok(self.0.recv().await) })
    }
}

/// Messages of a run.
const SENT: u64 = 20;
/// The congestion control that both ends know.
const KNOWN: &str = "new-reno";
