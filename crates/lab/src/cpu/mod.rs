//! Processor time per byte: one connection between two namespaces joined by a veth pair, without any emulation.

mod machine;
mod stage;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Stop;
use crate::error::LabError;
use crate::measures::Spread;

use stage::{Sample, Stage};

/// How [`run`] measures.
#[derive(Debug, Clone)]
pub struct CpuOptions {
    /// Duration of each measurement. Default 3 s, at least 100 ms.
    pub duration: Duration,
    /// Repetitions of each subject, interleaved. Default 5, at least 1.
    pub repetitions: u32,
    /// The subjects. Default all.
    pub subjects: Vec<Subject>,
    /// Ends the measurements soon.
    pub stop: Stop,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(3),
            repetitions: 5,
            subjects: Subject::ALL.to_vec(),
            stop: Stop::default(),
        }
    }
}

/// A measured subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// One Manyway connection, with the system's offloads: batches of datagrams in one call.
    Manyway,
    /// One kernel TCP connection with packets of up to 64 KiB, segmented and coalesced by the system as by default.
    Tcp,
    /// One kernel TCP connection whose packets on the link have the size of the MTU: segmented by the system before
    /// they leave, and not coalesced on arrival. Needs `ethtool`.
    TcpWithoutOffload,
    /// Plain UDP, batches of datagrams in one call, no acknowledgements: the upper bound for a protocol over UDP.
    Udp,
}

impl Subject {
    /// All, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Manyway, Self::Tcp, Self::TcpWithoutOffload, Self::Udp];
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Manyway => "manyway",
            Self::Tcp => "tcp",
            Self::TcpWithoutOffload => "tcp-without-offload",
            Self::Udp => "udp",
        })
    }
}

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
/// has is left out, with a remark. After a [`Stop`] it returns the measurements until then.
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
    let mut remarks: Vec<String> = left_out.iter().filter_map(|subject| stage.lacks(*subject)).collect();
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); subjects.len()];
    let count = u32::try_from(subjects.len()).unwrap_or(u32::MAX);
    let all = options.repetitions.max(1).saturating_mul(count);
    let turns = (0..options.repetitions.max(1)).flat_map(|_| subjects.iter().enumerate());
    for ((place, subject), done) in turns.zip(0..) {
        begins(Part { subject: *subject, done, all });
        let (sample, remark) = match options.stop.check().and_then(|()| stage.measure(*subject)) {
            Err(LabError::Interrupted) if done > 0 => break,
            measured => measured?,
        };
        if let Some(samples) = samples.get_mut(place) {
            samples.push(sample);
        }
        if let Some(remark) = remark.filter(|remark| !remarks.contains(remark)) {
            remarks.push(remark);
        }
    }
    let rows =
        subjects.iter().zip(&samples).filter_map(|(subject, samples)| row(*subject, samples)).collect();
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
