//! What the pings of each path came to, as ping(8) sums it up.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway::PathId;
use serde_json::{Value, json};

use crate::output::path::PathLabel;
use crate::output::table::{Align, Table};
use crate::output::units::{fine_percent, milliseconds};

/// The pings of every path.
#[derive(Debug, Default)]
pub(super) struct Figures {
    paths: BTreeMap<PathId, PathFigures>,
}

#[derive(Debug)]
struct PathFigures {
    label: PathLabel,
    sent: u64,
    answers: Vec<Duration>,
}

/// Round trips in short.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    min: Duration,
    mean: Duration,
    max: Duration,
    deviation: Duration,
}

impl Figures {
    /// A question went out on a path.
    pub(super) fn on_sent(&mut self, label: &PathLabel) {
        let fresh = || PathFigures { label: label.clone(), sent: 0, answers: Vec::new() };
        let path = self.paths.entry(label.id).or_insert_with(fresh);
        path.label = label.clone();
        path.sent += 1;
    }

    pub(super) fn on_answer(&mut self, id: PathId, rtt: Duration) {
        if let Some(path) = self.paths.get_mut(&id) {
            path.answers.push(rtt);
        }
    }

    /// A question whose fate nobody waited to learn does not count.
    pub(super) fn on_given_up(&mut self, id: PathId) {
        if let Some(path) = self.paths.get_mut(&id) {
            path.sent = path.sent.saturating_sub(1);
        }
    }

    /// Whether anybody answered.
    pub(super) fn has_answers(&self) -> bool {
        self.paths.values().any(|path| !path.answers.is_empty())
    }

    /// One line for each path.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new([
            ("interface", Align::Left),
            ("local", Align::Left),
            ("remote", Align::Left),
            ("sent", Align::Right),
            ("received", Align::Right),
            ("loss", Align::Right),
            ("min ms", Align::Right),
            ("avg ms", Align::Right),
            ("max ms", Align::Right),
            ("mdev ms", Align::Right),
        ]);
        for path in self.paths.values() {
            let spread = Spread::of(&path.answers);
            let time = |pick: fn(&Spread) -> Duration| {
                spread.as_ref().map_or_else(|| "-".to_owned(), |spread| milliseconds(pick(spread)))
            };
            table.row([
                path.label.interface.clone().unwrap_or_else(|| "-".to_owned()),
                path.label.local.to_string(),
                path.label.remote.to_string(),
                path.sent.to_string(),
                path.received().to_string(),
                fine_percent(path.sent.saturating_sub(path.received()), path.sent),
                time(|spread| spread.min),
                time(|spread| spread.mean),
                time(|spread| spread.max),
                time(|spread| spread.deviation),
            ]);
        }
        table
    }

    /// All of it for programs; times in seconds.
    pub(super) fn json(&self) -> Value {
        let paths: Vec<_> = self.paths.values().map(PathFigures::json).collect();
        json!({ "summary": true, "paths": paths })
    }
}

impl PathFigures {
    fn received(&self) -> u64 {
        u64::try_from(self.answers.len()).unwrap_or(u64::MAX)
    }

    fn json(&self) -> Value {
        let spread = Spread::of(&self.answers);
        let time = |pick: fn(&Spread) -> Duration| spread.as_ref().map(|spread| pick(spread).as_secs_f64());
        let lost = self.sent.saturating_sub(self.received());
        #[expect(clippy::cast_precision_loss, reason = "a share; the counts stand beside it")]
        let loss = if self.sent > 0 { Some(lost as f64 / self.sent as f64) } else { None };
        self.label.json(json!({
            "sent": self.sent, "received": self.received(), "loss": loss,
            "min": time(|spread| spread.min), "avg": time(|spread| spread.mean),
            "max": time(|spread| spread.max), "mdev": time(|spread| spread.deviation),
        }))
    }
}

impl Spread {
    fn of(answers: &[Duration]) -> Option<Self> {
        let nanos = || answers.iter().map(Duration::as_nanos);
        let count = u128::try_from(answers.len()).ok()?;
        let mean = nanos().sum::<u128>().checked_div(count)?;
        let variance =
            nanos().map(|rtt| rtt.abs_diff(mean).saturating_pow(2)).sum::<u128>().checked_div(count)?;
        let time = |nanos: u128| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Some(Self {
            min: *answers.iter().min()?,
            mean: time(mean),
            max: *answers.iter().max()?,
            deviation: time(variance.isqrt()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let label = |id, interface: &str, local: &str| PathLabel {
            id: PathId(id),
            interface: Some(interface.to_owned()),
            local: local.parse().unwrap(),
            remote: "192.0.2.1:4455".parse().unwrap(),
        };
        let (near, far) = (label(0, "eth0", "192.0.2.7"), label(1, "wwan0", "198.51.100.20"));
        let mut figures = Figures::default();
        for micros in [10_000, 12_000, 14_000] {
            figures.on_sent(&near);
            figures.on_answer(near.id, Duration::from_micros(micros));
            figures.on_sent(&far);
        }
        figures.on_sent(&near);
        figures.on_given_up(near.id);
        figures
    }

    #[test]
    fn the_summary_has_a_line_for_each_path() {
        insta::assert_snapshot!(figures().table(), @r"
        interface  local          remote          sent  received     loss  min ms  avg ms  max ms  mdev ms
        eth0       192.0.2.7      192.0.2.1:4455     3         3    0.0 %  10.000  12.000  14.000    1.633
        wwan0      198.51.100.20  192.0.2.1:4455     3         0  100.0 %       -       -       -        -
        ");
    }

    #[test]
    fn the_summary_for_programs_has_seconds() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&figures().json()).unwrap(), @r#"
        {
          "paths": [
            {
              "avg": 0.012,
              "interface": "eth0",
              "local": "192.0.2.7",
              "loss": 0.0,
              "max": 0.014,
              "mdev": 0.001632993,
              "min": 0.01,
              "path": 0,
              "received": 3,
              "remote": "192.0.2.1:4455",
              "sent": 3
            },
            {
              "avg": null,
              "interface": "wwan0",
              "local": "198.51.100.20",
              "loss": 1.0,
              "max": null,
              "mdev": null,
              "min": null,
              "path": 1,
              "received": 0,
              "remote": "192.0.2.1:4455",
              "sent": 3
            }
          ],
          "summary": true
        }
        "#);
        assert!(figures().has_answers());
    }
}
