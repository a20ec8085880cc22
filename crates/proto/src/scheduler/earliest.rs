//! Sends each byte on the path on which it arrives first, and gives each path the bytes that are due when it
//! delivers.
//!
//! 1. The arrival time of a burst is computed from the measured rate and delay of each path.
//! 2. A path that would deliver later than others gets bytes further on: those that the others cannot deliver before.
//!    So bytes arrive in order, and few have to wait at the receiver.
//! 3. If the others can deliver all waiting data, or all that the credit permits, the slow path gets nothing: all paths
//!    together are never slower than the best of them.
//! 4. No path gets more than it can carry in a round trip, plus a share of the credit: a queue in front of a slow link
//!    would hold credit that a fast one needs.
//! 5. A packet that blocks the head of line is copied, within a budget, to a path on which it arrives sooner.
//! 6. On lossy paths a message whose deadline leaves no time for a retransmission is sent twice at once, and so is the
//!    end of interactive data, whose loss no later packet would reveal.

use std::time::Duration;

use super::choice::is_preferred;
use super::{Decision, NextUp, PathView, Purpose, Scheduler, Source, Tier, View};
use crate::{ByteCount, Class, Instant, Rate};

/// The default for throughput.
#[derive(Debug, Clone, Copy, Default)]
pub struct Earliest;

/// Credit is scarce below this many times what all paths carry in the longest round trip.
const AMPLE: u64 = 2;
/// Gain on the capacity of a path in a round trip while credit is scarce: slightly above the measurement, so that a
/// faster path can prove itself. With more credit the gain is larger in proportion.
const SCARCE: Gain = Gain(110);
/// Additional datagrams, for acknowledgements that are late or bunched.
const CAP_DATAGRAMS: u64 = 3;
/// The lead is limited to what better paths deliver within this time: estimates do not hold longer.
const FARTHEST: Duration = Duration::from_secs(1);
/// A copy has to arrive this much sooner than the original.
const COPY_GAIN: Duration = Duration::from_millis(1);
/// Lower bound of rates, so that every division has a result.
const SLOWEST: Rate = Rate::from_bytes_per_second(1);
/// Datagrams of a copy at a time.
const COPY_DATAGRAMS: u64 = 4;
/// Datagrams of an urgent burst.
const URGENT_DATAGRAMS: u64 = 2;
/// Slow start is not assumed to double the window more often than this.
const MOST_DOUBLINGS: u128 = 6;

/// A path that loses fewer packets per million may carry urgent data alone.
const RARE_LOSS: u32 = 1_000;
/// A copy of interactive data goes on a path whose RTT is below this many times that of the first path.
const NEAR_ROUND_TRIPS: u32 = 3;
/// A packet may be late by this many RTT variations, as for the probe timeout (RFC 9002, section 6.2.1).
const LATE_DEVIATIONS: u32 = 4;
/// Default ACK delay of peers.
const ACK_DELAY: Duration = Duration::from_millis(25);

/// A factor, in hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Gain(u64);

/// Bytes that the better paths deliver before a burst on another would arrive.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead {
    /// At the measured rates.
    expected: ByteCount,
    /// If paths in slow start continue to grow. Small backlogs wait for that.
    hoped: ByteCount,
}

/// A path, and the arrival time of a datagram that is sent on it now.
#[derive(Debug, Clone, Copy)]
struct Estimate<'a> {
    path: &'a PathView,
    rate: Rate,
    /// Bytes that it may be given at once.
    room: ByteCount,
    /// Time until the arrival at the peer; the longest time if it is unknown when the path can send.
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
        if view.retransmissions > ByteCount::ZERO
            && let Some((best, ahead)) = best_open(view, gain)
            && ahead.expected < view.retransmissions
        {
            return Decision::send(best.path.id, best.room, Source::Retransmission);
        }
        if let Some(decision) = new_bytes(view, gain) {
            return decision;
        }
        copy_of_head_of_line(view, gain)
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        if is_preferred(path, view) { Purpose::EarliestArrival } else { Purpose::Secondary }
    }
}

/// Whether a message that goes on `first` alone may miss its deadline: it may be late itself, or its loss could not
/// be repaired in time.
fn is_risky(view: &View<'_>, first: &PathView, deadline: Instant) -> bool {
    let left = deadline - view.now;
    let late = first.rtt.variation * LATE_DEVIATIONS;
    let again = view.in_use().map(|path| path.delay).min().unwrap_or(first.delay);
    let noticed = first.rtt.smoothed.saturating_add(late).saturating_add(ACK_DELAY);
    let repaired = noticed.saturating_add(again);
    first.delay.saturating_add(late) > left || (first.record.loss >= RARE_LOSS && repaired > left)
}

/// Whether the last packet on `first` may get lost, and a copy helps because it arrives before the loss is detected
/// and repaired.
fn is_worth_a_copy(view: &View<'_>, first: &PathView) -> bool {
    let is_soon = |other: &PathView| other.rtt.smoothed < first.rtt.smoothed * NEAR_ROUND_TRIPS;
    first.record.loss >= RARE_LOSS && view.in_use().any(|other| other.id != first.id && is_soon(other))
}

