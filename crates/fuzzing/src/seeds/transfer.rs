//! Recorded streams of clients and servers of the transfer protocol.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use manyway_transfer::{
    Feed, NoProgress, PutItem, PutPlan, RelativePath, Server, ServerConfig, Session, get, hello, list, put,
};
use tokio::io::{AsyncWrite, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::seed::Seed;

/// The ends that may read an input, as [`crate::transfer`] reads its first byte.
const SERVER: u8 = 0;
const GETTER: u8 = 2;
const LISTER: u8 = 3;

pub(super) fn seeds() -> Vec<Seed> {
    let place = tempfile::tempdir().unwrap();
    let (served, local) = (place.path().join("served"), place.path().join("local"));
    for directory in [&served, &local, &served.join("a"), &local.join("dir")] {
        std::fs::create_dir(directory).unwrap();
    }
    std::fs::write(served.join("a/b"), vec![7; 300]).unwrap();
    std::fs::write(served.join("c"), "content").unwrap();
    std::fs::write(local.join("dir/inner"), vec![9; 200]).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("inner", local.join("dir/link")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut seeds = Vec::new();
    let mut record = |name: &str, client: Option<u8>, said: [Vec<u8>; 2]| {
        let [asked, answered] = said;
        seeds.push(Seed::new("transfer", format!("{name}-asked"), [vec![SERVER], asked].concat()));
        if let Some(client) = client {
            seeds.push(Seed::new("transfer", format!("{name}-answered"), [vec![client], answered].concat()));
        }
    };
    runtime.block_on(async {
        let server = Server::new(&served, ServerConfig::default()).unwrap();
        let scene = Scene::new(&server);
        hello(&*scene.client, "seeds").await.unwrap();
        record("hello", Some(LISTER), scene.said());
        let scene = Scene::new(&server);
        list(&*scene.client, None).await.unwrap();
        record("list", Some(LISTER), scene.said());
        let scene = Scene::new(&server);
        let wanted = ["a/b", "c"].map(|path| RelativePath::parse(path).unwrap()).to_vec();
        get(&*scene.client, wanted, local.clone(), Arc::new(NoProgress)).await.unwrap();
        record("get", Some(GETTER), scene.said());
        let scene = Scene::new(&server);
        put(&*scene.client, vec![local.join("dir")], Arc::new(NoProgress)).await.unwrap();
        record("put", None, scene.said());
        let scene = Scene::new(&server);
        let feed = Feed::new(RelativePath::parse("feed").unwrap(), &b"content of unknown length"[..]);
        let plan = PutPlan { items: vec![PutItem::Feed(feed)], ..PutPlan::default() };
        put(&*scene.client, plan, Arc::new(NoProgress)).await.unwrap();
        record("put-stream", None, scene.said());
    });
    seeds
}

/// A client's session with a server that runs beside it.
struct Scene {
    client: Arc<Recorded>,
    server: Arc<Recorded>,
}

impl Scene {
    fn new(server: &Server) -> Self {
        let (open, accept) = mpsc::unbounded_channel();
        let (no_open, no_accept) = mpsc::unbounded_channel();
        let end = |open, accept| {
            Arc::new(Recorded { open, accept: tokio::sync::Mutex::new(accept), said: Arc::default() })
        };
        let (client, far) = (end(open, no_accept), end(no_open, accept));
        let (server, session) = (server.clone(), Arc::clone(&far));
        tokio::spawn(async move { server.run(&*session).await });
        Self { client, server: far }
    }

    /// The bytes of the client, and of the server.
    fn said(&self) -> [Vec<u8>; 2] {
        [&self.client, &self.server].map(|end| end.said.lock().unwrap().clone())
    }
}

/// A session that records the bytes of its end, on all streams in a row.
struct Recorded {
    open: mpsc::UnboundedSender<DuplexStream>,
    accept: tokio::sync::Mutex<mpsc::UnboundedReceiver<DuplexStream>>,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Recorded {
    fn halves(&self, stream: DuplexStream) -> (Recorder, ReadHalf<DuplexStream>) {
        let (receive, send) = tokio::io::split(stream);
        (Recorder { send, said: Arc::clone(&self.said) }, receive)
    }
}

impl Session for Recorded {
    type Send = Recorder;
    type Receive = ReadHalf<DuplexStream>;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        let (near, far) = tokio::io::duplex(1 << 16);
        self.open.send(far).map_err(|_| io::ErrorKind::ConnectionReset)?;
        Ok(self.halves(near))
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        let stream = self.accept.lock().await.recv().await?;
        Some(self.halves(stream))
    }
}

struct Recorder {
    send: WriteHalf<DuplexStream>,
    said: Arc<Mutex<Vec<u8>>>,
}

impl AsyncWrite for Recorder {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.send).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.said.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_shutdown(context)
    }
}
