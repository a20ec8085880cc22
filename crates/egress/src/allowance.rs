//! How much may be sent before bulk data.

use manyway_session::Urgency;
use tokio::time::Instant;

/// A token bucket. Who has emptied it is bulk until it is half full again, since datagrams of two classes would overtake
/// each other.
// egress 4.6, 8.5
#[derive(Debug)]
pub(crate) struct Allowance {
    left: f64,
    at: Instant,
    is_bulk: bool,
}

impl Allowance {
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: BURST, at: now, is_bulk: false }
    }

    /// The class of what is sent now, of this many bytes.
    pub(crate) fn urgency(&mut self, now: Instant, bytes: usize) -> Urgency {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = elapsed.mul_add(RATE, self.left).min(BURST);
        #[expect(clippy::cast_precision_loss, reason = "far less than 2^52")]
        let cost = bytes as f64;
        self.is_bulk = if self.is_bulk { self.left < BURST / 2.0 } else { self.left < cost };
        self.left = (self.left - cost).max(0.0);
        if self.is_bulk { Urgency::Bulk } else { Urgency::Interactive }
    }

    /// The time until now was no pause: data wait.
    pub(crate) fn hold(&mut self, now: Instant) {
        self.at = now;
    }

    /// More waits than there is room for.
    pub(crate) fn exhaust(&mut self, now: Instant) {
        *self = Self { left: 0.0, at: now, is_bulk: true };
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
