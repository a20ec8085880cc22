//! Events of routes, and the reaction of the traffic.

use std::time::Duration;

use manyway_proto::Rate;

use super::flows::{Counted, counted};
use crate::outcome::{Arrivals, Outcome, RouteTotals};
use crate::scenario::{Change, Direction, Scenario, Side, Traffic, Working};

/// An event of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// They died silently.
    Died,
    /// Their interface went down, which the host knows.
    WentDown,
    /// They work again.
    Returned,
}

impl Fault {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Died => "died",
            Self::WentDown => "went-down",
            Self::Returned => "returned",
        }
    }
}

/// The reaction of the traffic to an event of routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Time of the event, from the start of the traffic.
    pub at: Duration,
    /// The event.
    pub fault: Fault,
    /// The routes, by their indices in the scenario.
    pub routes: Vec<usize>,
    /// How many routes worked afterwards.
    pub working: usize,
    /// Whether there is traffic that fills its routes. Otherwise nothing can be said about their use.
    pub is_filled: bool,
    /// Time until the next fault, or the end.
    pub watched: Duration,
    /// Time until the next event of one of these routes, or the end.
    pub stayed: Duration,
    /// The longest time without a byte at the receiver that overlaps the watched time.
    pub silence: Duration,
    /// After a return: until every returned route carried a tenth of its rate over 100 ms; `None` if that did not
    /// happen before one of them was lost again.
    pub used: Option<Duration>,
    /// After a return: until the start of a half second in which every returned route carried 90 % of its rate; `None`
    /// if that did not happen before one of them was lost again.
    pub restored: Option<Duration>,
    /// Until the start of a half second in which the goodput was 85 % of the capacity of the working routes by their
    /// numbers (so 90 % of it after headers); `None` if never.
    pub full: Option<Duration>,
}

impl Recovery {
    /// Least watched time for a judgement.
    pub(super) const LEAST: Duration = Duration::from_secs(2);

    /// Whether there was a route to go on with, and time to see it.
    pub fn is_judged(&self) -> bool {
        self.is_filled && self.working > 0 && self.watched >= Self::LEAST
    }

    /// For a return: whether it can be said when the routes were used again. One that was lost again soon counts only
    /// if it had been used.
    pub fn tells_use(&self) -> bool {
        self.used.is_some() || self.stayed >= Self::LEAST
    }
}

/// All events of routes, in order, worst of all flows. Empty if there were none.
pub fn recoveries(scenario: &Scenario, outcome: &Outcome) -> Vec<Recovery> {
    let turns = turns(scenario);
    let ends = turns.iter().skip(1).map(|turn| turn.at).chain([scenario.duration]);
    let flows = counted(scenario, outcome);
    let fills = |traffic: &Traffic| matches!(traffic, Traffic::Bulk { rate: None, .. });
    let is_filled = scenario.traffic.iter().any(fills);
    let judge = |(place, turn): (usize, &Turn), end: Duration| {
        let watched = end.saturating_sub(turn.at);
        let is_next = |later: &&Turn| later.changed.iter().any(|route| turn.changed.contains(route));
        let next = turns.iter().skip(place + 1).find(is_next);
        let stayed = next.map_or(scenario.duration, |next| next.at).saturating_sub(turn.at);
        let seen = |time: Option<Duration>, within: Duration| time.filter(|time| *time <= within);
        let worst =
            |times: Vec<Option<Duration>>| times.into_iter().collect::<Option<Vec<_>>>()?.into_iter().max();
        let silence = flows.iter().map(|one| silence_within(scenario, one, turn.at, end)).max();
        let full = flows.iter().map(|Counted { flow, .. }| {
            let works = |route: usize| turn.up.get(route).is_some_and(|up| *up);
            let most = scenario.sum_of(towards(flow.receiver), works).scaled(85, 100);
            let end = seen(flow.arrivals.reaches(turn.at, most, HALF_SECOND), watched);
            end.map(|end| end.saturating_sub(HALF_SECOND))
        });
        let carried = |share: (u64, u64), over: Duration| {
            let of_route = |route: &usize| {
                let (route, totals) = (*route, outcome.routes.get(*route));
                let carries = move |receiver| {
                    carries(totals?, receiver, share_of(scenario, route, receiver, share), turn.at, over)
                };
                flows.iter().map(move |one| seen(carries(one.flow.receiver), stayed)).collect::<Vec<_>>()
            };
            let times = turn.changed.iter().flat_map(of_route).collect();
            worst(times).filter(|_| turn.fault == Fault::Returned)
        };
        Recovery {
            at: turn.at,
            fault: turn.fault,
            routes: turn.changed.clone(),
            working: turn.up.iter().filter(|up| **up).count(),
            is_filled,
            watched,
            stayed,
            silence: silence.unwrap_or_default(),
            used: carried((1, 10), TENTH_SECOND),
            restored: carried((9, 10), HALF_SECOND).map(|end| end.saturating_sub(HALF_SECOND)),
            full: worst(full.collect()),
        }
    };
    turns.iter().enumerate().zip(ends).map(|(turn, end)| judge(turn, end)).collect()
}

