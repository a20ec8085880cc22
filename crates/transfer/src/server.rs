//! The side that answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinSet, spawn_blocking};
use tracing::{debug, info};

use crate::bench;
use crate::bench::request::BenchRequest;
use crate::directory::Directory;
use crate::entry::Entry;
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::files::{Admission, Receiver, Source, Steering, send_files, survey};
use crate::frame::{Frame, Verdict};
use crate::name::RelativePath;
use crate::pipe::{consume_received, send_produced};
use crate::progress::{NoProgress, Progress, Report};
use crate::request::{Request, Totals, Unknown, VERSION};
use crate::session::{Session, Transport};
use crate::wire::{finish, read_frame, write_frame};

/// What clients may do with the served directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Access {
    /// Fetch and send files.
    #[default]
    ReadWrite,
    /// Only fetch them.
    ReadOnly,
}

/// How a server behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Name and version of the application, told to clients. Default `manyway-transfer/VERSION`.
    pub application: String,
    /// What clients may do. Default: fetch and send.
    pub access: Access,
    /// Longest bench stream. Default one hour.
    pub longest_bench: Duration,
    /// Requests of one connection that run at the same time; more wait. Default 256, at least 1.
    pub parallel_requests: usize,
    /// How long a new stream may take to say what it wants. Default 30 s.
    pub request_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            application: concat!("manyway-transfer/", env!("CARGO_PKG_VERSION")).to_owned(),
            access: Access::default(),
            longest_bench: Duration::from_secs(3600),
            parallel_requests: 256,
            request_timeout: Duration::from_secs(30),
        }
    }
}

/// Serves one directory, over any number of connections.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

struct Shared {
    directory: Arc<Directory>,
    config: ServerConfig,
    progress: Arc<dyn Progress>,
}

impl Server {
    /// Opens the directory to serve.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be read.
    pub fn new(directory: &Path, config: ServerConfig) -> Result<Self, Failure> {
        Self::with_progress(directory, config, Arc::new(NoProgress))
    }

    /// As [`Server::new`], and tells `progress` what comes in and goes out.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be read.
    pub fn with_progress(
        directory: &Path,
        config: ServerConfig,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, Failure> {
        let directory = Arc::new(Directory::open(directory)?);
        Ok(Self { shared: Arc::new(Shared { directory, config, progress }) })
    }

    /// Answers the requests of one connection until it ends. Dropping the future gives them up.
    pub async fn run<S: Session>(&self, session: &S) {
        let permits = Arc::new(Semaphore::new(self.shared.config.parallel_requests.max(1)));
        let mut requests = JoinSet::new();
        let tally = Arc::new(bench::Tally::default());
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            let Some((send, receive)) = session.accept().await else { break };
            let shared = Arc::clone(&self.shared);
            let run = Run { tally: Arc::clone(&tally), transport: session.transport() };
            requests.spawn(async move {
                if let Err(reason) = shared.answer(&run, send, receive).await {
                    debug!(%reason, "request failed");
                }
                drop(permit);
            });
            while requests.try_join_next().is_some() {}
        }
        while requests.join_next().await.is_some() {}
    }
}

/// What the requests of one connection share.
struct Run {
    tally: Arc<bench::Tally>,
    transport: Option<Arc<dyn Transport>>,
}

impl Shared {
    async fn answer<W, R>(&self, run: &Run, mut send: W, mut receive: R) -> Result<(), TransferError>
    where
        W: AsyncWrite + Unpin + Send,
        R: AsyncRead + Unpin + Send,
    {
        let first = tokio::time::timeout(self.config.request_timeout, read_frame(&mut receive)).await;
        let request = match first {
            Ok(Ok(Frame::Request(Ok(request)))) => request,
            Ok(Ok(Frame::Request(Err(unknown)))) => return refuse(&mut send, unsupported(unknown)).await,
            Ok(Ok(_)) => return refuse(&mut send, Failure::new(Reason::Malformed)).await,
            Ok(Err(TransferError::Codec(error))) => {
                return refuse(&mut send, Failure::with_text(Reason::Malformed, error.to_string())).await;
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                return refuse(&mut send, Failure::with_text(Reason::Malformed, "the request did not come"))
                    .await;
            }
        };
        match request {
            Request::Hello { application } => self.hello(&application, &mut send).await,
            Request::Put(totals) => self.put(totals, &mut send, &mut receive).await,
            Request::Get(paths) => self.get(paths, &mut send).await,
            Request::List(path) => self.list(path, &mut send).await,
            Request::Bench(request) => self.bench(request, &run.tally, send, receive).await,
            Request::Account(request) => {
                bench::keep_account(request, &run.tally, run.transport.as_deref(), send, receive).await
            }
        }
    }

