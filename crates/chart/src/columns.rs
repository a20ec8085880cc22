//! Text in columns.

use std::fmt;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under a head, printed with columns as wide as they must be and two spaces between.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns. If no column has a name there is no head.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        Self {
            columns: columns.into_iter().map(|(name, align)| (name.to_owned(), align)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells beyond the columns are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, cells: &[String], widths: &[usize]) -> fmt::Result {
        let mut line = String::new();
        for (index, ((_, align), width)) in self.columns.iter().zip(widths).enumerate() {
            let cell = cells.get(index).map_or("", String::as_str);
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            if index > 0 {
                line.push_str("  ");
            }
            match align {
                Align::Left => line.extend([cell, &gap]),
                Align::Right => line.extend([&gap, cell]),
            }
        }
        writeln!(f, "{}", line.trim_end())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head: Vec<_> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut widths: Vec<_> = head.iter().map(|name| name.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        if head.iter().any(|name| !name.is_empty()) {
            self.line(f, &head, &widths)?;
        }
        self.rows.iter().try_for_each(|row| self.line(f, row, &widths))
    }
}

/// Columns of fixed width for rows that are printed one by one. A wider cell shifts the rest of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    columns: Vec<(String, Align, usize)>,
}

impl Columns {
    /// Columns with a name, a side and a width; none is narrower than its name.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align, usize)>) -> Self {
        let wide_enough = |(name, align, width): (S, Align, usize)| {
            let name = name.into();
            let width = width.max(name.chars().count());
            (name, align, width)
        };
        Self { columns: columns.into_iter().map(wide_enough).collect() }
    }

    /// The line above the rows.
    pub fn head(&self) -> String {
        self.row(self.columns.iter().map(|(name, ..)| name.as_str()))
    }

    /// One line; cells beyond the columns are not shown.
    pub fn row<S: AsRef<str>>(&self, cells: impl IntoIterator<Item = S>) -> String {
        let mut line = String::new();
        for (index, ((_, align, width), cell)) in self.columns.iter().zip(cells).enumerate() {
            let cell = cell.as_ref();
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            if index > 0 {
                line.push_str("  ");
            }
            match align {
                Align::Left => line.extend([cell, &gap]),
                Align::Right => line.extend([&gap, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_printed_later_have_the_same_columns() {
        let columns =
            Columns::new([("seq", Align::Right, 4), ("path", Align::Left, 6), ("rtt", Align::Right, 8)]);
        let rows =
            [columns.head(), columns.row(["1", "eth0", "3.2"]), columns.row(["2", "wireless0", "30.1"])];
        insta::assert_snapshot!(rows.join("\n"), @r"
        seq  path         rtt
          1  eth0         3.2
          2  wireless0      30.1
        ");
        assert_eq!(columns.row(["1", "x"]), "   1  x");
    }

    #[test]
    fn columns_are_aligned_and_lines_end_with_text() {
        let mut table = Table::new([("path", Align::Left), ("rate", Align::Right), ("state", Align::Left)]);
        table.row(["1".into(), "9.5 Mbit/s".into(), "active".into()]);
        table.row(["long".into(), "120 kbit/s".into()]);
        assert_eq!(
            table.to_string(),
            "path        rate  state\n1     9.5 Mbit/s  active\nlong  120 kbit/s\n"
        );
    }
}
