//! Every path of a command with its traffic, including closed ones, each in the place of its first appearance.

use std::time::{Duration, Instant};

use manyway::{PathId, PathInfo, PathReason, PathState, PathStatistics, Rate};

use super::grid::{Cell, Grid};
use super::names::{Traits, distinct};
use super::path::PathLabel;
use super::rate::RateWindow;
use super::tint::Tint;
use super::units;

/// Paths by interface. A path that returns, also over another connection, continues its old row.
#[derive(Debug, Default)]
pub struct PathBook {
    connections: u32,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    path: Observed,
    /// The connection of the path; `None` if the path went on to another row.
    connection: Option<u32>,
    /// The traffic of earlier paths of this row.
    before: Counts,
    /// The traffic of the path in its earlier row.
    elsewhere: Counts,
    rate: RateWindow,
    /// Whether it ever failed or closed.
    failed: bool,
    /// Why it closed.
    end: Option<String>,
}

/// The state of a path at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Its interface, or the peer's host if it is bound to none; in the demo its link.
    pub name: String,
    /// Its label.
    pub label: PathLabel,
    /// Its state; closed if it is gone.
    pub state: PathState,
    /// Its smoothed round-trip time; `None` if no answer arrives or it was not measured.
    pub rtt: Option<Duration>,
    /// Its traffic.
    pub counts: Counts,
    /// Whether it is used and why, or why it closed; `None` if that is not known.
    pub why: Option<String>,
}

impl Observed {
    /// A path under its display name.
    pub fn of(path: &PathInfo, name: String) -> Self {
        let figures = &path.statistics;
        Self {
            name,
            label: PathLabel::of(path),
            state: figures.state,
            rtt: rtt_of(figures),
            counts: Counts {
                sent: figures.bytes_sent.get(),
                received: figures.bytes_received.get(),
                packets: Some(Packets { sent: figures.packets_sent, lost: figures.packets_lost }),
            },
            why: None,
        }
    }
}

/// The smoothed round-trip time; `None` if no answer arrives or it was not measured.
pub fn rtt_of(figures: &PathStatistics) -> Option<Duration> {
    let answers = !matches!(figures.state, PathState::Validating | PathState::Dead | PathState::Closed);
    (answers && figures.bytes_received.get() > 0).then_some(figures.smoothed_rtt)
}

/// The traffic of a path: packets, with headers of the protocol and retransmissions; or where TCP of the system keeps its
/// packets to itself, what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// The packets sent; `None` if they are not counted.
    pub packets: Option<Packets>,
}

/// Packets of this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packets {
    /// How many were sent.
    pub sent: u64,
    /// How many of them were lost.
    pub lost: u64,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    fn with(self, other: Self, join: fn(u64, u64) -> u64) -> Self {
        let packets = |counts: Self| counts.packets.unwrap_or_default();
        let (one, two) = (packets(self), packets(other));
        let joined = Packets { sent: join(one.sent, two.sent), lost: join(one.lost, two.lost) };
        Self {
            sent: join(self.sent, other.sent),
            received: join(self.received, other.received),
            packets: self.packets.or(other.packets).map(|_| joined),
        }
    }

    /// Bytes in both directions.
    pub fn bytes(self) -> u64 {
        self.sent.saturating_add(self.received)
    }
}

/// The displayed data of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRow {
    /// The path, with all traffic of this row since the start.
    pub path: Observed,
    /// Its current rate in both directions; `None` if it carries nothing.
    pub rate: Option<Rate>,
}

impl PathBook {
    /// A number for the next connection.
    pub fn open(&mut self) -> u32 {
        self.connections += 1;
        self.connections
    }

    /// The connection of that number has ended: its paths are closed.
    pub fn close(&mut self, connection: u32) {
        for row in self.rows.iter_mut().filter(|row| row.connection == Some(connection)) {
            row.close();
        }
    }

    /// Records the open paths of a connection.
    pub fn note(&mut self, connection: u32, now: Instant, paths: impl IntoIterator<Item = Observed>) {
        let paths: Vec<_> = paths.into_iter().collect();
        for row in self.rows.iter_mut().filter(|row| row.connection == Some(connection)) {
            if !paths.iter().any(|path| row.is_of(connection, path.label.id)) {
                row.close();
            }
        }
        for path in paths {
            let same = self.rows.iter().position(|row| row.is_of(connection, path.label.id));
            let moved = same.and_then(|place| self.rows.get_mut(place)).filter(|row| !row.is_named_as(&path));
            // A path that moved to another interface leaves its traffic there.
            let elsewhere = moved.map_or_else(Counts::default, Row::leave);
            let same = self.rows.iter().position(|row| row.is_of(connection, path.label.id));
            let place = same.or_else(|| self.place_of(&path));
            match place.and_then(|place| self.rows.get_mut(place)) {
                Some(row) => row.update(now, connection, path, elsewhere),
                None => self.rows.push(Row::new(now, connection, path, elsewhere)),
            }
        }
    }