    async fn hello<W: AsyncWrite + Unpin>(&self, peer: &str, send: &mut W) -> Result<(), TransferError> {
        debug!(application = peer, "hello");
        let frame = Frame::Hello {
            application: crate::codec::cut(&self.config.application, Request::MAX_APPLICATION).to_owned(),
            oldest: VERSION,
            newest: VERSION,
            read_only: self.config.access == Access::ReadOnly,
        };
        write_frame(send, &frame).await?;
        finish(send).await
    }

    async fn put<W, R>(&self, totals: Totals, send: &mut W, receive: &mut R) -> Result<(), TransferError>
    where
        W: AsyncWrite + Unpin,
        R: AsyncRead + Unpin,
    {
        if self.config.access == Access::ReadOnly {
            let text = "the server was started with --read-only";
            return refuse(send, Failure::with_text(Reason::ReadOnly, text)).await;
        }
        info!(files = totals.files, bytes = totals.bytes, "receiving files");
        self.progress.on_progress(crate::ProgressEvent::Totals(totals));
        write_frame(send, &Frame::Accepted(totals)).await?;

        let (verdicts, queue) = mpsc::channel::<Verdict>(VERDICTS_WAITING);
        let (directory, progress) = (Arc::clone(&self.directory), Arc::clone(&self.progress));
        let receiving = consume_received(receive, move |source| {
            // A client that is gone needs no verdict; the stream tells the rest.
            let mut tell = |verdict| drop(verdicts.blocking_send(verdict));
            Receiver::new(&directory, &Admission::Anything, &*progress, &mut tell).run(source)
        });
        let (report, told) = tokio::join!(receiving, tell_verdicts(queue, send));
        let report = match report {
            Ok(report) => report,
            Err(error @ (TransferError::Codec(_) | TransferError::Unexpected { .. })) => {
                return refuse(send, Failure::with_text(Reason::Malformed, error.to_string())).await;
            }
            Err(error) => return Err(error),
        };
        told?;
        info!(files = report.verified, bytes = report.bytes, failed = report.failures, "received files");
        let Report { verified, bytes, .. } = report;
        write_frame(send, &Frame::Done(Totals { files: verified, bytes })).await?;
        finish(send).await
    }

    async fn get<W: AsyncWrite + Unpin>(
        &self,
        paths: Vec<RelativePath>,
        send: &mut W,
    ) -> Result<(), TransferError> {
        let sources: Result<Vec<_>, _> = if paths.is_empty() {
            Source::served(&self.directory, None).map(|s| vec![s])
        } else {
            paths.into_iter().map(|p| Source::served(&self.directory, Some(p))).collect()
        };
        let sources = match sources {
            Ok(sources) => sources,
            Err(failure) => return refuse(send, failure).await,
        };
        let (totals, sources) =
            spawn_blocking(move || (survey(&sources), sources)).await.map_err(|_| TransferError::Internal)?;
        info!(files = totals.files, bytes = totals.bytes, "sending files");
        write_frame(send, &Frame::Accepted(totals)).await?;
        let progress = Arc::clone(&self.progress);
        send_produced(send, &self.progress, move |sink| {
            send_files(sink, &sources, &*progress, &Steering::default())
        })
        .await?;
        finish(send).await
    }

