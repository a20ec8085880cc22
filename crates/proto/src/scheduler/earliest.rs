//! Each byte goes where it arrives first, and each path gets the bytes that are due when it delivers.
//!
//! 1. The moment at which a burst would arrive is told from the measured rate and delay of each path.
//! 2. A path that would deliver later than others gets bytes further on: those for which the others have no time
//!    before. So they arrive in order, and little has to wait at the receiver.
//! 3. If the others have time for all that waits, or for all that the credit allows, the slow path gets nothing: the
//!    bond is never slower than its best path.
//! 4. No path gets more than it can carry in a round trip and as much more as there is credit for: a queue in front of
//!    a slow link would hold credit that a fast one needs.
//! 5. What holds up delivery is sent once more, within a budget, where it arrives sooner.
//! 6. Where packets get lost, a message with a deadline that leaves no time to send it again goes twice at once, and so does
//!    the end of what is interactive, whose loss nothing behind it would show.

use std::time::Duration;

use super::choice::is_preferred;
use super::{Decision, NextUp, PathView, Purpose, Scheduler, Source, Tier, View};
use crate::{ByteCount, Class, Instant, Rate};

/// The default for everything that wants throughput.
#[derive(Debug, Clone, Copy, Default)]
pub struct Earliest;

/// Credit is scarce below so many times what all paths carry in the longest round trip.
const AMPLE: u64 = 2;
/// What a path carries in a round trip counts with this gain while credit is scarce: a little more than is measured, so
/// that a path that can do more shows it. With more credit it is larger in proportion.
const SCARCE: Gain = Gain(110);
/// And so many datagrams more, for acknowledgements that come late or together.
const CAP_DATAGRAMS: u64 = 3;
/// Nothing further on is sent than what the better paths bring within this time: estimates do not last longer.
const FARTHEST: Duration = Duration::from_secs(1);
/// A copy has to arrive so much sooner than the original.
const COPY_GAIN: Duration = Duration::from_millis(1);
/// No path is slower, so that every division has a result.
const SLOWEST: Rate = Rate::from_bytes_per_second(1);
/// Datagrams of a copy at a time.
const COPY_DATAGRAMS: u64 = 4;
/// Datagrams of a burst of bytes for which somebody waits.
const URGENT_DATAGRAMS: u64 = 2;
/// A search for capacity is not taken to double the window more often than this.
const MOST_DOUBLINGS: u128 = 6;

/// A path that loses fewer packets than this, of a million, may carry alone what somebody waits for.
const RARE_LOSS: u32 = 1_000;
/// A copy of what is interactive goes on a path whose round trip is shorter than so many of the first one.
const NEAR_ROUND_TRIPS: u32 = 3;
/// So many mean deviations of the round trip a packet is late at times, as for time-outs (RFC 9002, section 6.2.1).
const LATE_DEVIATIONS: u32 = 4;
/// How long peers hold acknowledgements back by default.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// A factor, in hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Gain(u64);

/// Bytes that the better paths deliver before a burst on another would arrive.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead {
    /// At the rates that were measured.
    expected: ByteCount,
    /// If those in search of their capacity go on finding it. A few bytes wait for that.
    hoped: ByteCount,
}

/// A path and when a datagram that is given to it now would arrive.
#[derive(Debug, Clone, Copy)]
struct Estimate<'a> {
    path: &'a PathView,
    rate: Rate,
    /// What it may be given at once.
    room: ByteCount,
    /// From now to the arrival at the peer; the longest time if nobody knows when it may be given something.
    arrival: Duration,
}

impl Estimate<'_> {
    fn is_open(&self) -> bool {
        self.room > ByteCount::ZERO
    }
}

