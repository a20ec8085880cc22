//! A probability, as an integer.

use manyway_proto::Rng;

/// The probability of a fault, in billionths, from [`NEVER`](Self::NEVER) to [`ALWAYS`](Self::ALWAYS).
///
/// ```
/// use manyway_sim::link::Probability;
/// assert_eq!(Probability::from_percent(0.5), Probability::from_ppm(5_000));
/// assert_eq!(Probability::from_ppm(2_000_000), Probability::ALWAYS);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Probability(u32);

impl Probability {
    /// It does not happen.
    pub const NEVER: Self = Self(0);
    /// It happens each time.
    pub const ALWAYS: Self = Self(1_000_000_000);

    /// Makes a probability from millionths; more than a million counts as a million.
    pub const fn from_ppm(ppm: u32) -> Self {
        if ppm >= 1_000_000 { Self::ALWAYS } else { Self(ppm * 1_000) }
    }

    /// Makes a probability from percent, rounded to a billionth. Values below 0 (and NaN) count as 0, values above 100
    /// as 100.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float to integer conversion saturates, and the result is clamped"
    )]
    pub const fn from_percent(percent: f64) -> Self {
        let billionths = (percent * 10_000_000.0 + 0.5) as u32;
        if billionths >= Self::ALWAYS.0 { Self::ALWAYS } else { Self(billionths) }
    }

    /// Makes a probability from billionths; more than a billion counts as a billion.
    pub fn from_billionths(billionths: u64) -> Self {
        u32::try_from(billionths).map_or(Self::ALWAYS, |billionths| Self(billionths.min(Self::ALWAYS.0)))
    }

    /// Makes the probability `1 / n`; `n` = 0 counts as 1.
    pub fn one_in(n: u32) -> Self {
        Self(Self::ALWAYS.0 / n.max(1))
    }

    /// The probability that both of two independent faults happen.
    pub fn and(self, other: Self) -> Self {
        Self::from_billionths(u64::from(self.0) * u64::from(other.0) / u64::from(Self::ALWAYS.0))
    }

    /// Billionths.
    pub const fn billionths(self) -> u32 {
        self.0
    }

    /// Tosses the coin. Certain outcomes use no random number.
    pub fn happens(self, rng: &mut Rng) -> bool {
        match self {
            Self::NEVER => false,
            Self::ALWAYS => true,
            // The upper 64 bits of a 128-bit product spread the random number evenly over 0..1 000 000 000.
            Self(billionths) => {
                let spread = (u128::from(rng.next_u64()) * u128::from(Self::ALWAYS.0)) >> 64;
                spread < u128::from(billionths)
            }
        }
    }
}