    async fn list<W: AsyncWrite + Unpin>(
        &self,
        path: Option<RelativePath>,
        send: &mut W,
    ) -> Result<(), TransferError> {
        let directory = Arc::clone(&self.directory);
        let listed = spawn_blocking(move || list_directory(&directory, path.as_ref())).await;
        let entries = match listed.map_err(|_| TransferError::Internal)? {
            Ok(entries) => entries,
            Err(failure) => return refuse(send, failure).await,
        };
        let totals = Totals {
            files: u64::try_from(entries.len()).unwrap_or(u64::MAX),
            bytes: entries.iter().fold(0, |sum, entry| sum.saturating_add(entry.size)),
        };
        let mut bytes = Vec::new();
        Frame::Accepted(totals).encode(&mut bytes);
        for entry in entries {
            Frame::Entry(entry).encode(&mut bytes);
            if bytes.len() > LIST_CHUNK {
                send.write_all(&bytes).await.map_err(TransferError::stream("sending a list"))?;
                bytes.clear();
            }
        }
        Frame::Done(totals).encode(&mut bytes);
        send.write_all(&bytes).await.map_err(TransferError::stream("sending a list"))?;
        finish(send).await
    }

    async fn bench<W, R>(
        &self,
        request: BenchRequest,
        tally: &bench::Tally,
        mut send: W,
        receive: R,
    ) -> Result<(), TransferError>
    where
        W: AsyncWrite + Unpin,
        R: AsyncRead + Unpin,
    {
        if let crate::BenchLimit::Duration(duration) = request.limit
            && duration.saturating_add(request.omit) > self.config.longest_bench
        {
            let text = format!("at most {:?} at a time", self.config.longest_bench);
            return refuse(&mut send, Failure::with_text(Reason::Limit, text)).await;
        }
        bench::answer(request, self.config.longest_bench, tally, send, receive).await
    }
}

async fn tell_verdicts<W: AsyncWrite + Unpin>(
    mut queue: mpsc::Receiver<Verdict>,
    send: &mut W,
) -> Result<(), TransferError> {
    let mut waiting = Vec::new();
    let mut bytes = Vec::new();
    while queue.recv_many(&mut waiting, VERDICTS_WAITING).await > 0 {
        bytes.clear();
        for verdict in waiting.drain(..) {
            Frame::Verdict(verdict).encode(&mut bytes);
        }
        send.write_all(&bytes).await.map_err(TransferError::stream("sending verdicts"))?;
    }
    Ok(())
}

fn list_directory(directory: &Directory, path: Option<&RelativePath>) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    for child in directory.children(path)? {
        // Names that cannot travel are left out, as are links, devices and files that vanish meanwhile.
        let Ok(child) = child else { continue };
        let place = match path {
            Some(path) => path.join(&child),
            None => RelativePath::parse(&child),
        };
        let Ok(place) = place else { continue };
        let Ok(facts) = directory.describe(&place) else { continue };
        let (kind, size, modified, mode) = (facts.kind, facts.size, facts.modified, facts.mode);
        entries.push(Entry { path: place, kind, size, modified, mode });
        if entries.len() >= crate::client::MAX_LISTED {
            return Err(Failure::new(Reason::Limit));
        }
    }
    Ok(entries)
}

fn unsupported(unknown: Unknown) -> Failure {
    let text = match unknown {
        Unknown::Version(version) => {
            format!("version {version} of the transfer protocol; this side speaks version {VERSION}")
        }
        Unknown::Verb(verb) => format!("request {verb}"),
    };
    Failure::with_text(Reason::Unsupported, text)
}

// transfer 1.7
async fn refuse<W: AsyncWrite + Unpin>(send: &mut W, failure: Failure) -> Result<(), TransferError> {
    write_frame(send, &Frame::Refused(failure.clone())).await?;
    finish(send).await?;
    Err(TransferError::Local(failure))
}

/// Verdicts that may wait for a slow client before its files do.
const VERDICTS_WAITING: usize = 1024;
/// Bytes of a list that are written at once.
const LIST_CHUNK: usize = 64 * 1024;
