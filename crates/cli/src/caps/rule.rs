//! Caps in their text form.

use std::fmt;
use std::str::FromStr;

use manyway::ByteCount;
use manyway::interfaces::{InterfacePattern, InterfaceRule};
use serde::Deserialize;

use crate::output::units::{parse_size, volume};

/// The day of the month on which a count is reset, 1 to 31; the last one of a shorter month. Default 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub struct ResetDay(u8);

impl ResetDay {
    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for ResetDay {
    fn default() -> Self {
        Self(1)
    }
}

impl TryFrom<u8> for ResetDay {
    type Error = String;

    fn try_from(day: u8) -> Result<Self, String> {
        let is_day = (1..=31).contains(&day);
        is_day.then_some(Self(day)).ok_or_else(|| format!("{day} is no day of a month; use 1 to 31"))
    }
}

/// Most bytes over an interface in a month, both directions and all headers counted. Written as `5GB`, or `5GB@15` if
/// the month begins on its 15th day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    /// The bytes.
    pub bytes: ByteCount,
    /// When the count is reset.
    pub reset_day: ResetDay,
}

impl FromStr for Cap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (size, day) = text.split_once('@').map_or((text, None), |(size, day)| (size, Some(day)));
        let size = size.strip_suffix("/month").unwrap_or(size);
        let reset_day = match day {
            None => ResetDay::default(),
            Some(day) => {
                let number: u8 = day.trim().parse().map_err(|_| format!("{day:?} is no day of a month"))?;
                number.try_into()?
            }
        };
        let bytes = parse_size(size).map_err(|error| error.to_string())?;
        Ok(Self { bytes: ByteCount(bytes), reset_day })
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} a month from day {}", volume(self.bytes.get()), self.reset_day.0)
    }
}

/// A cap for an interface, or for each of many: `IF=SIZE[@DAY]`; `IF=none` lifts one of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapRule {
    /// Which interfaces.
    pub pattern: InterfacePattern,
    /// Their cap; `None` if they have none.
    pub cap: Option<Cap>,
}

impl FromStr for CapRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no cap; write it like wwan0=5GB, wwan0=5GB@15 or wwan0=none");
        let (name, cap) = text.split_once('=').ok_or_else(wrong)?;
        let pattern = name.parse().map_err(|_| wrong())?;
        let cap = match cap.trim() {
            "none" => None,
            cap => Some(cap.parse().map_err(|error| format!("{}: {error}", wrong()))?),
        };
        Ok(Self { pattern, cap })
    }
}

/// All caps of the command line and the settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapRules {
    /// One list for each source, the most important source first.
    sources: Vec<Vec<CapRule>>,
}

impl CapRules {
    /// The rules of one source, the most important first.
    pub fn new(rules: impl IntoIterator<Item = CapRule>) -> Self {
        Self { sources: vec![rules.into_iter().collect()] }
    }

    /// Adds the rules of another source, which apply to interfaces without a rule in the sources before.
    #[must_use]
    pub fn behind(mut self, rules: impl IntoIterator<Item = CapRule>) -> Self {
        self.sources.push(rules.into_iter().collect());
        self
    }

    /// The cap of an interface, from the first source with a rule for it: the first rule with its name, or else the
    /// first with a matching pattern.
    pub fn of(&self, interface: &str) -> Option<Cap> {
        let rule = self.sources.iter().find_map(|rules| {
            let mut fitting = rules.iter().filter(|rule| rule.pattern.matches(interface));
            let named = fitting.clone().find(|rule| rule.pattern.is_literal());
            named.or_else(|| fitting.next())
        });
        rule.and_then(|rule| rule.cap)
    }

    /// Whether no interface has one.
    pub fn is_empty(&self) -> bool {
        self.rules().all(|rule| rule.cap.is_none())
    }

    /// The interfaces that are named literally, not by a pattern.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.rules().filter(|rule| rule.pattern.is_literal()).map(|rule| rule.pattern.to_string())
    }

    fn rules(&self) -> impl Iterator<Item = &CapRule> {
        self.sources.iter().flatten()
    }
}