impl Scheduler for Earliest {
    fn name(&self) -> &'static str {
        "earliest"
    }

    fn sends_copies(&self) -> bool {
        true
    }

    fn urgent_copies(&self, view: &View<'_>, first: &PathView) -> usize {
        let is_wanted = |next: NextUp| match next.class {
            Class::Deadline => next.deadline.is_some_and(|deadline| is_risky(view, first, deadline)),
            Class::Interactive => {
                next.left <= first.datagram * URGENT_DATAGRAMS && is_worth_a_copy(view, first)
            }
            Class::Background | Class::Bulk => false,
        };
        usize::from(view.next.is_some_and(is_wanted))
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        let gain = cap_gain(view);
        if view.repeats > ByteCount::ZERO
            && let Some((best, ahead)) = best_open(view, gain)
            && ahead.expected < view.repeats
        {
            return Decision::send(best.path.id, best.room, Source::Repeat);
        }
        if let Some(decision) = new_bytes(view, gain) {
            return decision;
        }
        copy_of_stuck(view, gain)
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        if is_preferred(path, view) { Purpose::Speed } else { Purpose::Secondary }
    }
}

/// Whether a message that goes on `first` alone may miss its deadline: if it may come late itself, or if packets get
/// lost there and none could be sent again in time.
fn is_risky(view: &View<'_>, first: &PathView, deadline: Instant) -> bool {
    let left = deadline - view.now;
    let late = first.rtt.variation * LATE_DEVIATIONS;
    let again = view.in_use().map(|path| path.delay).min().unwrap_or(first.delay);
    let noticed = first.rtt.smoothed.saturating_add(late).saturating_add(ACK_DELAY);
    let repaired = noticed.saturating_add(again);
    first.delay.saturating_add(late) > left || (first.record.loss >= RARE_LOSS && repaired > left)
}

/// Whether what goes last on `first` gets lost now and then, and a copy comes soon enough to be of use: before the loss
/// would be noticed and repaired.
fn is_worth_a_copy(view: &View<'_>, first: &PathView) -> bool {
    let is_soon = |other: &PathView| other.rtt.smoothed < first.rtt.smoothed * NEAR_ROUND_TRIPS;
    first.record.loss >= RARE_LOSS && view.in_use().any(|other| other.id != first.id && is_soon(other))
}

/// New bytes for the path on which they arrive first; `None` if the paths that are full now bring them sooner.
fn new_bytes(view: &View<'_>, gain: Option<Gain>) -> Option<Decision> {
    let (best, ahead) = best_open(view, gain)?;
    let fresh = view.fresh();
    let hoped = ahead.hoped - view.repeats;
    let ahead = ahead.expected - view.repeats;
    // The first test is that of ECF, the second that of BLEST, both in bytes.
    if hoped >= view.backlog || ahead >= fresh {
        return None;
    }
    // Crumbs at the end of the credit are left to the others.
    if ahead > ByteCount::ZERO && fresh - ahead < best.path.datagram {
        return None;
    }
    let most = match class(view) {
        Class::Interactive | Class::Deadline => best.path.datagram * URGENT_DATAGRAMS,
        Class::Background | Class::Bulk => ByteCount::MAX,
    };
    let quantum = best.room.min(fresh - ahead).min(most);
    Some(Decision::send(best.path.id, quantum, Source::Skip(ahead)))
}

