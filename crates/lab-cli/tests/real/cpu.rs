//! Processor time per byte.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use manyway_lab::LabError;
use manyway_lab::cpu::{self, CpuOptions, Subject};
use manyway_sim::nightly::few_or_many;

use super::{Lab, program};

#[test]
fn processor_time_per_byte_is_measured_for_all_subjects() {
    let Some(_lab) = Lab::start() else { return };
    let mut options = CpuOptions::default();
    (options.duration, options.repetitions) = (Duration::from_millis(300), 1);
    // A verb takes longer to start than to measure, and has a test of its own.
    let is_left_out = |subject: &Subject| {
        matches!(subject, Subject::Tunnel | Subject::WireGuard) && few_or_many(true, false)
    };
    options.subjects.retain(|subject| !is_left_out(subject));
    // One library of others fails, the other is missing: neither has a row, and all others are measured.
    let place = tempfile::tempdir().unwrap();
    options.peers = Some(broken_peers(place.path()));
    let mut parts = Vec::new();
    let report = cpu::run(&program(), &options, |part| parts.push(part)).unwrap();
    let subjects: Vec<Subject> = report.rows.iter().map(|row| row.subject).collect();
    let begun = parts.iter().map(|part| part.subject);
    assert_eq!(begun.filter(|subject| *subject != Subject::Quinn).collect::<Vec<_>>(), subjects);
    let all = u32::try_from(subjects.len() + 1).unwrap();
    assert!(parts.iter().map(|part| (part.done, part.all)).eq((0..all).map(|done| (done, all))), "{parts:?}");
    // Each subject without a row is named by a single remark.
    let missing = options.subjects.len() - subjects.len();
    let left_out = report.remarks.iter().filter(|remark| remark.contains(" is left out: "));
    assert_eq!(left_out.count(), missing, "{:?}", report.remarks);
    for reason in [
        "quinn is left out: the receiver ended with exit status: 3: no memory",
        "s2n-quic is left out: the program of the peers is without it",
    ] {
        assert!(report.remarks.iter().any(|remark| remark == reason), "{:?}", report.remarks);
    }
    assert!(subjects.len() >= 3, "{subjects:?}");
    for row in &report.rows {
        let figures = [row.gigabits, row.sender, row.receiver].map(|spread| spread.median);
        assert!(figures[0] > 0.05 && figures[1] > 0.0 && figures[2] > 0.0, "{row:?}");
    }
}

#[test]
fn processor_time_measured_before_an_interruption_is_reported() {
    let Some(_lab) = Lab::start() else { return };
    let mut options = CpuOptions::default();
    (options.duration, options.subjects) = (Duration::from_millis(300), vec![Subject::Udp, Subject::Tcp]);
    let stop = options.stop.clone();
    let run = |options: &CpuOptions, last| {
        cpu::run(&program(), options, |part| {
            if part.done == last {
                stop.set();
            }
        })
    };
    let report = run(&options, 3).unwrap();
    let counts: Vec<_> = report.rows.iter().map(|row| (row.subject, row.gigabits.count)).collect();
    assert_eq!(counts, [(Subject::Udp, 2), (Subject::Tcp, 1)]);
    assert!(matches!(run(&options, 0), Err(LabError::Interrupted)));
}

/// A program in the place of `manyway-peers` that has quinn alone, and fails.
fn broken_peers(place: &Path) -> PathBuf {
    let path = place.join("peers");
    let script = "#!/bin/sh\\ncase $1 in libraries) echo quinn 1 ;; *) echo no memory >&2; exit 3 ;; esac\\n";
    // Written by another process: this one may fork for another test while it holds the file open for writing.
    let write = format!("printf '{script}' > \"$0\" && chmod +x \"$0\"");
    assert!(Command::new("sh").arg("-c").arg(write).arg(&path).status().unwrap().success());
    path
}
