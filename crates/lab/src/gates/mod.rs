//! The gates: the project's limits, checked by pure functions over the results of a campaign.
//!
//! 1. Never below the best link: at least 95 % of the goodput of Manyway over the best route alone, everywhere.
//! 2. Aggregation: on routes that share no link at least 97 % of `possible`, 95 % where packets are lost (97 % in the
//!    group `fades`, wherever more than 80 % of the links is possible), 95 % where a link drops UDP; and everywhere at
//!    least the result of every multipath TCP of the same campaign. In both directions at once, each reaches 90 % of one
//!    direction alone.
//! 3. Failover: when a route dies silently, at most max(100 ms, 2 PTO) without a byte, and the survivors fully used 0.5
//!    s later; when it returns, used again and all fully used at most 2 s later. While addresses of an interface
//!    change, which its host knows, at most the former. Where UDP is blocked, set-up and silence take at most 1 s.
//! 4. Latency: 99 % of the messages beside bulk traffic within the round-trip time of the fastest route and 10 ms. Of
//!    messages with a deadline that go twice 99.9 % within one and a half times the fastest way there and 10 ms, for at
//!    most 110 % more bytes.
//!
//! On real sockets a median that misses its goal passes if the quartiles of both sides overlap, since the machine may
//! be the cause; in virtual time, without disturbance, the median decides.
//!
//! The fifth (cost in processor time) and the sixth (idle connections) are not judged here; [`NOT_JUDGED`] says so.

mod judgement;
mod plan;
mod report;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use judgement::{Judgement, at_least, at_most};
pub use plan::{Contest, EITHER, TWICE, plan};
pub use report::{json, text};

use crate::campaign::{Case, Results, Run, Timing};
use crate::measures::{self, Fault, Measures, Spread};
use crate::scenario::{Change, Direction, Route, Scenario, Traffic};
use plan::{BOTH_WAYS, SUBJECT, has_deadlines};

/// The group of scenarios in which losses come in bursts and rates wander.
const FADES: &str = "fades";

/// The remark about gates that a campaign does not judge.
pub const NOT_JUDGED: &str = "not judged here: fifty flaps without a leak (the test \
fifty_flaps_leave_nothing_behind of the simulator), fairness (`manyway-lab share --within 0.7..1.4`), and gates 5 and 6: \
processor time (`manyway-lab cpu`) and idle connections (`xtask scale`)";

/// Which gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Never below the best link.
    BestLink,
    /// Aggregation.
    Aggregation,
    /// Failover.
    Failover,
    /// Latency.
    Latency,
}

impl Gate {
    /// All that are judged, in order.
    pub const ALL: [Self; 4] = [Self::BestLink, Self::Aggregation, Self::Failover, Self::Latency];

    /// Its number in the project's list.
    pub const fn number(self) -> u8 {
        match self {
            Self::BestLink => 1,
            Self::Aggregation => 2,
            Self::Failover => 3,
            Self::Latency => 4,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BestLink => "never below the best link",
            Self::Aggregation => "aggregation",
            Self::Failover => "failover",
            Self::Latency => "latency",
        }
    }
}

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The gate.
    pub gate: Gate,
    /// The label of the case.
    pub case: String,
    /// What is compared, such as `0.95 × manyway-best`.
    pub goal: String,
    /// The unit of the numbers.
    pub unit: Unit,
    /// Manyway's result.
    pub reached: Spread,
    /// The limit for the median.
    pub limit: f64,
    /// The outcome.
    pub judgement: Judgement,
}

/// The unit of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Mbit/s; more is better.
    Megabits,
    /// Seconds; less is better.
    Seconds,
    /// 10⁶ bytes; less is better.
    Megabytes,
    /// Runs; less is better.
    Runs,
}

/// A comparison of a gate that could not be made, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unjudged {
    /// The gate.
    pub gate: Gate,
    /// The label of the case.
    pub case: String,
    /// Why.
    pub reason: String,
}

/// All comparisons of a campaign.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verdicts {
    /// The comparisons, in the order of gates and cases.
    pub judged: Vec<Verdict>,
    /// Those that could not be made.
    pub unjudged: Vec<Unjudged>,
}

impl Verdicts {
    /// Whether every comparison that could be made has passed, and at least one was made.
    pub fn have_passed(&self) -> bool {
        !self.judged.is_empty() && self.judged.iter().all(|verdict| verdict.judgement.has_passed())
    }
}

