//! The side that accepts a run: it sends or counts as requested, and keeps the account of the run.

use std::io::ErrorKind;
use std::time::Duration;

use manyway_session::Transport;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::{BenchSummary, Frame};
use crate::request::Totals;
use crate::wire::{finish, write_frame};

use super::account::{Bookkeeping, Tally, facts_of};
use super::fill::{Filled, fill};
use super::measure::Meter;
use super::request::{AccountRequest, BenchDirection, BenchRequest};
use super::{FAR_AWAY, REPORTS_WAITING, Reports, StreamInterval};

/// Serves one bench stream.
pub(crate) async fn answer<W, R>(
    request: BenchRequest,
    longest: Duration,
    tally: &Tally,
    mut send: W,
    mut receive: R,
) -> Result<(), TransferError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    write_frame(&mut send, &Frame::Accepted(Totals::default())).await?;
    match request.direction {
        BenchDirection::Download => match fill(&mut send, &request, longest, tally).await? {
            Filled::Complete => finish(&mut send).await,
            // Dropped without an end: data that is queued in the stream is discarded.
            Filled::Enough => Ok(()),
        },
        BenchDirection::Upload => {
            let (queue, mut reports) = mpsc::channel(REPORTS_WAITING);
            // A client that never ends is cut off; what was counted until then is reported.
            let until = Instant::now().checked_add(longest).unwrap_or_else(|| Instant::now() + FAR_AWAY);
            let counting = async {
                let to_client = Reports { direction: request.direction, stream: 0, queue };
                count(&mut receive, &request, sleep_until(until), tally, &to_client).await
            };
            let telling = async {
                while let Some(StreamInterval { interval, .. }) = reports.recv().await {
                    write_frame(&mut send, &Frame::Interval(interval)).await?;
                }
                Ok::<(), TransferError>(())
            };
            let (summary, told) = tokio::join!(counting, telling);
            let summary = summary?;
            told?;
            // Tells the sender to stop.
            drop(receive);
            write_frame(&mut send, &Frame::Summary(summary)).await?;
            finish(&mut send).await
        }
    }
}

/// Counts the bytes of a stream until its end, the limit of the request, or `enough`.
// transfer 6.9, 6.11
pub(crate) async fn count<R: AsyncRead + Unpin>(
    receive: &mut R,
    request: &BenchRequest,
    enough: impl Future<Output = ()>,
    tally: &Tally,
    reports: &Reports,
) -> Result<BenchSummary, TransferError> {
    let mut meter = Meter::new(request);
    let mut buffer = vec![0; READ];
    let began = tally.start_clock();
    let mut counts = meter.counts(began.elapsed());
    tokio::pin!(enough);
    if meter.counts(Duration::ZERO) {
        tally.on_sign(began);
    }
    loop {
        // An interval without a byte is reported when it ends, not when the next byte arrives.
        let at = began.checked_add(meter.deadline()).unwrap_or_else(|| began + FAR_AWAY);
        let (read, is_enough) = tokio::select! {
            biased;
            () = &mut enough => (None, true),
            read = timeout_at(at, receive.read(&mut buffer)) => (read.ok(), false),
        };
        let read = match read {
            // An opener that has had enough discards what is queued.
            Some(Err(error))
                if request.direction == BenchDirection::Upload
                    && error.kind() == ErrorKind::ConnectionReset =>
            {
                Some(0)
            }
            read => read.transpose().map_err(TransferError::stream("receiving filler"))?,
        };
        let (moment, now) = (Instant::now(), began.elapsed());
        meter.advance(now);
        if let Some(bytes) = read.filter(|bytes| *bytes > 0) {
            meter.on_bytes(now, u64::try_from(bytes).unwrap_or(0));
        }
        let is_over = read == Some(0) || meter.is_over(now) || is_enough;
        if meter.counts(now) && (read.is_some_and(|bytes| bytes > 0) || !counts) {
            counts = true;
            tally.on_sign(moment);
        }
        let summary = is_over.then(|| meter.finish(now));
        while let Some(interval) = meter.poll_interval() {
            reports.tell(interval).await;
        }
        if let Some(summary) = summary {
            if read != Some(0) {
                tally.on_sign(moment);
            }
            return Ok(summary);
        }
    }
}

