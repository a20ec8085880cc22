//! The results of the pings of each path, in the form of ping(8).

use std::time::Duration;

use manyway::{ConnectionInfo, PathId, PathState};
use serde_json::{Value, json};

use crate::output::book::{milliseconds, state_cell};
use crate::output::grid::{Cell, Grid};
use crate::output::names::distinct;
use crate::output::path::PathLabel;
use crate::output::tint::Tint;
use crate::output::units::fine_percent;

/// The pings of every path; a path that returns continues its row.
#[derive(Debug, Default)]
pub(super) struct Figures {
    rows: Vec<PathFigures>,
}

#[derive(Debug)]
struct PathFigures {
    label: PathLabel,
    /// The paths of this row, the current one last.
    ids: Vec<PathId>,
    state: PathState,
    sent: u64,
    lost: u64,
    /// The result of the last ping with a known one, and its number.
    last: Option<(u64, Fate)>,
    answers: Vec<Duration>,
}

/// The result of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered(Duration),
    Lost,
}

/// Statistics of round-trip times.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    min: Duration,
    mean: Duration,
    max: Duration,
    deviation: Duration,
}

impl Figures {
    /// Records a ping on a path, and returns the place of its row; `open` are all open paths. A path that moves to
    /// another interface goes on in another row.
    pub(super) fn on_sent(&mut self, label: &PathLabel, open: &[PathLabel]) -> usize {
        let is_same =
            |row: &PathFigures| (row.label.name(), row.label.carrier) == (label.name(), label.carrier);
        for row in self.rows.iter_mut().filter(|row| !is_same(row)) {
            row.ids.retain(|id| *id != label.id);
        }
        let is_gone = |row: &PathFigures| !open.iter().any(|path| row.ids.contains(&path.id));
        let same = self.rows.iter().position(|row| row.ids.contains(&label.id));
        let returned = || self.rows.iter().position(|row| is_gone(row) && is_same(row));
        let place = same.or_else(returned).unwrap_or(self.rows.len());
        match self.rows.get_mut(place) {
            Some(row) => {
                if !row.ids.contains(&label.id) {
                    row.ids.push(label.id);
                }
                row.label = label.clone();
                row.sent += 1;
            }
            None => self.rows.push(PathFigures {
                label: label.clone(),
                ids: vec![label.id],
                state: PathState::Active,
                sent: 1,
                lost: 0,
                last: None,
                answers: Vec::new(),
            }),
        }
        place
    }

    /// Records the states of the open paths.
    pub(super) fn note_states(&mut self, info: &ConnectionInfo) {
        for row in &mut self.rows {
            let present = info.paths.iter().find(|path| row.ids.contains(&path.statistics.id));
            row.state = present.map_or(PathState::Closed, |path| path.statistics.state);
        }
    }

    pub(super) fn on_answer(&mut self, place: usize, sequence: u64, rtt: Duration) {
        if let Some(row) = self.rows.get_mut(place) {
            row.answers.push(rtt);
            row.decide(sequence, Fate::Answered(rtt));
        }
    }

    pub(super) fn on_lost(&mut self, place: usize, sequence: u64) {
        if let Some(row) = self.rows.get_mut(place) {
            row.decide(sequence, Fate::Lost);
            row.lost += 1;
        }
    }

    /// Outstanding pings do not count: their result is unknown.
    pub(super) fn forget_waiting(&mut self) {
        for row in &mut self.rows {
            row.sent = row.decided();
        }
    }

    /// Whether any answer arrived.
    pub(super) fn has_answers(&self) -> bool {
        self.rows.iter().any(|row| !row.answers.is_empty())
    }

    /// One row for each path, in its last state.
    pub(super) fn table(&self) -> Grid {
        let mut grid = Grid::new()
            .words("path")
            .words("state")
            .numbers("sent")
            .numbers("loss")
            .numbers("last ms")
            .numbers("min")
            .numbers("avg")
            .numbers("max")
            .numbers("jitter")
            .spare_words("local")
            .spare_words("remote");
        let names = distinct(&self.rows.iter().map(|row| row.label.traits()).collect::<Vec<_>>());
        for (row, name) in self.rows.iter().zip(names) {
            let spread = Spread::of(&row.answers);
            let time = |pick: fn(&Spread) -> Duration| {
                Cell::or_none(spread.as_ref().map(|spread| milliseconds(pick(spread))))
            };
            let last = match row.last {
                None => Cell::none(),
                Some((_, Fate::Answered(rtt))) => Cell::from(milliseconds(rtt)),
                Some((_, Fate::Lost)) => Cell::new("lost", Tint::Bad),
            };
            let loss = fine_percent(row.lost, row.decided());
            let tint = match row.lost {
                0 => Tint::Good,
                _ if row.answers.is_empty() => Tint::Bad,
                _ => Tint::Warning,
            };
            grid.row([
                Cell::from(name),
                state_cell(row.state),
                Cell::from(row.sent.to_string()),
                Cell::new(loss, tint),
                last,
                time(|spread| spread.min),
                time(|spread| spread.mean),
                time(|spread| spread.max),
                time(|spread| spread.deviation),
                Cell::from(row.label.local.to_string()),
                Cell::from(row.label.remote()),
            ]);
        }
        grid
    }

    /// The document for programs; times in seconds.
    pub(super) fn json(&self) -> Value {
        let paths: Vec<_> = self.rows.iter().map(PathFigures::json).collect();
        json!({ "summary": true, "paths": paths })
    }
}

