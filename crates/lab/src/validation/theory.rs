//! The expected behaviour of a link by its settings.

use std::time::Duration;

use manyway_sim::link::{Codel, GilbertElliott, Probability};

/// A probability as a number from 0 to 1.
pub(super) fn number(share: Probability) -> f64 {
    f64::from(share.billionths()) / 1e9
}

/// The standard deviation of the share of `count` events with one outcome, if each is correlated with the one before by
/// this coefficient.
pub(super) fn deviation_of_share(share: f64, count: f64, correlation: f64) -> f64 {
    (share * (1.0 - share) / count * (1.0 + correlation) / (1.0 - correlation)).sqrt()
}

/// The long-term losses of a Gilbert-Elliott model, if its good state loses nothing and its bad one everything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bursts {
    /// Share of packets lost, from 0 to 1.
    pub(super) share: f64,
    /// Between the fates of a packet and the next.
    pub(super) correlation: f64,
    /// Mean number of packets lost in a row.
    pub(super) length: f64,
    /// The standard deviation of this mean.
    pub(super) length_deviation: f64,
}

impl Bursts {
    pub(super) fn of(law: &GilbertElliott) -> Self {
        let [to_bad, to_good] = [law.to_bad, law.to_good].map(number);
        Self {
            share: to_bad / (to_bad + to_good),
            correlation: 1.0 - to_bad - to_good,
            length: 1.0 / to_good,
            length_deviation: (1.0 - to_good).sqrt() / to_good,
        }
    }
}

/// The standard deviation of a delay that is uniform from minus to plus `spread`.
pub(super) fn uniform_deviation(spread: Duration) -> f64 {
    spread.as_secs_f64() / 3_f64.sqrt()
}

/// The standard deviation of the sample deviation of `count` values, relative to the true one. The kurtosis is 3 for a
/// normal distribution and 1.8 for a uniform one.
pub(super) fn deviation_of_deviation(count: f64, kurtosis: f64) -> f64 {
    ((kurtosis - 1.0) / (4.0 * count)).sqrt()
}

/// How often a packet overtakes the one sent `spacing` before it, if the delay is uniform from minus to plus `spread`:
/// when two such delays differ by more than the spacing.
pub(super) fn overtaking(spread: Duration, spacing: Duration) -> f64 {
    let width = 2.0 * spread.as_secs_f64();
    let rest = (width - spacing.as_secs_f64()).max(0.0);
    rest * rest / (2.0 * width * width)
}

/// How often `CoDel` strikes while packets wait too long for `time`: once after the first interval, then at intervals
/// divided by the root of their number (RFC 8289, 5.3).
pub(super) fn strikes(codel: &Codel, time: Duration) -> u32 {
    let interval = codel.interval.as_secs_f64();
    let (mut at, mut count) = (interval, 0);
    while at <= time.as_secs_f64() {
        count += 1;
        at += interval / f64::from(count).sqrt();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use manyway_sim::link::{Discipline, QueueConfig, Reaction};

    const MS: Duration = Duration::from_millis(1);

    fn is_near(number: f64, expected: f64) -> bool {
        (number - expected).abs() < 1e-6
    }

    #[test]
    fn the_deviation_of_two_percent_of_ten_thousand_is_fourteen_packets() {
        assert!(is_near(deviation_of_share(0.02, 10_000.0, 0.0), 0.0014));
        assert!(deviation_of_share(0.02, 10_000.0, 0.5) > 0.0024);
    }

    #[test]
    fn the_share_of_a_burst_model_is_the_time_in_its_bad_state() {
        let share = Probability::from_percent;
        let law = GilbertElliott {
            to_bad: share(1.0),
            to_good: share(25.0),
            loss_good: Probability::NEVER,
            loss_bad: Probability::ALWAYS,
        };
        let bursts = Bursts::of(&law);
        assert!(is_near(bursts.share, 1.0 / 26.0) && is_near(bursts.correlation, 0.74));
        assert!(is_near(bursts.length, 4.0) && is_near(bursts.length_deviation, 12_f64.sqrt()));
    }

    #[test]
    fn packets_with_a_large_spacing_do_not_overtake() {
        assert!(is_near(overtaking(10 * MS, Duration::ZERO), 0.5));
        assert!(is_near(overtaking(10 * MS, 10 * MS), 0.125));
        assert!(is_near(overtaking(10 * MS, 25 * MS), 0.0));
        assert!(is_near(uniform_deviation(3 * MS), 0.003 / 3_f64.sqrt()));
    }

    #[test]
    fn codel_strikes_at_shrinking_intervals() {
        let Discipline::Codel(codel) = QueueConfig::codel(Reaction::Drop).discipline else { panic!() };
        let counts = [99, 101, 199, 201, 271, 328, 329].map(|time| strikes(&codel, time * MS));
        assert_eq!(counts, [0, 1, 1, 2, 3, 3, 4]);
    }
}
