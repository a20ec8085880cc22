//! The figures of a run, whether or not it completes.

use std::fmt;

use crate::error::TransferError;
use crate::frame::BenchSummary;

use super::request::BenchDirection;
use super::{BenchOutcome, BenchPlan, StreamInterval};

/// A run that did not complete, with the outcome `T` of what was measured.
#[derive(Debug)]
pub struct RunFailure<T> {
    /// Why not.
    pub error: TransferError,
    /// What was measured until then. A stream of bytes without a summary has the sum of its intervals, without the
    /// longest stall.
    pub partial: Box<T>,
}

/// A run of streams that did not complete.
pub type BenchFailure = RunFailure<BenchOutcome>;

impl<T: Default> From<TransferError> for RunFailure<T> {
    /// A failure before anything was measured.
    fn from(error: TransferError) -> Self {
        Self { error, partial: Box::default() }
    }
}

impl<T> fmt::Display for RunFailure<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for RunFailure<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// The figures of each stream of a run.
#[derive(Debug)]
pub(super) struct Figures {
    upload: Vec<BenchSummary>,
    download: Vec<BenchSummary>,
}

impl Figures {
    pub(super) fn new(plan: &BenchPlan) -> Self {
        let of = |direction| {
            let streams = if plan.flow.has(direction) { plan.streams } else { 0 };
            vec![BenchSummary::default(); usize::from(streams)]
        };
        Self { upload: of(BenchDirection::Upload), download: of(BenchDirection::Download) }
    }

    /// Adds an interval of a stream.
    pub(super) fn on_interval(&mut self, report: &StreamInterval) {
        let interval = &report.interval;
        if let Some(summary) = self.stream(report.direction, report.stream).filter(|_| !interval.omitted) {
            summary.bytes = summary.bytes.saturating_add(interval.bytes);
            summary.elapsed = summary.elapsed.max(interval.end);
        }
    }

    /// Replaces the sum of the intervals of a stream.
    pub(super) fn on_summary(&mut self, direction: BenchDirection, stream: u16, summary: BenchSummary) {
        if let Some(place) = self.stream(direction, stream) {
            *place = summary;
        }
    }

    /// The figures of both directions.
    pub(super) fn into_parts(self) -> (Vec<BenchSummary>, Vec<BenchSummary>) {
        (self.upload, self.download)
    }

    fn stream(&mut self, direction: BenchDirection, stream: u16) -> Option<&mut BenchSummary> {
        let streams = match direction {
            BenchDirection::Upload => &mut self.upload,
            BenchDirection::Download => &mut self.download,
        };
        streams.get_mut(usize::from(stream))
    }
}
