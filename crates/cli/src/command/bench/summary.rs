//! The summary of a run: sums, paths, processors, the gain.

use std::time::Duration;

use manyway::{ByteCount, Carrier, ConnectionInfo, EcnState, PathInfo, PathReport, PathState, Rate, Why};
use manyway_chart::{Align, Table};
use manyway_terminal::Colour;
use manyway_transfer::{BenchAccount, BenchDirection, BenchFlow, BenchOutcome, BenchSummary};
use serde_json::{Map, Value, json};

use super::compare::Comparison;
use super::output::direction_word;
use super::target::TargetSum;
use crate::output::book::{milliseconds, rtt_of, state_cell};
use crate::output::facts::facts;
use crate::output::grid::{Cell, Grid};
use crate::output::names::distinct;
use crate::output::path::{PathLabel, why_of, why_words};
use crate::output::units::{duration, fine_percent, megabits, size};

/// The outcome of a run.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) flow: BenchFlow,
    /// From the first request to the last answer.
    pub(super) elapsed: Duration,
    pub(super) outcome: Sums,
    pub(super) paths: Vec<PathSum>,
    pub(super) duplicates: DuplicateBytes,
    /// Packets that this end refused as damaged, forged, repeated or late.
    pub(super) refused: u64,
    pub(super) target: Option<TargetSum>,
    pub(super) comparison: Option<Comparison>,
}

/// Duplicate bytes, and bytes that were not wanted any more, among those that this end sent and received during the
/// run: copies, and unnecessary retransmissions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DuplicateBytes {
    sent: u64,
    received: u64,
}

impl DuplicateBytes {
    /// The difference since `before`.
    pub(super) fn between(before: &ConnectionInfo, after: &ConnectionInfo) -> Self {
        let (before, after) = (&before.statistics, &after.statistics);
        Self {
            sent: after.duplicate_bytes_sent.get().saturating_sub(before.duplicate_bytes_sent.get()),
            received: after
                .duplicate_bytes_received
                .get()
                .saturating_sub(before.duplicate_bytes_received.get()),
        }
    }
}

/// The sums of both directions, and the accounts of both ends.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    pub(super) up: BenchSummary,
    pub(super) down: BenchSummary,
    pub(super) here: BenchAccount,
    /// `None` if the server did not report.
    pub(super) there: Option<BenchAccount>,
}

impl From<&BenchOutcome> for Sums {
    fn from(outcome: &BenchOutcome) -> Self {
        Self {
            up: outcome.received(BenchDirection::Upload),
            down: outcome.received(BenchDirection::Download),
            here: outcome.here.clone(),
            there: outcome.there.clone(),
        }
    }
}

impl Sums {
    fn received(&self, direction: BenchDirection) -> &BenchSummary {
        match direction {
            BenchDirection::Upload => &self.up,
            BenchDirection::Download => &self.down,
        }
    }

    /// The end that sends in a direction.
    fn sender(&self, direction: BenchDirection) -> Option<&BenchAccount> {
        match direction {
            BenchDirection::Upload => Some(&self.here),
            BenchDirection::Download => self.there.as_ref(),
        }
    }

    /// The end that receives in a direction.
    fn receiver(&self, direction: BenchDirection) -> Option<&BenchAccount> {
        match direction {
            BenchDirection::Upload => self.there.as_ref(),
            BenchDirection::Download => Some(&self.here),
        }
    }
}

/// The traffic of a path during the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathSum {
    pub(super) label: PathLabel,
    pub(super) state: PathState,
    /// `None` if the path does not answer any more, or was not measured.
    pub(super) rtt: Option<Duration>,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) packets_lost: u64,
    pub(super) packets_sent: u64,
    /// Whether ECN marks of this end are usable.
    pub(super) ecn: EcnState,
    /// Whether it was used at the end, and why; `None` if it was closed meanwhile.
    pub(super) why: Option<Why>,
}

impl PathSum {
    /// The paths of the run, without their earlier traffic, and the reasons of `report` for those that are open.
    pub(super) fn between<'a>(
        before: &ConnectionInfo,
        after: impl Iterator<Item = &'a PathInfo>,
        report: &[PathReport],
    ) -> Vec<Self> {
        let earlier = |path: &PathInfo| {
            before.paths.iter().find(|other| other.statistics.id == path.statistics.id).map(|p| p.statistics)
        };
        let sum = |path: &PathInfo| {
            let (now, then) = (path.statistics, earlier(path));
            let since = |pick: fn(&manyway::PathStatistics) -> u64| {
                pick(&now).saturating_sub(then.as_ref().map_or(0, pick))
            };
            Self {
                label: PathLabel::of(path),
                state: now.state,
                rtt: rtt_of(&now),
                sent: since(|figures| figures.bytes_sent.get()),
                received: since(|figures| figures.bytes_received.get()),
                packets_lost: since(|figures| figures.packets_lost),
                packets_sent: since(|figures| figures.packets_sent),
                ecn: now.ecn,
                why: why_of(report, now.id).cloned(),
            }
        };
        after.map(sum).collect()
    }

    fn moved(&self, flow: BenchFlow) -> u64 {
        match flow {
            BenchFlow::Upload => self.sent,
            BenchFlow::Download => self.received,
            BenchFlow::Both => self.sent.saturating_add(self.received),
        }
    }
}

