//! How much may be sent before bulk data.

use manyway_session::Urgency;
use tokio::time::Instant;

use crate::bucket::Bucket;

/// What a sender may send before bulk data. One that has used it up is bulk until half of it is free again, since
/// datagrams of two classes would overtake each other.
// egress 4.6, 8.5
#[derive(Debug)]
pub(crate) struct Allowance {
    bucket: Bucket,
    is_bulk: bool,
}

impl Allowance {
    pub(crate) fn new(now: Instant) -> Self {
        Self { bucket: Bucket::new(now, BURST, RATE), is_bulk: false }
    }

    /// The class of what is sent now, of this many bytes.
    pub(crate) fn urgency(&mut self, now: Instant, bytes: usize) -> Urgency {
        #[expect(clippy::cast_precision_loss, reason = "far less than 2^52")]
        let cost = bytes as f64;
        let least = if self.is_bulk { BURST / 2.0 } else { cost };
        self.is_bulk = self.bucket.left(now) < least;
        self.bucket.drain(cost);
        if self.is_bulk { Urgency::Bulk } else { Urgency::Interactive }
    }

    /// The time until now was no pause: data wait.
    pub(crate) fn hold(&mut self, now: Instant) {
        self.bucket.hold(now);
    }

    /// More waits than there is room for.
    pub(crate) fn exhaust(&mut self, now: Instant) {
        self.bucket.hold(now);
        self.bucket.drain(BURST);
        self.is_bulk = true;
    }
}

/// Bytes a second, and in a burst, that a flow may send before bulk data: a call with video.
const RATE: f64 = 400e3;
const BURST: f64 = 64e3;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // egress 8.5
    #[test]
    fn a_call_goes_before_bulk_data_and_a_download_does_not() {
        let begin = Instant::now();
        let mut call = Allowance::new(begin);
        let mut download = Allowance::new(begin);
        for packet in 0..10_000_u32 {
            // 50 packets of 200 bytes a second; 1000 packets of 1200 bytes a second
            let at = |every| begin + Duration::from_millis(every) * packet;
            assert_eq!(call.urgency(at(20), 228), Urgency::Interactive);
            let is_bulk = download.urgency(at(1), 1228) == Urgency::Bulk;
            assert_eq!(is_bulk, packet >= 76, "packet {packet}");
        }
        let later = begin + Duration::from_secs(11);
        assert_eq!(download.urgency(later, 1228), Urgency::Interactive, "after a pause");
    }
}