/// Judges a campaign by all gates.
pub fn judge(results: &Results) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for gate in Gate::ALL {
        for (place, case) in results.plan.cases.iter().enumerate() {
            let name = if case.scenario.blocks_udp() { EITHER } else { SUBJECT };
            let Some(subject) = results.place(place, name) else { continue };
            let mut bench = Bench { results, place, case, subject, gate, verdicts: &mut verdicts };
            if results.of(place, subject).next().is_none() {
                bench.cannot(&format!("{name} did not run"));
                continue;
            }
            match gate {
                Gate::BestLink => bench.best_link(),
                Gate::Aggregation => bench.aggregation(),
                Gate::Failover => bench.failover(),
                Gate::Latency => bench.latency(),
            }
        }
    }
    verdicts
}

/// One case for one gate.
struct Bench<'a> {
    results: &'a Results,
    place: usize,
    case: &'a Case,
    subject: usize,
    gate: Gate,
    verdicts: &'a mut Verdicts,
}

impl Bench<'_> {
    fn best_link(&mut self) {
        let single = self.results.place(self.place, SINGLE);
        let ours = [Some(self.subject), single].into_iter().flatten();
        let broken =
            ours.flat_map(|who| self.results.of(self.place, who)).filter(|run| run.failure.is_some());
        let broken = broken.map(|_| 1.0).sum::<f64>();
        if broken > 0.0
            && let Some(reached) = Spread::of([broken])
        {
            self.at_most("no run breaks down", Unit::Runs, reached, 0.0);
        }
        if single.is_some() {
            self.against(SINGLE, 0.95);
        }
    }

    fn aggregation(&mut self) {
        let scenario = &self.case.scenario;
        let names: Vec<String> = self.case.contenders.iter().map(ToString::to_string).collect();
        let is_steady =
            self.runs().all(|run| run.measures.recoveries.is_empty()) && !is_readdressed(scenario);
        let is_steady = is_steady && !scenario.blocks_udp_later();
        if names.iter().any(|name| name == "possible") && is_steady && is_disjoint(scenario) {
            match self.carried_of_links() {
                _ if scenario.blocks_udp() => self.against("possible", OVER_TCP),
                // Where fades take more than a fifth, chance decides.
                Some(share) if scenario.group == FADES && share <= 0.8 => {}
                Some(_) | None if scenario.group == FADES => self.against("possible", 0.97),
                Some(_) | None => self.against("possible", if scenario.has_loss() { 0.95 } else { 0.97 }),
            }
        }
        if let Some(one_way) = scenario.name.strip_suffix(BOTH_WAYS) {
            self.both_ways(one_way);
        }
        for name in names.iter().filter(|name| name.starts_with("mptcp-")) {
            self.against(name, 1.0);
        }
    }

    /// The share of the rates of the links that `possible` carried.
    fn carried_of_links(&self) -> Option<f64> {
        let possible = self.results.goodput(self.place, "possible")?;
        let sum = self.case.scenario.sum(Direction::Up).bits_per_second();
        Some(possible.median * 1e6 / measures::count(sum.max(1)))
    }

    /// Compares the slower of two simultaneous directions with one direction alone, another case of the campaign.
    fn both_ways(&mut self, one_way: &str) {
        let is_it = |case: &Case| case.scenario.name == one_way && case.way == self.case.way;
        let place = self.results.plan.cases.iter().position(is_it);
        let alone = place.and_then(|place| self.results.goodput(place, SUBJECT));
        let (Some(reached), Some(alone)) =
            (self.spread(|measures| Some(measures::megabits(measures.slowest))), alone)
        else {
            return self.cannot("one way alone did not run");
        };
        let judgement = at_least(reached, EACH_WAY, alone);
        let goal = format!("each way {EACH_WAY} × one way alone");
        self.note(goal, Unit::Megabits, (reached, alone.median * EACH_WAY), judgement);
    }

    fn failover(&mut self) {
        let scenario = &self.case.scenario;
        if scenario.blocks_udp() {
            return self.blocked_udp();
        }
        let deaths = self.runs().flat_map(|run| {
            run.measures.recoveries.iter().filter(|one| one.fault == Fault::Died && one.working > 0)
        });
        let limit = deaths.map(|death| silence_limit(scenario, &death.routes)).max();
        if let Some(limit) = limit {
            let worst = |measures: &Measures| -> Option<f64> {
                let survived = measures.recoveries.iter().filter(|one| one.working > 0);
                survived.map(|one| one.silence.as_secs_f64()).reduce(f64::max)
            };
            if let Some(reached) = self.spread(worst) {
                self.at_most(
                    "longest stall when a route dies or returns",
                    Unit::Seconds,
                    reached,
                    limit.as_secs_f64(),
                );
            }
        }
        if is_readdressed(scenario) {
            self.readdressing(limit.is_some());
        }
        for (fault, goal, limit) in [
            (Fault::Died, "survivors are full again when a route dies", SURVIVORS_FULL),
            (Fault::Returned, "all are full again when a route returns", RETURNED_FULL),
        ] {
            if let Some(reached) = self.spread(|measures| measures.recovery_from(fault)) {
                self.at_most(goal, Unit::Seconds, reached, limit.as_secs_f64());
            }
        }
        if let Some(reached) = self.spread(Measures::used_again) {
            self.at_most("a route is used again", Unit::Seconds, reached, USED_AGAIN.as_secs_f64());
        }
        if let Some(reached) = self.spread(Measures::restored) {
            let goal = "a route that returned carries 90 % of its rate";
            self.at_most(goal, Unit::Seconds, reached, RETURNED_FULL.as_secs_f64());
        }
        let (untold, returns) = self
            .runs()
            .map(|run| run.measures.untold_returns())
            .fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
        if untold > 0 {
            self.cannot(&format!(
                "too short to see whether a route that returned is used again: {untold} of {returns} returns"
            ));
        }
    }

    /// Set-up by TCP where UDP is blocked from the start, and the silence where it is blocked later.
    fn blocked_udp(&mut self) {
        if self.case.scenario.has_no_udp()
            && let Some(reached) = self.spread(Measures::set_up_seconds)
        {
            self.at_most("set-up without UDP", Unit::Seconds, reached, UDP_GIVEN_UP.as_secs_f64());
        }
        if self.case.scenario.blocks_udp_later()
            && let Some(reached) = self.spread(|measures| Some(measures.silence.as_secs_f64()))
        {
            let goal = "longest stall when UDP is blocked";
            self.at_most(goal, Unit::Seconds, reached, UDP_GIVEN_UP.as_secs_f64());
        }
    }

    /// Silence caused by changes of addresses; cannot be distinguished if routes died as well.
    fn readdressing(&mut self, has_deaths: bool) {
        if has_deaths {
            return self
                .cannot("routes died as well: what the change of addresses did can not be told apart");
        }
        let all: Vec<usize> = (0..self.case.scenario.routes.len()).collect();
        let limit = silence_limit(&self.case.scenario, &all).as_secs_f64();
        if let Some(reached) = self.spread(|measures| Some(measures.silence.as_secs_f64())) {
            self.at_most("longest stall while addresses change", Unit::Seconds, reached, limit);
        }
    }

    fn latency(&mut self) {
        let scenario = &self.case.scenario;
        if has_deadlines(scenario) {
            return self.deadlines();
        }
        let has_bulk = scenario.traffic.iter().any(|traffic| matches!(traffic, Traffic::Bulk { .. }));
        let p99 = |measures: &Measures| {
            let messages = measures.messages?;
            Some(messages.p99.map_or(f64::INFINITY, |time| time.as_secs_f64()))
        };
        if let Some(reached) = self.spread(p99).filter(|_| has_bulk) {
            let fastest = scenario.routes.iter().map(|route| round_trip(scenario, route)).min();
            let limit = fastest.unwrap_or_default() + BESIDE;
            self.at_most("99 % of messages within", Unit::Seconds, reached, limit.as_secs_f64());
        }
    }

    /// Messages with a deadline that are sent twice.
    fn deadlines(&mut self) {
        let Some(twice) = self.results.place(self.place, TWICE) else {
            return self.cannot(&format!("{TWICE} did not run"));
        };
        let spread = |who: usize, figure: &dyn Fn(&Measures) -> Option<f64>| {
            self.results.spread(self.place, who, figure)
        };
        let p999 = |measures: &Measures| {
            Some(measures.messages?.p999.map_or(f64::INFINITY, |time| time.as_secs_f64()))
        };
        let carried = |measures: &Measures| {
            Some(measures::count(measures.routes.iter().map(|bytes| bytes.get()).sum()) / 1e6)
        };
        let (latest, more) = (spread(twice, &p999), spread(twice, &carried));
        let (Some(latest), Some(more), Some(once)) = (latest, more, spread(self.subject, &carried)) else {
            return self.cannot(&format!("{TWICE} did not run"));
        };
        let scenario = &self.case.scenario;
        let fastest = scenario.routes.iter().map(|route| one_way(scenario, route)).min().unwrap_or_default();
        let limit = (fastest * 3 / 2 + BESIDE).as_secs_f64();
        self.at_most("99.9 % of messages that go twice within", Unit::Seconds, latest, limit);
        self.at_most("bytes of messages that go twice", Unit::Megabytes, more, once.median * TWO_COPIES);
    }

    /// Compares the goodput with that of another contender. A failed contender is no reference.
    fn against(&mut self, name: &str, factor: f64) {
        let reached = self.spread(|measures| Some(measures.megabits()));
        let other = self.results.place(self.place, name);
        let runs: Vec<&Run> =
            other.map(|other| self.results.of(self.place, other).collect()).unwrap_or_default();
        let sound = runs.iter().filter(|run| run.failure.is_none());
        let reference = Spread::of(sound.map(|run| run.measures.megabits()));
        let (Some(reached), Some(reference)) = (reached, reference) else {
            let what = if runs.is_empty() { "did not run" } else { "broke down in every run" };
            return self.cannot(&format!("{name} {what}"));
        };
        let judgement = at_least(reached, factor, reference);
        let goal = format!("{factor} × {name}");
        self.note(goal, Unit::Megabits, (reached, reference.median * factor), judgement);
    }

    fn at_most(&mut self, goal: &str, unit: Unit, reached: Spread, limit: f64) {
        self.note(goal.to_owned(), unit, (reached, limit), at_most(reached, limit));
    }

    fn note(&mut self, goal: String, unit: Unit, (reached, limit): (Spread, f64), judgement: Judgement) {
        let judgement = match self.results.plan.timing {
            Timing::Real => judgement,
            Timing::Virtual => judgement.by_the_median(),
        };
        let verdict =
            Verdict { gate: self.gate, case: self.case.label(), goal, unit, reached, limit, judgement };
        self.verdicts.judged.push(verdict);
    }

    fn cannot(&mut self, reason: &str) {
        let unjudged = Unjudged { gate: self.gate, case: self.case.label(), reason: reason.to_owned() };
        self.verdicts.unjudged.push(unjudged);
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.results.of(self.place, self.subject)
    }

    fn spread(&self, figure: impl Fn(&Measures) -> Option<f64>) -> Option<Spread> {
        self.results.spread(self.place, self.subject, figure)
    }
}

