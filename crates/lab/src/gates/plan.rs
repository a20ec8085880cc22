//! The campaign that the gates judge.

use std::time::Duration;

use manyway_proto::ByteCount;

use crate::campaign::{Case, Course, Plan, Timing, Way};
use crate::contender::{Contender, NameError};
use crate::scenario::{Direction, Scenario, Traffic};

/// Against whom Manyway is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contest {
    /// In virtual time, against its own best route.
    Simulated,
    /// On real sockets, also against what is possible and against multipath TCP.
    Real,
}

impl Contest {
    /// Repetitions that the gates ask for.
    pub const fn repetitions(self) -> u32 {
        match self {
            Self::Simulated => 20,
            Self::Real => 5,
        }
    }

    const fn contenders(self) -> &'static [&'static str] {
        match self {
            Self::Simulated => &["manyway", "manyway-best"],
            Self::Real => &["manyway", "manyway-best", "possible", "mptcp-cubic", "mptcp-bbr"],
        }
    }
}

/// Plans every scenario the ways asked for, and for each whose routes stay as they are once more with messages of 100
/// bytes beside, in which Manyway runs alone.
///
/// # Errors
/// Never in a program that was tested: the names of the contenders are wrong.
pub fn plan(scenarios: &[(Scenario, Way)], contest: Contest) -> Result<Plan, NameError> {
    let parse = |names: &[&str]| names.iter().map(|name| name.parse()).collect::<Result<Vec<Contender>, _>>();
    let (all, alone) = (parse(contest.contenders())?, parse(&["manyway"])?);
    let mut cases = Vec::new();
    for (scenario, way) in scenarios {
        let several = scenario.routes.len() > 1;
        let contenders = if several { all.clone() } else { alone.clone() };
        cases.push(Case { scenario: scenario.clone(), way: *way, contenders });
        if let Some(scenario) = with_messages(scenario) {
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
        course: Course::Dropped,
    })
}

/// The scenario with messages beside its bulk traffic; `None` if it has messages already, or no bulk traffic, or if
/// something happens to its routes.
fn with_messages(scenario: &Scenario) -> Option<Scenario> {
    let bulk = scenario.traffic.iter().find_map(|traffic| match traffic {
        Traffic::Bulk { direction, .. } => Some(*direction),
        Traffic::Messages { .. } => None,
    })?;
    let has_messages = scenario.traffic.iter().any(|traffic| matches!(traffic, Traffic::Messages { .. }));
    if has_messages || !scenario.events.is_empty() {
        return None;
    }
    // Messages both ways would mix two latencies.
    let direction = if bulk == Direction::Both { Direction::Up } else { bulk };
    let mut scenario = scenario.clone();
    scenario.name += "+messages";
    // No message without bulk traffic beside it.
    for traffic in &mut scenario.traffic {
        if let Traffic::Bulk { size, .. } = traffic {
            *size = None;
        }
    }
    scenario.traffic.push(Traffic::Messages { direction, size: MESSAGE, interval: INTERVAL });
    Some(scenario)
}

const MESSAGE: ByteCount = ByteCount(100);
const INTERVAL: Duration = Duration::from_millis(10);
