//! What one measurement gives.

/// The figures of one measurement, as [`CpuRow`](super::CpuRow) has them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) gigabits: f64,
    pub(super) sender: f64,
    pub(super) receiver: f64,
    pub(super) machine: f64,
    pub(super) lost: f64,
}