/// Longest accepted silence when routes die: two PTOs of the slowest of them, which is its round-trip time by its
/// numbers, without queues, and the delay of an acknowledgement.
fn silence_limit(scenario: &Scenario, routes: &[usize]) -> Duration {
    let slowest = routes.iter().filter_map(|place| scenario.routes.get(*place));
    let slowest = slowest.map(|route| round_trip(scenario, route)).max().unwrap_or_default();
    ((slowest + ACK_DELAY) * 2).max(SILENCE)
}

/// Whether an interface gets another address during the run.
fn is_readdressed(scenario: &Scenario) -> bool {
    scenario.events.iter().any(|event| matches!(event.change, Change::Readdress { .. }))
}

/// The round-trip time of a route by its numbers, without queues.
fn round_trip(scenario: &Scenario, route: &Route) -> Duration {
    let links = route.links.iter().filter_map(|link| scenario.links.get(*link));
    links.map(|link| link.up.delay.base + link.down.delay.base).sum()
}

/// The one-way delay of messages over a route by its numbers, without queues, of the slower direction if they go both.
fn one_way(scenario: &Scenario, route: &Route) -> Duration {
    let links = || route.links.iter().filter_map(|link| scenario.links.get(*link));
    let up: Duration = links().map(|link| link.up.delay.base).sum();
    let down = links().map(|link| link.down.delay.base).sum();
    let goes =
        |way| scenario.traffic.iter().any(|traffic| [way, Direction::Both].contains(&traffic.direction()));
    match (goes(Direction::Up), goes(Direction::Down)) {
        (true, false) => up,
        (false, true) => down,
        (true, true) | (false, false) => up.max(down),
    }
}

