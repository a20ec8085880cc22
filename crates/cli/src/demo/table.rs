//! The results of the demo, as a table for people and as data for programs.

use std::path::PathBuf;
use std::time::Duration;

use manyway_proto::Rate;
use manyway_terminal::Colour;
use serde::Serialize;

use super::cutter::CutReport;
use crate::output::facts::facts;
use crate::output::grid::{Cell, Grid};
use crate::output::tint::{Line, Tint, block};
use crate::output::units;

/// The figures of one run of the demo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoReport {
    /// Bytes of the file.
    pub bytes: u64,
    /// From the first byte to the verified end.
    pub time: Duration,
    /// The capacity of the links during the transfer, without the cut, headers included.
    pub possible: Rate,
    /// The longest time without a byte at the receiver.
    pub longest_stall: Duration,
    /// The result of the cut; `None` if there was none.
    pub cut: Option<CutReport>,
    /// The time of the same file over the best link alone, uncut; `None` if that was not measured.
    pub best_single: Option<Duration>,
    /// Whether the received file has the hash of the sent one.
    pub hash: HashCheck,
    /// Each link in the order of its specification.
    pub links: Vec<LinkReport>,
    /// Path of the plot; `None` if it could not be written.
    pub plot: Option<PathBuf>,
}

/// The result of comparing the hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HashCheck {
    /// The files are equal.
    Right,
    /// They differ.
    Wrong,
}

/// The figures of one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkReport {
    /// Its specification as text.
    pub name: String,
    /// Bytes of UDP payload that it delivered to the receiver.
    pub delivered: u64,
    /// Datagrams lost at random or by a full queue.
    pub lost: u64,
}

impl DemoReport {
    /// File bytes over time.
    pub fn goodput(&self) -> Rate {
        manyway_proto::ByteCount(self.bytes).per(self.time)
    }

    /// Gain over the best link alone, in percent; negative if slower.
    pub fn gain(&self) -> Option<f64> {
        let single = self.best_single?.as_secs_f64();
        let time = self.time.as_secs_f64();
        (time > 0.0).then(|| (single / time - 1.0) * 100.0)
    }

    /// One JSON document, with times in seconds and rates in bits a second.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "bytes": self.bytes,
            "seconds": self.time.as_secs_f64(),
            "goodput_bits_per_second": self.goodput().bits_per_second(),
            "possible_bits_per_second": self.possible.bits_per_second(),
            "longest_stall_seconds": self.longest_stall.as_secs_f64(),
            "cut": self.cut.map(|cut| serde_json::json!({
                "link": cut.link + 1,
                "cut_at_seconds": cut.at.as_secs_f64(),
                "restored_at_seconds": cut.restored_at.map(|t| t.as_secs_f64()),
                "carries_data_after_seconds": cut.carries_after.map(|t| t.as_secs_f64()),
            })),
            "best_single_seconds": self.best_single.map(|t| t.as_secs_f64()),
            "gain_percent": self.gain(),
            "hash": self.hash,
            "plot": self.plot.as_ref().map(|place| place.to_string_lossy()),
            "links": self.links.iter().map(|link| serde_json::json!({
                "name": link.name, "delivered_bytes": link.delivered, "lost_datagrams": link.lost,
            })).collect::<Vec<_>>(),
        })
    }
}

impl DemoReport {
    /// The figures for a terminal of that width.
    pub fn text(&self, width: usize, colour: Colour) -> String {
        let mut lines = vec![Line::new(self.heading(), Tint::Strong)];
        lines.extend(self.link_table().lines(width));
        lines.push(Line::default());
        lines.extend(facts(&self.facts(), width).iter().map(|line| Line::from(line.as_str())));
        block(&lines, colour)
    }

    /// The heading of the table: it is not about the comparison, which came last.
    fn heading(&self) -> String {
        match self.links.len() {
            1 => "The link delivered:".to_owned(),
            links => format!("All {links} links together delivered:"),
        }
    }

