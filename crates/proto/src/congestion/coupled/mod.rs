//! Coupled congestion control: paths that share a bottleneck compete there as about one flow.
//!
//! A [`Law`] determines how much of Reno's growth a path takes, given the paths of its group. A path alone in its
//! group takes all of it.

mod balia;
mod group;
mod lia;
mod olia;
mod others;

use std::fmt::Debug;

pub use balia::Balia;
pub use group::{Group, Member, ONE};
pub use lia::Lia;
pub use olia::Olia;
pub use others::Others;

/// How a path in a group grows and shrinks. Parts are in [`ONE`].
pub trait Law: Debug + Send + 'static {
    /// The name of the controller.
    const NAME: &'static str;

    /// The growth in congestion avoidance, as a part of Reno's. If negative, the window shrinks.
    fn gain(group: Group<'_>) -> i64;

    /// The part of the window that a congestion event removes. Default: half.
    fn reduction(group: Group<'_>) -> u64 {
        let _ = group;
        ONE / 2
    }
}

/// Not coupled: each path is a flow of its own.
#[derive(Debug, Clone, Copy)]
pub struct Alone;

impl Law for Alone {
    const NAME: &'static str = "new-reno";

    fn gain(_: Group<'_>) -> i64 {
        ONE.cast_signed()
    }
}

#[cfg(test)]
mod tests;
