//! Measuring throughput: streams of bytes that nobody keeps.

mod measure;
mod merge;

pub use merge::{IntervalMerger, StreamInterval};

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::{BenchSummary, Frame, Interval};
use crate::request::{BenchDirection, BenchLimit, BenchRequest, Request, Totals};
use crate::session::Session;
use crate::wire::{finish, read_acceptance, read_frame, write_frame, write_request};
use measure::Meter;

/// A bench run of several streams at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BenchPlan {
    /// Who sends. Default: the side that asks.
    pub direction: BenchDirection,
    /// When each stream ends. Default after 10 s.
    pub limit: BenchLimit,
    /// How often figures come. Default 1 s, at least 10 ms.
    pub interval: Duration,
    /// Streams at once. Default 1, at most [`BenchPlan::MAX_STREAMS`].
    pub streams: u16,
}

impl BenchPlan {
    /// Most streams at once.
    pub const MAX_STREAMS: u16 = 128;
}

impl Default for BenchPlan {
    fn default() -> Self {
        Self {
            direction: BenchDirection::Upload,
            limit: BenchLimit::Duration(Duration::from_secs(10)),
            interval: Duration::from_secs(1),
            streams: 1,
        }
    }
}

/// Measures throughput. `on_interval` is told what the receiver got on each stream in each interval;
/// [`IntervalMerger`] adds the streams up. Returns a summary for each stream.
///
/// # Errors
/// The plan is out of range, the other side refuses, or the connection broke.
pub async fn bench<S: Session>(
    session: &S,
    plan: BenchPlan,
    mut on_interval: impl FnMut(StreamInterval),
) -> Result<Vec<BenchSummary>, TransferError> {
    if plan.streams == 0
        || plan.streams > BenchPlan::MAX_STREAMS
        || plan.interval < BenchRequest::MIN_INTERVAL
    {
        let text = format!(
            "1 to {} streams, intervals of {:?} or more",
            BenchPlan::MAX_STREAMS,
            BenchRequest::MIN_INTERVAL
        );
        return Err(TransferError::Local(Failure::with_text(Reason::Limit, text)));
    }
    let request = BenchRequest { direction: plan.direction, limit: plan.limit, interval: plan.interval };
    let (reports, mut queue) = mpsc::channel(REPORTS_WAITING);
    let mut streams = JoinSet::new();
    for index in 0..plan.streams {
        let (send, receive) = session.open().await.map_err(TransferError::stream("opening a stream"))?;
        let reports = Reports { stream: index, queue: reports.clone() };
        streams.spawn(async move { (index, ask(request, send, receive, reports).await) });
    }
    drop(reports);
    while let Some(interval) = queue.recv().await {
        on_interval(interval);
    }
    let mut summaries = vec![BenchSummary::default(); usize::from(plan.streams)];
    while let Some(joined) = streams.join_next().await {
        let (index, summary) = joined.map_err(|_| TransferError::Internal)?;
        if let Some(place) = summaries.get_mut(usize::from(index)) {
            *place = summary?;
        }
    }
    Ok(summaries)
}

#[derive(Debug)]
struct Reports {
    stream: u16,
    queue: mpsc::Sender<StreamInterval>,
}

impl Reports {
    async fn tell(&self, interval: Interval) {
        let _ = self.queue.send(StreamInterval { stream: self.stream, interval }).await;
    }
}

