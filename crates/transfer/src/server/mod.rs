//! The side that serves requests.

mod part;
mod refuse;
mod served;
mod underway;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::{Session, Transport};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tracing::{debug, info};

use crate::bench;
use crate::bench::request::BenchRequest;
use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::files::{PutPlan, Wanted, survey};
use crate::flow::{Side, receive_over, send_over};
use crate::frame::Frame;
use crate::name::RelativePath;
use crate::progress::{NoProgress, Progress, ProgressEvent, Report};
use crate::request::{GetRequest, ReadRequest, Request, Totals, Unknown, VERSION};
use crate::wire::{finish, read_frame, write_frame};
use refuse::refuse;
use served::Served;
use underway::Underway;

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
    /// Name and version of the application, sent to clients. Default `manyway-transfer/VERSION`.
    pub application: String,
    /// What clients may do. Default: fetch and send.
    pub access: Access,
    /// Longest bench stream. Default one hour.
    pub longest_bench: Duration,
    /// Requests of one connection that run in parallel; more wait. Default 320, at least 1.
    pub parallel_requests: usize,
    /// Requests of all connections that send or receive files in parallel; more wait. Each takes three threads and a
    /// few megabytes. Default 64, at least 1.
    pub parallel_transfers: usize,
    /// Requests of all connections that read a part of a file in parallel; more are refused. Each takes 64 KiB. Default
    /// 256.
    pub parallel_reads: usize,
    /// Of these, those of one connection. Default 64.
    pub parallel_reads_per_connection: usize,
    /// How long a new stream may take to send its request. Default 30 s.
    pub request_timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            application: concat!("manyway-transfer/", env!("CARGO_PKG_VERSION")).to_owned(),
            access: Access::default(),
            longest_bench: Duration::from_secs(3600),
            parallel_requests: 320,
            parallel_transfers: 64,
            parallel_reads: 256,
            parallel_reads_per_connection: 64,
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
    served: Arc<Served>,
    config: ServerConfig,
    /// Receives the progress of incoming files.
    incoming: Arc<dyn Progress>,
    /// Receives the progress of outgoing files.
    outgoing: Arc<dyn Progress>,
    transfers: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    fetched: watch::Sender<Option<Report>>,
}

impl Server {
    /// Opens the directory to serve.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be read.
    pub fn new(directory: &Path, config: ServerConfig) -> Result<Self, Failure> {
        Self::with_progress(directory, config, Arc::new(NoProgress))
    }

    /// As [`Server::new`], and reports incoming and outgoing files to `progress`.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be read.
    pub fn with_progress(
        directory: &Path,
        config: ServerConfig,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, Failure> {
        Ok(Self::serving(Served::directory(directory)?, config, progress))
    }

    /// Offers these files and directories for fetching, each under its last component, and nothing else: no other file
    /// can be read and none can be written.
    ///
    /// # Errors
    /// One of them does not exist, or two have the same last component.
    pub fn offer(
        plan: impl Into<PutPlan>,
        config: ServerConfig,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, Failure> {
        Ok(Self::serving(Served::offer(plan.into())?, config, progress))
    }

    fn serving(served: Served, config: ServerConfig, progress: Arc<dyn Progress>) -> Self {
        let transfers = Arc::new(Semaphore::new(config.parallel_transfers.max(1)));
        let reads = Arc::new(Semaphore::new(config.parallel_reads));
        let (served, fetched) = (Arc::new(served), watch::Sender::new(None));
        let (incoming, outgoing) = (Arc::clone(&progress), progress);
        Self { shared: Arc::new(Shared { served, config, incoming, outgoing, transfers, reads, fetched }) }
    }

    /// The same server, with the same limits, for one client: `incoming` receives the progress of its files and the
    /// refusals of its requests, `outgoing` that of files sent to it.
    #[must_use]
    pub fn observed_by(&self, incoming: Arc<dyn Progress>, outgoing: Arc<dyn Progress>) -> Self {
        let Shared { served, config, transfers, reads, fetched, .. } = &*self.shared;
        Self {
            shared: Arc::new(Shared {
                served: Arc::clone(served),
                config: config.clone(),
                incoming,
                outgoing,
                transfers: Arc::clone(transfers),
                reads: Arc::clone(reads),
                fetched: fetched.clone(),
            }),
        }
    }

    /// Waits until some client has fetched everything, and returns what it verified and what failed.
    pub async fn fetched(&self) -> Report {
        let mut fetched = self.shared.fetched.subscribe();
        let report = fetched.wait_for(Option::is_some).await.map(|report| report.clone().unwrap_or_default());
        match report {
            Ok(report) => report,
            // This value holds the sender, so it cannot be dropped.
            Err(_) => std::future::pending().await,
        }
    }

    /// Serves the requests of one connection until it ends. Dropping the future aborts them.
    pub async fn run<S: Session>(&self, session: &S) {
        let permits = Arc::new(Semaphore::new(self.shared.config.parallel_requests.max(1)));
        let mut requests = JoinSet::new();
        let tally = Arc::new(bench::Tally::default());
        let reads = Arc::new(Semaphore::new(self.shared.config.parallel_reads_per_connection));
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            let Some((send, receive)) = session.accept().await else { break };
            let shared = Arc::clone(&self.shared);
            let run =
                Run { tally: Arc::clone(&tally), reads: Arc::clone(&reads), transport: session.transport() };
            requests.spawn(async move {
                if let Err(reason) = Arc::clone(&shared).answer(&run, send, receive).await {
                    shared.on_failed(&reason);
                }
                drop(permit);
            });
            while requests.try_join_next().is_some() {}
        }
        while requests.join_next().await.is_some() {}
    }
}

/// State shared by the requests of one connection.
struct Run {
    tally: Arc<bench::Tally>,
    reads: Arc<Semaphore>,
    transport: Option<Arc<dyn Transport>>,
}

impl Shared {
    fn on_failed(&self, reason: &TransferError) {
        debug!(%reason, "request failed");
        if let TransferError::Local(failure) = reason {
            self.incoming.on_progress(ProgressEvent::Refused { failure });
        }
    }

