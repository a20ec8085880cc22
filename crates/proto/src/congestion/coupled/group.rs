//! The paths that share a bottleneck, in proportions.

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
    /// Smoothed round trip.
    pub rtt: Duration,
    /// See [`Subflow::loss_interval`].
    pub loss_interval: ByteCount,
}

impl Member {
    /// Names the figures of a path; windows are cut to 2⁴⁰ bytes.
    pub fn new(window: ByteCount, rtt: Duration, loss_interval: ByteCount) -> Self {
        Self { window: window.min(ByteCount(1 << 40)), rtt, loss_interval }
    }

    /// Round trip in µs, from 1 on.
    pub(super) fn micros(&self) -> u128 {
        self.rtt.as_micros().max(1)
    }

    /// Window over round trip, in an arbitrary unit; at least 1.
    fn rate(&self) -> u128 {
        ((u128::from(self.window.get()) << 20) / self.micros()).max(1)
    }
}

/// A path and those of its subflows that queue where it does.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// The path itself.
    pub own: Member,
    subflows: &'a [Subflow],
}

impl<'a> Group<'a> {
    /// Puts a path together with those of `subflows` that queue where it does.
    pub fn new(own: Member, subflows: &'a [Subflow]) -> Self {
        Self { own, subflows }
    }

    /// All members, the path itself first.
    pub fn members(self) -> impl Iterator<Item = Member> + 'a {
        let same = self.subflows.iter().filter(|subflow| subflow.bottleneck == Bottleneck::Same);
        std::iter::once(self.own)
            .chain(same.map(|subflow| Member::new(subflow.window, subflow.rtt, subflow.loss_interval)))
    }

    /// The part that a member has of the rate of all, of [`ONE`].
    pub fn share(self, member: Member) -> u64 {
        let sum: u128 = self.members().map(|member| member.rate()).sum();
        u64::try_from((member.rate() << 32) / sum).unwrap_or(ONE)
    }

    /// The largest of all shares.
    pub fn largest_share(self) -> u64 {
        self.members().map(|member| self.share(member)).max().unwrap_or(ONE)
    }
}

/// `a` · `b`, both of [`ONE`].
pub(super) fn product(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 32).unwrap_or(u64::MAX)
}