async fn ask<W, R>(
    request: BenchRequest,
    mut send: W,
    mut receive: R,
    reports: Reports,
) -> Result<BenchSummary, TransferError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    write_request(&mut send, Request::Bench(request)).await?;
    match request.direction {
        BenchDirection::Download => {
            finish(&mut send).await?;
            read_acceptance(&mut receive).await?;
            let mut meter = Meter::new(request.interval);
            measure(&mut receive, &mut meter, &reports).await
        }
        BenchDirection::Upload => {
            let fill = async {
                fill(&mut send, request.limit, Duration::MAX).await?;
                finish(&mut send).await
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

/// Answers one bench stream on the side that did not ask.
pub(crate) async fn answer<W, R>(
    request: BenchRequest,
    longest: Duration,
    send: &mut W,
    receive: &mut R,
) -> Result<(), TransferError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    write_frame(send, &Frame::Accepted(Totals::default())).await?;
    match request.direction {
        BenchDirection::Download => {
            fill(send, request.limit, longest).await?;
            finish(send).await
        }
        BenchDirection::Upload => {
            let (queue, mut reports) = mpsc::channel(REPORTS_WAITING);
            let mut meter = Meter::new(request.interval);
            let to_client = Reports { stream: 0, queue };
            let measuring = async {
                // A client that goes on for ever is cut off with what was counted until then.
                let deadline =
                    Instant::now().checked_add(longest).unwrap_or_else(|| Instant::now() + FAR_AWAY);
                let measured = timeout_at(deadline, measure(receive, &mut meter, &to_client)).await;
                drop(to_client);
                measured.unwrap_or_else(|_| Ok(meter.summary()))
            };
            let telling = async {
                while let Some(StreamInterval { interval, .. }) = reports.recv().await {
                    write_frame(&mut *send, &Frame::Interval(interval)).await?;
                }
                Ok::<(), TransferError>(())
            };
            let (summary, told) = tokio::join!(measuring, telling);
            let summary = summary?;
            told?;
            write_frame(send, &Frame::Summary(summary)).await?;
            finish(send).await
        }
    }
}

async fn fill<W: AsyncWrite + Unpin>(
    send: &mut W,
    limit: BenchLimit,
    longest: Duration,
) -> Result<(), TransferError> {
    let filler = filler();
    let (mut left, time) = match limit {
        BenchLimit::Duration(duration) => (u64::MAX, duration.min(longest)),
        BenchLimit::Bytes(bytes) => (bytes, longest),
    };
    let now = Instant::now();
    let deadline = now.checked_add(time).unwrap_or_else(|| now + FAR_AWAY);
    while left > 0 {
        let piece =
            filler.get(..usize::try_from(left).unwrap_or(usize::MAX).min(filler.len())).unwrap_or_default();
        match timeout_at(deadline, send.write(piece)).await {
            // The time is up while the connection was full, which is the rule rather than the exception.
            Err(_) => return Ok(()),
            Ok(Ok(0)) => return Err(TransferError::Incomplete { verified: 0 }),
            Ok(Ok(written)) => left = left.saturating_sub(u64::try_from(written).unwrap_or(0)),
            Ok(Err(source)) => return Err(TransferError::Stream { doing: "sending filler", source }),
        }
        if Instant::now() >= deadline {
            return Ok(());
        }
    }
    Ok(())
}

async fn measure<R: AsyncRead + Unpin>(
    receive: &mut R,
    meter: &mut Meter,
    reports: &Reports,
) -> Result<BenchSummary, TransferError> {
    let mut buffer = vec![0; READ];
    let started = Instant::now();
    loop {
        // An interval without a byte is reported when it is over, not when the next byte comes.
        let read = match meter.next_report() {
            Some(at) => timeout_at(started + at, receive.read(&mut buffer)).await.ok(),
            None => Some(receive.read(&mut buffer).await),
        };
        let now = started.elapsed();
        let read = read.transpose().map_err(TransferError::stream("receiving filler"))?;
        if let Some(bytes) = read.filter(|b| *b > 0) {
            meter.on_bytes(now, u64::try_from(bytes).unwrap_or(0));
        }
        while let Some(interval) = meter.poll_interval(now) {
            reports.tell(interval).await;
        }
        if read == Some(0) {
            if let Some(interval) = meter.finish() {
                reports.tell(interval).await;
            }
            return Ok(meter.summary());
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
            | Frame::Start { .. }
            | Frame::Hole { .. }
            | Frame::Answer(_)
            | Frame::Verdict(_) => return Err(TransferError::Unexpected { wanted: "figures" }),
        }
    }
}

/// Bytes that do not compress, in case something on the way tries to.
fn filler() -> Vec<u8> {
    let mut bytes = vec![0; FILLER];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

const READ: usize = 256 * 1024;
const FILLER: usize = 64 * 1024;
const REPORTS_WAITING: usize = 64;
const FAR_AWAY: Duration = Duration::from_secs(365 * 24 * 3600);
