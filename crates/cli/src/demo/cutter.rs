//! Cuts a link in the middle of a transfer, restores it, and measures how long it takes until it is used again.

use std::time::Duration;

use manyway_chart::{Mark, MarkKind};

use super::emulator::{Direction, LinkHandle};

/// Longest cut of a link, however slow the others are.
pub const LONGEST_CUT: Duration = Duration::from_secs(8);

/// The result of the cut; times count from the start of the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutReport {
    /// The link, counted from zero.
    pub link: usize,
    /// When it was cut.
    pub at: Duration,
    /// When it was restored; `None` if the transfer ended before.
    pub restored_at: Option<Duration>,
    /// Time from then until the link delivered data again; `None` if it never did.
    pub carries_after: Option<Duration>,
}

impl CutReport {
    /// How long the link was cut during the first `time` of the transfer.
    pub fn outage(&self, time: Duration) -> Duration {
        self.restored_at.unwrap_or(time).min(time).saturating_sub(self.at)
    }

    /// The events as marks in the plot.
    pub fn marks(&self) -> Vec<Mark> {
        let number = self.link + 1;
        let cut = Mark { at: self.at, kind: MarkKind::Cut, label: format!("link {number} cut") };
        let restored = self.restored_at.map(|at| Mark {
            at,
            kind: MarkKind::Restored,
            label: format!("link {number} restored"),
        });
        std::iter::once(cut).chain(restored).collect()
    }
}

/// What happened in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutEvent {
    /// It cut the link.
    Cut,
    /// It restored the link.
    Restored,
    /// The link delivers data again, this long after it was restored.
    Carries(Duration),
}

/// Acts at the right time, if called often enough.
#[derive(Debug)]
pub struct Cutter {
    index: usize,
    link: LinkHandle,
    total: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Before,
    Cut { at: Duration },
    Restored { at: Duration, restored_at: Duration, delivered: u64 },
    Over(CutReport),
}

impl Cutter {
    /// Will cut the `index`-th link at a quarter of `total` bytes and restore it at a half, or [`LONGEST_CUT`] later if
    /// that comes first.
    pub fn new(index: usize, link: LinkHandle, total: u64) -> Self {
        Self { index, link, total, phase: Phase::Before }
    }

    /// Runs the step that is due at `now` after `received` bytes. `is_used` says whether the connection counts the
    /// link's path among those that carry data.
    pub fn step(&mut self, now: Duration, received: u64, is_used: bool) -> Option<CutEvent> {
        match self.phase {
            Phase::Before if received >= self.total / 4 => {
                self.link.cut();
                self.phase = Phase::Cut { at: now };
                Some(CutEvent::Cut)
            }
            Phase::Cut { at } if received >= self.total / 2 || now.saturating_sub(at) >= LONGEST_CUT => {
                let delivered = self.delivered();
                self.link.restore();
                self.phase = Phase::Restored { at, restored_at: now, delivered };
                Some(CutEvent::Restored)
            }
            Phase::Restored { at, restored_at, delivered } => {
                if !is_used || self.delivered() < delivered + MORE_THAN_PROBES {
                    return None;
                }
                let after = now.saturating_sub(restored_at);
                self.phase = Phase::Over(CutReport {
                    link: self.index,
                    at,
                    restored_at: Some(restored_at),
                    carries_after: Some(after),
                });
                Some(CutEvent::Carries(after))
            }
            Phase::Before | Phase::Cut { .. } | Phase::Over(_) => None,
        }
    }

    /// The result; `None` if the transfer ended before the cut.
    pub fn report(&self) -> Option<CutReport> {
        let link = self.index;
        match self.phase {
            Phase::Before => None,
            Phase::Cut { at } => Some(CutReport { link, at, restored_at: None, carries_after: None }),
            Phase::Restored { at, restored_at, .. } => {
                Some(CutReport { link, at, restored_at: Some(restored_at), carries_after: None })
            }
            Phase::Over(report) => Some(report),
        }
    }

    fn delivered(&self) -> u64 {
        self.link.figures(Direction::Up).counters.delivered.bytes.get()
    }
}

/// Ten full datagrams: the probes of a dead path and the answers of one that returns are fewer.
const MORE_THAN_PROBES: u64 = 10 * 1472;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::emulator::{Emulator, EmulatorConfig};

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_link_is_cut_at_a_quarter_and_restored_at_a_half() {
        let emulator = one_link();
        let link = emulator.links()[0].clone();
        let mut cutter = Cutter::new(0, link.clone(), 1000);
        assert_eq!(cutter.step(S, 249, true), None);
        assert_eq!(cutter.report(), None);
        assert_eq!(cutter.step(2 * S, 300, true), Some(CutEvent::Cut));
        assert!(link.is_cut());
        assert_eq!(cutter.step(3 * S, 499, true), None);
        assert_eq!(cutter.report().unwrap().outage(9 * S), 7 * S);
        assert_eq!(cutter.step(4 * S, 500, true), Some(CutEvent::Restored));
        assert!(!link.is_cut());
        assert_eq!(cutter.step(5 * S, 600, true), None);
        let report = cutter.report().unwrap();
        assert_eq!((report.outage(9 * S), report.carries_after), (2 * S, None));
        assert_eq!(report.marks().len(), 2);
    }

    #[test]
    fn a_link_is_restored_after_a_while_even_if_the_others_are_slow() {
        let emulator = one_link();
        let mut cutter = Cutter::new(0, emulator.links()[0].clone(), 1000);
        assert_eq!(cutter.step(S, 250, true), Some(CutEvent::Cut));
        assert_eq!(cutter.step(S * 89 / 10, 251, true), None);
        assert_eq!(cutter.step(9 * S, 252, true), Some(CutEvent::Restored));
    }

    fn one_link() -> Emulator {
        let spec = "10Mbit,1ms".parse().unwrap();
        let server = "127.0.0.1:9".parse().unwrap();
        Emulator::start(&[spec], server, EmulatorConfig::default()).unwrap()
    }
}
