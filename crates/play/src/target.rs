//! The rate at which a film is wanted.

use std::time::Duration;

/// The rate at which films arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetChoice {
    /// That of the media and a margin; as fast as possible where its length is unknown.
    #[default]
    OfMedia,
    /// So many bits a second.
    Fixed(u64),
    /// As fast as possible.
    Unlimited,
}

/// Below this much buffered media the target is high, and stays so until there is [`FULL`] of it.
const LOW: Duration = Duration::from_secs(10);
const FULL: Duration = Duration::from_secs(20);
/// The targets in percent of the rate of the media. Its mean hides scenes of a higher rate, so it does not suffice.
const HOLD: u64 = 125;
const FILL: u64 = 400;
/// The least target in bits a second that a connection holds.
const LEAST: u64 = 8000;

/// Decides the target of one film.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Target {
    is_full: bool,
}

impl Target {
    /// The target in bits a second for media of this rate, of which so much is buffered.
    pub(crate) fn decide(&mut self, bits_per_second: u64, buffered: Duration) -> u64 {
        self.is_full = buffered >= if self.is_full { LOW } else { FULL };
        (bits_per_second.saturating_mul(if self.is_full { HOLD } else { FILL }) / 100).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_raised_while_little_is_buffered() {
        let mut target = Target::default();
        let decided = [0, 19, 20, 12, 9, 15, 30]
            .map(|buffered| target.decide(1_000_000, Duration::from_secs(buffered)) / 1000);
        assert_eq!(decided, [4000, 4000, 1250, 1250, 4000, 4000, 1250]);
    }
}
