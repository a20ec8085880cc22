//! Selects the packets that a link loses: independently, in bursts, or by a script.

use std::ops::Range;

use manyway_proto::Rng;

use super::Probability;

/// The loss model of the medium; lost packets have used their share of the rate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LossModel {
    /// Nothing is lost.
    #[default]
    None,
    /// Every packet is lost with the same probability, independently.
    Random(Probability),
    /// A link with a good and a bad state (Gilbert 1960, Elliott 1963): before each packet the state may change.
    GilbertElliott(GilbertElliott),
    /// The packets with these numbers are lost; the first packet that leaves the queue has number 0.
    Scripted(Vec<Range<u64>>),
    /// The next packets of at least a size are lost, so many, and no other.
    Next {
        /// How many.
        count: u64,
        /// Bytes of the smallest that is lost, without the overhead of the link.
        from: u32,
    },
}

/// The four probabilities of a Gilbert-Elliott link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GilbertElliott {
    /// From good to bad, for each packet.
    pub to_bad: Probability,
    /// From bad to good, for each packet.
    pub to_good: Probability,
    /// Loss while the link is good.
    pub loss_good: Probability,
    /// Loss while the link is bad.
    pub loss_bad: Probability,
}

impl LossModel {
    /// Loses `loss` of all packets in bursts of `mean_burst` packets on average (at least 1): the bad state loses
    /// everything, the good one nothing.
    ///
    /// `loss` near 1 together with short bursts is impossible; the good state then lasts one packet.
    pub fn bursts(loss: Probability, mean_burst: u32) -> Self {
        let to_good = Probability::one_in(mean_burst);
        // Share of bad = to_bad / (to_bad + to_good) = loss  =>  to_bad = to_good * loss / (1 - loss)
        let all = u64::from(Probability::ALWAYS.billionths());
        let lost = u64::from(loss.billionths());
        let to_bad = (u64::from(to_good.billionths()) * lost).checked_div(all - lost).unwrap_or(all);
        Self::GilbertElliott(GilbertElliott {
            to_bad: Probability::from_billionths(to_bad),
            to_good,
            loss_good: Probability::NEVER,
            loss_bad: Probability::ALWAYS,
        })
    }
}

/// The state of a loss model on one link.
#[derive(Debug)]
pub(super) struct Loss {
    model: LossModel,
    condition: Condition,
    /// Number of the next packet.
    next: u64,
    /// Packets lost since the model was set.
    lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Good,
    Bad,
}

impl Loss {
    pub(super) fn new(model: LossModel) -> Self {
        Self { model, condition: Condition::Good, next: 0, lost: 0 }
    }

    /// Changes the model; packet numbers of a script continue.
    pub(super) fn set(&mut self, model: LossModel) {
        self.model = model;
        self.condition = Condition::Good;
        self.lost = 0;
    }

    /// Decides about the next packet, of so many bytes.
    pub(super) fn loses(&mut self, rng: &mut Rng, size: u32) -> bool {
        let number = self.next;
        self.next += 1;
        match &self.model {
            LossModel::None => false,
            LossModel::Random(probability) => probability.happens(rng),
            LossModel::GilbertElliott(law) => {
                let (changes, other) = match self.condition {
                    Condition::Good => (law.to_bad, Condition::Bad),
                    Condition::Bad => (law.to_good, Condition::Good),
                };
                if changes.happens(rng) {
                    self.condition = other;
                }
                match self.condition {
                    Condition::Good => law.loss_good.happens(rng),
                    Condition::Bad => law.loss_bad.happens(rng),
                }
            }
            LossModel::Scripted(ranges) => ranges.iter().any(|range| range.contains(&number)),
            LossModel::Next { count, from } => {
                let is_lost = self.lost < *count && size >= *from;
                self.lost += u64::from(is_lost);
                is_lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 σ of a share estimated from `n` independent trials.
    fn three_sigma(p: f64, n: f64) -> f64 {
        3.0 * (p * (1.0 - p) / n).sqrt()
    }

    fn pattern(model: LossModel, seed: u8, packets: usize) -> Vec<bool> {
        let mut rng = Rng::from_seed([seed; 32]);
        let mut loss = Loss::new(model);
        (0..packets).map(|_| loss.loses(&mut rng, 100)).collect()
    }

    fn share(pattern: &[bool]) -> f64 {
        pattern.iter().filter(|lost| **lost).count() as f64 / pattern.len() as f64
    }

    #[test]
    fn random_loss_stays_within_three_sigma() {
        for (seed, percent) in [(1, 0.1), (2, 0.5), (3, 2.0), (4, 50.0), (5, 99.0)] {
            let n = 200_000;
            let measured = share(&pattern(LossModel::Random(Probability::from_percent(percent)), seed, n));
            let expected = percent / 100.0;
            assert!((measured - expected).abs() < three_sigma(expected, n as f64), "{percent} %: {measured}");
        }
    }

    #[test]
    fn bursts_have_the_configured_mean_length_and_share() {
        for (seed, percent, burst) in [(1, 1.0, 4_u32), (2, 5.0, 10), (3, 20.0, 2), (4, 0.1, 8)] {
            let lost = pattern(LossModel::bursts(Probability::from_percent(percent), burst), seed, 1_000_000);
            let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            let mean = lost.iter().filter(|lost| **lost).count() as f64 / bursts;
            // Lengths are geometric with mean m and deviation below m.
            assert!((mean - f64::from(burst)).abs() < 3.0 * f64::from(burst) / bursts.sqrt(), "burst {mean}");
            // Losses come in `bursts` independent groups: the share varies about sqrt(2 m) times as much.
            let expected = percent / 100.0;
            let slack = three_sigma(expected, 1e6) * (2.0 * f64::from(burst)).sqrt();
            assert!((share(&lost) - expected).abs() < slack, "{percent} %: {}", share(&lost));
        }
    }

    #[test]
    fn a_script_loses_exactly_the_packets_it_names() {
        let lost = pattern(LossModel::Scripted(vec![2..4, 7..8]), 1, 10);
        let numbers: Vec<_> = (0..10).filter(|number| lost[*number]).collect();
        assert_eq!(numbers, [2, 3, 7]);
    }

    #[test]
    fn the_next_packets_of_a_size_are_lost_each_time_that_it_is_set() {
        let mut rng = Rng::from_seed([1; 32]);
        let mut loss = Loss::new(LossModel::None);
        let mut lost = Vec::new();
        for (number, size) in (0..10).zip([40, 1000].into_iter().cycle()) {
            if [2, 7].contains(&number) {
                loss.set(LossModel::Next { count: 2, from: 1000 });
            }
            lost.extend(loss.loses(&mut rng, size).then_some(number));
        }
        assert_eq!(lost, [3, 5, 7, 9]);
    }

    #[test]
    fn certain_outcomes_are_certain() {
        assert!(share(&pattern(LossModel::Random(Probability::ALWAYS), 1, 1000)) > 0.9999);
        assert!(share(&pattern(LossModel::Random(Probability::NEVER), 1, 1000)) < 0.0001);
        assert!(share(&pattern(LossModel::bursts(Probability::ALWAYS, 3), 1, 1000)) > 0.6);
    }
}
