//! Tables that fit a given width: important columns are never cut.
//!
//! Columns come in three kinds. Kept columns are always there. Spare ones are there where they fit; otherwise a value
//! that all rows share is printed above the table, and differing values below their rows. The remark, a sentence of
//! each row, ends the row where there is some room and is printed below it elsewhere, wrapped between words. Where the kept
//! columns alone are too wide, the names in the first one are shortened in the middle; on a narrower terminal the last
//! ones are printed below their rows, too.

use manyway_chart::Align;
use manyway_terminal::{Colour, shortened, text_width, wrap_strictly};

use super::tint::{Line, Tint, block};

/// What happens to a column without room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kept,
    Spare,
    Remark,
}

#[derive(Debug, Clone)]
struct Column {
    name: &'static str,
    align: Align,
    kind: Kind,
}

/// A text in a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    text: String,
    tint: Tint,
}

impl Cell {
    /// A text with a meaning.
    pub fn new(text: impl Into<String>, tint: Tint) -> Self {
        Self { text: text.into(), tint }
    }

    /// A value that is unknown or was not measured.
    pub fn none() -> Self {
        Self::new("-", Tint::Faint)
    }

    /// A text, or a dash if there is none.
    pub fn or_none(text: Option<String>) -> Self {
        text.map_or_else(Self::none, Self::from)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text, Tint::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text, Tint::Plain)
    }
}

/// Rows under a head, laid out for a width.
#[derive(Debug, Clone, Default)]
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    legend: Option<&'static str>,
}

impl Grid {
    /// A table without columns.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, name: &'static str, align: Align, kind: Kind) -> Self {
        self.columns.push(Column { name, align, kind });
        self
    }

    /// Adds a column of words that is always shown.
    #[must_use]
    pub fn words(self, name: &'static str) -> Self {
        self.with(name, Align::Left, Kind::Kept)
    }

    /// Adds a column of numbers that is always shown.
    #[must_use]
    pub fn numbers(self, name: &'static str) -> Self {
        self.with(name, Align::Right, Kind::Kept)
    }

    /// Adds a column of words that is shown where it fits; the last of them is dropped first.
    #[must_use]
    pub fn spare_words(self, name: &'static str) -> Self {
        self.with(name, Align::Left, Kind::Spare)
    }

    /// Adds a column of numbers that is shown where it fits.
    #[must_use]
    pub fn spare_numbers(self, name: &'static str) -> Self {
        self.with(name, Align::Right, Kind::Spare)
    }

    /// Adds the sentence of each row; must be the last column.
    #[must_use]
    pub fn remark(self, name: &'static str) -> Self {
        self.with(name, Align::Left, Kind::Remark)
    }

    /// Adds a line below the rows that says what the figures count.
    #[must_use]
    pub fn legend(self, text: &'static str) -> Self {
        Self { legend: Some(text), ..self }
    }

    /// Adds a row; cells beyond the columns are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines for a terminal of that width.
    pub fn lines(&self, width: usize) -> Vec<Line> {
        let layout = Layout::of(self, width);
        let mut lines = Vec::new();
        if let Some(above) = layout.above(self) {
            lines.extend(wrap_strictly(&above, width).into_iter().map(|text| Line::new(text, Tint::Faint)));
        }
        lines.push(layout.head(self));
        for row in &self.rows {
            lines.extend(layout.row(self, row));
            if let Some(below) = layout.below(self, row) {
                let room = width.saturating_sub(INDENT.len()).max(1);
                let below = wrap_strictly(&below, room).into_iter();
                lines.extend(below.map(|text| Line::new(format!("{INDENT}{text}"), Tint::Faint)));
            }
        }
        let legend = self.legend.map(|text| wrap_strictly(text, width)).unwrap_or_default();
        lines.extend(legend.into_iter().map(|text| Line::new(text, Tint::Faint)));
        lines
    }

    /// The same as text.
    pub fn text(&self, width: usize, colour: Colour) -> String {
        block(&self.lines(width), colour)
    }

    fn width_of(&self, index: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(index));
        let widest = cells.map(|cell| text_width(&cell.text)).max().unwrap_or(0);
        let name = self.columns.get(index).map_or(0, |column| text_width(column.name));
        widest.max(name)
    }

    /// The value that all rows with one share.
    fn shared(&self, index: usize) -> Option<&str> {
        let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.text.as_str());
        let mut cells = cells.filter(|text| is_told(text));
        let first = cells.next()?;
        cells.all(|other| other == first).then_some(first)
    }
}

