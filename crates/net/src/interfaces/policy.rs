//! The user's settings for the interfaces.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use manyway_proto::Role;
use manyway_proto::scheduler::PathTerms;

use crate::ledger::Allowance;

/// The name of an interface, or of many: `*` stands for any characters, as in `wlan*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InterfacePattern(String);

impl InterfacePattern {
    /// Whether the pattern matches the interface of that name.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|head| name.strip_prefix(head)) else { return false };
        let Some(tail) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some((_, after)) = rest.split_once(part) else { return false };
            rest = after;
        }
        rest.ends_with(tail)
    }

    /// Whether it names one interface only.
    pub fn is_literal(&self) -> bool {
        !self.0.contains('*')
    }
}

impl fmt::Display for InterfacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for InterfacePattern {
    type Err = InterfaceRuleError;

    fn from_str(text: &str) -> Result<Self, InterfaceRuleError> {
        // Linux allows 15 bytes, Windows long descriptions; spaces, commas and slashes would be typing mistakes.
        let text = text.trim();
        if text.is_empty() || text.len() > 255 || text.contains(['/', ',', '=']) {
            return Err(InterfaceRuleError::Name { name: text.chars().take(80).collect() });
        }
        Ok(Self(text.into()))
    }
}

/// A rule for interfaces, written as `IF`, `IF,role=primary|secondary|backup|never`, `IF,cost=N` or `IF,weight=N`, or
/// with several of these.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceRule {
    /// The interfaces.
    pub pattern: InterfacePattern,
    /// Their role.
    pub role: Role,
    /// Cost class: 0 is free, the default; a higher one costs more. The schedulers `cost` and `primary` avoid higher
    /// cost.
    pub cost: u8,
    /// Its share of what is sent with the scheduler `weighted=fixed`, from 1, the default, to 1000; other values are
    /// clamped.
    pub weight: u32,
}

impl InterfaceRule {
    /// A rule with cost 0 and weight 1.
    pub fn new(pattern: InterfacePattern, role: Role) -> Self {
        Self { pattern, role, cost: 0, weight: 1 }
    }
}

impl FromStr for InterfaceRule {
    type Err = InterfaceRuleError;

    fn from_str(text: &str) -> Result<Self, InterfaceRuleError> {
        let mut parts = text.split(',');
        let pattern = parts.next().unwrap_or_default().parse()?;
        let mut rule = Self::new(pattern, Role::default());
        for part in parts {
            match part.split_once('=') {
                Some(("role", value)) => rule.role = parse_role(value.trim())?,
                Some(("cost", value)) => {
                    let wrong = |_| InterfaceRuleError::Cost { cost: value.into() };
                    rule.cost = value.trim().parse().map_err(wrong)?;
                }
                Some(("weight", value)) => rule.weight = parse_weight(value)?,
                Some((key, _)) => return Err(InterfaceRuleError::Key { key: key.into() }),
                None => return Err(InterfaceRuleError::Key { key: part.into() }),
            }
        }
        Ok(rule)
    }
}

fn parse_role(text: &str) -> Result<Role, InterfaceRuleError> {
    match text {
        "primary" => Ok(Role::Primary),
        "secondary" => Ok(Role::Secondary),
        "backup" => Ok(Role::Backup),
        "never" => Ok(Role::Never),
        _ => Err(InterfaceRuleError::Role { role: text.into() }),
    }
}

fn parse_weight(text: &str) -> Result<u32, InterfaceRuleError> {
    let weight = text.trim().parse().ok().filter(|weight| PathTerms::WEIGHTS.contains(weight));
    weight.ok_or_else(|| InterfaceRuleError::Weight { weight: text.into() })
}

