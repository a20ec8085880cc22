//! What the other paths of a group add up to, for controllers that make one flow of all.

use crate::congestion::{Bottleneck, Subflow};
use crate::{ByteCount, Instant};

/// The other paths of a group, as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Others {
    /// How many there are.
    pub number: usize,
    /// The sum of their windows.
    pub windows: ByteCount,
    /// When one of them was last reduced for congestion.
    pub reduced_at: Option<Instant>,
}

impl Others {
    /// Adds up those that queue where the path does.
    pub fn of(subflows: &[Subflow]) -> Self {
        let same = subflows.iter().filter(|subflow| subflow.bottleneck == Bottleneck::Same);
        same.fold(Self::default(), |sum, subflow| Self {
            number: sum.number + 1,
            windows: sum.windows + subflow.window,
            reduced_at: sum.reduced_at.max(subflow.reduced_at),
        })
    }
}
