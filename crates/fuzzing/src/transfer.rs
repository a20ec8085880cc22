//! The transfer protocol: arbitrary bytes as a client's stream for a server that reads and writes a directory, and as a
//! server's answer for clients. Nothing outside the directories is created or changed.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_transfer::{
    NoProgress, RelativePath, Server, ServerConfig, Session, get, hello, list, read_part,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::script::Script;

/// Most bytes that an end may write; beyond it the connection breaks.
const MOST_WRITTEN: usize = 1 << 20;

/// A directory that belongs to this process, with one inside that is served and one that receives.
struct Place {
    root: tempfile::TempDir,
    served: PathBuf,
    into: PathBuf,
    runtime: tokio::runtime::Runtime,
}

static PLACE: LazyLock<Mutex<Place>> = LazyLock::new(|| {
    // In memory if possible: files are synced before they get their names.
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let (served, into) = (root.path().join("served"), root.path().join("into"));
    std::fs::write(root.path().join("outside"), "untouched").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build();
    Mutex::new(Place { root, served, into, runtime: runtime.unwrap() })
});

/// The first byte selects the end for the rest.
pub fn run(data: &[u8]) {
    let place = PLACE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    place.reset();
    let mut script = Script::new(data);
    let (end, session) = (script.u8() % 4, Single::new(script.rest()));
    place.runtime.block_on(async {
        match end {
            0 | 1 => {
                let mut config = ServerConfig::default();
                config.longest_bench = Duration::from_millis(1);
                config.request_timeout = Duration::from_secs(1);
                let server = Server::new(&place.served, config).unwrap();
                server.run(&session).await;
            }
            2 => {
                let wanted = vec![RelativePath::parse("a/b").unwrap(), RelativePath::parse("c").unwrap()];
                drop(get(&session, wanted, place.into.clone(), Arc::new(NoProgress)).await);
            }
            _ => {
                drop(hello(&session, "fuzzing").await);
                drop(list(&session, None).await);
                let part = read_part(&session, RelativePath::parse("a").unwrap(), 1..1 << 20).await;
                if let Ok(mut part) = part {
                    let mut left = part.length();
                    while let Ok(Some(bytes)) = part.next().await {
                        left = left.checked_sub(bytes.len() as u64).unwrap();
                    }
                }
            }
        }
    });
    place.check();
}

impl Place {
    /// Every run begins with the same files.
    fn reset(&self) {
        for directory in [&self.served, &self.into] {
            drop(std::fs::remove_dir_all(directory));
            std::fs::create_dir(directory).unwrap();
        }
        std::fs::write(self.served.join("file"), "content").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("..", self.served.join("link")).unwrap();
    }

    fn check(&self) {
        let mut names: Vec<_> =
            std::fs::read_dir(self.root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["into", "outside", "served"], "something was made outside");
        assert_eq!(std::fs::read(self.root.path().join("outside")).unwrap(), b"untouched");
        for entry in std::fs::read_dir(&self.into).unwrap() {
            let name = entry.unwrap().file_name();
            let name = name.to_string_lossy();
            assert!(name == "b" || name == "c" || name.starts_with('.'), "{name} was not asked for");
            // A link at the top has no tree around it.
            assert!(!self.into.join(&*name).is_symlink(), "{name} is a link");
        }
    }
}

/// A session with one stream in each direction, whose other end has sent everything in advance.
struct Single {
    input: Vec<u8>,
    waiting: Mutex<bool>,
}

impl Single {
    fn new(input: &[u8]) -> Self {
        Self { input: input.to_vec(), waiting: Mutex::new(true) }
    }

    fn stream(&self) -> (Sink, Source) {
        (Sink { room: MOST_WRITTEN }, Source { rest: self.input.clone() })
    }
}

impl Session for Single {
    type Send = Sink;
    type Receive = Source;

    async fn open(&self) -> io::Result<(Self::Send, Self::Receive)> {
        Ok(self.stream())
    }

    async fn accept(&self) -> Option<(Self::Send, Self::Receive)> {
        let waiting = std::mem::take(&mut *self.waiting.lock().ok()?);
        waiting.then(|| self.stream())
    }
}

/// Accepts bytes and discards them.
struct Sink {
    room: usize,
}

impl AsyncWrite for Sink {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(room) = self.room.checked_sub(bytes.len()) else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        };
        self.room = room;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Returns its bytes, then the end.
struct Source {
    rest: Vec<u8>,
}

impl AsyncRead for Source {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = buffer.remaining().min(self.rest.len());
        let rest = self.rest.split_off(count);
        buffer.put_slice(&self.rest);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}
