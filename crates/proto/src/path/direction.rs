//! Which direction pairs of addresses are judged by: the one that carries.

use std::time::Duration;

use crate::{Instant, Rate};

/// A look is taken so long after the one before, at least.
const BETWEEN: Duration = Duration::from_secs(1);
/// Less than this within that time, in both directions together, tells nothing.
const LEAST: u64 = 64 << 10;
/// One direction counts alone if it carried so many times what the other did.
const FAR_MORE: u64 = 4;

/// The direction that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Direction {
    /// What this end sends.
    Sent,
    /// What the peer sends.
    Received,
    /// None carries far more than the other, or nothing is known yet.
    #[default]
    Both,
}

impl Direction {
    /// The rate that counts of those in both directions, as far as they are known: the smaller if both count.
    pub(crate) fn rate(self, sent: Option<Rate>, received: Option<Rate>) -> Option<Rate> {
        match self {
            Self::Sent => sent,
            Self::Received => received,
            Self::Both => sent.into_iter().chain(received).min(),
        }
    }
}

/// Tells the direction by what was carried since the last look.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    direction: Direction,
    looked: Option<(Instant, u64, u64)>,
}

impl Balance {
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Takes note of the bytes of streams that went and came since the connection began.
    pub(crate) fn look(&mut self, now: Instant, sent: u64, received: u64) {
        let (at, sent_before, received_before) = *self.looked.get_or_insert((now, 0, 0));
        if now - at < BETWEEN {
            return;
        }
        self.looked = Some((now, sent, received));
        let (sent, received) = (sent.saturating_sub(sent_before), received.saturating_sub(received_before));
        if sent + received < LEAST {
            return;
        }
        self.direction = if sent > received * FAR_MORE {
            Direction::Sent
        } else if received > sent * FAR_MORE {
            Direction::Received
        } else {
            Direction::Both
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 6.48
    #[test]
    fn the_direction_is_that_of_four_times_as_much_and_stays_while_little_is_carried() {
        let mut balance = Balance::default();
        let mut at = Instant::from_nanos(1_000_000_000);
        let (mut sent, mut received) = (0, 0);
        balance.look(at, sent, received);
        let mut after = |wait: u64, up: u64, down: u64| {
            at += Duration::from_millis(wait);
            (sent, received) = (sent + up, received + down);
            balance.look(at, sent, received);
            balance.direction()
        };
        assert_eq!(after(999, 0, 1_000_000), Direction::Both, "too early");
        assert_eq!(after(1, 0, 0), Direction::Received);
        assert_eq!(after(1000, 60_000, 5_000), Direction::Received, "too little");
        assert_eq!(after(1000, 400_001, 100_000), Direction::Sent);
        assert_eq!(after(1000, 400_000, 100_000), Direction::Both);
        assert_eq!(after(9000, 100_000, 400_001), Direction::Received);
    }

    #[test]
    fn of_two_directions_the_slower_one_decides_as_far_as_it_is_known() {
        let [slow, fast] = [1, 2].map(|rate| Some(Rate::from_bytes_per_second(rate)));
        assert_eq!(Direction::Both.rate(fast, slow), slow);
        assert_eq!(Direction::Both.rate(None, fast), fast);
        assert_eq!((Direction::Sent.rate(fast, slow), Direction::Received.rate(fast, None)), (fast, None));
    }
}
