//! The side that asks for a run.

use std::sync::Arc;
use std::time::Duration;

use manyway_session::Session;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::error::TransferError;
use crate::frame::{BenchSummary, Frame};
use crate::request::Request;
use crate::wire::{finish, read_acceptance, read_frame, write_request};

use super::account::{Bookkeeping, Tally, facts_of};
use super::answer::count;
use super::fill::{Filled, fill};
use super::request::{AccountRequest, BenchDirection, BenchRequest};
use super::{BenchAccount, BenchOutcome, BenchPlan, REPORTS_WAITING, Reports, StreamInterval};

/// Measures throughput. `on_interval` is told what the receiver got on each stream in each interval;
/// [`IntervalMerger`](super::IntervalMerger) adds the streams up.
///
/// # Errors
/// The plan is out of range, the other side refuses, or the connection broke.
pub async fn bench<S: Session>(
    session: &S,
    plan: &BenchPlan,
    on_interval: impl FnMut(StreamInterval),
) -> Result<BenchOutcome, TransferError> {
    bench_until(session, plan, std::future::pending(), on_interval).await
}

/// As [`bench()`], and ends the run early once `stop` is done: what was measured until then is the outcome, as soon as the
/// other side has told it.
///
/// # Errors
/// As [`bench()`].
// transfer 6.9
pub async fn bench_until<S: Session>(
    session: &S,
    plan: &BenchPlan,
    stop: impl Future<Output = ()>,
    mut on_interval: impl FnMut(StreamInterval),
) -> Result<BenchOutcome, TransferError> {
    plan.check()?;
    let (stopper, stopped) = watch::channel(false);
    let mut account = Account::open(session, plan.congestion.as_deref()).await?;
    let tally = Arc::new(Tally::default());
    let transport = session.transport();
    let book = Bookkeeping::start(&tally, facts_of(transport.as_deref()).await);
    let (reports, mut queue) = mpsc::channel(REPORTS_WAITING);
    // A set, since it ends its tasks when it is dropped.
    let mut streams = JoinSet::new();
    for direction in plan.flow.directions() {
        for index in 0..plan.streams {
            let (send, receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
            let request = plan.request(direction, index);
            let reports = Reports { direction, stream: index, queue: reports.clone() };
            let ask = Ask { request, tally: Arc::clone(&tally), stopped: stopped.clone(), reports };
            streams.spawn(async move { (direction, index, ask.run(send, receive).await) });
        }
    }
    drop(reports);
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop, if !*stopper.borrow() => drop(stopper.send_replace(true)),
            interval = queue.recv() => match interval {
                Some(interval) => on_interval(interval),
                None => break,
            },
        }
    }
    let empty = vec![BenchSummary::default(); usize::from(plan.streams)];
    let of = |direction| if plan.flow.has(direction) { empty.clone() } else { Vec::new() };
    let (mut upload, mut download) = (of(BenchDirection::Upload), of(BenchDirection::Download));
    while let Some(joined) = streams.join_next().await {
        let (direction, index, summary) = joined.map_err(|_| TransferError::Internal)?;
        let summaries = match direction {
            BenchDirection::Upload => &mut upload,
            BenchDirection::Download => &mut download,
        };
        if let Some(place) = summaries.get_mut(usize::from(index)) {
            *place = summary?;
        }
    }
    let here = book.finish(facts_of(transport.as_deref()).await);
    let there = account.close().await?;
    Ok(BenchOutcome { upload, download, here, there })
}

/// The stream on which the other side keeps the account of a run.
pub(super) struct Account<W, R> {
    send: W,
    receive: R,
}

impl<W: AsyncWrite + Unpin, R: AsyncRead + Unpin> Account<W, R> {
    /// Opens it, and lets the other side use this congestion control if one is named.
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
        // One that tells nothing any more has gone with the run.
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
                        // Dropped without an end: what waits in the stream is thrown away.
                        () = enough => Ok(()),
                    }
                };
                let listen = async {
                    read_acceptance(&mut receive).await?;
                    read_figures(&mut receive, &reports).await
                };
                tokio::pin!(listen);
                // The receiver's word counts: it ends the stream, and it says why it refuses one.
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
