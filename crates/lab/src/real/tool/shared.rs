//! What all programs have in common.

use std::io::{self, Read as _};
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use manyway_sim::pair::Side;

use crate::agent::document::{Exchange, SocketsSpec};
use crate::contender::Through;
use crate::error::LabError;
use crate::outcome::Arrivals;
use crate::real::process::Trouble;
use crate::real::session::End;
use crate::scenario::Scenario;

/// A program at each end. Dropping it ends both.
pub(in crate::real) trait Tool: Send {
    /// Runs the traffic from an instant on, and reports what arrived.
    ///
    /// # Errors
    /// The user interrupted, or a program cannot be started.
    fn run(self: Box<Self>, begin: Instant) -> Result<End, LabError>;
}

/// The run for which a tool starts its programs.
#[derive(Clone, Copy)]
pub(in crate::real) struct Task<'a> {
    pub(in crate::real) through: &'a Through,
    pub(in crate::real) scenario: &'a Scenario,
    pub(in crate::real) exchanges: &'a [Exchange],
    /// Where its ends are.
    pub(in crate::real) ends: &'a SocketsSpec,
}

impl Task<'_> {
    pub(super) fn unable(&self, why: &str) -> Trouble {
        let Self { through, scenario, .. } = self;
        Trouble::Lab(LabError::Unsupported(format!("{through} is skipped in {}: {why}", scenario.name)))
    }

    /// # Errors
    /// The client does not receive.
    pub(super) fn downloads(&self, receiver: Side) -> Result<(), Trouble> {
        match receiver {
            Side::Client => Ok(()),
            Side::Server => Err(self.unable("it downloads")),
        }
    }
}

/// A child that ends with this.
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Everything that a program prints.
pub(super) fn text(output: Option<impl io::Read>) -> String {
    let mut bytes = Vec::new();
    // What was read until an error is better than nothing.
    let _ = output.map(|output| output.take(MOST_TEXT).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Adds bytes of which only the interval is known.
pub(super) fn spread(arrivals: &mut Arrivals, [start, end]: [Duration; 2], bytes: u64) {
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
pub(super) const READ: usize = 128 << 10;
/// Bytes of a report.
const MOST_TEXT: u64 = 64 << 20;
/// Time beyond that of the traffic.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
pub(super) const LOOK: Duration = Duration::from_millis(10);
