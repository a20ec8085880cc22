//! Numbers of a row: the document's, ours, and those derived from both.

use std::time::Duration;

use manyway_transfer::Playback;

use super::Row;
use super::dent::dent;
use crate::campaign::{Case, Results, Run, Standing};
use crate::measures::{MessageFigures, Recovery, count, counted, megabits, of_entry, silence_of};
use crate::outcome::{Arrivals, Outcome, RouteTotals};
use crate::scenario::{Direction, Scenario, Side};

/// A number of a row, which may be missing.
#[derive(Debug)]
pub enum Quantity {
    /// A value of the row, by its index.
    Value(usize),
    /// A number of the document, by its index in [`Row::document`].
    Document(usize),
    /// A result of a contender, by its name, in which `{0}` stands for the first value of the row.
    Ours(&'static str, Measure),
    /// The sum of Manyway's results over each route alone, in Mbit/s. Routes that share a link cannot all have what
    /// they have alone: the sum is reduced in the proportion in which the links carry less.
    Alone,
    /// As [`Self::Alone`], of the best route.
    BestAlone,
    /// The first over the second.
    Ratio(&'static Self, &'static Self),
    /// Both multiplied.
    Product(&'static Self, &'static Self),
    /// So many times.
    Scaled(&'static Self, f64),
    /// Relative to the same of the first row.
    Relative(&'static Self),
    /// The same of the row before.
    Before(&'static Self),
}

/// Which figure of a contender's run is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Mbit/s at the receiving application; in a phase, those of its second half, after everything has settled.
    Goodput,
    /// Mbit/s of IP packets that a route delivered to the receiver, by its index.
    Route(usize),
    /// The same towards one side, whichever receives.
    RouteTo(Side, usize),
    /// Mbit/s at the application of one side.
    GoodputAt(Side),
    /// From the start of the phase until one side gave the connection up, in seconds.
    GivenUp(Side),
    /// Bytes that arrived, in units of 10⁶.
    Megabytes,
    /// The longest time without a byte, in seconds; in a phase, the one that overlaps it.
    Silence,
    /// The same of the messages or bulk of one entry of the traffic, by its index: the longest of its flows, and until
    /// the end for one that went silent.
    SilenceOf(usize),
    /// The share of messages that arrived after one that was sent later.
    Overtaken,
    /// How many messages did not arrive, if any were sent.
    Missing,
    /// A number that a program of others told, or the log of Manyway, by its name in `Outcome::told`.
    Told(&'static str),
    /// From the start of the phase until the goodput over half a second reached 85 % of the capacity of the working
    /// routes.
    Recovery,
    /// From the start of the phase until a route that returned with it carried a tenth of its rate.
    UsedAgain,
    /// Median latency of messages in seconds.
    MessageMedian,
    /// 99th percentile of the latency of messages in seconds.
    MessageP99,
    /// The most bytes that waited at a receiver for earlier ones, in 10³ bytes: what resequencing needs. In virtual time alone.
    Held,
    /// 95th percentile of the delay of bytes in seconds, from the first sending until they and all before have arrived, or
    /// of the latency of messages. Of bytes in virtual time alone.
    DelayP95,
    /// By how much the delays of one and the next differ on average, in the order of arrival: of one byte in 16 KiB, in
    /// virtual time alone, or of messages. In seconds.
    Jitter,
    /// Bytes that receivers discarded since they had arrived before, in 10³ bytes. In virtual time alone.
    Discarded,
    /// What all routes delivered to the receiver over what the best one did: how many copies arrived.
    Copies,
    /// How many copies of messages came after the first one, by [`Self::Copies`].
    DiscardedMessages,
    /// The dent that the last event makes in the throughput of all routes: how much less they delivered than at the
    /// steady rate before and after it, in whole IP packets and 10³ bytes. Steady are a tenth of the run before the event,
    /// and one that begins a tenth after it.
    Dent,
    /// Seconds until every path of set-up carried data.
    SetUpTime,
    /// IP packets of set-up that arrived at either end.
    SetUpPackets,
    /// Their bytes, in 10³ bytes.
    SetUpBytes,
    /// Memory in which the client keeps its measurements of address pairs, in 10³ bytes. In virtual time alone.
    PairMemory,
    /// How often a film of so many bits a second stops that plays while it arrives.
    Stops(u64),
}

/// The context of looking up a number.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) results: &'a Results,
    /// Every row with the place of its case.
    pub(super) rows: &'a [(Row, usize)],
    pub(super) row: usize,
    pub(super) repetition: u32,
}

impl Quantity {
    /// The contenders whose results it takes, in order; of those over each route alone the first.
    pub(super) fn contenders(&self, found: &mut Vec<&'static str>) {
        match self {
            Self::Value(_) | Self::Document(_) => {}
            Self::Ours(name, _) => found.push(name),
            Self::Alone | Self::BestAlone => found.push("manyway@1"),
            Self::Ratio(one, other) | Self::Product(one, other) => {
                one.contenders(found);
                other.contenders(found);
            }
            Self::Scaled(other, _) | Self::Relative(other) | Self::Before(other) => other.contenders(found),
        }
    }

    /// Its value in a repetition of a row; infinite if it never happened, `None` if it was not measured.
    pub(super) fn of(&self, place: Place<'_>) -> Option<f64> {
        let (row, case) = place.rows.get(place.row)?;
        match self {
            Self::Value(which) => row.values.get(*which).copied(),
            Self::Document(which) => row.document.get(*which).copied().filter(|number| number.is_finite()),
            Self::Ours(name, measure) => place.measure(*case, &row.filled(name), *measure, row),
            Self::Alone => place.alone(*case).map(|(sum, _)| sum),
            Self::BestAlone => place.alone(*case).map(|(_, best)| best),
            Self::Ratio(one, other) => {
                let other = other.of(place).filter(|other| *other > 0.0)?;
                Some(one.of(place)? / other)
            }
            Self::Product(one, other) => Some(one.of(place)? * other.of(place)?),
            Self::Scaled(other, factor) => Some(other.of(place)? * factor),
            Self::Before(other) => other.of(Place { row: place.row.checked_sub(1)?, ..place }),
            Self::Relative(other) => {
                let first = other.of(Place { row: 0, ..place }).filter(|first| *first > 0.0)?;
                Some(other.of(place)? / first)
            }
        }
    }
}

impl Place<'_> {
    fn measure(&self, case: usize, name: &str, measure: Measure, row: &Row) -> Option<f64> {
        let run = self.run(case, name)?;
        let scenario = &self.results.plan.cases.get(case)?.scenario;
        let moment = |share: f64| scenario.duration.mul_f64(share.clamp(0.0, 1.0));
        let span = row.phase.map(|phase| (moment(phase.from), moment(phase.to)));
        let recovery = || span.and_then(|(from, _)| at(&run.measures.recoveries, from));
        match measure {
            Measure::Goodput => match span {
                None => Some(run.measures.megabits()),
                Some(span) => {
                    let settled = second_half(span);
                    let flows = counted(scenario, run.course.as_ref()?);
                    let arrivals = flows.iter().map(|one| &one.flow.arrivals);
                    Some(arrivals.map(|arrivals| rate(arrivals, settled)).sum())
                }
            },
            Measure::Route(route) => {
                let (receiver, outcome) = received(scenario, run)?;
                let span = span.map_or((Duration::ZERO, scenario.duration), second_half);
                Some(rate(towards(receiver, outcome.routes.get(route)?), span))
            }
            Measure::RouteTo(receiver, route) => {
                let span = span.map_or((Duration::ZERO, scenario.duration), second_half);
                Some(rate(towards(receiver, run.course.as_ref()?.routes.get(route)?), span))
            }
            Measure::GoodputAt(receiver) => {
                let flows = counted(scenario, run.course.as_ref()?);
                let own = flows.iter().map(|one| one.flow).filter(|flow| flow.receiver == receiver);
                Some(own.map(|flow| megabits(flow.arrivals.goodput())).sum())
            }
            Measure::GivenUp(side) => {
                let ended = run.course.as_ref()?.ended.get(place_of(side))?;
                let (from, _) = span.filter(|(_, to)| *to >= scenario.duration)?;
                Some(ended.saturating_sub(from).as_secs_f64())
            }
            Measure::Megabytes => Some(count(run.measures.bytes.get()) / 1e6),
            Measure::Silence => match span {
                None => Some(run.measures.silence.as_secs_f64()),
                Some(_) => recovery().map(|recovery| recovery.silence.as_secs_f64()),
            },
            Measure::SilenceOf(entry) => {
                let (from, to) = span.unwrap_or((Duration::ZERO, scenario.duration));
                let flows = of_entry(scenario, run.course.as_ref()?, entry);
                let silences = flows.map(|flow| silence_of(flow, (from, to), scenario.duration));
                silences.max().map(|silence| silence.as_secs_f64())
            }
            Measure::Overtaken => {
                let flows = || run.course.iter().flat_map(|outcome| &outcome.flows);
                let arrived: usize = flows().filter_map(|flow| flow.latencies.as_ref()).map(Vec::len).sum();
                let all = u64::try_from(arrived).ok().filter(|all| *all > 0)?;
                Some(count(flows().map(|flow| flow.overtaken).sum()) / count(all))
            }
            Measure::Missing => run.measures.messages.and_then(missing),
            Measure::Told(name) => run.course.as_ref()?.told.get(name).copied(),
            Measure::Recovery => recovery().map(|recovery| seconds(recovery.full)),
            Measure::UsedAgain => {
                let returned = recovery().filter(|one| one.fault == crate::measures::Fault::Returned)?;
                Some(seconds(returned.used))
            }
            Measure::MessageMedian => run.measures.messages.map(|messages| seconds(messages.median)),
            Measure::MessageP99 => run.measures.messages.map(|messages| seconds(messages.p99)),
            Measure::Held => Some(count(run.measures.delivery?.most_held.get()) / 1e3),
            Measure::DelayP95 => percentile(delays(run.course.as_ref()?)?),
            Measure::Jitter => jitter(delays(run.course.as_ref()?)?),
            Measure::Discarded => Some(count(run.course.as_ref()?.delivery.as_ref()?.discarded.get()) / 1e3),
            Measure::Copies => copies(scenario, run),
            Measure::DiscardedMessages => {
                Some(count(run.measures.messages?.arrived) * (copies(scenario, run)? - 1.0))
            }
            Measure::Dent => {
                let (receiver, outcome) = received(scenario, run)?;
                let routes: Vec<_> = outcome.routes.iter().map(|route| towards(receiver, route)).collect();
                Some(dent(&routes, scenario.events.last()?.at, scenario.duration / 10) / 1e3)
            }
            Measure::SetUpTime => Some(run.course.as_ref()?.set_up?.took.as_secs_f64()),
            Measure::SetUpPackets => Some(count(run.course.as_ref()?.set_up?.packets)),
            Measure::SetUpBytes => Some(count(run.course.as_ref()?.set_up?.bytes.get()) / 1e3),
            Measure::PairMemory => Some(count(run.course.as_ref()?.set_up?.memory?.get()) / 1e3),
            Measure::Stops(bits_per_second) => stops(scenario, run, bits_per_second),
        }
    }

    /// The run of this repetition that counts.
    fn run(&self, case: usize, name: &str) -> Option<&Run> {
        let contender = self.results.place(case, name)?;
        let is_it = |run: &&Run| {
            (run.case, run.contender, run.repetition) == (case, contender, self.repetition)
                && run.standing == Standing::Counts
        };
        self.results.runs.iter().find(is_it)
    }

    /// The results of the routes alone: their sum, reduced for shared links, and the maximum.
    fn alone(&self, case: usize) -> Option<(f64, f64)> {
        let Case { scenario, .. } = self.results.plan.cases.get(case)?;
        let each = (1..=scenario.routes.len())
            .map(|number| self.run(case, &format!("manyway@{number}")).map(|run| run.measures.megabits()));
        let each: Vec<f64> = each.collect::<Option<_>>()?;
        let nominal = |counts: &dyn Fn(usize) -> bool| megabits(scenario.sum_of(Direction::Up, counts));
        let unshared: f64 = (0..scenario.routes.len()).map(|route| nominal(&|other| other == route)).sum();
        let share = nominal(&|_| true) / unshared;
        Some((each.iter().sum::<f64>() * share, each.iter().copied().fold(0.0, f64::max)))
    }
}

/// How many messages did not arrive, if any were sent.
fn missing(messages: MessageFigures) -> Option<f64> {
    (messages.arrived + messages.missing > 0).then(|| count(messages.missing))
}

/// What all routes delivered over what the best one did.
fn copies(scenario: &Scenario, run: &Run) -> Option<f64> {
    let (receiver, outcome) = received(scenario, run)?;
    let carried = || outcome.routes.iter().map(|route| towards(receiver, route).total().get());
    let most = carried().max().filter(|most| *most > 0)?;
    Some(count(carried().sum()) / count(most))
}

/// How often a film stops.
fn stops(scenario: &Scenario, run: &Run, bits_per_second: u64) -> Option<f64> {
    let flows = counted(scenario, run.course.as_ref()?);
    let flow = flows.first()?.flow;
    let mut playback = Playback::new(bits_per_second);
    let mut until = Duration::ZERO;
    for bytes in flow.arrivals.bins() {
        until += Arrivals::BIN;
        playback.on_bytes(until, *bytes);
    }
    playback.on_bytes(scenario.duration, 0);
    Some(f64::from(playback.stops()))
}

/// The 95th percentile, in seconds.
fn percentile(delays: &[Duration]) -> Option<f64> {
    let mut delays = delays.to_vec();
    delays.sort_unstable();
    let place = (delays.len() * 95).div_ceil(100).checked_sub(1)?;
    Some(delays.get(place)?.as_secs_f64())
}

/// The mean difference of one and the next, in seconds.
fn jitter(delays: &[Duration]) -> Option<f64> {
    let pairs = delays.iter().zip(delays.iter().skip(1));
    let sum: Duration = pairs.map(|(one, next)| one.abs_diff(*next)).sum();
    let number = u32::try_from(delays.len()).ok()?.checked_sub(1).filter(|number| *number > 0)?;
    Some((sum / number).as_secs_f64())
}

/// The latencies of the first flow of messages, or the delays of bytes.
fn delays(outcome: &Outcome) -> Option<&[Duration]> {
    let messages = outcome.flows.iter().find_map(|flow| flow.latencies.as_deref());
    messages.or_else(|| outcome.delivery.as_ref().map(|delivery| delivery.delays.as_slice()))
}

/// The receiver, and the course of the run.
fn received<'a>(scenario: &Scenario, run: &'a Run) -> Option<(Side, &'a Outcome)> {
    let outcome = run.course.as_ref()?;
    let receiver = counted(scenario, outcome).first()?.flow.receiver;
    Some((receiver, outcome))
}

/// Clients come first.
const fn place_of(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

const fn towards(receiver: Side, totals: &RouteTotals) -> &Arrivals {
    match receiver {
        Side::Server => &totals.up,
        Side::Client => &totals.down,
    }
}

fn rate(arrivals: &Arrivals, (from, to): (Duration, Duration)) -> f64 {
    megabits(arrivals.rate(from, to))
}

fn second_half((from, to): (Duration, Duration)) -> (Duration, Duration) {
    (from + to.saturating_sub(from) / 2, to)
}

/// What happened to routes at a time.
fn at(recoveries: &[Recovery], moment: Duration) -> Option<&Recovery> {
    recoveries.iter().find(|recovery| recovery.at.abs_diff(moment) < Duration::from_millis(50))
}

/// Seconds; infinite if it never happened.
fn seconds(time: Option<Duration>) -> f64 {
    time.map_or(f64::INFINITY, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_missing_also_if_none_arrived() {
        let figures = MessageFigures { arrived: 0, missing: 0, median: None, p99: None, p999: None };
        let of = |arrived, lost| missing(MessageFigures { arrived, missing: lost, ..figures });
        assert_eq!((of(0, 760), of(758, 2), of(760, 0), of(0, 0)), (Some(760.0), Some(2.0), Some(0.0), None));
    }

    #[test]
    fn jitter_is_the_mean_difference_of_neighbours() {
        let delays = [10, 30, 20, 20].map(Duration::from_millis);
        assert_eq!(jitter(&delays), Some(0.01));
        assert_eq!((percentile(&delays), jitter(&delays[..1]), percentile(&[])), (Some(0.03), None, None));
    }
}