/// The open path on which a datagram arrives first, and what the others deliver before that.
fn best_open<'a>(view: &View<'a>, gain: Option<Gain>) -> Option<(Estimate<'a>, Ahead)> {
    let mut best: Option<(Tier, Estimate<'a>)> = None;
    for path in view.in_use() {
        let estimate = estimate(view.now, path, gain);
        let Some(tier) = path.tier().filter(|_| estimate.is_open()) else { continue };
        let better = |(best_tier, best): &(Tier, Estimate<'_>)| {
            (tier, estimate.arrival, path.id) < (*best_tier, best.arrival, best.path.id)
        };
        if best.as_ref().is_none_or(better) {
            best = Some((tier, estimate));
        }
    }
    let (_, best) = best?;
    let others = view.in_use().filter(|path| path.id != best.path.id);
    let mut ahead = Ahead::default();
    for other in others.map(|path| estimate(view.now, path, gain)) {
        let lead = best.arrival.saturating_sub(other.arrival).min(FARTHEST);
        let expected = other.rate * lead;
        ahead.expected += expected;
        ahead.hoped += expected.max(growth(other.path, lead));
    }
    Some((best, ahead))
}

/// What a path brings within a time while its window doubles each round trip; nothing if it does not.
fn growth(path: &PathView, lead: Duration) -> ByteCount {
    let rounds = lead.as_nanos().checked_div(path.rtt.smoothed.as_nanos()).unwrap_or(0).min(MOST_DOUBLINGS);
    if path.in_slow_start { path.window * ((1 << rounds) - 1) } else { ByteCount::ZERO }
}

/// What holds up delivery goes once more where it arrives sooner, or where it is overdue.
fn copy_of_stuck(view: &View<'_>, gain: Option<Gain>) -> Decision {
    let Some(stuck) = view.stuck.filter(|stuck| stuck.copies == 0) else { return Decision::WAIT };
    let Some(holder) = view.path(stuck.path) else { return Decision::WAIT };
    let overdue_at = stuck.sent_at + holder.rtt.smoothed / 4 * 5;
    let is_overdue = overdue_at <= view.now;
    let left = (stuck.sent_at + holder.delay) - view.now;
    let open = view.in_use().filter(|path| path.id != stuck.path);
    let open = open.map(|path| estimate(view.now, path, gain)).filter(Estimate::is_open);
    let best = open.min_by_key(|other| (other.arrival, other.path.id));
    match best.filter(|best| is_overdue || best.arrival + COPY_GAIN < left) {
        Some(best) if view.copy_budget > ByteCount::ZERO => {
            let quantum = (best.path.datagram * COPY_DATAGRAMS).min(best.room).min(view.copy_budget);
            Decision::send(best.path.id, quantum, Source::Reinject)
        }
        Some(_) | None => Decision::Wait { until: Some(overdue_at).filter(|_| !is_overdue) },
    }
}

fn estimate(now: Instant, path: &PathView, gain: Option<Gain>) -> Estimate<'_> {
    // Whatever it delivered before: now it is given a window in a round trip.
    let measured = path.expected_rate();
    let rate = measured.min(path.window.per(path.rtt.smoothed)).max(SLOWEST);
    let cap = gain.filter(|_| !is_searching(path)).map_or(ByteCount::MAX, |gain| cap(path, measured, gain));
    let limit = path.window.min(cap);
    let excess = path.in_flight + path.datagram - limit;
    let room =
        if excess == ByteCount::ZERO { path.sendable.min(limit - path.in_flight) } else { ByteCount::ZERO };
    let for_room = excess / rate;
    let for_pacer = path.next_departure.map(|at| at - now);
    // Neither window nor pacer holds it back, and it may not send: then not even its acknowledgements help.
    let is_stopped = path.sendable == ByteCount::ZERO && excess == ByteCount::ZERO && for_pacer.is_none();
    let wait = for_room.max(for_pacer.unwrap_or_default());
    let arrival = if is_stopped { Duration::MAX } else { wait.saturating_add(path.delay) };
    Estimate { path, rate, room, arrival }
}

/// Bytes in flight that keep a path busy and make no queue, or one that the credit has room for.
fn cap(path: &PathView, rate: Rate, Gain(hundredths): Gain) -> ByteCount {
    rate.scaled(hundredths, 100) * path.rtt.base + path.datagram * CAP_DATAGRAMS
}

/// A path in search of its capacity has none that is known; but one that does not use its window finds nothing.
fn is_searching(path: &PathView) -> bool {
    path.in_slow_start && path.in_flight > path.window / 2
}

/// By how much a path may be filled beyond what it carries in a round trip; `None` for a path without others, which
/// cannot hold up any.
fn cap_gain(view: &View<'_>) -> Option<Gain> {
    let paths = view.in_use();
    paths.clone().nth(1)?;
    let longest = paths.clone().map(|path| path.rtt.base).max()?;
    let rate: Rate = paths.map(PathView::expected_rate).sum();
    let needed = (rate * longest * AMPLE).get().max(1);
    let in_proportion = u128::from(SCARCE.0) * u128::from(view.window_total.get()) / u128::from(needed);
    Some(Gain(u64::try_from(in_proportion).unwrap_or(u64::MAX)).max(SCARCE))
}

fn class(view: &View<'_>) -> Class {
    view.next.map_or_else(Class::default, |next| next.class)
}

#[cfg(test)]
mod tests;