/// The columns in the table, and their widths.
struct Layout {
    shown: Vec<(usize, usize)>,
    hidden: Vec<usize>,
}

/// Columns of these widths side by side.
fn total(columns: &[(usize, usize)]) -> usize {
    columns.iter().map(|(_, width)| width + GAP.len()).sum::<usize>().saturating_sub(GAP.len())
}

impl Layout {
    fn of(grid: &Grid, width: usize) -> Self {
        let mut shown: Vec<_> =
            grid.columns.iter().enumerate().map(|(index, _)| (index, grid.width_of(index))).collect();
        let mut hidden = Vec::new();
        let kind = |index: usize| grid.columns.get(index).map_or(Kind::Kept, |column| column.kind);
        // A long sentence is wrapped in its column, if that is wide enough to read.
        let excess = total(&shown).saturating_sub(width);
        if let Some((index, remark)) = shown.last_mut()
            && kind(*index) == Kind::Remark
            && *remark >= excess + NARROWEST_REMARK
        {
            *remark -= excess;
        }
        // Otherwise it goes below its row before any column is dropped.
        for leaves in [Kind::Remark, Kind::Spare] {
            while total(&shown) > width {
                let Some(at) = shown.iter().rposition(|(index, _)| kind(*index) == leaves) else { break };
                hidden.push(shown.remove(at).0);
            }
        }
        let excess = total(&shown).saturating_sub(width);
        if let Some((_, name)) = shown.first_mut() {
            *name = name.saturating_sub(excess).max(NARROWEST_NAME.min(*name));
        }
        while total(&shown) > width && shown.len() > 1 {
            hidden.extend(shown.pop().map(|(index, _)| index));
        }
        hidden.sort_unstable();
        Self { shown, hidden }
    }

    fn head(&self, grid: &Grid) -> Line {
        let name = |index: usize| grid.columns.get(index).map_or("", |column| column.name);
        self.cells(grid, |index| Cell::new(name(index), Tint::Strong))
    }

    /// The line of a row, and those on which its sentence continues.
    fn row(&self, grid: &Grid, row: &[Cell]) -> Vec<Line> {
        let is_remark =
            |index: usize| grid.columns.get(index).is_some_and(|column| column.kind == Kind::Remark);
        let remark = self.shown.last().filter(|(index, _)| is_remark(*index));
        let sentence = remark.and_then(|(index, width)| Some((row.get(*index)?, *width)));
        let mut parts =
            sentence.map_or_else(Vec::new, |(cell, width)| wrap_strictly(&cell.text, width)).into_iter();
        let first = parts.next().unwrap_or_default();
        let tint = sentence.map_or(Tint::Plain, |(cell, _)| cell.tint);
        let cell = |index: usize| {
            if is_remark(index) {
                Cell::new(first.clone(), tint)
            } else {
                row.get(index).cloned().unwrap_or_default()
            }
        };
        let mut lines = vec![self.cells(grid, cell)];
        for part in parts {
            let cell = |index| if is_remark(index) { Cell::new(part.clone(), tint) } else { Cell::default() };
            lines.push(self.cells(grid, cell));
        }
        lines
    }

    fn cells(&self, grid: &Grid, cell: impl Fn(usize) -> Cell) -> Line {
        let mut line = Line::default();
        for (place, (index, width)) in self.shown.iter().enumerate() {
            let Cell { text, tint } = cell(*index);
            let text = shortened(text, *width);
            let gap = " ".repeat(width.saturating_sub(text_width(&text)));
            if place > 0 {
                line.push(GAP, Tint::Plain);
            }
            match grid.columns.get(*index).map_or(Align::Left, |column| column.align) {
                Align::Left => {
                    line.push(text, tint);
                    line.push(gap, Tint::Plain);
                }
                Align::Right => {
                    line.push(gap, Tint::Plain);
                    line.push(text, tint);
                }
            }
        }
        line
    }

