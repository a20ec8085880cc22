//! The local HTTP server.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::header::{HeaderMap, USER_AGENT};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use manyway_transfer::{Entry, RelativePath};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::answer::answer;
use crate::buffer::Buffer;
use crate::figures::Figures;
use crate::media;
use crate::presentation::{Member, Presentations};
use crate::source::Source;
use crate::target::TargetChoice;
use crate::viewing::Viewing;

/// How films are played.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// How much of each film is read ahead. Default 20 s.
    pub buffer: Buffer,
    /// The rate at which films arrive. Default: that of the media and a margin.
    pub target: TargetChoice,
    /// Connections of players at a time; more wait. Default 64, at least 1.
    pub connections: usize,
    /// How long a connection may be idle, and how long the head of a request may take. Default 60 s.
    pub idle_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            buffer: Buffer::default(),
            target: TargetChoice::default(),
            connections: 64,
            idle_timeout: Duration::from_secs(60),
        }
    }
}

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

pub(crate) struct Shared<S> {
    pub(crate) source: Arc<S>,
    pub(crate) config: Config,
    viewings: Mutex<BTreeMap<Key, Viewing>>,
    presentations: Mutex<Presentations>,
}

/// A file, and the program that plays it.
type Key = (RelativePath, String);

impl<S: Source> PlayServer<S> {
    /// Plays files of this server.
    pub fn new(source: S, config: Config) -> Self {
        let (viewings, presentations) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { source: Arc::new(source), config, viewings, presentations }) }
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
                    tracing::warn!(reason = %error, "a player's connection was not taken");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            while players.try_join_next().is_some() {}
        }
    }

    /// Figures of what was played so far, the oldest first.
    pub fn figures(&self) -> Vec<Figures> {
        let mut figures: Vec<_> = self.shared.viewings().values().map(Viewing::figures).collect();
        figures.sort_by_key(|figures| figures.began);
        figures
    }
}

/// Serves one connection of a player.
async fn attend<S: Source>(shared: &Arc<Shared<S>>, socket: TcpStream) {
    let service = service_fn(|request| {
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
    if let Err(reason) = connection.await {
        tracing::debug!(%reason, "a player's connection ended");
    }
}

impl<S: Source> Shared<S> {
    fn viewings(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Viewing>> {
        self.viewings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a playlist or manifest that a player asked for.
    pub(crate) fn on_list(&self, path: &RelativePath, text: &str) {
        self.presentations.lock().unwrap_or_else(PoisonError::into_inner).on_list(path, text);
    }

    /// The film of a request for the bytes of a file from `position` on, and the number of the request; `None` if the
    /// file is no film.
    pub(crate) fn viewing(
        self: &Arc<Self>,
        headers: &HeaderMap,
        (path, entry): (&RelativePath, &Entry),
        position: u64,
    ) -> Option<(Viewing, u64)> {
        let member = self.presentations.lock().unwrap_or_else(PoisonError::into_inner).member(path).cloned();
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let agent = agent.chars().take(MOST_AGENT).collect();
        match member {
            Some(Member::Other) => None,
            Some(Member::Segment(segment)) => {
                let (viewing, _) = self.remembered((segment.film.clone(), agent), entry.size);
                let request = viewing.on_segment(&segment, entry.size);
                Some((viewing, request))
            }
            None => {
                let kind = media::Kind::of(path.as_str())?;
                let (viewing, is_new) = self.remembered((path.clone(), agent), entry.size);
                if is_new {
                    tokio::spawn(find_length(
                        Arc::clone(self),
                        (path.clone(), entry.size, kind),
                        viewing.clone(),
                    ));
                }
                let request = viewing.on_request(position);
                Some((viewing, request))
            }
        }
    }

    /// The film of this key, and whether it is new.
    fn remembered(&self, key: Key, size: u64) -> (Viewing, bool) {
        let mut viewings = self.viewings();
        if let Some(viewing) = viewings.get(&key) {
            return (viewing.clone(), false);
        }
        if viewings.len() >= MOST_VIEWINGS {
            let oldest =
                viewings.iter().min_by_key(|(_, viewing)| viewing.last()).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| viewings.remove(&oldest));
        }
        let viewing = Viewing::new(key.0.to_string(), size, self.config.target);
        viewings.insert(key, viewing.clone());
        (viewing, true)
    }
}

/// Finds out how long the media in a file lasts.
async fn find_length<S: Source>(
    shared: Arc<Shared<S>>,
    (path, size, kind): (RelativePath, u64, media::Kind),
    viewing: Viewing,
) {
    match media::length(&*shared.source, &path, size, kind).await {
        Some(media) => viewing.set_media(media),
        None => tracing::info!(%path, "the length of the media is unknown, so it has no target rate"),
    }
}

/// Most bytes of the head of a request, and of its fields.
const MOST_HEAD: usize = 16 << 10;
const MOST_FIELDS: usize = 100;
/// Most bytes of a program's name.
const MOST_AGENT: usize = 200;
/// Most films whose figures are kept.
const MOST_VIEWINGS: usize = 256;
/// Pause after the system refused a connection, mostly for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
