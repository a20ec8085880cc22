//! Measures each path alone, and the gain of the bond over the best of them.

use manyway::{ConnectionInfo, PathState, Rate, Role};
use serde_json::{Value, json};

/// The result of one path alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Single {
    pub(super) interface: String,
    /// `None` if the server was not reached over it.
    pub(super) rate: Option<Rate>,
}

/// The text of a comparison without single paths.
const NOTHING_TO_COMPARE: &str = "only one interface leads to the peer; nothing to compare";
/// The text of a comparison of which no single path reached the server.
const NONE_REACHED: &str = "no path alone reached the server; nothing to compare";

/// The bond compared with each of its paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) bond: Rate,
    /// Empty if there is only one path: the bond is that path.
    pub(super) singles: Vec<Single>,
}

impl Comparison {
    /// The best path alone.
    pub(super) fn best(&self) -> Option<(&str, Rate)> {
        let reached =
            self.singles.iter().filter_map(|single| Some((single.interface.as_str(), single.rate?)));
        reached.max_by_key(|(_, rate)| *rate)
    }

    /// Gain of the bond over the best single path, in percent; 0 without a path to compare with.
    pub(super) fn gain(&self) -> f64 {
        let best = self.best().map_or(Rate::ZERO, |(_, rate)| rate);
        if best == Rate::ZERO {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "percents of rates")]
        let ratio = self.bond.bits_per_second() as f64 / best.bits_per_second() as f64;
        (ratio - 1.0) * 100.0
    }

    /// The error if the gain is below the requested one.
    pub(super) fn shortfall(&self, least: f64) -> String {
        match self.best() {
            Some(_) => format!("the gain is {:.1} %, less than {least} %", self.gain()),
            None => self.without_best().to_owned(),
        }
    }

    /// Why there is no best single path.
    fn without_best(&self) -> &'static str {
        if self.singles.is_empty() { NOTHING_TO_COMPARE } else { NONE_REACHED }
    }

    /// The rate of each path alone, and the gain in a sentence.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let single = |single: &Single| match single.rate {
            Some(rate) => format!("{} {rate}", single.interface),
            None => format!("{} did not reach the server", single.interface),
        };
        let singles: Vec<_> = self.singles.iter().map(single).collect();
        let mut facts = Vec::new();
        if !singles.is_empty() {
            facts.push(("each path alone", singles.join(", ")));
        }
        let gain = self.best().map(|(name, rate)| {
            format!("{:+.0} % over the best single path ({name} alone: {rate})", self.gain())
        });
        facts.push(("bond", gain.unwrap_or_else(|| self.without_best().to_owned())));
        facts
    }

    pub(super) fn json(&self) -> Value {
        let singles: Vec<_> = self
            .singles
            .iter()
            .map(|single| {
                json!({
                    "interface": single.interface,
                    "bits_per_second": single.rate.map(Rate::bits_per_second),
                })
            })
            .collect();
        json!({
            "bond_bits_per_second": self.bond.bits_per_second(), "singles": singles,
            "best": self.best().map(|(name, _)| name), "gain_percent": self.gain(),
        })
    }
}

/// The line before an interface is measured alone.
pub(super) fn begins(interface: &str) -> String {
    format!("for comparison, the same over {interface} alone …")
}

/// The interfaces to be measured alone: those whose path normally carries data. Fewer than two are not worth it.
pub(super) fn interfaces(info: &ConnectionInfo) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for path in &info.paths {
        let is_member =
            path.statistics.role != Role::Backup && path.statistics.state != PathState::Validating;
        if let Some(name) = path.interface.as_ref().filter(|name| is_member && !names.contains(name)) {
            names.push(name.clone());
        }
    }
    if names.len() < 2 { Vec::new() } else { names }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(bond: u64, singles: &[(&str, Option<u64>)]) -> Comparison {
        let rate = |megabits: u64| Rate::from_bits_per_second(megabits * 1_000_000);
        let single = |(name, megabits): &(&str, Option<u64>)| Single {
            interface: (*name).to_owned(),
            rate: megabits.map(rate),
        };
        Comparison { bond: rate(bond), singles: singles.iter().map(single).collect() }
    }

    #[test]
    fn the_gain_is_over_the_best_path_that_was_reached() {
        let better = comparison(298, &[("eth0", Some(200)), ("wlan0", Some(90)), ("wwan0", None)]);
        insta::assert_debug_snapshot!(better.facts(), @r#"
        [
            (
                "each path alone",
                "eth0 200.0 Mbit/s, wlan0 90.0 Mbit/s, wwan0 did not reach the server",
            ),
            (
                "bond",
                "+49 % over the best single path (eth0 alone: 200.0 Mbit/s)",
            ),
        ]
        "#);
        let worse = comparison(50, &[("eth0", Some(100)), ("wlan0", Some(90))]);
        assert_eq!(worse.facts()[1].1, "-50 % over the best single path (eth0 alone: 100.0 Mbit/s)");
        assert!((worse.gain() + 50.0).abs() < 1e-9);
    }

    #[test]
    fn one_path_gains_nothing() {
        let alone = comparison(50, &[]);
        assert_eq!(alone.facts(), [("bond", NOTHING_TO_COMPARE.to_owned())]);
        assert!(alone.gain().abs() < f64::EPSILON);
        assert_eq!(alone.json()["best"], Value::Null);
    }
}
