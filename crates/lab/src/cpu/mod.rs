//! What a byte costs: one connection between two namespaces that are joined by a veth pair, nothing emulated between.

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
    /// How long each measurement lasts. Default 3 s, at least 100 ms.
    pub duration: Duration,
    /// How often each subject is measured; all of them in turn, then again. Default 5, at least 1.
    pub repetitions: u32,
    /// Who is measured. Default all.
    pub subjects: Vec<Subject>,
    /// Ends it soon.
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

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// One Manyway connection, with what the system offers: batches of datagrams in one call.
    Manyway,
    /// One kernel TCP connection with packets of up to 64 KiB, as the system cuts and joins them by default.
    Tcp,
    /// One kernel TCP connection whose packets have the size of the MTU on the link: cut by the system before they
    /// leave, and not joined when they arrive. Needs `ethtool`.
    TcpWithoutOffload,
    /// UDP in the clear, batches of datagrams in one call, no acknowledgements: what a protocol over UDP can reach.
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
    /// How many ended before it.
    pub done: u32,
    /// How many there are, those of subjects that are left out not among them.
    pub all: u32,
}

/// What a byte costs whom.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuReport {
    /// Largest IP packet on the link, in bytes.
    pub mtu: u16,
    /// How long each measurement lasted.
    pub duration: Duration,
    /// The figures of each subject that could be measured, in the order of [`CpuOptions::subjects`].
    pub rows: Vec<CpuRow>,
    /// What a reader of the figures must know.
    pub remarks: Vec<String>,
}

/// The figures of a subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuRow {
    /// Who.
    pub subject: Subject,
    /// Payload that the receiving application got, in Gbit/s.
    pub gigabits: Spread,
    /// Processor time of the sending process, in seconds per 10⁹ bytes of payload that arrived.
    pub sender: Spread,
    /// Processor time of the receiving process, in seconds per 10⁹ bytes of payload that arrived.
    pub receiver: Spread,
    /// Processor time of the whole machine, in seconds per 10⁹ bytes of payload that arrived: with what the system
    /// does for both on nobody's account, such as handing packets over.
    pub machine: Spread,
    /// The share of the bytes sent that did not arrive, from 0 to 1; only UDP loses any.
    pub lost: f64,
}

/// Measures what a byte costs each subject, in turn, and says what begins. Takes [`CpuOptions::duration`] and half a
/// second for each measurement. Needs root and `ip`; a subject that needs more than the machine has is left out, with a
/// remark. After a [`Stop`] it gives the measurements until then.
///
/// # Errors
/// The namespaces can not be made, or an end breaks down; [`LabError::Interrupted`] if nothing was measured.
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
