//! The local HTTP server.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::answer::answer;
use crate::figures::Figures;
use crate::shared::{Config, Shared};
use crate::source::Source;

/// Gives players the files of a server by HTTP/1.1, with ranges. Clones are the same server.
///
/// What a player does not take is not fetched, beyond the buffer; a player that closes its connection or jumps ends
/// what the server sends for it.
pub struct PlayServer<S: Source> {
    shared: Arc<Shared<S>>,
}

impl<S: Source> std::fmt::Debug for PlayServer<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlayServer").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl<S: Source> Clone for PlayServer<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<S: Source> PlayServer<S> {
    /// Plays files of this server.
    pub fn new(source: S, config: Config) -> Self {
        Self { shared: Arc::new(Shared::new(source, config)) }
    }

    /// Serves every player that connects, for ever. Dropping the future closes all connections.
    pub async fn serve(&self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(self.shared.config.connections.max(1)));
        let mut players = JoinSet::new();
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            match listener.accept().await {
                Ok((socket, _)) => {
                    let shared = Arc::clone(&self.shared);
                    players.spawn(async move {
                        attend(&shared, socket).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(reason = %error, "accept failed");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            while players.try_join_next().is_some() {}
        }
    }

    /// Figures of what was played so far, the oldest first.
    pub fn figures(&self) -> Vec<Figures> {
        self.shared.figures()
    }
}

/// Serves one connection of a player.
async fn attend<S: Source>(shared: &Arc<Shared<S>>, socket: TcpStream) {
    let has_asked = AtomicBool::new(false);
    let service = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        let shared = Arc::clone(shared);
        async move { Ok::<_, Infallible>(answer(&shared, &request).await) }
    });
    // A player waits for each small answer.
    let _ = socket.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.config.idle_timeout)
        .max_buf_size(MOST_HEAD)
        .max_headers(MOST_FIELDS)
        .serve_connection(TokioIo::new(socket), service);
    let too_late = async {
        tokio::time::sleep(shared.config.first_request_timeout).await;
        if has_asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        ended = connection => if let Err(reason) = ended {
            tracing::debug!(%reason, "a player's connection ended");
        },
        () = too_late => tracing::debug!("a connection did not send a request"),
    }
}

/// Most bytes of the head of a request, and of its fields.
const MOST_HEAD: usize = 16 << 10;
const MOST_FIELDS: usize = 100;
/// Pause after the system refused a connection, mostly for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
