//! One repetition of the measurements.

use manyway_sim::link::LinkConfig;

use super::property::Extent;
use super::stage::Stage;
use crate::{LabError, Stop};

/// The parameters of one repetition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial<'a> {
    pub(super) extent: Extent,
    pub(super) seed: u64,
    pub(super) stop: &'a Stop,
}

impl Trial<'_> {
    /// A link to measure, unless the end was requested.
    pub(super) fn stage(self, config: &LinkConfig) -> Result<Stage, LabError> {
        self.stop.check()?;
        Stage::with(config, self.seed)
    }
}