/// The value of `-I`: a rule, and perhaps a cap (`IF,cap=SIZE[@DAY]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceWish {
    /// The interface, and its use.
    pub rule: InterfaceRule,
    /// Its cap.
    pub cap: Option<Cap>,
}

impl InterfaceWish {
    /// The cap as a rule of its own.
    pub fn cap_rule(&self) -> Option<CapRule> {
        Some(CapRule { pattern: self.rule.pattern.clone(), cap: Some(self.cap?) })
    }
}

impl From<InterfaceRule> for InterfaceWish {
    fn from(rule: InterfaceRule) -> Self {
        Self { rule, cap: None }
    }
}

impl FromStr for InterfaceWish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut cap = None;
        let mut rest = Vec::new();
        for part in text.split(',') {
            match part.trim().strip_prefix("cap=") {
                Some(value) => cap = Some(value.parse::<Cap>()?),
                None => rest.push(part),
            }
        }
        let rule = rest.join(",").parse().map_err(|error| format!("{error}"))?;
        Ok(Self { rule, cap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> CapRule {
        text.parse().unwrap()
    }

    #[test]
    fn caps_are_read_as_people_write_them() {
        for (text, bytes, day) in [
            ("5GB", 5_000_000_000, 1),
            ("5 GB", 5_000_000_000, 1),
            ("1.5 GB@15", 1_500_000_000, 15),
            ("20GB/month@31", 20_000_000_000, 31),
            ("0", 0, 1),
        ] {
            let cap: Cap = text.parse().unwrap();
            assert_eq!((cap.bytes.get(), cap.reset_day.get()), (bytes, day), "{text}");
        }
        for (text, part) in [
            ("5 apples", "size"),
            ("5GB@0", "1 to 31"),
            ("5GB@32", "1 to 31"),
            ("5GB@soon", "day"),
            ("", "size"),
            ("-1", "size"),
        ] {
            let error = text.parse::<Cap>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(rule("wwan0=none").cap, None);
        for text in ["wwan0", "=5GB", "wwan0=", "a/b=5GB"] {
            assert!(text.parse::<CapRule>().unwrap_err().contains("wwan0=5GB@15"), "{text}");
        }
    }

    #[test]
    fn a_name_takes_precedence_over_a_pattern_and_the_first_over_the_second() {
        let rules = CapRules::new(["wwan*=1GB", "wwan0=2GB", "wwan0=3GB", "wwan1=none"].map(rule));
        let bytes = |name| rules.of(name).map(|cap| cap.bytes.get() / 1_000_000_000);
        assert_eq!(["wwan0", "wwan1", "wwan2", "eth0"].map(bytes), [Some(2), None, Some(1), None]);
        assert!(!rules.is_empty() && CapRules::new([rule("wwan0=none")]).is_empty());
        assert_eq!(rules.names().collect::<Vec<_>>(), ["wwan0", "wwan0", "wwan1"]);
    }

    #[test]
    fn a_pattern_of_the_first_source_takes_precedence_over_a_name_of_the_second() {
        let rules = CapRules::new(["wwan*=none", "wlan0=1GB"].map(rule))
            .behind(["wwan0=2GB", "wlan*=3GB", "eth0=4GB"].map(rule));
        let bytes = |name| rules.of(name).map(|cap| cap.bytes.get() / 1_000_000_000);
        assert_eq!(["wwan0", "wlan0", "wlan1", "eth0"].map(bytes), [None, Some(1), Some(3), Some(4)]);
        assert!(!rules.is_empty() && rules.names().eq(["wlan0", "wwan0", "eth0"]));
    }

    #[test]
    fn an_interface_may_be_named_together_with_its_cap() {
        let wish: InterfaceWish = "wwan0,role=backup,cap=20GB/month@15,cost=2".parse().unwrap();
        assert_eq!(wish.rule, "wwan0,role=backup,cost=2".parse().unwrap());
        assert_eq!(wish.cap_rule(), Some(rule("wwan0=20GB@15")));
        let plain: InterfaceWish = "eth0".parse().unwrap();
        assert_eq!((plain.rule.clone().into(), plain.cap_rule()), (plain, None));
        assert!("eth0,cap=much".parse::<InterfaceWish>().is_err());
        assert!("eth0,speed=1".parse::<InterfaceWish>().is_err());
    }
}