    /// Values that all rows share and that have no column.
    fn above(&self, grid: &Grid) -> Option<String> {
        let parts = self.hidden.iter().filter_map(|index| {
            let column = grid.columns.get(*index).filter(|column| column.kind == Kind::Spare)?;
            let value = grid.shared(*index).filter(|value| is_told(value))?;
            Some(format!("{} {value}", column.name))
        });
        let parts: Vec<_> = parts.collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Values of a row that have no column.
    fn below(&self, grid: &Grid, row: &[Cell]) -> Option<String> {
        let parts = self.hidden.iter().filter_map(|index| {
            let (column, cell) = (grid.columns.get(*index)?, row.get(*index)?);
            let text = Some(cell.text.as_str()).filter(|text| is_told(text))?;
            match column.kind {
                Kind::Spare if grid.shared(*index).is_some() => None,
                Kind::Spare | Kind::Kept => Some(format!("{} {text}", column.name)),
                Kind::Remark => Some(text.to_owned()),
            }
        });
        let parts: Vec<_> = parts.collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Whether a cell has a value.
fn is_told(text: &str) -> bool {
    !text.is_empty() && text != "-"
}

/// Between two columns.
const GAP: &str = "  ";
/// Least width of a readable sentence.
const NARROWEST_REMARK: usize = 24;
/// Least width to which a name is shortened.
const NARROWEST_NAME: usize = 12;
/// Indentation of lines below a row.
const INDENT: &str = "    ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fits::{LONG_FILES, LONG_PATH, assert_fits};

    fn grid() -> Grid {
        let mut grid = Grid::new()
            .words("path")
            .spare_words("local")
            .spare_words("remote")
            .numbers("Mbit/s")
            .remark("why");
        let row = |path: &str, local: &str, rate: &str, why: &str| {
            [path, local, "192.0.2.1:4455", rate, why].map(Cell::from)
        };
        grid.row(row("wifi0", "10.0.0.2", "38.20", "in use"));
        grid.row(row("lte0", "10.0.1.2", "-", "no answer on UDP for 12 s"));
        grid
    }

    fn text(width: usize) -> String {
        grid().text(width, Colour::Without)
    }

    #[test]
    fn a_wide_terminal_shows_every_column() {
        insta::assert_snapshot!(text(80), @r"
        path   local     remote          Mbit/s  why
        wifi0  10.0.0.2  192.0.2.1:4455   38.20  in use
        lte0   10.0.1.2  192.0.2.1:4455       -  no answer on UDP for 12 s
        ");
    }

    #[test]
    fn a_long_sentence_is_wrapped_in_its_column() {
        let mut grid = grid();
        grid.row(["usb0", "-", "-", "-", "no carrier: no cable or no radio network"].map(Cell::from));
        insta::assert_snapshot!(grid.text(70, Colour::Without), @r"
        path   local     remote          Mbit/s  why
        wifi0  10.0.0.2  192.0.2.1:4455   38.20  in use
        lte0   10.0.1.2  192.0.2.1:4455       -  no answer on UDP for 12 s
        usb0   -         -                    -  no carrier: no cable or no
                                                 radio network
        ");
    }

    #[test]
    fn the_remark_goes_below_its_row_before_any_column_is_dropped() {
        insta::assert_snapshot!(text(50), @r"
        path   local     remote          Mbit/s
        wifi0  10.0.0.2  192.0.2.1:4455   38.20
            in use
        lte0   10.0.1.2  192.0.2.1:4455       -
            no answer on UDP for 12 s
        ");
    }

    #[test]
    fn a_value_without_a_column_is_above_if_shared_and_below_its_row_otherwise() {
        insta::assert_snapshot!(text(20), @r"
        remote
        192.0.2.1:4455
        path   Mbit/s
        wifi0   38.20
            local 10.0.0.2;
            in use
        lte0        -
            local 10.0.1.2;
            no answer on UDP
            for 12 s
        ");
    }

    /// With a path of a long name.
    fn with_ipv6() -> Grid {
        let mut grid = grid();
        let name = "enx00e04c680001 2001:db8:1234:5678:9abc:def0:1234:5678";
        grid.row([name, "2001:db8::7", "[2001:db8::1]:4455", "8.00", "in use"].map(Cell::from));
        grid
    }

    #[test]
    fn no_line_exceeds_its_width() {
        for width in 14..130 {
            let mut grid = with_ipv6();
            grid.row([LONG_PATH, LONG_FILES[1], "-", "1.00", LONG_FILES[0]].map(Cell::from));
            assert_fits(&grid.text(width, Colour::Without), width);
        }
    }

    #[test]
    fn a_long_name_is_shortened_in_the_middle() {
        insta::assert_snapshot!(with_ipv6().text(40, Colour::Without), @r"
        path                              Mbit/s
        wifi0                              38.20
            local 10.0.0.2; remote
            192.0.2.1:4455; in use
        lte0                                   -
            local 10.0.1.2; remote
            192.0.2.1:4455; no answer on UDP for
            12 s
        enx00e04c680001…c:def0:1234:5678    8.00
            local 2001:db8::7; remote
            [2001:db8::1]:4455; in use
        ");
    }
}
