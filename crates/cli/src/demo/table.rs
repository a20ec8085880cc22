//! What the demo found out, as a table for people and as data for programs.

use std::fmt;
use std::time::Duration;

use manyway_proto::Rate;
use serde::Serialize;

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
    /// From the restoring of the cut link to its first data; `None` if it carried none.
    pub restored_after: Option<Duration>,
    /// The same file over the best link alone, uncut; `None` if that was not tried.
    pub best_single: Option<Duration>,
    /// Whether the received file has the hash of the sent one.
    pub hash: HashCheck,
    /// Each link in the order of its specification.
    pub links: Vec<LinkReport>,
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

    /// One JSON document, with times in seconds and rates in bits a second.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "bytes": self.bytes,
            "seconds": self.time.as_secs_f64(),
            "goodput_bits_per_second": self.goodput().bits_per_second(),
            "possible_bits_per_second": self.possible.bits_per_second(),
            "longest_silence_seconds": self.longest_silence.as_secs_f64(),
            "restored_after_seconds": self.restored_after.map(|t| t.as_secs_f64()),
            "best_single_seconds": self.best_single.map(|t| t.as_secs_f64()),
            "hash": self.hash,
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
        let restored = self.restored_after.map_or_else(
            || "no data on it".to_owned(),
            |after| format!("carries data after {}", units::duration(after)),
        );
        line("restored link", restored);
        if let Some(single) = self.best_single {
            line("best single link, uncut", units::duration(single));
        }
        line(
            "BLAKE3 hash",
            match self.hash {
                HashCheck::Right => "right".to_owned(),
                HashCheck::Wrong => "WRONG: the received file is not the one that was sent".to_owned(),
            },
        );
        write!(f, "{summary}")
    }
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
            restored_after: Some(Duration::from_millis(900)),
            best_single: Some(Duration::from_secs(14)),
            hash: HashCheck::Right,
            links: vec![LinkReport { name: "40.0 Mbit/s, 15.0 ms".into(), delivered: 48 << 20, lost: 12 }],
        };
        let text = report.to_string();
        for part in
            ["64.0 MiB", "12.50 s", "42.9 Mbit/s", "86 % of 50.0 Mbit/s", "140 ms", "900 ms", "14.00 s"]
        {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert_eq!(report.to_json()["hash"], "right");
    }
}
