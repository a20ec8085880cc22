//! What a byte costs: one connection between two namespaces that are joined by a veth pair, nothing emulated between.

mod machine;
mod stage;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Stop;
use crate::error::LabError;

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
    /// One kernel TCP connection whose packets are of the size of the MTU when they are made.
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

/// What a byte costs whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuReport {
    /// Largest IP packet on the link, in bytes.
    pub mtu: u16,
    /// How long each measurement lasted.
    pub duration: Duration,
    /// Each subject's figures, in the order of [`CpuOptions::subjects`].
    pub rows: Vec<CpuRow>,
    /// What a reader of the figures must know.
    pub remarks: Vec<String>,
}

/// The figures of a subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// Repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// Measures what a byte costs each subject, in turn. Takes [`CpuOptions::duration`] and half a second for each
/// measurement. Needs root and `ip`.
///
/// # Errors
/// The namespaces can not be made, an end breaks down, or the end was asked for.
pub fn run(program: &Path, options: &CpuOptions) -> Result<CpuReport, LabError> {
    let stage = Stage::make(program, options)?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); options.subjects.len()];
    let mut remarks = Vec::new();
    for _ in 0..options.repetitions.max(1) {
        for (subject, samples) in options.subjects.iter().zip(&mut samples) {
            options.stop.check()?;
            let (sample, remark) = stage.measure(*subject)?;
            samples.push(sample);
            if let Some(remark) = remark.filter(|remark| !remarks.contains(remark)) {
                remarks.push(remark);
            }
        }
    }
    let rows =
        options.subjects.iter().zip(&samples).map(|(subject, samples)| row(*subject, samples)).collect();
    Ok(CpuReport { mtu: stage::MTU, duration: stage.duration(), rows, remarks })
}

fn row(subject: Subject, samples: &[Sample]) -> CpuRow {
    let spread = |figure: fn(&Sample) -> f64| Spread::of(samples.iter().map(figure).collect());
    CpuRow {
        subject,
        gigabits: spread(|sample| sample.gigabits),
        sender: spread(|sample| sample.sender),
        receiver: spread(|sample| sample.receiver),
        machine: spread(|sample| sample.machine),
        lost: spread(|sample| sample.lost).median,
    }
}

impl Spread {
    /// Of any number of measurements; of an even number, the median is the mean of the two in the middle.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (least, most) = (values.first().copied(), values.last().copied());
        let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
        let (low, high) = (at(values.len().saturating_sub(1) / 2), at(values.len() / 2));
        Self { median: f64::midpoint(low, high), least: least.unwrap_or(0.0), most: most.unwrap_or(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_and_the_ends() {
        let three = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!(three, Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of(vec![1.0, 2.0]), Spread { median: 1.5, least: 1.0, most: 2.0 });
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
