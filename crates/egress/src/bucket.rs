//! A token bucket.

use tokio::time::Instant;

/// Limits bytes or events to so many at once, and so many in a second after that.
#[derive(Debug)]
pub(crate) struct Bucket {
    left: f64,
    at: Instant,
    most: f64,
    a_second: f64,
}

impl Bucket {
    /// A full bucket: `most` tokens at once, and `a_second` of them in a second.
    pub(crate) fn new(now: Instant, most: f64, a_second: f64) -> Self {
        Self { left: most, at: now, most, a_second }
    }

    /// The tokens that are left now.
    pub(crate) fn left(&mut self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = elapsed.mul_add(self.a_second, self.left).min(self.most);
        self.left
    }

    /// Takes tokens, or all that are left.
    pub(crate) fn drain(&mut self, cost: f64) {
        self.left = (self.left - cost).max(0.0);
    }

    /// Takes one token; false if there is none.
    pub(crate) fn permits(&mut self, now: Instant) -> bool {
        let is_permitted = self.left(now) >= 1.0;
        if is_permitted {
            self.drain(1.0);
        }
        is_permitted
    }

    /// The time since the last call adds no tokens.
    pub(crate) fn hold(&mut self, now: Instant) {
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // egress 8.15
    #[test]
    fn few_are_permitted_at_once_and_in_a_second() {
        let begin = Instant::now();
        let mut bucket = Bucket::new(begin, 8.0, 4.0);
        let mut permitted = |at| (0..100).filter(|_| bucket.permits(begin + at)).count();
        assert_eq!(permitted(Duration::ZERO), 8);
        assert_eq!(permitted(Duration::from_secs(1)), 4);
        assert_eq!(permitted(Duration::from_secs(9)), 8);
    }
}
