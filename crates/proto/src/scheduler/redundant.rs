//! The same bytes on several paths: the first copy that arrives counts (CMT 4.2.2, and its experiment with
//! duplicates).

use std::cmp::Reverse;
use std::time::Duration;

use super::choice::{capacity, fill, has_room, nearest, purpose_by_distance, turn, will_have_room};
use super::{Decision, PathList, PathView, Purpose, Scheduler, Source, View};
use crate::{ByteCount, Class};

/// Sends all data on every path, or only late or urgent data.
///
/// With all data on every path, the path with the highest rate sets the pace; a path whose window is full skips the
/// copy. The latency is that of the fastest path while no path is overloaded.
///
/// With [`Self::late`] data goes on the nearest path, and on the second nearest too if it is retransmitted or urgent
/// ([`Class::Interactive`], [`Class::Deadline`]). A packet that has been in flight for a quarter longer than a round
/// trip and blocks the head of line is copied, within the budget for copies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Redundant {
    extent: Extent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Extent {
    #[default]
    All,
    Late,
}

impl Redundant {
    /// Sends only late and urgent data twice.
    pub fn late() -> Self {
        Self { extent: Extent::Late }
    }

    /// Parses `late`, or an empty text for all data.
    pub(super) fn parse(settings: &str) -> Result<Self, String> {
        match settings {
            "" => Ok(Self::default()),
            "late" => Ok(Self::late()),
            _ => {
                Err("takes late to send only late and urgent data twice, or nothing for everything"
                    .to_owned())
            }
        }
    }
}

impl Scheduler for Redundant {
    fn name(&self) -> &'static str {
        "redundant"
    }

    fn sends_copies(&self) -> bool {
        self.extent == Extent::Late
    }

    fn urgent_copies(&self, _: &View<'_>, _: &PathView) -> usize {
        match self.extent {
            Extent::All => usize::MAX,
            Extent::Late => 1,
        }
    }

    fn is_guarded(&self) -> bool {
        false
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        match self.extent {
            Extent::All => everywhere(view),
            Extent::Late => late_twice(view),
        }
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        match (self.extent, purpose_by_distance(path, view)) {
            (Extent::All, _) => Purpose::Copies,
            (Extent::Late, Purpose::LowestRtt) => Purpose::LowestRtt,
            (Extent::Late, _) => Purpose::Urgent,
        }
    }
}

fn everywhere(view: &View<'_>) -> Decision {
    let rank = |path: &&PathView| (Reverse(capacity(path)), path.delay, path.id);
    let can_send = |path: &&PathView| has_room(path) || will_have_room(path);
    let Some(pace) = view.in_use().filter(can_send).min_by_key(rank) else { return Decision::WAIT };
    if view.retransmissions > ByteCount::ZERO {
        // Retransmissions are late already: any path that can send will do.
        return view.candidates().min_by_key(rank).map_or(Decision::WAIT, |first| copies(view, first));
    }
    // Without this, paths under full load would take turns with new data, and nothing would be sent twice.
    if has_room(pace) { copies(view, pace) } else { Decision::WAIT }
}

/// The next bytes on `first`, and on every other path that can send.
fn copies(view: &View<'_>, first: &PathView) -> Decision {
    let others = view.in_use().filter(|path| has_room(path) && path.id != first.id);
    let paths: PathList = std::iter::once(first.id).chain(others.map(|path| path.id)).collect();
    if paths.as_slice().len() < 2 {
        return fill(first);
    }
    Decision::Copy { paths, quantum: turn(first).min(first.sendable), source: Source::Next }
}

fn late_twice(view: &View<'_>) -> Decision {
    if let Some(decision) = unblock(view) {
        return decision;
    }
    let Some((_, first)) = nearest(view) else { return Decision::WAIT };
    let is_urgent = view.next.is_some_and(|next| matches!(next.class, Class::Interactive | Class::Deadline));
    if view.retransmissions == ByteCount::ZERO && !is_urgent {
        return fill(first);
    }
    let others = view.in_use().filter(|path| has_room(path) && path.id != first.id);
    let Some(second) = others.min_by_key(|path| (path.rtt.smoothed, path.id)) else { return fill(first) };
    let source = if view.retransmissions > ByteCount::ZERO {
        Source::Retransmission
    } else {
        Source::Skip(ByteCount::ZERO)
    };
    let left = view.next.map_or(ByteCount::MAX, |next| next.left);
    let wanted = if view.retransmissions > ByteCount::ZERO { view.retransmissions } else { left };
    let quantum = first.sendable.min(wanted.max(first.datagram));
    Decision::Copy { paths: [first.id, second.id].into_iter().collect(), quantum, source }
}

/// A copy of the packet that blocks the head of line, once it is late.
fn unblock(view: &View<'_>) -> Option<Decision> {
    let head_of_line = view
        .head_of_line
        .filter(|head_of_line| head_of_line.copies == 0 && head_of_line.bytes <= view.copy_budget)?;
    let patience = view.path(head_of_line.path).map_or(Duration::ZERO, |path| path.rtt.smoothed * 5 / 4);
    if view.now - head_of_line.sent_at <= patience {
        return None;
    }
    let others = view.candidates().filter(|path| path.id != head_of_line.path);
    let other = others.min_by_key(|path| (path.rtt.smoothed, path.id))?;
    Some(Decision::send(other.id, other.datagram.min(other.sendable), Source::Reinject))
}
