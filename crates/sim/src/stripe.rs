//! Distributes packets one by one over parallel links: striping below the transport, which does not notice it.

/// Distributes by fixed shares, as evenly as whole packets allow.
///
/// ```
/// use manyway_sim::Stripe;
/// let mut stripe = Stripe::new(vec![4, 1]);
/// let dealt: Vec<_> = (0..5).map(|_| stripe.deal()).collect();
/// assert_eq!(dealt, [0, 0, 1, 0, 0]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripe {
    shares: Vec<u32>,
    /// The credit of each link, in parts of a packet.
    credits: Vec<i64>,
}

impl Stripe {
    /// Takes the share of each link.
    pub fn new(shares: Vec<u32>) -> Self {
        let credits = vec![0; shares.len()];
        Self { shares, credits }
    }

    /// The index of the link for the next packet: the one with the highest credit.
    pub fn deal(&mut self) -> usize {
        for (credit, share) in self.credits.iter_mut().zip(&self.shares) {
            *credit += i64::from(*share);
        }
        // Of equal ones `max_by_key` would take the last.
        let next = self.credits.iter().enumerate().rev().max_by_key(|(_, credit)| **credit);
        let next = next.map_or(0, |(place, _)| place);
        if let Some(credit) = self.credits.get_mut(next) {
            *credit -= self.shares.iter().map(|share| i64::from(*share)).sum::<i64>();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_gets_its_share_of_any_run_of_packets() {
        let mut stripe = Stripe::new(vec![8, 1, 3]);
        let mut counts = [0_u32; 3];
        for dealt in 1..=120_u32 {
            counts[stripe.deal()] += 1;
            for (count, share) in counts.iter().zip([8, 1, 3]) {
                assert!((count * 12).abs_diff(dealt * share) <= 12, "{counts:?} of {dealt}");
            }
        }
        assert_eq!(counts, [80, 10, 30]);
    }
}