/// A time at which the set of working routes changes.
struct Turn {
    at: Duration,
    fault: Fault,
    changed: Vec<usize>,
    up: Vec<bool>,
}

fn turns(scenario: &Scenario) -> Vec<Turn> {
    let mut working = Working::at_start(scenario);
    let routes = |working: &Working| scenario.routes.iter().map(|route| working.has(route)).collect();
    let mut before: Vec<bool> = routes(&working);
    let mut turns = Vec::new();
    for moment in scenario.events.chunk_by(|one, next| one.at == next.at) {
        moment.iter().for_each(|event| working.apply(&event.change));
        let up = routes(&working);
        let changed = |to: bool| -> Vec<usize> {
            let pairs = before.iter().zip(&up).enumerate();
            pairs.filter(|(_, (was, is))| was != is && **is == to).map(|(place, _)| place).collect()
        };
        let at = moment.first().map_or(Duration::ZERO, |event| event.at);
        let is_told = moment.iter().any(|event| matches!(event.change, Change::InterfaceDown { .. }));
        let died = if is_told { Fault::WentDown } else { Fault::Died };
        for (fault, changed) in [(died, changed(false)), (Fault::Returned, changed(true))] {
            if !changed.is_empty() {
                turns.push(Turn { at, fault, changed, up: up.clone() });
            }
        }
        before = up;
    }
    turns
}

/// The longest silence that overlaps a time; until the end for a flow that stays silent.
fn silence_within(scenario: &Scenario, counted: &Counted<'_>, from: Duration, to: Duration) -> Duration {
    let flow = counted.flow;
    let last = flow.arrivals.span().map_or(Duration::ZERO, |(_, last)| last);
    let tail =
        if last < to && counted.lasts { scenario.duration.saturating_sub(last) } else { Duration::ZERO };
    let touching = flow.arrivals.silences().iter();
    let longest = touching
        .filter(|silence| silence.from < to && silence.from + silence.length > from)
        .map(|silence| silence.length)
        .max();
    longest.unwrap_or_default().max(tail)
}

/// A share of the capacity of a route towards a side.
fn share_of(scenario: &Scenario, route: usize, receiver: Side, (part, whole): (u64, u64)) -> Rate {
    scenario.sum_of(towards(receiver), |place| place == route).scaled(part, whole)
}

/// Delay from a time until a route carries this much over a window towards a side.
fn carries(
    totals: &RouteTotals,
    receiver: Side,
    rate: Rate,
    at: Duration,
    over: Duration,
) -> Option<Duration> {
    let arrivals: &Arrivals = match receiver {
        Side::Server => &totals.up,
        Side::Client => &totals.down,
    };
    arrivals.reaches(at, rate, over)
}

/// The direction of data that a side receives.
const fn towards(receiver: Side) -> Direction {
    match receiver {
        Side::Server => Direction::Up,
        Side::Client => Direction::Down,
    }
}

/// Window for the goodput.
const HALF_SECOND: Duration = Duration::from_millis(500);
/// Window for the traffic of a route.
const TENTH_SECOND: Duration = Duration::from_millis(100);
