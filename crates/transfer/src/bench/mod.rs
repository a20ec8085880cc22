//! Measures throughput: streams of bytes that are discarded.

mod account;
mod answer;
mod ask;
mod fill;
mod measure;
mod merge;
mod messages;
mod partial;
mod playback;
pub(crate) mod request;

pub use account::BenchAccount;
pub(crate) use account::Tally;
pub(crate) use answer::{answer, keep_account};
pub use ask::{bench, bench_until};
pub use merge::{IntervalMerger, StreamInterval};
pub(crate) use messages::answer_messages;
pub use messages::{MessageFailure, MessageOutcome, MessagePlan, bench_messages};
pub use partial::{BenchFailure, RunFailure};
pub use playback::Playback;
pub use request::{BenchDirection, BenchLimit};

use std::time::Duration;

use tokio::sync::mpsc;

use crate::error::TransferError;
use crate::failure::{Failure, Reason};
use crate::frame::{BenchSummary, Interval};
use request::BenchRequest;

/// A bench run of several streams at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BenchPlan {
    /// The direction. Default: the requesting side sends.
    pub flow: BenchFlow,
    /// When the run ends; bytes are those of all streams of a direction together. Default after 10 s.
    pub limit: BenchLimit,
    /// Length of a reporting interval. Default 1 s, at least 10 ms.
    pub interval: Duration,
    /// Streams at once in each direction. Default 1, at most [`BenchPlan::MAX_STREAMS`].
    pub streams: u16,
    /// The beginning that does not count. Default none, at most a minute.
    pub omit: Duration,
    /// Bits a second of each stream, on average. Default unlimited.
    pub rate: Option<u64>,
    /// Bits a second at which all streams that the other side sends are to arrive together, held by this side
    /// ([`Session::hold`](manyway_session::Session::hold)). Default: as fast as possible.
    pub target: Option<u64>,
    /// Bytes of each write, at most 1 MiB. Default 64 KiB, with a rate the bytes of 10 ms.
    pub length: Option<u32>,
    /// Name of the congestion control that the other side is to use. Default: its current one.
    pub congestion: Option<String>,
}

/// Which side sends in a bench run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchFlow {
    /// The requesting side.
    Upload,
    /// The other side.
    Download,
    /// Both at once.
    Both,
}

impl BenchFlow {
    /// Whether bytes flow in a direction.
    pub fn has(self, direction: BenchDirection) -> bool {
        match self {
            Self::Upload => direction == BenchDirection::Upload,
            Self::Download => direction == BenchDirection::Download,
            Self::Both => true,
        }
    }

    /// The directions in which bytes flow.
    pub fn directions(self) -> impl Iterator<Item = BenchDirection> {
        [BenchDirection::Upload, BenchDirection::Download].into_iter().filter(move |d| self.has(*d))
    }
}

/// The outcome of a bench run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BenchOutcome {
    /// What the other side received, one for each stream.
    pub upload: Vec<BenchSummary>,
    /// What this side received, one for each stream.
    pub download: Vec<BenchSummary>,
    /// What this side did meanwhile.
    pub here: BenchAccount,
    /// What the other side did meanwhile; `None` if it did not report.
    pub there: Option<BenchAccount>,
}

impl BenchOutcome {
    /// What was received in a direction, the streams together: bytes of all, the longest time, and the longest time
    /// without a byte on any, which is zero if the receiver did not report it.
    pub fn received(&self, direction: BenchDirection) -> BenchSummary {
        let (streams, receiver) = match direction {
            BenchDirection::Upload => (&self.upload, self.there.as_ref()),
            BenchDirection::Download => (&self.download, Some(&self.here)),
        };
        BenchSummary {
            bytes: streams.iter().fold(0, |sum, stream| sum.saturating_add(stream.bytes)),
            elapsed: streams.iter().map(|stream| stream.elapsed).max().unwrap_or_default(),
            longest_stall: receiver.map(|account| account.longest_stall).unwrap_or_default(),
        }
    }
}

