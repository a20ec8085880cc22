//! What the demo found out, as a table for people and as data for programs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use manyway_proto::Rate;
use serde::Serialize;

use super::cutter::CutReport;
use crate::output::table::{Align, Table};
use crate::output::units;

/// The figures of one run of the demo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoReport {
    /// Bytes of the file.
    pub bytes: u64,
    /// From the first byte to the verified end.
    pub time: Duration,
    /// What the links could have carried meanwhile, the cut taken off, headers included.
    pub possible: Rate,
    /// The longest time without a byte at the receiver.
    pub longest_silence: Duration,
    /// What became of the link that was cut; `None` if none was.
    pub cut: Option<CutReport>,
    /// The same file over the best link alone, uncut; `None` if that was not tried.
    pub best_single: Option<Duration>,
    /// Whether the received file has the hash of the sent one.
    pub hash: HashCheck,
    /// Each link in the order of its specification.
    pub links: Vec<LinkReport>,
    /// Where the plot is; `None` if it could not be written.
    pub plot: Option<PathBuf>,
}

/// What the comparison of the hashes said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HashCheck {
    /// The file is the same.
    Right,
    /// It is not.
    Wrong,
}

/// What one link did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkReport {
    /// Its specification in words.
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

    /// How much faster than the best link alone, in percent; below zero if slower.
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
            "longest_silence_seconds": self.longest_silence.as_secs_f64(),
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

impl fmt::Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut links = Table::new([
            ("link", Align::Left),
            ("delivered", Align::Right),
            ("share", Align::Right),
            ("lost", Align::Right),
        ]);
        let sum: u64 = self.links.iter().map(|l| l.delivered).sum();
        for link in &self.links {
            let share = units::percent(link.delivered, sum);
            links.row([link.name.clone(), units::size(link.delivered), share, link.lost.to_string()]);
        }
        writeln!(f, "{links}")?;

        let mut summary = Table::new([("", Align::Left), ("", Align::Left)]);
        let mut line = |name: &str, value: String| summary.row([name.to_owned(), value]);
        line("file", units::size(self.bytes));
        line("time", units::duration(self.time));
        let goodput = self.goodput();
        line("goodput", goodput.to_string());
        let share = units::percent(goodput.bits_per_second(), self.possible.bits_per_second());
        line("share of the possible", format!("{share} of {}", self.possible));
        line("longest silence at the receiver", units::duration(self.longest_silence));
        if let Some(cut) = self.cut {
            line("link that was cut", cut_in_words(&cut));
        }
        if let Some(single) = self.best_single {
            let all = if self.cut.is_some() { "all links, with the cut" } else { "all links" };
            let gain = self.gain().map_or_else(String::new, |gain| format!("; {all}: {gain:+.0} %"));
            line("the best link alone, uncut", format!("{}{gain}", units::duration(single)));
        }
        line(
            "BLAKE3 hash",
            match self.hash {
                HashCheck::Right => "right".to_owned(),
                HashCheck::Wrong => "WRONG: the received file is not the one that was sent".to_owned(),
            },
        );
        if let Some(place) = &self.plot {
            line("plot", place.display().to_string());
        }
        write!(f, "{summary}")
    }
}

fn cut_in_words(cut: &CutReport) -> String {
    let Some(restored_at) = cut.restored_at else {
        return format!("link {}, until the end", cut.link + 1);
    };
    let lasted = units::duration(restored_at.saturating_sub(cut.at));
    let back = cut.carries_after.map_or_else(
        || "carried no more data".to_owned(),
        |after| format!("carried data again {} after it was restored", units::duration(after)),
    );
    format!("link {} for {lasted}; {back}", cut.link + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_happened() {
        let report = DemoReport {
            bytes: 64 << 20,
            time: Duration::from_millis(12_500),
            possible: Rate::from_bits_per_second(50_000_000),
            longest_silence: Duration::from_millis(140),
            cut: Some(CutReport {
                link: 0,
                at: Duration::from_secs(3),
                restored_at: Some(Duration::from_secs(7)),
                carries_after: Some(Duration::from_millis(900)),
            }),
            best_single: Some(Duration::from_secs(14)),
            hash: HashCheck::Right,
            links: vec![LinkReport { name: "40.0 Mbit/s, 15.0 ms".into(), delivered: 48 << 20, lost: 12 }],
            plot: Some("picture.svg".into()),
        };
        let text = report.to_string();
        for part in [
            "64.0 MiB",
            "12.50 s",
            "42.9 Mbit/s",
            "86 % of 50.0 Mbit/s",
            "140 ms",
            "900 ms",
            "14.00 s",
            "+12 %",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let json = report.to_json();
        assert_eq!((&json["hash"], &json["cut"]["link"]), (&"right".into(), &1.into()));
        assert_eq!(json["cut"]["carries_data_after_seconds"], 0.9);
    }
}
