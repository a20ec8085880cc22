//! The paths that share a bottleneck, and their relative rates.

use std::time::Duration;

use crate::ByteCount;
use crate::congestion::{Bottleneck, Subflow};

/// One, in the fixed point of shares and gains: they are in 2⁻³².
pub const ONE: u64 = 1 << 32;

/// One path of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Congestion window.
    pub window: ByteCount,
    /// Smoothed RTT.
    pub rtt: Duration,
    /// See [`Subflow::loss_interval`].
    pub loss_interval: ByteCount,
}

impl Member {
    /// Creates a member; windows are limited to 2⁴⁰ bytes.
    pub fn new(window: ByteCount, rtt: Duration, loss_interval: ByteCount) -> Self {
        Self { window: window.min(ByteCount(1 << 40)), rtt, loss_interval }
    }

    /// RTT in µs, at least 1.
    pub(super) fn micros(&self) -> u128 {
        self.rtt.as_micros().max(1)
    }

    /// Window over RTT, in an arbitrary unit; at least 1.
    fn rate(&self) -> u128 {
        ((u128::from(self.window.get()) << 20) / self.micros()).max(1)
    }
}

/// A path, and its subflows with the same bottleneck.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// The path itself.
    pub own: Member,
    subflows: &'a [Subflow],
}

impl<'a> Group<'a> {
    /// Groups a path with those of `subflows` that have the same bottleneck.
    pub fn new(own: Member, subflows: &'a [Subflow]) -> Self {
        Self { own, subflows }
    }

    /// All members, the path itself first.
    pub fn members(self) -> impl Iterator<Item = Member> + 'a {
        let same = self.subflows.iter().filter(|subflow| subflow.bottleneck == Bottleneck::Same);
        std::iter::once(self.own)
            .chain(same.map(|subflow| Member::new(subflow.window, subflow.rtt, subflow.loss_interval)))
    }

    /// The share of a member in the total rate, in [`ONE`].
    pub fn share(self, member: Member) -> u64 {
        let sum: u128 = self.members().map(|member| member.rate()).sum();
        u64::try_from((member.rate() << 32) / sum).unwrap_or(ONE)
    }

    /// The largest of all shares.
    pub fn largest_share(self) -> u64 {
        self.members().map(|member| self.share(member)).max().unwrap_or(ONE)
    }
}

/// `a` · `b`, both in [`ONE`].
pub(super) fn product(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 32).unwrap_or(u64::MAX)
}