    fn link_table(&self) -> Grid {
        let mut grid =
            Grid::new().words("link").numbers("delivered").numbers("share").numbers("lost packets");
        let sum: u64 = self.links.iter().map(|link| link.delivered).sum();
        for (number, link) in (1..).zip(&self.links) {
            grid.row([
                Cell::from(format!("{number}: {}", link.name)),
                Cell::from(units::size(link.delivered)),
                Cell::from(units::percent(link.delivered, sum)),
                Cell::from(link.lost.to_string()),
            ]);
        }
        grid
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let goodput = self.goodput();
        let share = units::percent(goodput.bits_per_second(), self.possible.bits_per_second());
        let mut facts = vec![
            ("file", units::size(self.bytes)),
            ("time", units::duration(self.time)),
            ("goodput", goodput.to_string()),
            ("efficiency", format!("{share} of {} available", self.possible)),
            ("longest stall at the receiver", units::duration(self.longest_stall)),
        ];
        facts.extend(self.cut.map(|cut| ("outage", cut_in_words(&cut))));
        if let Some(single) = self.best_single {
            let with = if self.cut.is_some() { "Manyway with outage" } else { "Manyway" };
            let gain = self.gain().map_or_else(String::new, |gain| format!(" ({with}: {})", faster(gain)));
            facts.push(("best single link, no outage", format!("{}{gain}", units::duration(single))));
        }
        facts.push((
            "BLAKE3 checksum",
            match self.hash {
                HashCheck::Right => "OK".to_owned(),
                HashCheck::Wrong => "WRONG: the received file differs from the sent one".to_owned(),
            },
        ));
        facts.extend(self.plot.as_ref().map(|place| ("plot", place.display().to_string())));
        facts
    }
}

fn faster(gain: f64) -> String {
    if gain < 0.0 { format!("{:.0} % slower", -gain) } else { format!("{gain:.0} % faster") }
}

fn cut_in_words(cut: &CutReport) -> String {
    let Some(restored_at) = cut.restored_at else {
        return format!("link {}, until the end", cut.link + 1);
    };
    let lasted = units::duration(restored_at.saturating_sub(cut.at));
    let back = cut.carries_after.map_or_else(
        || "not used again".to_owned(),
        |after| format!("used again {} after its return", units::duration(after)),
    );
    format!("link {} for {lasted}; {back}", cut.link + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fits::assert_fits;

    #[test]
    fn the_table_says_what_happened() {
        let report = report();
        for width in [80, 120] {
            insta::assert_snapshot!(format!("demo_{width}"), report.text(width, Colour::Without));
        }
        let json = report.to_json();
        assert_eq!((&json["hash"], &json["cut"]["link"]), (&"right".into(), &1.into()));
        assert_eq!(json["cut"]["carries_data_after_seconds"], 0.9);
    }

    #[test]
    fn no_line_is_wider_than_its_terminal() {
        for width in [72, 80, 100] {
            let text = report().text(width, Colour::Without);
            assert_fits(&text, width);
        }
    }

    fn report() -> DemoReport {
        DemoReport {
            bytes: 64 << 20,
            time: Duration::from_millis(12_500),
            possible: Rate::from_bits_per_second(50_000_000),
            longest_stall: Duration::from_millis(140),
            cut: Some(CutReport {
                link: 0,
                at: Duration::from_secs(3),
                restored_at: Some(Duration::from_secs(7)),
                carries_after: Some(Duration::from_millis(900)),
            }),
            best_single: Some(Duration::from_secs(14)),
            hash: HashCheck::Right,
            links: vec![
                LinkReport { name: "40.0 Mbit/s, 15.0 ms".into(), delivered: 40 << 20, lost: 12 },
                LinkReport { name: "20.0 Mbit/s, 40.0 ms".into(), delivered: 20 << 20, lost: 3 },
                LinkReport { name: "8.0 Mbit/s, 60.0 ms, 0.50 % loss".into(), delivered: 8 << 20, lost: 31 },
            ],
            plot: Some("manyway-demo.svg".into()),
        }
    }
}
