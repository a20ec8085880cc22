//! The sending side: filler, as fast as possible or at a rate.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::error::TransferError;

use super::FAR_AWAY;
use super::account::Tally;
use super::request::{BenchLimit, BenchRequest};

/// How a filler ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Every byte was written; the stream is still to be ended.
    Complete,
    /// The receiver has had enough, or the maximum time is over: queued data need not be sent.
    Enough,
}

/// Writes filler until the limit is reached, the receiver stops the stream, or for `longest`.
// transfer 6.3, 6.5
pub(crate) async fn fill<W: AsyncWrite + Unpin>(
    send: &mut W,
    request: &BenchRequest,
    longest: Duration,
    tally: &Tally,
) -> Result<Filled, TransferError> {
    let length = usize::try_from(request.length).unwrap_or(1);
    let filler = filler().get(..length.max(1)).unwrap_or_default();
    let began = Instant::now();
    let deadline = began.checked_add(longest).unwrap_or_else(|| began + FAR_AWAY);
    let counts_from = began.checked_add(request.omit).unwrap_or(deadline);
    let mut budget = Budget { limit: request.limit, counted: 0, counts_from };
    let mut written: u64 = 0;
    loop {
        let left = budget.left(Instant::now());
        if left == 0 {
            return Ok(Filled::Complete);
        }
        if let Some(at) = departure(began, written, request.rate) {
            sleep_until(at.min(deadline)).await;
        }
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(filler.len());
        let piece = filler.get(..length).unwrap_or_default();
        match timeout_at(deadline, send.write(piece)).await {
            Err(_) => return Ok(Filled::Enough),
            Ok(Ok(0)) => return Err(TransferError::Incomplete { verified: 0 }),
            Ok(Ok(bytes)) => {
                let bytes = u64::try_from(bytes).unwrap_or(0);
                written = written.saturating_add(bytes);
                tally.on_sent(budget.on_written(Instant::now(), bytes));
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Filled::Enough),
            Ok(Err(source)) => return Err(TransferError::Stream { doing: "sending filler", source }),
        }
    }
}

/// The bytes that may still be written.
struct Budget {
    limit: BenchLimit,
    counted: u64,
    counts_from: Instant,
}

impl Budget {
    fn left(&self, now: Instant) -> u64 {
        match self.limit {
            BenchLimit::Bytes(bytes) if now >= self.counts_from => bytes.saturating_sub(self.counted),
            BenchLimit::Bytes(_) | BenchLimit::Duration(_) => u64::MAX,
        }
    }

    /// Records written bytes; returns those that count.
    fn on_written(&mut self, now: Instant, bytes: u64) -> u64 {
        let counted = if now >= self.counts_from { bytes } else { 0 };
        self.counted = self.counted.saturating_add(counted);
        counted
    }
}

/// When the next piece may be sent so that the average rate is kept; `None` for at once.
fn departure(began: Instant, written: u64, rate: Option<u64>) -> Option<Instant> {
    let nanos = u128::from(written) * 8 * 1_000_000_000 / u128::from(rate?.max(1));
    let due = began.checked_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))?;
    (due > Instant::now()).then_some(due)
}

/// Incompressible bytes, in case a device on the way compresses; the same for all streams of the process.
fn filler() -> &'static [u8] {
    static FILLER: OnceLock<Vec<u8>> = OnceLock::new();
    FILLER.get_or_init(|| {
        let mut bytes = vec![0; usize::try_from(BenchRequest::MAX_LENGTH).unwrap_or(1)];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::BenchDirection;
    use tokio::io::AsyncReadExt;

    fn request(limit: BenchLimit, rate: Option<u64>) -> BenchRequest {
        let (direction, interval) = (BenchDirection::Upload, Duration::from_secs(1));
        BenchRequest { direction, limit, interval, omit: Duration::ZERO, rate, length: 1000 }
    }

    #[tokio::test(start_paused = true)]
    async fn the_average_rate_is_kept() {
        let (mut near, mut far) = tokio::io::duplex(1 << 20);
        let reader = tokio::spawn(async move { tokio::io::copy(&mut far, &mut tokio::io::sink()).await });
        let began = Instant::now();
        let tally = Tally::default();
        let filled =
            fill(&mut near, &request(BenchLimit::Bytes(250_000), Some(1_000_000)), Duration::MAX, &tally)
                .await;
        assert_eq!(filled.unwrap(), Filled::Complete);
        assert_eq!(tally.sent(), 250_000);
        // 2 Mbit at 1 Mbit/s; the last piece leaves at its beginning.
        assert_eq!(began.elapsed().as_millis() / 10, 199);
        drop(near);
        assert_eq!(reader.await.unwrap().unwrap(), 250_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_that_stops_ends_the_filler() {
        let (mut near, mut far) = tokio::io::duplex(4096);
        let request = request(BenchLimit::Duration(Duration::from_secs(1)), None);
        let tally = Tally::default();
        let filling = fill(&mut near, &request, Duration::MAX, &tally);
        let stopping = async {
            far.read_exact(&mut [0; 10_000]).await.unwrap();
            drop(far);
        };
        let (filled, ()) = tokio::join!(filling, stopping);
        assert_eq!(filled.unwrap(), Filled::Enough);
    }

    #[tokio::test(start_paused = true)]
    async fn filling_ends_at_the_maximum_time() {
        let (mut near, _far) = tokio::io::duplex(4096);
        let request = request(BenchLimit::Bytes(1 << 30), None);
        let filled = fill(&mut near, &request, Duration::from_secs(3), &Tally::default()).await;
        assert_eq!(filled.unwrap(), Filled::Enough);
    }
}