impl PathFigures {
    /// A ping times out later than the next ones are answered.
    fn decide(&mut self, sequence: u64, fate: Fate) {
        if self.last.is_none_or(|(last, _)| last <= sequence) {
            self.last = Some((sequence, fate));
        }
    }

    fn received(&self) -> u64 {
        u64::try_from(self.answers.len()).unwrap_or(u64::MAX)
    }

    /// Pings with a known result.
    fn decided(&self) -> u64 {
        self.received().saturating_add(self.lost)
    }

    fn json(&self) -> Value {
        let spread = Spread::of(&self.answers);
        let time = |pick: fn(&Spread) -> Duration| spread.as_ref().map(|spread| pick(spread).as_secs_f64());
        let decided = self.decided();
        #[expect(clippy::cast_precision_loss, reason = "a share; the counts stand beside it")]
        let loss = (decided > 0).then(|| self.lost as f64 / decided as f64);
        self.label.json(json!({
            "state": self.state.word(), "sent": self.sent, "received": self.received(), "loss": loss,
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

    use manyway::Carrier;
    use manyway_terminal::Colour;

    use crate::output::live::frame;

    use super::*;

    fn figures() -> Figures {
        let label = |id, interface: &str, local: &str| PathLabel {
            id: PathId(id),
            interface: Some(interface.to_owned()),
            local: local.parse().unwrap(),
            remote: "192.0.2.1:4455".parse().unwrap(),
            carrier: Carrier::Udp,
        };
        let (near, far) = (label(0, "eth0", "192.0.2.7"), label(1, "wwan0", "198.51.100.20"));
        let mut figures = Figures::default();
        let open = [near.clone(), far.clone()];
        for micros in [10_000, 12_000, 14_000] {
            let place = figures.on_sent(&near, &open);
            figures.on_answer(place, micros, Duration::from_micros(micros));
            let place = figures.on_sent(&far, &open);
            figures.on_lost(place, micros);
        }
        figures
    }

    #[test]
    fn the_summary_has_a_line_for_each_path() {
        for width in [80, 120] {
            insta::assert_snapshot!(format!("ping_{width}"), figures().table().text(width, Colour::Without));
        }
    }

    #[test]
    fn the_live_screen_has_the_table_and_the_last_events() {
        let table = figures().table();
        let events = ["   2.41 s  wwan0 dead: 6 probe timeouts in a row"];
        for width in [80, 120] {
            let screen = frame("ping  3 s", |width| table.lines(width), &events, (width, 24));
            insta::assert_snapshot!(format!("screen_{width}"), screen);
        }
    }

    #[test]
    fn an_outstanding_ping_is_not_lost() {
        let mut figures = figures();
        let open: Vec<_> = figures.rows.iter().map(|row| row.label.clone()).collect();
        figures.on_sent(&open[0], &open);
        assert_eq!((figures.rows[0].sent, figures.rows[0].lost, figures.rows[0].decided()), (4, 0, 3));
        figures.forget_waiting();
        assert_eq!(figures.rows[0].sent, 3);
    }

    #[test]
    fn a_late_timeout_leaves_the_last_answer_as_it_is() {
        let mut figures = figures();
        figures.on_lost(0, 10_000);
        assert_eq!(
            (figures.rows[0].last, figures.rows[0].lost),
            (Some((14_000, Fate::Answered(Duration::from_millis(14)))), 1,)
        );
    }

    #[test]
    fn a_path_that_returns_continues_its_row() {
        let mut figures = figures();
        let returned = PathLabel { id: PathId(7), ..figures.rows[0].label.clone() };
        let open = [returned.clone(), figures.rows[1].label.clone()];
        let place = figures.on_sent(&returned, &open);
        figures.on_answer(place, 20_000, Duration::from_millis(9));
        assert_eq!((figures.rows.len(), figures.rows[0].sent, figures.rows[0].answers.len()), (2, 4, 4));
    }

    #[test]
    fn a_ping_counts_where_it_was_sent_although_its_path_has_moved_to_another_interface() {
        let mut figures = figures();
        let near = figures.rows[0].label.clone();
        let sent = figures.on_sent(&near, std::slice::from_ref(&near));
        let moved = PathLabel { interface: Some("usb0".to_owned()), ..near };
        let place = figures.on_sent(&moved, std::slice::from_ref(&moved));
        figures.on_lost(sent, 20_000);
        figures.on_answer(place, 21_000, Duration::from_millis(9));
        let counts: Vec<_> = figures.rows.iter().map(|row| (row.label.name(), row.sent, row.lost)).collect();
        assert_eq!(
            counts,
            [("eth0".to_owned(), 4, 1), ("wwan0".to_owned(), 3, 3), ("usb0".to_owned(), 1, 0)]
        );
    }

    #[test]
    fn the_summary_for_programs_has_seconds() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&figures().json()).unwrap(), @r#"
        {
          "paths": [
            {
              "avg": 0.012,
              "carrier": "udp",
              "interface": "eth0",
              "local": "192.0.2.7",
              "loss": 0.0,
              "max": 0.014,
              "mdev": 0.001632993,
              "min": 0.01,
              "path": 0,
              "received": 3,
              "remote": "192.0.2.1:4455",
              "sent": 3,
              "state": "active"
            },
            {
              "avg": null,
              "carrier": "udp",
              "interface": "wwan0",
              "local": "198.51.100.20",
              "loss": 1.0,
              "max": null,
              "mdev": null,
              "min": null,
              "path": 1,
              "received": 0,
              "remote": "192.0.2.1:4455",
              "sent": 3,
              "state": "active"
            }
          ],
          "summary": true
        }
        "#);
        assert!(figures().has_answers());
    }
}
