//! Undoes the reaction to spurious losses.

use super::bounds::Bounds;
use super::{Bbr, Phase, State};
use crate::{ByteCount, Rate};

/// The state before the last congestion event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Undo {
    /// Window and bounds before it; no window means no event.
    window: ByteCount,
    bounds: Bounds,
    left: Option<Left>,
}

/// The search that the losses ended.
#[derive(Debug, Clone, Copy)]
enum Left {
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

impl Bbr {
    /// `HandleSpuriousLossDetection`
    pub(super) fn undo_loss(&mut self) {
        let Undo { window, bounds, left } = std::mem::take(&mut self.undo);
        if window == ByteCount::ZERO {
            return;
        }
        self.signals.forget_losses();
        self.full_pipe.restart(Rate::ZERO);
        self.bounds.restore(bounds);
        let is_draining = matches!(self.state, State::ProbeRtt(_));
        if is_draining {
            self.kept_window = self.kept_window.max(window);
        } else {
            self.window = self.window.max(window);
        }
        match left {
            Some(Left::Startup) if self.state != State::Startup => {
                self.full_pipe.set_reached(false);
                if !is_draining {
                    self.state = State::Startup;
                }
            }
            Some(Left::Up) if self.state != State::ProbeBw(Phase::Up) && !is_draining => self.begin_refill(),
            Some(Left::Startup | Left::Up) | None => {}
        }
    }
}
