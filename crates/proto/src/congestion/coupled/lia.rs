//! LIA, the linked increases of RFC 6356.

use super::Law;
use super::group::{Group, Member, ONE, product};

/// All paths of a group together get the rate of one flow on the best of them, and none gets more than a flow of its
/// own.
#[derive(Debug, Clone, Copy)]
pub struct Lia;

impl Law for Lia {
    const NAME: &'static str = "lia";

    /// Section 3: an acknowledgement adds the smaller of α·bytes·MSS / Σw and bytes·MSS / w, where
    /// α = Σw · max(w/r²) / (Σ w/r)². Over the latter this is `max((r/r_k) · share · share_k)` of all members `k`.
    fn gain(group: Group<'_>) -> i64 {
        let share = group.share(group.own);
        let of = |member: Member| {
            let both = u128::from(product(share, group.share(member)));
            both * group.own.micros() / member.micros()
        };
        let largest = group.members().map(of).max().unwrap_or_else(|| ONE.into());
        i64::try_from(largest.min(ONE.into())).unwrap_or_default()
    }
}
