//! The cheapest paths that carry the load (MMSP 5.2: no costly link where a cheap one suffices).

use std::time::Duration;

use manyway_units::text::parse_duration;
use smallvec::SmallVec;

use super::choice::{capacity, has_room};
use super::{Decision, PathView, Purpose, Scheduler, Source, Tier, View, background};
use crate::path::{PathState, Role};
use crate::{ByteCount, Instant, Rate};

/// Uses more costly paths only for load that the cheaper ones cannot carry: if they need longer than the patience
/// for the waiting data, or have left some of it waiting for that long without a break. The patience is 1 s by default.
///
/// A path without quota carries nothing, even if no other is left. Among paths of one price the better role comes
/// first, then the lowest RTT. Urgent data uses, of the paths needed for all waiting data, the one on which it arrives
/// first.
#[derive(Debug, Clone)]
pub struct Cost {
    patience: Duration,
    /// Since when the paths below a price could not send all waiting data at once.
    strained: SmallVec<[(Price, Instant); 4]>,
    /// The time of the last decision, and the data that waited then.
    viewed_at: Instant,
    waiting: ByteCount,
}

/// Price of a path: its cost, and among equals its tier.
type Price = (u8, Option<Tier>);

impl Default for Cost {
    fn default() -> Self {
        Self::with_patience(Duration::from_secs(1))
    }
}

impl Cost {
    /// Sets another patience.
    pub fn with_patience(patience: Duration) -> Self {
        Self {
            patience,
            strained: SmallVec::new(),
            viewed_at: Instant::from_nanos(0),
            waiting: ByteCount::ZERO,
        }
    }

    /// Parses the patience; an empty text means 1 s.
    pub(super) fn parse(settings: &str) -> Result<Self, String> {
        if settings.is_empty() {
            return Ok(Self::default());
        }
        let patience = parse_duration(settings).map_err(|error| {
            format!(
                "takes the time for which data may wait before a dearer path helps, as cost=500ms: {error}"
            )
        })?;
        Ok(Self::with_patience(patience))
    }

    /// Records how long each price has been strained.
    fn watch(&mut self, view: &View<'_>) {
        if view.now - self.viewed_at > self.patience {
            // No data waited for this long, so the strain is over.
            self.strained.clear();
        }
        (self.viewed_at, self.waiting) = (view.now, waiting(view));
        if background::is_next(view) {
            // Background data may wait for any time: nothing is paid for it.
            return self.strained.clear();
        }
        let prices: SmallVec<[Price; 8]> = usable(view).map(price).collect();
        self.strained.retain(|(strained, _)| prices.contains(strained));
        for of in prices {
            let room: ByteCount =
                usable(view).filter(|path| price(path) < of).map(|path| path.sendable).sum();
            let is_known = self.strained.iter().any(|(known, _)| *known == of);
            if self.waiting <= room {
                self.strained.retain(|(known, _)| *known != of);
            } else if !is_known {
                self.strained.push((of, view.now));
            }
        }
    }

    /// Whether the cheaper paths do not carry the waiting data in time.
    fn is_needed(&self, path: &PathView, view: &View<'_>) -> bool {
        let of = price(path);
        let cheaper: Rate = usable(view).filter(|other| price(other) < of).map(capacity).sum();
        let since =
            self.strained.iter().find(|(known, _)| *known == of).map_or(self.viewed_at, |(_, since)| *since);
        cheaper == Rate::ZERO
            || self.waiting / cheaper > self.patience
            || self.viewed_at - since > self.patience
    }
}

impl Scheduler for Cost {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn is_guarded(&self) -> bool {
        false
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.watch(view);
        let open = usable(view).filter(|path| has_room(path) && self.is_needed(path, view));
        let Some(path) = open.min_by_key(|path| (price(path), path.rtt.smoothed, path.id)) else {
            return Decision::WAIT;
        };
        let allowed = path.terms.quota_left.unwrap_or(ByteCount::MAX);
        Decision::send(path.id, path.sendable.min(allowed), Source::Next)
    }

    fn on_urgent(&mut self, view: &View<'_>) {
        self.watch(view);
    }

    fn may_use(&self, path: &PathView, paths: &[PathView]) -> bool {
        has_quota(path) && self.is_needed(path, &View::new(self.viewed_at, paths))
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        let alike = usable(view).filter(|other| other.terms.cost == path.terms.cost);
        let first = alike.min_by_key(|other| (price(other), other.rtt.smoothed, other.id));
        match first {
            _ if !has_quota(path) => Purpose::CapReached,
            _ if view.paths.iter().any(|other| is_meant_before(other, path)) => Purpose::MoreCostly,
            Some(first) if first.id == path.id => Purpose::LowestRtt,
            Some(first) if first.tier() < path.tier() => Purpose::Secondary,
            _ => Purpose::HigherRtt,
        }
    }
}

/// All waiting data, including data without credit, which is often most of it.
fn waiting(view: &View<'_>) -> ByteCount {
    let of_next = view.next.map_or(ByteCount::ZERO, |next| next.left);
    view.retransmissions + view.backlog.max(of_next)
}

/// The paths in use with quota for a datagram.
fn usable<'a>(view: &View<'a>) -> impl Iterator<Item = &'a PathView> + use<'a> {
    view.in_use_of(has_quota)
}

fn has_quota(path: &PathView) -> bool {
    path.terms.quota_left.is_none_or(|left| left >= path.datagram)
}

/// Whether a path would carry data before `other` if it worked, because it costs less.
fn is_meant_before(path: &PathView, other: &PathView) -> bool {
    path.terms.cost < other.terms.cost && path.role < Role::Backup && path.state != PathState::Validating
}

fn price(path: &PathView) -> Price {
    (path.terms.cost, path.tier())
}