/// New bytes for the path on which they arrive first; `None` if paths that are full now deliver them sooner.
fn new_bytes(view: &View<'_>, gain: Option<Gain>) -> Option<Decision> {
    let (best, ahead) = best_open(view, gain)?;
    let unsent = view.sendable_unsent();
    let hoped = ahead.hoped - view.retransmissions;
    let ahead = ahead.expected - view.retransmissions;
    // The first test is that of ECF, the second that of BLEST, both in bytes.
    if hoped >= view.backlog || ahead >= unsent {
        return None;
    }
    // Less than a datagram at the end of the credit is left to the others.
    if ahead > ByteCount::ZERO && unsent - ahead < best.path.datagram {
        return None;
    }
    let most = match class(view) {
        Class::Interactive | Class::Deadline => best.path.datagram * URGENT_DATAGRAMS,
        Class::Background | Class::Bulk => ByteCount::MAX,
    };
    let quantum = best.room.min(unsent - ahead).min(most);
    Some(Decision::send(best.path.id, quantum, Source::Skip(ahead)))
}

/// The open path on which a datagram arrives first, and the bytes that the others deliver before.
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

/// Bytes that a path in slow start delivers within a time while its window doubles each round trip; zero after slow
/// start.
fn growth(path: &PathView, lead: Duration) -> ByteCount {
    let rounds = lead.as_nanos().checked_div(path.rtt.smoothed.as_nanos()).unwrap_or(0).min(MOST_DOUBLINGS);
    if path.in_slow_start { path.window * ((1 << rounds) - 1) } else { ByteCount::ZERO }
}

/// Copies the packet that blocks the head of line to a path on which it arrives sooner, or if it is overdue.
fn copy_of_head_of_line(view: &View<'_>, gain: Option<Gain>) -> Decision {
    let Some(head_of_line) = view.head_of_line.filter(|head_of_line| head_of_line.copies == 0) else {
        return Decision::WAIT;
    };
    let Some(holder) = view.path(head_of_line.path) else { return Decision::WAIT };
    let overdue_at = head_of_line.sent_at + holder.rtt.smoothed / 4 * 5;
    let is_overdue = overdue_at <= view.now;
    let left = (head_of_line.sent_at + holder.delay) - view.now;
    let open = view.in_use().filter(|path| path.id != head_of_line.path);
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
    // The path now gets a window in a round trip, whatever it delivered before.
    let measured = path.expected_rate();
    let rate = measured.min(path.window.per(path.rtt.smoothed)).max(SLOWEST);
    let cap = gain.filter(|_| !is_searching(path)).map_or(ByteCount::MAX, |gain| cap(path, measured, gain));
    // If a path accepts more than its window, as one over TCP does so that it never runs dry, that is the limit.
    let takes =
        if path.sendable > ByteCount::ZERO { path.in_flight + path.sendable } else { ByteCount::ZERO };
    let limit = path.window.max(takes).min(cap);
    let excess = path.in_flight + path.datagram - limit;
    let room =
        if excess == ByteCount::ZERO { path.sendable.min(limit - path.in_flight) } else { ByteCount::ZERO };
    let for_room = excess / rate;
    let for_pacer = path.next_departure.map(|at| at - now);
    // Neither window nor pacer holds it back, and still it may not send: then even its acknowledgements do not help.
    let is_stopped = path.sendable == ByteCount::ZERO && excess == ByteCount::ZERO && for_pacer.is_none();
    let wait = for_room.max(for_pacer.unwrap_or_default());
    let arrival = if is_stopped { Duration::MAX } else { wait.saturating_add(path.delay) };
    Estimate { path, rate, room, arrival }
}

/// Bytes in flight that keep a path busy without a queue, or with one for which there is credit.
fn cap(path: &PathView, rate: Rate, Gain(hundredths): Gain) -> ByteCount {
    rate.scaled(hundredths, 100) * path.rtt.base + path.datagram * CAP_DATAGRAMS
}

/// The capacity of a path in slow start is unknown; but a path that does not use its window learns nothing.
fn is_searching(path: &PathView) -> bool {
    path.in_slow_start && path.in_flight > path.window / 2
}

/// By how much a path may be filled beyond its capacity in a round trip; `None` for the only path, which cannot delay
/// others.
fn cap_gain(view: &View<'_>) -> Option<Gain> {
    let paths = view.in_use();
    paths.clone().nth(1)?;
    let longest = paths.clone().map(|path| path.rtt.base).max()?;
    let rate: Rate = paths.map(PathView::expected_rate).sum();
    let needed = (rate * longest * AMPLE).get().max(1);
    let in_proportion = u128::from(SCARCE.0) * u128::from(view.credit_total.get()) / u128::from(needed);
    Some(Gain(u64::try_from(in_proportion).unwrap_or(u64::MAX)).max(SCARCE))
}

fn class(view: &View<'_>) -> Class {
    view.next.map_or_else(Class::default, |next| next.class)
}

#[cfg(test)]
mod tests;