/// Keeps the account of a run until its opener ends it.
// transfer 6.2
pub(crate) async fn keep_account<W, R>(
    request: AccountRequest,
    tally: &Tally,
    transport: Option<&dyn Transport>,
    mut send: W,
    mut receive: R,
) -> Result<(), TransferError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    if !request.congestion.is_empty() {
        let done = match transport {
            Some(transport) => transport.set_congestion(&request.congestion).await,
            None => false,
        };
        if !done {
            let text = format!("congestion control {:?}", request.congestion);
            let failure = Failure::with_text(Reason::Unsupported, text);
            write_frame(&mut send, &Frame::Refused(failure.clone())).await?;
            finish(&mut send).await?;
            return Err(TransferError::Local(failure));
        }
    }
    let book = Bookkeeping::start(tally, facts_of(transport).await);
    write_frame(&mut send, &Frame::Accepted(Totals::default())).await?;
    let mut nothing = [0; 64];
    while receive.read(&mut nothing).await.map_err(TransferError::stream("waiting for the end of a run"))? > 0
    {
    }
    let account = book.finish(facts_of(transport).await);
    write_frame(&mut send, &Frame::Account(account)).await?;
    finish(&mut send).await
}

const READ: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::BenchLimit;
    use manyway_session::TransportFacts;
    use tokio::io::AsyncWriteExt as _;

    const SECOND: Duration = Duration::from_secs(1);

    /// For ten seconds.
    async fn ten_bytes_each_100_ms(far: &mut tokio::io::DuplexStream) {
        for _ in 0..100 {
            tokio::time::sleep(SECOND / 10).await;
            drop(far.write(&[0; 10]).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_starts_late_ends_with_the_others_and_its_intervals_cover_the_same_time() {
        let tally = Tally::default();
        let book = Bookkeeping::start(&tally, TransportFacts::default());
        let request = BenchRequest {
            direction: BenchDirection::Download,
            limit: BenchLimit::Duration(4 * SECOND),
            interval: SECOND,
            omit: Duration::ZERO,
            rate: None,
            length: 1000,
        };
        let (queue, mut reports) = mpsc::channel(REPORTS_WAITING);
        let stream = async |index: u16, wait: Duration| {
            tokio::time::sleep(wait).await;
            let (mut near, mut far) = tokio::io::duplex(100);
            let reports = Reports { direction: request.direction, stream: index, queue: queue.clone() };
            tokio::select! {
                counted = count(&mut near, &request, std::future::pending(), &tally, &reports) => counted.unwrap(),
                () = ten_bytes_each_100_ms(&mut far) => panic!("it goes on for too long"),
            }
        };
        let began = Instant::now();
        let (first, late) = tokio::join!(stream(0, Duration::ZERO), stream(1, SECOND * 5 / 2));
        assert_eq!((first.elapsed, late.elapsed, began.elapsed()), (4 * SECOND, 4 * SECOND, 4 * SECOND));
        assert!(late.bytes < first.bytes / 2, "{late:?}");
        drop(queue);
        let mut of_late = Vec::new();
        while let Some(report) = reports.recv().await {
            if report.stream == 1 {
                of_late.push((report.interval.index, report.interval.start, report.interval.bytes > 0));
            }
        }
        let expected =
            [(0, Duration::ZERO, false), (1, SECOND, false), (2, 2 * SECOND, true), (3, 3 * SECOND, true)];
        assert_eq!(of_late, expected);
        assert_eq!(book.finish(TransportFacts::default()).longest_stall, SECOND / 10);
    }
}
