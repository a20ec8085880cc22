//! The campaign that the gates judge.

use std::time::Duration;

use manyway_proto::ByteCount;

use crate::campaign::{Case, Course, Plan, Timing, Way};
use crate::contender::{Contender, NameError};
use crate::scenario::{Direction, Scenario, Traffic};

/// The judged contender.
pub(super) const SUBJECT: &str = "manyway";
/// The judged contender where messages have a deadline: they are sent over two paths, as all late data is.
pub const TWICE: &str = "manyway:scheduler=redundant=late";

/// The judged contender where links drop UDP: it takes TCP there.
pub const EITHER: &str = "manyway:carrier=auto";

/// The reference for Manyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contest {
    /// In virtual time, against its own best route.
    Simulated,
    /// On real sockets, also `possible` and multipath TCP.
    Real,
}

impl Contest {
    /// Repetitions that the gates require.
    pub const fn repetitions(self) -> u32 {
        match self {
            Self::Simulated => 20,
            Self::Real => 5,
        }
    }

    /// Whether a scenario is judged. What others take of the links is no shortfall of a contender; in virtual time no link
    /// drops UDP.
    fn judges(self, scenario: &Scenario) -> bool {
        let can_run = match self {
            Self::Simulated => !scenario.blocks_udp(),
            Self::Real => true,
        };
        can_run && scenario.cross_traffic.is_empty()
    }

    const fn contenders(self) -> &'static [&'static str] {
        match self {
            Self::Simulated => &["manyway", "manyway-best"],
            Self::Real => &["manyway", "manyway-best", "possible", "mptcp-cubic", "mptcp-bbr"],
        }
    }
}

/// Plans every scenario in the requested directions, and for each whose routes stay as they are once more with messages
/// of 100 bytes beside, in which Manyway runs alone. If its links are symmetric, once more with bulk traffic in both
/// directions at once. Where messages have a lifetime, Manyway runs with its defaults and with [`TWICE`]. Where links drop
/// UDP, [`EITHER`] runs beside what is possible, on real sockets alone. Scenarios with traffic of others are left out.
///
/// # Errors
/// Never in a tested program: the names of the contenders are wrong.
pub fn plan(scenarios: &[(Scenario, Way)], contest: Contest) -> Result<Plan, NameError> {
    let parse = |names: &[&str]| names.iter().map(|name| name.parse()).collect::<Result<Vec<Contender>, _>>();
    let (all, alone, twice) = (parse(contest.contenders())?, parse(&[SUBJECT])?, parse(&[SUBJECT, TWICE])?);
    let either = parse(&[EITHER, "possible"])?;
    let mut cases = Vec::new();
    for (scenario, way) in scenarios.iter().filter(|(scenario, _)| contest.judges(scenario)) {
        if scenario.blocks_udp() {
            cases.push(Case { scenario: scenario.clone(), way: *way, contenders: either.clone() });
            continue;
        }
        let contenders = match scenario.routes.len() {
            _ if has_deadlines(scenario) => &twice,
            0 | 1 => &alone,
            _ => &all,
        };
        cases.push(Case { scenario: scenario.clone(), way: *way, contenders: contenders.clone() });
        // A symmetric scenario reversed is the same.
        let both = Some(scenario).filter(|_| *way == Way::AsWritten).and_then(both_ways);
        for scenario in with_messages(scenario).into_iter().chain(both) {
            cases.push(Case { scenario, way: *way, contenders: alone.clone() });
        }
    }
    Ok(Plan {
        cases,
        repetitions: contest.repetitions(),
        seed: 1,
        timing: match contest {
            Contest::Simulated => Timing::Virtual,
            Contest::Real => Timing::Real,
        },
        budget: None,
        repeats_disturbed: true,
        course: Course::Dropped,
    })
}

/// The scenario with messages beside its bulk traffic; `None` if it has messages already, or no bulk traffic, or events
/// on its routes.
fn with_messages(scenario: &Scenario) -> Option<Scenario> {
    let bulk = scenario.traffic.iter().find_map(|traffic| match traffic {
        Traffic::Bulk { direction, .. } => Some(*direction),
        Traffic::Messages { .. } => None,
    })?;
    let has_messages = scenario.traffic.iter().any(|traffic| matches!(traffic, Traffic::Messages { .. }));
    if has_messages || !scenario.events.is_empty() {
        return None;
    }
    // Messages in both directions would mix two latencies.
    let direction = if bulk == Direction::Both { Direction::Up } else { bulk };
    let mut scenario = scenario.clone();
    scenario.name += "+messages";
    // No message without bulk traffic beside it.
    for traffic in &mut scenario.traffic {
        if let Traffic::Bulk { size, .. } = traffic {
            *size = None;
        }
    }
    scenario.traffic.push(Traffic::Messages { direction, size: MESSAGE, interval: INTERVAL, lifetime: None });
    Some(scenario)
}

/// The scenario with its bulk traffic in both directions at once; `None` if one direction alone would be no reference
/// for it: if links are asymmetric, if there are events, or if there is anything but unlimited bulk traffic in one
/// direction.
fn both_ways(scenario: &Scenario) -> Option<Scenario> {
    let [Traffic::Bulk { direction: Direction::Up | Direction::Down, rate: None, .. }] =
        scenario.traffic.as_slice()
    else {
        return None;
    };
    let is_alike = scenario.links.iter().all(|link| link.up == link.down);
    if !is_alike || !scenario.events.is_empty() {
        return None;
    }
    let mut scenario = scenario.clone();
    scenario.name += BOTH_WAYS;
    for traffic in &mut scenario.traffic {
        if let Traffic::Bulk { direction, size, .. } = traffic {
            (*direction, *size) = (Direction::Both, None);
        }
    }
    Some(scenario)
}

/// Whether there are messages with a lifetime.
pub(super) fn has_deadlines(scenario: &Scenario) -> bool {
    let has_lifetime = |traffic: &Traffic| matches!(traffic, Traffic::Messages { lifetime: Some(_), .. });
    scenario.traffic.iter().any(has_lifetime)
}

/// Suffix of the name of a scenario with bulk traffic in both directions at once.
pub(super) const BOTH_WAYS: &str = "+both";

const MESSAGE: ByteCount = ByteCount(100);
const INTERVAL: Duration = Duration::from_millis(10);
