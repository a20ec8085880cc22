//! BALIA, the balanced linked adaptation of draft-walid-mptcp-congestion-control-04.

use super::Law;
use super::group::{Group, ONE};

/// A compromise between LIA and OLIA: friendly to other flows, and quick to adapt to changes.
#[derive(Debug, Clone, Copy)]
pub struct Balia;

impl Law for Balia {
    const NAME: &'static str = "balia";

    /// Section 3: x/(r·(Σx)²) · (1 + α)/2 · (4 + α)/5 with x = w/r and α = max x / x; over 1/w this is
    /// `(share + largest) · (4·share + largest) / 10`.
    fn gain(group: Group<'_>) -> i64 {
        let (share, largest) = (u128::from(group.share(group.own)), u128::from(group.largest_share()));
        i64::try_from(((share + largest) * (4 * share + largest) / 10) >> 32).unwrap_or_default()
    }

    /// Section 3: w/2 · min(α, 1.5).
    fn reduction(group: Group<'_>) -> u64 {
        let (share, largest) = (group.share(group.own).max(1), group.largest_share());
        let alpha = (u128::from(largest) << 32) / u128::from(share);
        u64::try_from(alpha.min((ONE + ONE / 2).into()) / 2).unwrap_or(ONE / 2)
    }
}