impl Summary {
    /// The rate of both directions together.
    pub(super) fn rate(&self) -> Rate {
        rate_of(&self.outcome.up) + rate_of(&self.outcome.down)
    }

    /// The longest stall in any direction; `None` if a receiver did not report it.
    fn longest_stall(&self) -> Option<Duration> {
        let stalls = self.flow.directions().map(|direction| {
            self.outcome.receiver(direction).map(|_| self.outcome.received(direction).longest_stall)
        });
        stalls.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// The document for programs.
    pub(super) fn json(&self) -> Value {
        let mut value = Map::new();
        for direction in self.flow.directions() {
            value.insert(direction_word(direction).to_owned(), self.direction_json(direction));
        }
        let all: u64 = self.paths.iter().map(|path| path.moved(self.flow)).sum();
        let paths: Vec<_> = self.paths.iter().map(|path| path.json(self.flow, all)).collect();
        let cpu = |account: &BenchAccount| json!({ "seconds": account.cpu.as_secs_f64(), "percent": self.processor_share(account) });
        let known = |account: &BenchAccount| {
            Some(account.transport.congestion.clone()).filter(|name| !name.is_empty())
        };
        let rest = json!({
            "bytes": self.outcome.up.bytes + self.outcome.down.bytes,
            "seconds": self.outcome.up.elapsed.max(self.outcome.down.elapsed).as_secs_f64(),
            "bits_per_second": self.rate().bits_per_second(),
            "longest_stall": self.longest_stall().map(|stall| stall.as_secs_f64()),
            "packets_lost": self.packets_lost(),
            "paths": paths,
            "duplicate_bytes": { "sent": self.duplicates.sent, "received": self.duplicates.received },
            "packets_refused": self.refused,
            "cpu": { "local": cpu(&self.outcome.here), "remote": self.outcome.there.as_ref().map(cpu) },
            "congestion": {
                "local": known(&self.outcome.here),
                "remote": self.outcome.there.as_ref().and_then(known),
            },
            "target": self.target.as_ref().map(TargetSum::json),
            "comparison": self.comparison.as_ref().map(Comparison::json),
            "gain_percent": self.comparison.as_ref().map(Comparison::gain),
        });
        if let Value::Object(rest) = rest {
            value.extend(rest);
        }
        Value::Object(value)
    }

    /// Sum of all senders; `None` if one of them did not report it.
    fn packets_lost(&self) -> Option<u64> {
        let lost = |direction| Some(self.outcome.sender(direction)?.transport.packets_lost);
        self.flow.directions().map(lost).sum()
    }

    fn direction_json(&self, direction: BenchDirection) -> Value {
        let (received, sender) = (self.outcome.received(direction), self.outcome.sender(direction));
        let stall = self.outcome.receiver(direction).map(|_| received.longest_stall.as_secs_f64());
        let is_known = !received.elapsed.is_zero();
        json!({
            "sender": { "bytes": sender.map(|sender| sender.bytes_sent) },
            "receiver": {
                "bytes": is_known.then_some(received.bytes), "seconds": received.elapsed.as_secs_f64(),
                "bits_per_second": is_known.then(|| rate_of(received).bits_per_second()),
                "longest_stall": stall,
            },
            "packets_sent": sender.map(|sender| sender.transport.packets_sent),
            "packets_lost": sender.map(|sender| sender.transport.packets_lost),
        })
    }

    fn processor_share(&self, account: &BenchAccount) -> f64 {
        let elapsed = self.elapsed.as_secs_f64();
        if elapsed > 0.0 { account.cpu.as_secs_f64() / elapsed * 100.0 } else { 0.0 }
    }

    fn sums(&self) -> Table {
        let mut table = Table::new([
            ("", Align::Left),
            ("received", Align::Right),
            ("seconds", Align::Right),
            ("Mbit/s", Align::Right),
            ("lost packets", Align::Right),
        ]);
        for direction in self.flow.directions() {
            let received = self.outcome.received(direction);
            let is_known = !received.elapsed.is_zero();
            let known = |text: String| if is_known { text } else { "-".to_owned() };
            let loss = self
                .outcome
                .sender(direction)
                .map(|sender| fine_percent(sender.transport.packets_lost, sender.transport.packets_sent));
            table.row([
                direction_word(direction).to_owned(),
                known(size(received.bytes)),
                known(format!("{:.2}", received.elapsed.as_secs_f64())),
                known(megabits(rate_of(received))),
                loss.unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        table
    }

    fn paths(&self) -> Grid {
        let mut grid = Grid::new()
            .words("path")
            .words("state")
            .numbers("rtt ms")
            .numbers("sent")
            .numbers("received")
            .numbers("share")
            .numbers("loss")
            .spare_words("local")
            .spare_words("remote")
            .remark("why");
        let all: u64 = self.paths.iter().map(|path| path.moved(self.flow)).sum();
        let names = distinct(&self.paths.iter().map(|path| path.label.traits()).collect::<Vec<_>>());
        for (path, name) in self.paths.iter().zip(names) {
            grid.row([
                Cell::from(name),
                state_cell(path.state),
                Cell::or_none(path.rtt.map(milliseconds)),
                Cell::from(size(path.sent)),
                Cell::from(size(path.received)),
                Cell::from(fine_percent(path.moved(self.flow), all)),
                Cell::from(fine_percent(path.packets_lost, path.packets_sent)),
                Cell::from(path.label.local.to_string()),
                Cell::from(path.label.remote()),
                Cell::or_none(path.why.as_ref().map(why_words)),
            ]);
        }
        grid
    }
}

impl PathSum {
    fn json(&self, flow: BenchFlow, all: u64) -> Value {
        #[expect(clippy::cast_precision_loss, reason = "a share; the counts stand beside it")]
        let share = if all > 0 { Some(self.moved(flow) as f64 / all as f64) } else { None };
        self.label.json(json!({
            "state": self.state.word(), "rtt": self.rtt.map(|rtt| rtt.as_secs_f64()), "bytes_sent": self.sent,
            "bytes_received": self.received, "share": share,
            "packets_sent": self.packets_sent, "packets_lost": self.packets_lost, "ecn": self.ecn.to_string(),
            "used": self.why.as_ref().is_some_and(Why::is_used),
            "reason": self.why.as_ref().map(Why::word), "why": self.why.as_ref().map(Why::to_string),
        }))
    }
}

impl Summary {
    /// The figures for a terminal of that width.
    pub(super) fn text(&self, width: usize, colour: Colour) -> String {
        let facts: String = facts(&self.facts(), width).into_iter().map(|line| line + "\n").collect();
        format!("{}\n{}\n{facts}", self.sums(), self.paths().text(width, colour))
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        facts.extend(self.longest_stall().map(|stall| ("longest stall", duration(stall))));
        let uses_tcp = self.paths.iter().any(|path| path.label.carrier == Carrier::Tcp);
        facts.extend(self.target.as_ref().map(|target| ("target rate", target.words(uses_tcp))));
        let cpu = |account: &BenchAccount, place: &str| {
            format!("{} {place} ({:.0} %)", duration(account.cpu), self.processor_share(account))
        };
        let here = &self.outcome.here;
        match &self.outcome.there {
            Some(there) => {
                let both = format!("{}, {}", cpu(here, "here"), cpu(there, "at the server"));
                let (ours, theirs) = (&here.transport.congestion, &there.transport.congestion);
                facts.push(("processor time", both));
                facts.push(("congestion", format!("{ours} here, {theirs} at the server")));
            }
            None => facts.push(("processor time", cpu(here, "here"))),
        }
        if self.duplicates != DuplicateBytes::default() {
            let (sent, received) = (size(self.duplicates.sent), size(self.duplicates.received));
            facts.push(("duplicate data", format!("{sent} sent, {received} received")));
        }
        facts.extend(self.comparison.iter().flat_map(Comparison::facts));
        facts
    }
}

/// Bytes received in a direction, over their time.
pub(super) fn rate_of(received: &BenchSummary) -> Rate {
    if received.elapsed.is_zero() { Rate::ZERO } else { ByteCount(received.bytes).per(received.elapsed) }
}

#[cfg(test)]
mod tests {
    use super::super::compare::Single;
    use super::*;
    use crate::output::fits::assert_fits;
    use manyway::scheduler::Purpose;
    use manyway::{PathId, PathReason, Unused, Used};
    use manyway_transfer::TransportFacts;

    fn summary(flow: BenchFlow) -> Summary {
        let ten = Duration::from_secs(10);
        let received = |bytes, silence| BenchSummary {
            bytes,
            elapsed: ten,
            longest_stall: Duration::from_millis(silence),
        };
        let account = |bytes_sent, cpu, packets_lost| BenchAccount {
            bytes_sent,
            cpu: Duration::from_millis(cpu),
            longest_stall: Duration::ZERO,
            transport: TransportFacts { packets_sent: 20_000, packets_lost, congestion: "cubic".to_owned() },
        };
        let path = |id, interface: &str, sent, received| PathSum {
            label: PathLabel {
                id: PathId(id),
                interface: Some(interface.to_owned()),
                local: "192.0.2.7".parse().unwrap(),
                remote: "203.0.113.5:4455".parse().unwrap(),
                carrier: Carrier::Udp,
            },
            state: PathState::Active,
            rtt: Some(Duration::from_micros(31_250)),
            sent,
            received,
            packets_lost: 12,
            packets_sent: 12_000,
            ecn: EcnState::Capable,
            why: Some(if id == 1 {
                let (with, without) =
                    (Rate::from_bits_per_second(21_000_000), Rate::from_bits_per_second(38_000_000));
                Why::Unused(Unused::Parked(PathReason::DoesNotPay { with, without }))
            } else {
                Why::Used(Used::For(Purpose::EarliestArrival))
            }),
        };
        let rate = Rate::from_bits_per_second;
        Summary {
            flow,
            elapsed: Duration::from_millis(10_100),
            outcome: Sums {
                up: received(25_000_000, 140),
                down: if flow == BenchFlow::Both { received(5_000_000, 50) } else { BenchSummary::default() },
                here: account(25_400_000, 1200, 14),
                there: Some(account(5_100_000, 900, 0)),
            },
            paths: vec![path(0, "eth0", 17_000_000, 700_000), path(1, "wlan0", 9_000_000, 300_000)],
            duplicates: DuplicateBytes::default(),
            refused: 3,
            target: None,
            comparison: Some(Comparison {
                bond: rate(20_000_000),
                singles: vec![
                    Single { interface: "eth0".to_owned(), rate: Some(rate(13_400_000)) },
                    Single { interface: "wlan0".to_owned(), rate: None },
                ],
            }),
        }
    }

    #[test]
    fn the_summary_has_sums_paths_and_the_gain() {
        let alone = Comparison { bond: Rate::ZERO, singles: Vec::new() };
        let target = Some(TargetSum::example());
        let mut held = Summary { target, comparison: Some(alone), ..summary(BenchFlow::Upload) };
        held.paths[1].label.carrier = Carrier::Tcp;
        let summaries = [("bench", summary(BenchFlow::Upload)), ("target", held)];
        for (name, summary) in &summaries {
            for width in [80, 120] {
                let text = summary.text(width, Colour::Without);
                assert_fits(&text, width);
                insta::assert_snapshot!(format!("{name}_{width}"), text);
            }
        }
    }

    #[test]
    fn a_run_in_both_directions_has_both_sums() {
        let duplicates = DuplicateBytes { sent: 24_000, received: 0 };
        let both = Summary { comparison: None, duplicates, ..summary(BenchFlow::Both) };
        insta::assert_snapshot!("bench_both", both.text(120, Colour::Without));
        assert_eq!(both.rate().bits_per_second(), 24_000_000);
    }

    #[test]
    fn the_document_has_every_figure() {
        let mut summary = summary(BenchFlow::Upload);
        summary.paths.truncate(1);
        insta::assert_snapshot!(serde_json::to_string_pretty(&summary.json()).unwrap(), @r#"
        {
          "bits_per_second": 20000000,
          "bytes": 25000000,
          "comparison": {
            "best": "eth0",
            "bond_bits_per_second": 20000000,
            "gain_percent": 49.25373134328359,
            "singles": [
              {
                "bits_per_second": 13400000,
                "interface": "eth0"
              },
              {
                "bits_per_second": null,
                "interface": "wlan0"
              }
            ]
          },
          "congestion": {
            "local": "cubic",
            "remote": "cubic"
          },
          "cpu": {
            "local": {
              "percent": 11.881188118811881,
              "seconds": 1.2
            },
            "remote": {
              "percent": 8.910891089108912,
              "seconds": 0.9
            }
          },
          "duplicate_bytes": {
            "received": 0,
            "sent": 0
          },
          "gain_percent": 49.25373134328359,
          "longest_stall": 0.14,
          "packets_lost": 14,
          "packets_refused": 3,
          "paths": [
            {
              "bytes_received": 700000,
              "bytes_sent": 17000000,
              "carrier": "udp",
              "ecn": "capable",
              "interface": "eth0",
              "local": "192.0.2.7",
              "packets_lost": 12,
              "packets_sent": 12000,
              "path": 0,
              "reason": "earliest-arrival",
              "remote": "203.0.113.5:4455",
              "rtt": 0.03125,
              "share": 1.0,
              "state": "active",
              "used": true,
              "why": "data arrives earliest over it"
            }
          ],
          "seconds": 10.0,
          "target": null,
          "up": {
            "packets_lost": 14,
            "packets_sent": 20000,
            "receiver": {
              "bits_per_second": 20000000,
              "bytes": 25000000,
              "longest_stall": 0.14,
              "seconds": 10.0
            },
            "sender": {
              "bytes": 25400000
            }
          }
        }
        "#);
    }
}
