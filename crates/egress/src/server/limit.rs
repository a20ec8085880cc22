//! How often something may happen.

use tokio::time::Instant;

/// A token bucket.
#[derive(Debug)]
pub(super) struct Limit {
    left: f64,
    at: Instant,
    most: f64,
    a_second: f64,
}

impl Limit {
    /// At most `most` at once, and `a_second` in a second.
    pub(super) fn new(now: Instant, most: f64, a_second: f64) -> Self {
        Self { left: most, at: now, most, a_second }
    }

    pub(super) fn permits(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = elapsed.mul_add(self.a_second, self.left).min(self.most);
        let is_permitted = self.left >= 1.0;
        if is_permitted {
            self.left -= 1.0;
        }
        is_permitted
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
        let mut limit = Limit::new(begin, 8.0, 4.0);
        let mut permitted = |at| (0..100).filter(|_| limit.permits(begin + at)).count();
        assert_eq!(permitted(Duration::ZERO), 8);
        assert_eq!(permitted(Duration::from_secs(1)), 4);
        assert_eq!(permitted(Duration::from_secs(9)), 8);
    }
}
