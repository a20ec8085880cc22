//! The side that asks for a run.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::TransferError;
use crate::frame::{BenchSummary, Frame};
use crate::request::Request;
use crate::session::{Session, facts_of};
use crate::wire::{finish, read_acceptance, read_frame, write_request};

use super::account::{Bookkeeping, Tally};
use super::answer::count;
use super::fill::{Filled, fill};
use super::request::{AccountRequest, BenchDirection, BenchRequest};
use super::{BenchAccount, BenchOutcome, BenchPlan, FAR_AWAY, REPORTS_WAITING, Reports, StreamInterval};

/// Measures throughput. `on_interval` is told what the receiver got on each stream in each interval;
/// [`IntervalMerger`](super::IntervalMerger) adds the streams up.
///
/// # Errors
/// The plan is out of range, the other side refuses, or the connection broke.
pub async fn bench<S: Session>(
    session: &S,
    plan: &BenchPlan,
    mut on_interval: impl FnMut(StreamInterval),
) -> Result<BenchOutcome, TransferError> {
    plan.check()?;
    let mut account = open_account(session, plan).await?;
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
            let tally = Arc::clone(&tally);
            streams.spawn(
                async move { (direction, index, ask(&request, &tally, send, receive, reports).await) },
            );
        }
    }
    drop(reports);
    while let Some(interval) = queue.recv().await {
        on_interval(interval);
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
struct Account<W, R> {
    send: W,
    receive: R,
}

// transfer 6.2
async fn open_account<S: Session>(
    session: &S,
    plan: &BenchPlan,
) -> Result<Account<S::Send, S::Receive>, TransferError> {
    let (mut send, mut receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
    let congestion = plan.congestion.clone().unwrap_or_default();
    write_request(&mut send, Request::Account(AccountRequest { congestion })).await?;
    read_acceptance(&mut receive).await?;
    Ok(Account { send, receive })
}

impl<W: AsyncWrite + Unpin, R: AsyncRead + Unpin> Account<W, R> {
    async fn close(&mut self) -> Result<BenchAccount, TransferError> {
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

async fn ask<W, R>(
    request: &BenchRequest,
    tally: &Tally,
    mut send: W,
    mut receive: R,
    reports: Reports,
) -> Result<BenchSummary, TransferError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    write_request(&mut send, Request::Bench(*request)).await?;
    match request.direction {
        BenchDirection::Download => {
            read_acceptance(&mut receive).await?;
            let until = Instant::now() + FAR_AWAY;
            count(&mut receive, request, until, tally, &reports).await
        }
        BenchDirection::Upload => {
            let fill = async {
                match fill(&mut send, request, Duration::MAX, tally).await? {
                    Filled::Complete => finish(&mut send).await,
                    Filled::Enough => Ok(()),
                }
            };
            let listen = async {
                read_acceptance(&mut receive).await?;
                read_figures(&mut receive, &reports).await
            };
            tokio::pin!(fill, listen);
            // The receiver's word counts: it ends the stream, and it says why it refuses one.
            tokio::select! {
                summary = &mut listen => summary,
                _ = &mut fill => listen.await,
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
