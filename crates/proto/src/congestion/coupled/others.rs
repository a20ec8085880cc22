//! Totals of the other paths of a group, for controllers that treat the group as one flow.

use crate::congestion::{Bottleneck, Subflow};
use crate::{ByteCount, Instant};

/// The other paths of a group, as one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Others {
    /// Their number.
    pub number: usize,
    /// The sum of their windows.
    pub windows: ByteCount,
    /// When one of them was last reduced for congestion.
    pub reduced_at: Option<Instant>,
}

impl Others {
    /// Totals of the subflows with the same bottleneck.
    pub fn of(subflows: &[Subflow]) -> Self {
        let same = subflows.iter().filter(|subflow| subflow.bottleneck == Bottleneck::Same);
        same.fold(Self::default(), |sum, subflow| Self {
            number: sum.number + 1,
            windows: sum.windows + subflow.window,
            reduced_at: sum.reduced_at.max(subflow.reduced_at),
        })
    }
}