/// Which interfaces may be used, and in which role. The default allows all that lead to the peer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfacePolicy {
    rules: Vec<InterfaceRule>,
    excluded: Vec<InterfacePattern>,
    own_tunnels: Vec<String>,
    family: Option<AddressFamily>,
    exhausted: BTreeMap<String, Allowance>,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl InterfacePolicy {
    /// Allows all interfaces that lead to the peer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule. The first rule that matches an interface counts. As soon as one rule allows an interface, those
    /// without a rule are excluded; rules with [`Role::Never`] alone leave the others in.
    #[must_use]
    pub fn with(mut self, rule: InterfaceRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Excludes interfaces, even if a rule names them.
    #[must_use]
    pub fn without(mut self, pattern: InterfacePattern) -> Self {
        self.excluded.push(pattern);
        self
    }

    /// Excludes a tunnel that this program itself carries: its packets would loop. A server does not advertise its
    /// addresses.
    #[must_use]
    pub fn without_own_tunnel(mut self, name: impl Into<String>) -> Self {
        self.own_tunnels.push(name.into());
        self
    }

    /// Excludes these interfaces, whose quota is used up, and no longer those of the call before. An endpoint with a
    /// [`Ledger`](crate::Ledger) does this by itself.
    pub fn set_exhausted(&mut self, exhausted: BTreeMap<String, Allowance>) {
        self.exhausted = exhausted;
    }

    /// Uses addresses of this family only, at both ends.
    #[must_use]
    pub fn only(mut self, family: AddressFamily) -> Self {
        self.family = Some(family);
        self
    }

    /// Whether addresses of that family may be used, at either end.
    pub fn allows(&self, address: IpAddr) -> bool {
        match self.family {
            Some(AddressFamily::V4) => address.to_canonical().is_ipv4(),
            Some(AddressFamily::V6) => address.to_canonical().is_ipv6(),
            None => true,
        }
    }

    /// The cost class of the interface of that name.
    pub(crate) fn cost(&self, name: &str) -> u8 {
        self.rule(name).map_or(0, |rule| rule.cost)
    }

    /// The weight of the interface of that name.
    pub(crate) fn weight(&self, name: &str) -> u32 {
        self.rule(name).map_or(1, |rule| rule.weight)
    }

    /// The first rule for that name, which counts.
    fn rule(&self, name: &str) -> Option<&InterfaceRule> {
        self.rules.iter().find(|rule| rule.pattern.matches(name))
    }

    /// Whether that interface is a tunnel of this program.
    pub(crate) fn is_own_tunnel(&self, name: &str) -> bool {
        self.own_tunnels.iter().any(|own| own == name)
    }

    pub(super) fn verdict(&self, name: &str) -> Verdict {
        if self.is_own_tunnel(name) {
            return Verdict::OwnTunnel;
        }
        if self.excluded.iter().any(|pattern| pattern.matches(name)) {
            return Verdict::Excluded;
        }
        let verdict = match self.rule(name) {
            Some(rule) => match rule.role {
                Role::Never => Verdict::Excluded,
                role @ (Role::Primary | Role::Secondary | Role::Backup) => Verdict::Named(role),
            },
            None if self.names_any() => Verdict::NotNamed,
            None => Verdict::Open,
        };
        let exhausted = self.exhausted.get(name).filter(|_| verdict.allows_use());
        exhausted.map_or(verdict, |allowance| Verdict::CapReached(*allowance))
    }

    /// The patterns that select an interface.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &InterfacePattern> {
        self.rules.iter().filter(|rule| rule.role != Role::Never).map(|rule| &rule.pattern)
    }

    /// All patterns of the policy.
    pub(super) fn named(&self) -> impl Iterator<Item = &InterfacePattern> {
        self.rules.iter().map(|rule| &rule.pattern).chain(&self.excluded)
    }

    fn names_any(&self) -> bool {
        self.wanted().next().is_some()
    }
}

/// The decision of the policy for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Selected by name.
    Named(Role),
    /// Neither selected nor excluded.
    Open,
    /// Others were selected.
    NotNamed,
    /// Excluded.
    Excluded,
    /// Carried by this program.
    OwnTunnel,
    /// Its quota is used up.
    CapReached(Allowance),
}

impl Verdict {
    fn allows_use(self) -> bool {
        matches!(self, Self::Named(_) | Self::Open)
    }
}

/// Why a text is no [`InterfaceRule`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterfaceRuleError {
    /// Not a valid interface name.
    Name {
        /// Its first 80 characters.
        name: String,
    },
    /// Unknown role.
    Role {
        /// The text.
        role: String,
    },
    /// Not a cost class.
    Cost {
        /// The text.
        cost: String,
    },
    /// Not a weight.
    Weight {
        /// The text.
        weight: String,
    },
    /// Unknown key.
    Key {
        /// The text.
        key: String,
    },
}

impl fmt::Display for InterfaceRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name } => {
                write!(f, "{name:?} is not the name of an interface; `manyway paths` lists them")
            }
            Self::Role { role } => {
                write!(f, "there is no role {role:?}; use primary, secondary, backup or never")
            }
            Self::Cost { cost } => {
                write!(f, "{cost:?} is not a cost; use a number from 0, which is free, to 255")
            }
            Self::Weight { weight } => {
                let (least, most) = PathTerms::WEIGHTS.into_inner();
                write!(f, "{weight:?} is not a weight; use a number from {least} to {most}")
            }
            Self::Key { key } => {
                write!(
                    f,
                    "{key:?} cannot be set for an interface; write IF, IF,role=ROLE, IF,cost=N or IF,weight=N"
                )
            }
        }
    }
}

impl std::error::Error for InterfaceRuleError {}