    /// The row of an earlier, closed path with the same carrier: with the same addresses, or else with the same name.
    fn place_of(&self, path: &Observed) -> Option<usize> {
        let closed = |row: &Row| row.path.state == PathState::Closed && row.is_named_as(path);
        let exact = |row: &Row| {
            let (old, new) = (&row.path.label, &path.label);
            closed(row) && (old.local, old.remote) == (new.local, new.remote)
        };
        self.rows.iter().position(exact).or_else(|| self.rows.iter().position(closed))
    }

    /// Records the state of a path from an event between two looks at all of them, and the reason.
    pub fn note_state(&mut self, connection: u32, id: PathId, (state, reason): (PathState, &PathReason)) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.is_of(connection, id)) {
            row.failed |= is_failure(state);
            if state == PathState::Closed {
                row.end = Some(reason.to_string());
            }
        }
    }

    /// Whether a path failed or closed before, so that it is news when it works.
    pub fn has_failed(&self, connection: u32, id: PathId) -> bool {
        self.rows.iter().any(|row| row.failed && row.is_of(connection, id))
    }

    /// The name of a path, as in [`Self::rows`].
    pub fn name(&self, connection: u32, id: PathId) -> Option<String> {
        let place = self.rows.iter().position(|row| row.is_of(connection, id))?;
        self.names().into_iter().nth(place)
    }

    /// The rows in the order in which paths first appeared, each with a name of its own.
    pub fn rows(&self, now: Instant) -> Vec<PathRow> {
        let shown = |(row, name): (&Row, String)| {
            let mut shown = row.shown(now);
            shown.path.name = name;
            shown
        };
        self.rows.iter().zip(self.names()).map(shown).collect()
    }

    fn names(&self) -> Vec<String> {
        let traits = |row: &Row| Traits { base: row.path.name.clone(), ..row.path.label.traits() };
        distinct(&self.rows.iter().map(traits).collect::<Vec<_>>())
    }
}

impl Row {
    fn new(now: Instant, connection: u32, path: Observed, elsewhere: Counts) -> Self {
        let (rate, before) = (RateWindow::default(), Counts::default());
        let mut row =
            Self { path, connection: Some(connection), before, elsewhere, rate, failed: false, end: None };
        // Traffic before the first look is no part of its rate.
        row.rate.record(now, row.counts().bytes());
        row
    }

    /// Whether a path has the name and the carrier of this row.
    fn is_named_as(&self, path: &Observed) -> bool {
        self.path.name == path.name && self.path.label.carrier == path.label.carrier
    }

    /// The path goes on in another row; returns its traffic so far.
    fn leave(&mut self) -> Counts {
        self.close();
        self.connection = None;
        self.path.counts
    }

    fn is_of(&self, connection: u32, id: PathId) -> bool {
        self.connection == Some(connection) && self.path.label.id == id
    }

    fn update(&mut self, now: Instant, connection: u32, path: Observed, elsewhere: Counts) {
        if !self.is_of(connection, path.label.id) {
            (self.path.why, self.end) = (None, None);
            self.before = self.counts();
            (self.connection, self.elsewhere) = (Some(connection), elsewhere);
        }
        let why = path.why.clone().or_else(|| self.path.why.take());
        self.path = Observed { why, ..path };
        self.failed |= is_failure(self.path.state);
        self.rate.record(now, self.counts().bytes());
    }

    fn close(&mut self) {
        self.path.state = PathState::Closed;
        self.path.rtt = None;
        self.path.why = self.end.clone();
        self.failed = true;
    }

    fn counts(&self) -> Counts {
        self.before.plus(self.path.counts.minus(self.elsewhere))
    }

    fn shown(&self, now: Instant) -> PathRow {
        let rate = self.rate.rate(now).filter(|rate| rate.bits_per_second() >= SHOWN);
        PathRow {
            path: Observed { counts: self.counts(), ..self.path.clone() },
            // A path that carries no data has probes only.
            rate: rate.filter(|_| self.path.state.carries_data()),
        }
    }
}

fn is_failure(state: PathState) -> bool {
    matches!(state, PathState::Suspect | PathState::Dead | PathState::Closed)
}