/// Whether no link belongs to two routes.
fn is_disjoint(scenario: &Scenario) -> bool {
    (0..scenario.links.len())
        .all(|link| scenario.routes.iter().filter(|route| route.links.contains(&link)).count() <= 1)
}

/// The judged contender over the best route alone.
const SINGLE: &str = "manyway-best";
/// Lower bound of the limit for a silence.
const SILENCE: Duration = Duration::from_millis(100);
/// Delay of an acknowledgement.
const ACK_DELAY: Duration = Duration::from_millis(25);
/// Time limit for using a route that returned.
const USED_AGAIN: Duration = Duration::from_secs(2);
/// Time limit for fully using the survivors of a silent death.
const SURVIVORS_FULL: Duration = Duration::from_millis(500);
/// Time limit for fully using all routes after a return, and the returned route by itself.
const RETURNED_FULL: Duration = Duration::from_secs(2);
/// Time limit for going on by TCP without UDP, at the start and later.
const UDP_GIVEN_UP: Duration = Duration::from_secs(1);
/// Least share of what is possible where a path goes over TCP.
const OVER_TCP: f64 = 0.95;
/// Least share of one direction alone that each of two simultaneous directions reaches.
const EACH_WAY: f64 = 0.9;
/// Most bytes of messages that are sent twice, relative to those sent once.
const TWO_COPIES: f64 = 2.1;
/// Latency that bulk traffic may add to messages, and that may come to the delay of those sent twice.
const BESIDE: Duration = Duration::from_millis(10);
