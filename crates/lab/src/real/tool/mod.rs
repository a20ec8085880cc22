//! Programs that bring their own sender and receiver, over a verb.

mod download;
mod iperf3;
mod peers;
pub(super) mod srt;
mod web;

use std::io::{self, Read as _};
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::process::Trouble;
use super::session::End;
use super::through::Verbs;
use crate::agent::document::{Exchange, SocketsSpec};
use crate::contender::{Program, Through};
use crate::error::LabError;
use crate::hosts::Hosts;
use crate::outcome::Arrivals;
use crate::scenario::Scenario;
use crate::stop::Stop;

/// A program at each end. Dropping it ends both.
pub(super) trait Tool: Send {
    /// Runs the traffic from an instant on, and reports what arrived.
    ///
    /// # Errors
    /// The user interrupted, or a program cannot be started.
    fn run(self: Box<Self>, begin: Instant) -> Result<End, LabError>;
}

/// What a tool is told about its run.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) through: &'a Through,
    pub(super) scenario: &'a Scenario,
    pub(super) exchanges: &'a [Exchange],
    /// Where its ends are.
    pub(super) ends: &'a SocketsSpec,
}

impl Task<'_> {
    fn unable(&self, why: &str) -> Trouble {
        let Self { through, scenario, .. } = self;
        Trouble::Lab(LabError::Unsupported(format!("{through} is skipped in {}: {why}", scenario.name)))
    }
}

/// Starts the programs that have to wait for the others, once the verb works.
pub(super) fn start(
    hosts: &Hosts,
    verbs: &Verbs,
    task: Task<'_>,
    stop: &Stop,
) -> Result<Box<dyn Tool>, Trouble> {
    match task.through.program {
        Program::Srt => Ok(Box::new(srt::Film::start(hosts, verbs, task, stop)?)),
        Program::Own | Program::Iperf3 | Program::Curl | Program::Quinn => {
            Ok(Box::new(download::Download::start(hosts, verbs, task, stop)?))
        }
    }
}

/// A child that ends with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Everything that a program prints.
fn text(output: Option<impl io::Read>) -> String {
    let mut bytes = Vec::new();
    // What was read until an error is better than nothing.
    let _ = output.map(|output| output.take(MOST_TEXT).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Adds bytes of which only the interval is known.
fn spread(arrivals: &mut Arrivals, [start, end]: [Duration; 2], bytes: u64) {
    if arrivals.span().is_none() {
        arrivals.record(start, 0);
    }
    let pieces = u64::try_from(end.saturating_sub(start).as_millis()).unwrap_or(u64::MAX) / 10;
    let pieces = pieces.clamp(1, 1_000);
    let mut left = bytes;
    for piece in 1..=pieces {
        let part = left / (pieces - piece + 1);
        left -= part;
        let passed = (end.saturating_sub(start))
            .mul_f64(crate::measures::count(piece) / crate::measures::count(pieces));
        arrivals.record(start + passed, part);
    }
}

/// Bytes of one read or write.
const READ: usize = 128 << 10;
/// Bytes of a report.
const MOST_TEXT: u64 = 64 << 20;
/// Time beyond that of the traffic.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);
