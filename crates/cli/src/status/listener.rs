//! The socket at which a command publishes its state.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use super::state::{Rates, WeakState};
use super::{control, place};

/// Interval of documents.
const EVERY: Duration = Duration::from_millis(500);
/// A reader that does not read for this long is dropped.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of requests of a reader.
const LONGEST: u64 = 64 * 1024;
/// Most readers at the same time.
const MOST: usize = 8;

/// Publishes while it lives; dropping it removes the socket.
#[derive(Debug)]
pub(super) struct Listener {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Listener {
    pub(super) fn start(verb: &str, state: WeakState) -> io::Result<Self> {
        let directory = place::own_directory()?;
        place::clean(&directory);
        // Processes of several namespaces may have the same ID.
        let name = |end| directory.join(format!("{verb}-{}{end}.sock", std::process::id()));
        let mut bound = Err(io::Error::from(io::ErrorKind::AddrInUse));
        for path in ["", "a", "b"].map(name) {
            bound = bind(&path).map(|listener| (listener, path));
            if bound.is_ok() {
                break;
            }
        }
        let (listener, path) = bound?;
        let task = tokio::spawn(listen(listener, state));
        Ok(Self { path, task })
    }
}

/// Binds a socket that listens from the moment it has its name on: one that does not is taken for that of a command that
/// was killed, and removed.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let unnamed = path.with_extension("new");
    let listener = UnixListener::bind(&unnamed)?;
    let named = fs::set_permissions(&unnamed, Permissions::from_mode(0o600))
        .and_then(|()| fs::hard_link(&unnamed, path));
    // What is left of it does no harm.
    let _ = fs::remove_file(&unnamed);
    named.map(|()| listener)
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_file(&self.path);
    }
}

async fn listen(listener: UnixListener, state: WeakState) {
    let mut readers = JoinSet::new();
    loop {
        // More readers wait until one of these has gone.
        if readers.len() >= MOST {
            readers.join_next().await;
            continue;
        }
        let Ok((stream, _)) = listener.accept().await else {
            // Too many files are open, which may pass.
            tokio::time::sleep(EVERY).await;
            continue;
        };
        while readers.try_join_next().is_some() {}
        readers.spawn(tell(stream, state.clone()));
    }
}

/// Sends documents until the reader goes, the first one when there are rates; and carries out its requests.
async fn tell(stream: UnixStream, state: WeakState) {
    let (receive, mut send) = stream.into_split();
    let mut requests = BufReader::new(receive.take(LONGEST)).lines();
    let mut rates = Rates::default();
    let mut tick = tokio::time::interval(EVERY);
    let mut is_first = true;
    loop {
        let request = tokio::select! {
            _ = tick.tick() => None,
            line = requests.next_line() => match line {
                Ok(Some(line)) => Some(line),
                // It has gone, as a command that only looks whether this one lives.
                Ok(None) | Err(_) => return,
            },
        };
        let Some(state) = state.upgrade() else { return };
        let line = match request {
            Some(request) => {
                let Ok(request) = serde_json::from_str(&request) else { return };
                serde_json::to_vec(&control::carry_out(&state, &request).await)
            }
            None => {
                let document = state.document(&mut rates).await;
                if std::mem::take(&mut is_first) {
                    continue;
                }
                serde_json::to_vec(&document)
            }
        };
        let Ok(mut line) = line else { return };
        line.push(b'\n');
        if !matches!(tokio::time::timeout(PATIENCE, send.write_all(&line)).await, Ok(Ok(()))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::state::SharedState;
    use super::*;

    #[tokio::test]
    async fn commands_that_only_connect_keep_no_reader_out() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("send-1.sock");
        let state = SharedState::default();
        let task = tokio::spawn(listen(bind(&path).unwrap(), state.downgrade()));
        let mut open = Vec::new();
        for _ in 0..3 * MOST {
            drop(UnixStream::connect(&path).await.unwrap());
            open.push(UnixStream::connect(&path).await.unwrap());
        }
        let last = UnixStream::connect(&path).await.unwrap();
        open.clear();
        let document = BufReader::new(last).lines().next_line().await.unwrap();
        assert!(document.is_some_and(|line| line.contains("\"peers\"")));
        task.abort();
    }

    fn clean_until(is_over: &AtomicBool, directory: &Path) {
        while !is_over.load(Ordering::Relaxed) {
            place::clean(directory);
        }
    }

    /// Between its name and its first listener a socket refuses connections.
    #[tokio::test]
    async fn a_socket_that_is_being_made_is_not_removed_by_others() {
        let directory = tempfile::TempDir::new().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| clean_until(&is_over, directory.path()));
            let made: Vec<_> = (0..300)
                .map(|number| {
                    let path = directory.path().join(format!("send-{number}.sock"));
                    (bind(&path).unwrap(), path)
                })
                .collect();
            let lost = made.iter().filter(|(_, path)| !path.exists()).count();
            is_over.store(true, Ordering::Relaxed);
            let left = fs::read_dir(directory.path()).unwrap().count();
            assert_eq!((lost, left), (0, 300), "the sockets and nothing else");
        });
    }
}
