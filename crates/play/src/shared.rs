//! What all connections of players share: the films and their figures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::header::{HeaderMap, USER_AGENT};
use manyway_transfer::{Entry, RelativePath};

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
    /// How long a new connection may take to send the head of its first request. Default 5 s.
    pub first_request_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            buffer: Buffer::default(),
            target: TargetChoice::default(),
            connections: 64,
            idle_timeout: Duration::from_secs(60),
            first_request_timeout: Duration::from_secs(5),
        }
    }
}

/// What all connections of players share.
pub(crate) struct Shared<S> {
    pub(crate) source: Arc<S>,
    pub(crate) config: Config,
    viewings: Mutex<BTreeMap<Key, Viewing>>,
    presentations: Mutex<Presentations>,
}

/// A file and its size, 0 for a presentation, and the program that plays it.
type Key = (RelativePath, u64, String);

impl<S: Source> Shared<S> {
    pub(crate) fn new(source: S, config: Config) -> Self {
        let (viewings, presentations) = (Mutex::default(), Mutex::default());
        Self { source: Arc::new(source), config, viewings, presentations }
    }

    /// Figures of all films, the oldest first.
    pub(crate) fn figures(&self) -> Vec<Figures> {
        let mut figures: Vec<_> = self.viewings().values().map(Viewing::figures).collect();
        figures.sort_by_key(|figures| figures.began);
        figures
    }

    fn viewings(&self) -> MutexGuard<'_, BTreeMap<Key, Viewing>> {
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
        let member = self.presentations.lock().unwrap_or_else(PoisonError::into_inner).member(path);
        let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let agent = agent.chars().take(MOST_AGENT).collect();
        match member {
            Some(Member::Other) => None,
            Some(Member::Segment(segment)) => {
                let (viewing, _) = self.remembered(((*segment.film).clone(), 0, agent));
                let request = viewing.on_segment(&segment, entry.size);
                Some((viewing, request))
            }
            None => {
                let kind = media::Kind::of(path.as_str())?;
                let (viewing, is_new) = self.remembered((path.clone(), entry.size, agent));
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
    fn remembered(&self, key: Key) -> (Viewing, bool) {
        let mut viewings = self.viewings();
        if let Some(viewing) = viewings.get(&key) {
            return (viewing.clone(), false);
        }
        if viewings.len() >= MOST_VIEWINGS {
            let oldest =
                viewings.iter().min_by_key(|(_, viewing)| viewing.last()).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| viewings.remove(&oldest));
        }
        let viewing = Viewing::new(key.0.to_string(), key.1, self.config.target);
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

/// Most bytes of a program's name.
const MOST_AGENT: usize = 200;
/// Most films whose figures are kept.
const MOST_VIEWINGS: usize = 256;
