//! A server of files in memory, and a client that sends requests as they are written.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_play::{Config, PlayServer, Source};
use manyway_session::Session;
use manyway_transfer::{Server, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the connections of a test carry together.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Bytes that the server wrote.
    pub(crate) written: AtomicU64,
    /// Halves on which the server may still write.
    pub(crate) open: AtomicUsize,
    /// After so many written bytes the connection breaks; 0: never.
    pub(crate) budget: AtomicU64,
    /// The targets that the client asked for.
    pub(crate) targets: Mutex<Vec<u64>>,
}

/// One end of a connection.
pub(crate) struct Memory {
    open: mpsc::UnboundedSender<(DuplexStream, DuplexStream)>,
    accept: tokio::sync::Mutex<mpsc::UnboundedReceiver<(DuplexStream, DuplexStream)>>,
    wire: Arc<Wire>,
}

impl Session for Memory {
    type Send = Writer;
    type Receive = DuplexStream;

    async fn open(&self) -> io::Result<(Writer, DuplexStream)> {
        let ((near, far), (back, receive)) = (tokio::io::duplex(4096), tokio::io::duplex(STREAM));
        self.open.send((back, far)).map_err(|_| io::ErrorKind::ConnectionReset)?;
        Ok((Writer { stream: near, wire: None }, receive))
    }

    async fn accept(&self) -> Option<(Writer, DuplexStream)> {
        let (send, receive) = self.accept.lock().await.recv().await?;
        self.wire.open.fetch_add(1, Ordering::SeqCst);
        Some((Writer { stream: send, wire: Some(Arc::clone(&self.wire)) }, receive))
    }

    fn hold(&self, _: &mut DuplexStream, bits_per_second: u64) {
        self.wire.targets.lock().unwrap().push(bits_per_second);
    }
}

/// Bytes that a stream holds.
pub(crate) const STREAM: usize = 256 * 1024;

/// A sending half; that of the server counts.
pub(crate) struct Writer {
    stream: DuplexStream,
    wire: Option<Arc<Wire>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(wire) = &self.wire {
            wire.open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, data);
        if let (Poll::Ready(Ok(written)), Some(wire)) = (&polled, &self.wire) {
            let before = wire.written.fetch_add(*written as u64, Ordering::SeqCst);
            let budget = wire.budget.load(Ordering::SeqCst);
            if budget > 0 && before > budget {
                wire.budget.store(0, Ordering::SeqCst);
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A source that makes a connection for each request.
pub(crate) struct Files {
    server: Server,
    wire: Arc<Wire>,
}

impl Source for Files {
    type Session = Memory;

    async fn session(&self) -> Option<Memory> {
        let (to_server, from_client) = mpsc::unbounded_channel();
        let (to_client, from_server) = mpsc::unbounded_channel();
        let end = |open, accept| {
            let wire = Arc::clone(&self.wire);
            Memory { open, accept: tokio::sync::Mutex::new(accept), wire }
        };
        let (near, far) = (end(to_server, from_server), end(to_client, from_client));
        let server = self.server.clone();
        tokio::spawn(async move { server.run(&far).await });
        Some(near)
    }
}

/// A local HTTP server with the files of a directory.
pub(crate) struct Web {
    pub(crate) play: PlayServer<Files>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) address: SocketAddr,
}

/// An answer: its status, its fields in lower case, and its body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    fields: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl Web {
    pub(crate) async fn start(directory: &Path, config: Config) -> Self {
        let wire = Arc::new(Wire::default());
        let server = Server::new(directory, ServerConfig::default()).unwrap();
        let play = PlayServer::new(Files { server, wire: Arc::clone(&wire) }, config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = play.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        Self { play, wire, address }
    }

    /// Sends a request with these fields over a connection of its own.
    pub(crate) async fn ask(&self, first: &str, fields: &[&str]) -> Answer {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let fields = fields.iter().map(|field| format!("{field}\r\n")).collect::<String>();
        let host = if fields.contains("Host:") { "" } else { "Host: localhost\r\n" };
        let request = format!("{first} HTTP/1.1\r\n{host}{fields}Connection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let reading = socket.read_to_end(&mut bytes);
        tokio::time::timeout(Duration::from_secs(20), reading).await.expect("no answer").unwrap();
        parse(&bytes)
    }
}

pub(crate) fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let (head, body) = (std::str::from_utf8(&bytes[..end]).unwrap(), bytes[end + 4..].to_vec());
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let field = |line: &str| line.split_once(": ").map(|(name, text)| (name.to_lowercase(), text.to_owned()));
    Answer { status, fields: lines.filter_map(field).collect(), body }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..400 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("it does not happen: {what}");
}
