//! The side that requests a run.

use std::sync::Arc;
use std::time::Duration;

use manyway_session::Session;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::{BenchSummary, Frame};
use crate::request::Request;
use crate::wire::{finish, read_acceptance, read_frame, write_request};

use super::account::{Bookkeeping, Tally, facts_of};
use super::answer::count;
use super::fill::{Filled, fill};
use super::partial::{BenchFailure, Figures};
use super::request::{AccountRequest, BenchDirection, BenchLimit, BenchRequest};
use super::{BenchAccount, BenchOutcome, BenchPlan, FAR_AWAY, REPORTS_WAITING, Reports, StreamInterval};

/// Measures throughput. `on_interval` receives what arrived on each stream in each interval;
/// [`IntervalMerger`](super::IntervalMerger) adds the streams up.
///
/// # Errors
/// The plan is out of range, the other side refuses or accepts fewer parallel streams, the connection broke, or the
/// other side reported nothing for 5 s after the planned time.
pub async fn bench<S: Session>(
    session: &S,
    plan: &BenchPlan,
    on_interval: impl FnMut(StreamInterval),
) -> Result<BenchOutcome, BenchFailure> {
    bench_until(session, plan, std::future::pending(), on_interval).await
}

/// As [`bench()`], and ends the run early once `stop` completes. The outcome is then what was measured so far; the
/// other side has one second to report it.
///
/// # Errors
/// As [`bench()`].
// transfer 6.9
pub async fn bench_until<S: Session>(
    session: &S,
    plan: &BenchPlan,
    stop: impl Future<Output = ()>,
    mut on_interval: impl FnMut(StreamInterval),
) -> Result<BenchOutcome, BenchFailure> {
    let tally = Arc::new(Tally::default());
    let transport = session.transport();
    let book = Bookkeeping::start(&tally, facts_of(transport.as_deref()).await);
    let mut figures = Figures::new(plan);
    let there = run(session, plan, &tally, stop, &mut figures, &mut on_interval).await;
    let here = book.finish(facts_of(transport.as_deref()).await);
    let (upload, download) = figures.into_parts();
    match there {
        Ok(there) => Ok(BenchOutcome { upload, download, here, there: Some(there) }),
        Err(error) => {
            let partial = BenchOutcome { upload, download, here, there: None };
            Err(BenchFailure { error, partial: Box::new(partial) })
        }
    }
}

/// Executes the run with a time limit; returns the other side's account.
async fn run<S: Session>(
    session: &S,
    plan: &BenchPlan,
    tally: &Arc<Tally>,
    stop: impl Future<Output = ()>,
    figures: &mut Figures,
    on_interval: &mut impl FnMut(StreamInterval),
) -> Result<BenchAccount, TransferError> {
    plan.check()?;
    let (stopper, stopped) = watch::channel(false);
    let work = async {
        let mut account = Account::open(session, plan.congestion.as_deref()).await?;
        measure(session, plan, tally, &stopped, figures, on_interval).await?;
        account.close().await
    };
    tokio::pin!(work, stop);
    // A run by bytes has no time limit.
    let mut deadline = in_time(match plan.limit {
        BenchLimit::Duration(time) => time.saturating_add(plan.omit).min(FAR_AWAY) + GRACE,
        BenchLimit::Bytes(_) => FAR_AWAY,
    });
    loop {
        tokio::select! {
            there = &mut work => return there,
            () = &mut stop, if !*stopper.borrow() => {
                stopper.send_replace(true);
                deadline = deadline.min(in_time(LAST_WORD));
            }
            () = sleep_until(deadline) => return Err(TransferError::Silent { wanted: "its figures" }),
        }
    }
}

/// Runs all streams to their ends.
async fn measure<S: Session>(
    session: &S,
    plan: &BenchPlan,
    tally: &Arc<Tally>,
    stopped: &watch::Receiver<bool>,
    figures: &mut Figures,
    on_interval: &mut impl FnMut(StreamInterval),
) -> Result<(), TransferError> {
    let (reports, mut queue) = mpsc::channel(REPORTS_WAITING);
    // A set, since it aborts its tasks when it is dropped.
    let mut streams = JoinSet::new();
    {
        let opening = open_all(session, plan, (tally, stopped), reports, &mut streams);
        tokio::pin!(opening);
        let mut is_open = false;
        loop {
            tokio::select! {
                // Open streams report their figures meanwhile, and would block if they were not read.
                opened = &mut opening, if !is_open => {
                    opened?;
                    is_open = true;
                }
                report = queue.recv() => match report {
                    Some(report) => {
                        figures.on_interval(&report);
                        on_interval(report);
                    }
                    None => break,
                },
            }
        }
    }
    let mut ended = Ok(());
    while let Some(joined) = streams.join_next().await {
        match joined {
            Ok((direction, index, Ok(summary))) => figures.on_summary(direction, index, summary),
            Ok((_, _, Err(error))) => ended = ended.and(Err(error)),
            Err(_) => ended = ended.and(Err(TransferError::Internal)),
        }
    }
    ended
}

/// How a stream of a run ended.
type StreamEnd = (BenchDirection, u16, Result<BenchSummary, TransferError>);