    async fn answer<W, R>(
        self: Arc<Self>,
        run: &Run,
        mut send: W,
        mut receive: R,
    ) -> Result<(), TransferError>
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
            Request::Put(totals) => {
                let _permit = self.transfers.acquire().await;
                self.put(totals, &mut send, &mut receive).await
            }
            Request::Get(request) => {
                let _permit = self.transfers.acquire().await;
                self.get(request, &mut send, &mut receive).await
            }
            Request::List(path) => self.list(path, &mut send).await,
            Request::Read(request) => self.read(run, request, &mut send).await,
            Request::Bench(_) | Request::Account(_) | Request::Messages(_)
                if matches!(*self.served, Served::Offer(..)) =>
            {
                let text = "the other side only gives files away";
                refuse(&mut send, Failure::with_text(Reason::Unsupported, text)).await
            }
            Request::Bench(request) => self.bench(request, &run.tally, send, receive).await,
            Request::Messages(request) => {
                let (longest, transport) = (self.config.longest_bench, run.transport.as_deref());
                bench::answer_messages(request, longest, transport, send, receive).await
            }
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
        let store = match &*self.served {
            Served::Directory(store) if self.config.access == Access::ReadWrite => Arc::clone(store),
            Served::Directory(_) => {
                let text = "this server or ticket is read-only";
                return refuse(send, Failure::with_text(Reason::ReadOnly, text)).await;
            }
            Served::Offer(..) => {
                let text = "the other side only gives files away";
                return refuse(send, Failure::with_text(Reason::ReadOnly, text)).await;
            }
        };
        info!(files = totals.files, bytes = totals.bytes, "receiving files");
        self.incoming.on_progress(ProgressEvent::Totals(totals));
        write_frame(send, &Frame::Accepted(totals)).await?;
        let underway = Underway::new(&self.incoming);
        let progress = Arc::<Underway>::clone(&underway);
        let result = receive_over((send, receive), store, Wanted::default(), progress).await;
        match result.inspect_err(|error| underway.break_off(error)) {
            Ok(report) => {
                let (files, bytes, failed) = (report.verified, report.bytes, report.failures);
                info!(files, bytes, resumed = report.resumed, failed, "received files");
                Ok(())
            }
            Err(error @ (TransferError::Codec(_) | TransferError::Unexpected { .. })) => {
                refuse(send, Failure::with_text(Reason::Malformed, error.to_string())).await
            }
            Err(error) => Err(error),
        }
    }

    async fn get<W, R>(
        &self,
        GetRequest { rules, paths }: GetRequest,
        send: &mut W,
        receive: &mut R,
    ) -> Result<(), TransferError>
    where
        W: AsyncWrite + Unpin,
        R: AsyncRead + Unpin,
    {
        let is_everything = self.served.is_everything(&paths);
        let rules = self.served.rules(rules);
        let sources = match self.served.sources(paths) {
            Ok(sources) => sources,
            Err(failure) => return refuse(send, failure).await,
        };
        let surveyed = spawn_blocking(move || (survey(&sources, &rules), sources, rules)).await;
        let (totals, sources, rules) = surveyed.map_err(|_| TransferError::Internal)?;
        info!(files = totals.files, bytes = totals.bytes, "sending files");
        self.outgoing.on_progress(ProgressEvent::Totals(totals));
        write_frame(send, &Frame::Accepted(totals)).await?;
        let underway = Underway::new(&self.outgoing);
        let progress: Arc<dyn Progress> = Arc::<Underway>::clone(&underway);
        let sent = send_over((send, receive), Side::Acceptor, (sources, rules), &progress).await;
        let report = sent.inspect_err(|error| underway.break_off(error))?;
        info!(files = report.verified, failed = report.failures, "sent files");
        if is_everything {
            self.fetched.send_replace(Some(report));
        }
        Ok(())
    }

    async fn read<W: AsyncWrite + Unpin>(
        &self,
        run: &Run,
        request: ReadRequest,
        send: &mut W,
    ) -> Result<(), TransferError> {
        let too_many = |most: usize, whose: &str| {
            Failure::with_text(Reason::Limit, format!("{most} parts of files are being read {whose}"))
        };
        let Ok(_own) = run.reads.try_acquire() else {
            let most = self.config.parallel_reads_per_connection;
            return refuse(send, too_many(most, "over this connection")).await;
        };
        let Ok(_permit) = self.reads.try_acquire() else {
            return refuse(send, too_many(self.config.parallel_reads, "by all clients")).await;
        };
        part::send(&self.served, request, send).await
    }

    async fn list<W: AsyncWrite + Unpin>(
        self: &Arc<Self>,
        path: Option<RelativePath>,
        send: &mut W,
    ) -> Result<(), TransferError> {
        let shared = Arc::clone(self);
        let listed = spawn_blocking(move || shared.served.list(path.as_ref())).await;
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

fn unsupported(unknown: Unknown) -> Failure {
    let text = match unknown {
        Unknown::Version(version) => {
            format!("version {version} of the transfer protocol; this side speaks version {VERSION}")
        }
        Unknown::Verb(verb) => format!("request {verb}"),
    };
    Failure::with_text(Reason::Unsupported, text)
}

/// Bytes of a list that are written at once.
const LIST_CHUNK: usize = 64 * 1024;