/// Less than this rounds to zero.
const SHOWN: u64 = 5_000;

/// The table of paths during a command; shares are those of the current rates.
pub fn live_table(rows: &[PathRow]) -> Grid {
    let grid = Grid::new().words("path").words("state").numbers("rtt ms");
    let grid = with_loss(grid, rows).numbers("Mbit/s").numbers("share").legend(legend(rows));
    let mut grid = with_why(grid, rows);
    let all: u64 = rows.iter().filter_map(|row| row.rate).map(Rate::bits_per_second).sum();
    for row in rows {
        let share = row.rate.map(|rate| units::percent(rate.bits_per_second(), all));
        let mut cells = first_cells(row);
        cells.extend(loss_cell(row, rows));
        cells.extend([
            Cell::or_none(row.rate.map(units::megabits)),
            Cell::or_none(share),
            Cell::from(row.path.why.clone().unwrap_or_default()),
        ]);
        grid.row(cells);
    }
    if rows.len() > 1 && all > 0 {
        let sum = units::megabits(Rate::from_bits_per_second(all));
        let loss = has_packets(rows).then(Cell::default);
        let first = ["all", "", ""].map(Cell::from);
        grid.row(first.into_iter().chain(loss).chain([sum.into(), Cell::default()]));
    }
    grid
}

/// The table of paths at the end: the total traffic of each, headers and retransmissions included.
pub fn final_table(rows: &[PathRow]) -> Grid {
    let grid = Grid::new().words("path").words("state").numbers("rtt ms");
    let grid = grid.numbers("sent").numbers("received").numbers("share").legend(legend(rows));
    let mut grid = with_why(with_loss(grid, rows), rows);
    let all: u64 = rows.iter().map(|row| row.path.counts.bytes()).sum();
    for row in rows {
        let counts = row.path.counts;
        let mut cells = first_cells(row);
        cells.extend([
            Cell::from(units::size(counts.sent)),
            Cell::from(units::size(counts.received)),
            Cell::from(units::percent(counts.bytes(), all)),
        ]);
        cells.extend(loss_cell(row, rows));
        cells.push(Cell::from(row.path.why.clone().unwrap_or_default()));
        grid.row(cells);
    }
    grid
}

fn first_cells(row: &PathRow) -> Vec<Cell> {
    let rtt = Cell::or_none(row.path.rtt.map(milliseconds));
    vec![Cell::from(row.path.name.clone()), state_cell(row.path.state), rtt]
}

/// With a column for the reasons, if there are any.
fn with_why(grid: Grid, rows: &[PathRow]) -> Grid {
    if rows.iter().any(|row| row.path.why.is_some()) { grid.remark("why") } else { grid }
}

/// With a column for losses, if packets are counted.
fn with_loss(grid: Grid, rows: &[PathRow]) -> Grid {
    if has_packets(rows) { grid.numbers("loss") } else { grid }
}

/// The lost part of the packets of this end, if it sent any; `None` without that column.
fn loss_cell(row: &PathRow, rows: &[PathRow]) -> Option<Cell> {
    // A path that nothing has answered yet has no loss rate, unless something is known to be lost.
    let is_measured = row.path.counts.received > 0;
    let packets =
        row.path.counts.packets.filter(|packets| packets.lost > 0 || (is_measured && packets.sent > 0));
    let loss = packets.map(|packets| units::fine_percent(packets.lost, packets.sent));
    has_packets(rows).then(|| Cell::or_none(loss))
}

fn has_packets(rows: &[PathRow]) -> bool {
    rows.iter().any(|row| row.path.counts.packets.is_some())
}

fn legend(rows: &[PathRow]) -> &'static str {
    if has_packets(rows) {
        LEGEND
    } else {
        "paths count what TCP carries: without its headers and retransmissions"
    }
}

/// What the figures of paths count.
pub const LEGEND: &str = "paths count packets: with headers and retransmissions";

/// The state of a path in its colour.
pub fn state_cell(state: PathState) -> Cell {
    Cell::new(state.word(), Tint::of_state(state))
}

/// A round-trip time for a column: fractions of a millisecond only where they matter.
pub fn milliseconds(time: Duration) -> String {
    let micros = (time.as_nanos() + 500) / 1_000;
    match micros {
        0..1_000 => format!("0.{micros:03}"),
        1_000..10_000 => format!("{}.{:02}", micros / 1_000, micros % 1_000 / 10),
        _ => format!("{}.{}", micros / 1_000, micros % 1_000 / 100),
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