/// Opens the streams of a run and starts them.
async fn open_all<S: Session>(
    session: &S,
    plan: &BenchPlan,
    (tally, stopped): (&Arc<Tally>, &watch::Receiver<bool>),
    reports: mpsc::Sender<StreamInterval>,
    streams: &mut JoinSet<StreamEnd>,
) -> Result<(), TransferError> {
    // All streams are to run together: none may have to wait for the end of another.
    let patience = match plan.limit {
        BenchLimit::Duration(time) => OPEN_TIME.min((time / 2).max(LEAST_OPEN_TIME)),
        BenchLimit::Bytes(_) => OPEN_TIME,
    };
    for direction in plan.flow.directions() {
        for index in 0..plan.streams {
            let (send, mut receive) = match timeout(patience, session.open()).await {
                Ok(opened) => opened.map_err(TransferError::stream("opening a stream"))?,
                Err(_) => return Err(too_many(streams.len(), plan)),
            };
            if let Some(target) = plan.target.filter(|_| direction == BenchDirection::Download) {
                session.hold(&mut receive, target / u64::from(plan.streams.max(1)));
            }
            let request = plan.request(direction, index);
            let reports = Reports { direction, stream: index, queue: reports.clone() };
            let ask = Ask { request, tally: Arc::clone(tally), stopped: stopped.clone(), reports };
            streams.spawn(async move { (direction, index, ask.run(send, receive).await) });
        }
    }
    Ok(())
}

fn too_many(open: usize, plan: &BenchPlan) -> TransferError {
    let wanted = usize::from(plan.streams) * plan.flow.directions().count();
    let text = format!("the other side takes {open} streams of a run at once, not {wanted}: ask for fewer");
    TransferError::Local(Failure::with_text(Reason::Limit, text))
}

fn in_time(wait: Duration) -> Instant {
    Instant::now() + wait
}

/// Time after the planned end within which the other side has to report.
const GRACE: Duration = Duration::from_secs(5);
/// The same after an early end.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Time for the other side to accept one more stream; half of a shorter run, but at least one second.
const OPEN_TIME: Duration = Duration::from_secs(3);
const LEAST_OPEN_TIME: Duration = Duration::from_millis(500);

/// The stream on which the other side keeps the account of a run.
pub(super) struct Account<W, R> {
    send: W,
    receive: R,
}

impl<W: AsyncWrite + Unpin, R: AsyncRead + Unpin> Account<W, R> {
    /// Opens it, and makes the other side use this congestion control if one is named.
    // transfer 6.2
    pub(super) async fn open<S: Session<Send = W, Receive = R>>(
        session: &S,
        congestion: Option<&str>,
    ) -> Result<Self, TransferError> {
        let (mut send, mut receive) =
            session.open().await.map_err(TransferError::stream("opening a stream"))?;
        let congestion = congestion.unwrap_or_default().to_owned();
        write_request(&mut send, Request::Account(AccountRequest { congestion })).await?;
        read_acceptance(&mut receive).await?;
        Ok(Self { send, receive })
    }

    pub(super) async fn close(&mut self) -> Result<BenchAccount, TransferError> {
        finish(&mut self.send).await?;
        match read_frame(&mut self.receive).await? {
            Frame::Account(account) => Ok(account),
            Frame::Refused(failure) => Err(TransferError::Refused(failure)),
            Frame::Request(_)
            | Frame::Accepted(_)
            | Frame::Hello { .. }
            | Frame::Entry(_)
            | Frame::End { .. }
            | Frame::Abandoned { .. }
            | Frame::Done(_)
            | Frame::Verdict(_)
            | Frame::Start { .. }
            | Frame::Hole { .. }
            | Frame::Answer(_)
            | Frame::Interval(_)
            | Frame::Summary(_) => Err(TransferError::Unexpected { wanted: "an account" }),
        }
    }
}

/// One stream of a run.
struct Ask {
    request: BenchRequest,
    tally: Arc<Tally>,
    /// Whether the run ends early.
    stopped: watch::Receiver<bool>,
    reports: Reports,
}

impl Ask {
    async fn run<W, R>(self, mut send: W, mut receive: R) -> Result<BenchSummary, TransferError>
    where
        W: AsyncWrite + Unpin,
        R: AsyncRead + Unpin,
    {
        let Self { request, tally, mut stopped, reports } = self;
        write_request(&mut send, Request::Bench(request)).await?;
        // If the sender of `stopped` is gone, so is the run.
        let enough = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
        match request.direction {
            BenchDirection::Download => {
                read_acceptance(&mut receive).await?;
                count(&mut receive, &request, enough, &tally, &reports).await
            }
            BenchDirection::Upload => {
                let fill = async move {
                    tokio::select! {
                        filled = fill(&mut send, &request, Duration::MAX, &tally) => match filled? {
                            Filled::Complete => finish(&mut send).await,
                            Filled::Enough => Ok(()),
                        },
                        // Dropped without an end: data that is queued in the stream is discarded.
                        () = enough => Ok(()),
                    }
                };
                let listen = async {
                    read_acceptance(&mut receive).await?;
                    read_figures(&mut receive, &reports).await
                };
                tokio::pin!(listen);
                // The receiver's frames decide: it ends the stream, and it says why it refuses one.
                tokio::select! {
                    summary = &mut listen => summary,
                    _ = fill => listen.await,
                }
            }
        }
    }
}

async fn read_figures<R: AsyncRead + Unpin>(
    receive: &mut R,
    reports: &Reports,
) -> Result<BenchSummary, TransferError> {
    loop {
        match read_frame(receive).await? {
            Frame::Interval(interval) => reports.tell(interval).await,
            Frame::Summary(summary) => return Ok(summary),
            Frame::Refused(failure) => return Err(TransferError::Refused(failure)),
            Frame::Request(_)
            | Frame::Accepted(_)
            | Frame::Hello { .. }
            | Frame::Entry(_)
            | Frame::End { .. }
            | Frame::Abandoned { .. }
            | Frame::Done(_)
            | Frame::Verdict(_)
            | Frame::Start { .. }
            | Frame::Hole { .. }
            | Frame::Answer(_)
            | Frame::Account(_) => return Err(TransferError::Unexpected { wanted: "figures" }),
        }
    }
}
