//! Processor time per byte: one connection between two namespaces joined by a veth pair, without any emulation.

mod goals;
mod machine;
mod options;
mod peers;
mod sample;
mod stage;

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::error::LabError;
use crate::measures::Spread;

pub use goals::CpuVerdict;
pub use options::{CpuOptions, Subject};
pub(crate) use peers::Peers;
use sample::Sample;
use stage::{Measured, Stage};

/// A measurement that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Of whom.
    pub subject: Subject,
    /// Number of completed measurements.
    pub done: u32,
    /// Total number, without subjects that are left out.
    pub all: u32,
}

/// Processor time per byte of each subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuReport {
    /// Largest IP packet on the link, in bytes.
    pub mtu: u16,
    /// How long each measurement lasted.
    pub duration: Duration,
    /// The figures of each measurable subject, in the order of [`CpuOptions::subjects`].
    pub rows: Vec<CpuRow>,
    /// Remarks for the reader of the figures.
    pub remarks: Vec<String>,
}

/// The figures of a subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuRow {
    /// The measured subject.
    pub subject: Subject,
    /// Payload that the receiving application got, in Gbit/s.
    pub gigabits: Spread,
    /// Processor time of the sending process, in seconds per 10⁹ bytes of payload that arrived.
    pub sender: Spread,
    /// Processor time of the receiving process, in seconds per 10⁹ bytes of payload that arrived.
    pub receiver: Spread,
    /// Processor time of the whole machine, in seconds per 10⁹ bytes of payload that arrived: including work that the
    /// system accounts to no process, such as delivering packets.
    pub machine: Spread,
    /// The share of the bytes sent that did not arrive, from 0 to 1; only UDP loses any.
    pub lost: f64,
}

/// Measures processor time per byte of each subject, in turn, and reports each measurement. Takes
/// [`CpuOptions::duration`] and half a second for each. Needs root and `ip`; a subject that needs more than the machine
/// has is left out, with a remark, and so is a program of others that fails. After a [`Stop`](crate::Stop) it returns
/// the measurements until then.
///
/// # Errors
/// The namespaces cannot be created, or an end fails; [`LabError::Interrupted`] if nothing was measured.
pub fn run(
    program: &Path,
    options: &CpuOptions,
    mut begins: impl FnMut(Part),
) -> Result<CpuReport, LabError> {
    let stage = Stage::make(program, options)?;
    let (left_out, subjects): (Vec<Subject>, Vec<Subject>) =
        options.subjects.iter().partition(|subject| stage.lacks(**subject).is_some());
    let mut remarks = Vec::new();
    let mut remark = |text: Option<String>| {
        remarks.extend(text.filter(|text| !remarks.contains(text)));
    };
    left_out.iter().for_each(|subject| remark(stage.lacks(*subject)));
    let mut samples: Vec<Option<Vec<Sample>>> = vec![Some(Vec::new()); subjects.len()];
    let count = u32::try_from(subjects.len()).unwrap_or(u32::MAX);
    let all = options.repetitions.max(1).saturating_mul(count);
    let turns = (0..options.repetitions.max(1)).flat_map(|_| subjects.iter().enumerate());
    for ((place, subject), done) in turns.zip(0..) {
        // One that failed is not measured again.
        let Some(entry) = samples.get_mut(place).filter(|entry| entry.is_some()) else { continue };
        begins(Part { subject: *subject, done, all });
        match options.stop.check().and_then(|()| stage.measure(*subject)) {
            Err(LabError::Interrupted) if done > 0 => break,
            Err(error) => return Err(error),
            Ok(Measured::Sample(sample, text)) => {
                entry.get_or_insert_default().push(sample);
                remark(text);
            }
            Ok(Measured::LeftOut(reason)) => {
                *entry = None;
                remark(Some(reason));
            }
        }
    }
    let rows =
        subjects.iter().zip(samples).filter_map(|(subject, samples)| row(*subject, &samples?)).collect();
    Ok(CpuReport { mtu: stage::MTU, duration: stage.duration(), rows, remarks })
}

/// `None` without a measurement.
fn row(subject: Subject, samples: &[Sample]) -> Option<CpuRow> {
    let spread = |figure: fn(&Sample) -> f64| Spread::of(samples.iter().map(figure));
    Some(CpuRow {
        subject,
        gigabits: spread(|sample| sample.gigabits)?,
        sender: spread(|sample| sample.sender)?,
        receiver: spread(|sample| sample.receiver)?,
        machine: spread(|sample| sample.machine)?,
        lost: spread(|sample| sample.lost)?.median,
    })
}
