//! The report as text and as JSON, of one tree or of two.

use manyway_chart::{Align, Table};
use serde_json::{Map, Value, json};

use super::figures::{Figure, Section};

/// A remark of more than one detail would not fit beside a number.
const MOST_DETAILS: usize = 1;

/// The figures of the working tree, and of the revision that they are compared with.
pub(super) struct Report {
    pub(super) now: Vec<Section>,
    pub(super) before: Option<Before>,
}

pub(super) struct Before {
    pub(super) revision: String,
    pub(super) sections: Vec<Section>,
}

/// A figure of both trees, of which one may lack it.
struct Pair<'a> {
    name: &'a str,
    now: Option<&'a Figure>,
    before: Option<&'a Figure>,
}

impl Report {
    /// Tables, one for each kind of figure.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        for section in &self.now {
            let mut columns = vec![(section.title.as_str(), Align::Left)];
            columns.extend(self.before.as_ref().map(|before| (before.revision.as_str(), Align::Right)));
            columns.extend([("now", Align::Right), ("", Align::Left)]);
            let mut table = Table::new(columns);
            for pair in self.pairs(section) {
                let number = |figure: Option<&Figure>| {
                    figure.map_or_else(|| "-".to_owned(), |figure| figure.value.to_string())
                };
                let mut row = vec![pair.name.to_owned()];
                row.extend(self.before.as_ref().map(|_| number(pair.before)));
                let details = pair.now.map(|figure| figure.details.as_slice()).unwrap_or_default();
                let remark = if details.len() <= MOST_DETAILS { details.join("") } else { String::new() };
                row.extend([number(pair.now), remark]);
                table.row(row);
            }
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}{table}"));
        }
        text
    }

    /// One JSON document: for each kind of figure a list, with the files that were counted.
    pub(super) fn json(&self) -> Value {
        let mut document = Map::new();
        document.insert("against".to_owned(), json!(self.before.as_ref().map(|before| &before.revision)));
        for section in &self.now {
            let figures = self.pairs(section).into_iter().map(|pair| {
                let value = |figure: Option<&Figure>| figure.map(|figure| figure.value);
                let details = pair.now.map(|figure| figure.details.as_slice()).unwrap_or_default();
                let mut one = json!({ "name": pair.name, "now": value(pair.now), "details": details });
                if let (Some(_), Some(one)) = (&self.before, one.as_object_mut()) {
                    one.insert("before".to_owned(), json!(value(pair.before)));
                }
                one
            });
            document.insert(section.key.to_owned(), figures.collect());
        }
        Value::Object(document)
    }

    /// The figures of a section that are shown of either tree, those of the working tree first.
    fn pairs<'a>(&'a self, section: &'a Section) -> Vec<Pair<'a>> {
        let sections = self.before.iter().flat_map(|before| &before.sections);
        let before = sections.filter(|other| other.key == section.key);
        let before: Vec<_> = before.flat_map(|other| &other.figures).collect();
        let shown = section.figures.iter().take(section.shown);
        let mut names: Vec<_> = shown.map(|figure| figure.name.as_str()).collect();
        for figure in before.iter().take(section.shown) {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
        let pair = |name| Pair {
            name,
            now: section.figures.iter().find(|figure| figure.name == name),
            before: before.iter().find(|figure| figure.name == name).copied(),
        };
        names.into_iter().map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(figures: &[(&str, usize)]) -> Vec<Section> {
        let figure = |(name, value): &(&str, usize)| Figure {
            name: (*name).to_owned(),
            value: *value,
            details: vec![format!("{name}.rs")],
        };
        let figures = figures.iter().map(figure).collect();
        vec![Section { key: "types", title: "lines".to_owned(), figures, shown: 2 }]
    }

    #[test]
    fn one_tree_has_one_column() {
        let report = Report { now: section(&[("Big", 30), ("Mid", 20), ("Small", 1)]), before: None };
        assert_eq!(report.table(), "lines  now\nBig     30  Big.rs\nMid     20  Mid.rs\n");
        let first = json!({ "name": "Big", "now": 30, "details": ["Big.rs"] });
        assert_eq!(report.json()["types"][0], first);
        assert_eq!(report.json()["against"], Value::Null);
    }

    #[test]
    fn a_figure_that_is_shown_of_one_tree_is_shown_of_both() {
        let before = section(&[("Old", 40), ("Small", 35), ("Big", 2)]);
        let before = Before { revision: "v1".to_owned(), sections: before };
        let report = Report { now: section(&[("Big", 30), ("Mid", 20), ("Small", 1)]), before: Some(before) };
        let table = report.table();
        let rows: Vec<_> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(rows[0], ["lines", "v1", "now"]);
        assert_eq!(rows[1], ["Big", "2", "30", "Big.rs"]);
        assert_eq!(rows[2], ["Mid", "-", "20", "Mid.rs"]);
        assert_eq!(rows[3], ["Old", "40", "-"]);
        assert_eq!(rows[4], ["Small", "35", "1", "Small.rs"]);
        assert_eq!(report.json()["types"][2]["before"], json!(40));
    }
}
