//! Undoes the reaction to spurious losses.

use super::bounds::Bounds;
use crate::ByteCount;

/// The state before the last congestion event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Undo {
    /// Window and bounds before it; no window means no event.
    pub(super) window: ByteCount,
    pub(super) bounds: Bounds,
    pub(super) left: Option<Left>,
}

/// The search that the losses ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum Left {
    Startup,
    Up,
}

impl Undo {
    /// A congestion event begins (`SaveStateUponLoss`).
    pub(super) fn new(window: ByteCount, bounds: Bounds) -> Self {
        Self { window, bounds, left: None }
    }

    pub(super) fn on_left_startup(&mut self) {
        self.left = Some(Left::Startup);
    }

    pub(super) fn on_left_up(&mut self) {
        self.left = Some(Left::Up);
    }
}
