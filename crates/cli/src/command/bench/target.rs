//! The figures of a run that holds a target rate.

use std::time::Duration;

use manyway::{Rate, TargetRate, TargetReport};
use manyway_transfer::Playback;
use serde_json::{Value, json};

use crate::output::count;
use crate::output::units::{duration, megabits};

/// Adds up what happens to a target.
#[derive(Debug)]
pub(super) struct TargetTally {
    target: TargetRate,
    playback: Playback,
    time: Duration,
    reports: u64,
    held: u64,
    fewest: u8,
    most: u8,
}

impl TargetTally {
    pub(super) fn new(target: TargetRate) -> Self {
        let playback = Playback::new(target.rate.bits_per_second());
        Self { target, playback, time: Duration::ZERO, reports: 0, held: 0, fewest: u8::MAX, most: 0 }
    }

    pub(super) fn on_report(&mut self, report: &TargetReport) {
        let (mean, wanted) = (report.mean.bytes_per_second(), report.target.bytes_per_second());
        let high = wanted + self.target.guard().bytes_per_second();
        self.time += report.interval;
        self.playback.on_bytes(self.time, (report.sample * report.interval).get());
        self.reports += 1;
        self.held += u64::from(mean >= wanted - wanted / 20 && mean <= high);
        self.fewest = self.fewest.min(report.connections);
        self.most = self.most.max(report.connections);
    }

    pub(super) fn finish(self) -> TargetSum {
        TargetSum {
            target: self.target.rate,
            held: self.held * 100 / self.reports.max(1),
            connections: (self.fewest.min(self.most), self.most),
            stops: self.playback.stops(),
            stopped: self.playback.stopped(),
        }
    }
}

/// How a target was held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetSum {
    target: Rate,
    /// Percent of the intervals in which the mean was from 5 % below the target to the guard above it.
    held: u64,
    /// The fewest and the most wanted TCP connections on an interface.
    connections: (u8, u8),
    stops: u32,
    stopped: Duration,
}

impl TargetSum {
    /// A target that was held for half of the time.
    #[cfg(test)]
    pub(super) fn example() -> Self {
        let target = Rate::from_bits_per_second(8_000_000);
        Self { target, held: 50, connections: (2, 5), stops: 2, stopped: Duration::from_millis(11_200) }
    }

    /// The sentence for people. The number of TCP connections matters only if a path uses TCP.
    pub(super) fn words(&self, uses_tcp: bool) -> String {
        let connections = match self.connections {
            _ if !uses_tcp => String::new(),
            (fewest, most) if fewest == most => format!("; {} wanted", count(most, "TCP connection")),
            (fewest, most) => format!("; {fewest} to {most} TCP connections wanted"),
        };
        let playback = match self.stops {
            0 => "plays without a stop".to_owned(),
            1 => format!("plays with 1 stop of {}", duration(self.stopped)),
            stops => format!("plays with {stops} stops, {} in all", duration(self.stopped)),
        };
        format!("{} Mbit/s, held {} % of the time{connections}; {playback}", megabits(self.target), self.held)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "bits_per_second": self.target.bits_per_second(), "held_percent": self.held,
            "connections": { "fewest": self.connections.0, "most": self.connections.1 },
            "stops": self.stops, "stopped": self.stopped.as_secs_f64(),
        })
    }
}