#[cfg(test)]
mod tests {
    use manyway_proto::ByteCount;

    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        let matches = |pattern: &str, name| pattern.parse::<InterfacePattern>().unwrap().matches(name);
        for (pattern, name) in [
            ("eth0", "eth0"),
            ("eth*", "eth0"),
            ("*", "x"),
            ("e*0", "eth0"),
            ("e*h*", "eth0"),
            ("*0", "wlan0"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("eth0", "eth01"), ("eth", "eth0"), ("e*1", "eth0"), ("eth0*0", "eth0")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_name_matches_itself_and_with_any_part_replaced_by_a_star(
            name in "[a-z0-9]{2,12}",
            (from, to) in (0_usize..12, 0_usize..12),
        ) {
            let (from, to) = (from.min(name.len()), to.min(name.len()));
            let (from, to) = (from.min(to), from.max(to));
            let starred = format!("{}*{}", &name[..from], &name[to..]);
            for text in [&name, &starred] {
                let pattern: InterfacePattern = text.parse().unwrap();
                proptest::prop_assert!(pattern.matches(&name), "{} {}", pattern, name);
                proptest::prop_assert_eq!(pattern.to_string().parse(), Ok(pattern));
            }
        }

        #[test]
        fn no_text_makes_the_rule_parser_panic(text in "\\PC*", rule in "[a-z*,=/ ]{0,40}", name in "[a-z*]{0,9}") {
            for text in [text, rule] {
                drop(text.parse::<InterfaceRule>());
                if let Ok(pattern) = text.parse::<InterfacePattern>() {
                    pattern.matches(&name);
                }
            }
        }
    }

    #[test]
    fn rules_are_read_and_mistakes_named() {
        let rule: InterfaceRule = "wwan0,role=backup".parse().unwrap();
        assert_eq!((rule.pattern.to_string().as_str(), rule.role), ("wwan0", Role::Backup));
        assert_eq!("eth0".parse::<InterfaceRule>().unwrap().role, Role::Primary);
        let error = |text: &str| text.parse::<InterfaceRule>().unwrap_err();
        assert_eq!(error("eth0,role=first"), InterfaceRuleError::Role { role: "first".into() });
        assert_eq!("wwan0,role=backup,cost=2".parse::<InterfaceRule>().unwrap().cost, 2);
        assert_eq!(error("eth0,cost=much"), InterfaceRuleError::Cost { cost: "much".into() });
        let weight = |text: &str| text.parse::<InterfaceRule>().map(|rule| rule.weight);
        for (text, read) in [("eth0", 1), ("eth0,weight=1", 1), ("eth0,cost=2,weight=1000", 1000)] {
            assert_eq!(weight(text), Ok(read), "{text}");
        }
        for wrong in ["0", "1001", "-1", "1.5", "much", ""] {
            assert_eq!(
                weight(&format!("eth0,weight={wrong}")),
                Err(InterfaceRuleError::Weight { weight: wrong.into() })
            );
        }
        assert!(error("eth0,weight=0").to_string().contains("from 1 to 1000"));
        assert_eq!(error("eth0,speed=1"), InterfaceRuleError::Key { key: "speed".into() });
        assert_eq!(error("eth0,backup"), InterfaceRuleError::Key { key: "backup".into() });
        assert_eq!(error(",role=backup"), InterfaceRuleError::Name { name: String::new() });
        assert_eq!(error("a/b"), InterfaceRuleError::Name { name: "a/b".into() });
    }

    #[test]
    fn naming_one_leaves_the_others_out() {
        let all = InterfacePolicy::new();
        assert_eq!(all.verdict("eth0"), Verdict::Open);
        let some = all.clone().with("wlan*,role=secondary".parse().unwrap());
        assert_eq!(some.verdict("wlan1"), Verdict::Named(Role::Secondary));
        assert_eq!(some.verdict("eth0"), Verdict::NotNamed);
        let never = all.clone().with("wlan0,role=never".parse().unwrap());
        assert_eq!(never.verdict("wlan0"), Verdict::Excluded);
        assert_eq!(never.verdict("eth0"), Verdict::Open);
        let costly = all.clone().with("wwan*,cost=3,weight=5".parse().unwrap());
        assert_eq!((costly.cost("wwan0"), costly.cost("eth0")), (3, 0));
        assert_eq!((costly.weight("wwan0"), costly.weight("eth0")), (5, 1));
        let allowance = Allowance { cap: ByteCount(5_000_000_000), left: ByteCount::ZERO, renewal: None };
        let mut exhausted = never;
        exhausted.set_exhausted(["eth0", "wlan0"].map(|name| (name.to_owned(), allowance)).into());
        assert_eq!(
            (exhausted.verdict("eth0"), exhausted.verdict("wlan0"), exhausted.verdict("eth1")),
            (Verdict::CapReached(allowance), Verdict::Excluded, Verdict::Open)
        );
        let mixed = some.without("wlan1".parse().unwrap());
        assert_eq!(mixed.verdict("wlan1"), Verdict::Excluded);
        assert_eq!(all.without_own_tunnel("mw0").verdict("mw0"), Verdict::OwnTunnel);
    }
}