impl BenchPlan {
    /// Most streams at once in each direction.
    pub const MAX_STREAMS: u16 = 128;
    /// Most bytes of a write.
    pub const MAX_LENGTH: u32 = BenchRequest::MAX_LENGTH;
    /// The longest beginning that may be omitted.
    pub const MAX_OMIT: Duration = Duration::from_secs(60);

    fn check(&self) -> Result<(), TransferError> {
        let wrong = |text: String| Err(TransferError::Local(Failure::with_text(Reason::Limit, text)));
        if !(1..=Self::MAX_STREAMS).contains(&self.streams) {
            return wrong(format!("1 to {} streams", Self::MAX_STREAMS));
        }
        if self.interval < BenchRequest::MIN_INTERVAL {
            return wrong(format!("intervals of {:?} or more", BenchRequest::MIN_INTERVAL));
        }
        if self.omit > Self::MAX_OMIT {
            return wrong(format!("at most {:?} that do not count", Self::MAX_OMIT));
        }
        if self.length.is_some_and(|length| !(1..=Self::MAX_LENGTH).contains(&length)) {
            return wrong(format!("writes of 1 to {} bytes", Self::MAX_LENGTH));
        }
        Ok(())
    }

    /// The request of one of the streams.
    fn request(&self, direction: BenchDirection, stream: u16) -> BenchRequest {
        let streams = u64::from(self.streams);
        let limit = match self.limit {
            BenchLimit::Duration(time) => BenchLimit::Duration(time),
            // The first streams take the remainder.
            BenchLimit::Bytes(bytes) => {
                let rest = bytes.checked_rem(streams).unwrap_or(0);
                let share = bytes.checked_div(streams).unwrap_or(0);
                BenchLimit::Bytes(share + u64::from(u64::from(stream) < rest))
            }
        };
        let of_rate = |rate: u64| u32::try_from(rate / 8 / 100).unwrap_or(LENGTH).clamp(1200, LENGTH);
        let length = self.length.unwrap_or_else(|| self.rate.map_or(LENGTH, of_rate));
        let Self { interval, omit, rate, .. } = *self;
        BenchRequest { direction, limit, interval, omit, rate, length }
    }
}

impl Default for BenchPlan {
    fn default() -> Self {
        Self {
            flow: BenchFlow::Upload,
            limit: BenchLimit::Duration(Duration::from_secs(10)),
            interval: Duration::from_secs(1),
            streams: 1,
            omit: Duration::ZERO,
            rate: None,
            target: None,
            length: None,
            congestion: None,
        }
    }
}

/// Where the figures of one stream go.
#[derive(Debug)]
struct Reports {
    direction: BenchDirection,
    stream: u16,
    queue: mpsc::Sender<StreamInterval>,
}

impl Reports {
    async fn tell(&self, interval: Interval) {
        let Self { direction, stream, .. } = *self;
        let _ = self.queue.send(StreamInterval { direction, stream, interval }).await;
    }
}

const LENGTH: u32 = 64 * 1024;
const REPORTS_WAITING: usize = 64;
const FAR_AWAY: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_run_are_divided_among_its_streams() {
        let plan = BenchPlan { limit: BenchLimit::Bytes(10), streams: 4, ..BenchPlan::default() };
        let shares: Vec<_> = (0..4).map(|index| plan.request(BenchDirection::Upload, index).limit).collect();
        assert_eq!(shares, [3, 3, 2, 2].map(BenchLimit::Bytes));
    }

    #[test]
    fn a_slow_stream_writes_small_pieces() {
        let length = |rate, length| {
            BenchPlan { rate, length, ..BenchPlan::default() }.request(BenchDirection::Upload, 0).length
        };
        assert_eq!(length(None, None), 65_536);
        assert_eq!(length(Some(8_000_000), None), 10_000);
        assert_eq!(length(Some(1000), None), 1200);
        assert_eq!(length(Some(1000), Some(7)), 7);
    }
}
