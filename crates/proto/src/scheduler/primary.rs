//! One primary path, the others for retransmissions (MMSP 3.3.4), and no costly path without permission (MMSP 5.2).

use std::cmp::Reverse;

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::choice::{capacity, fill, has_room};
use super::{Decision, Event, Notice, PathView, Purpose, Scheduler, Source, Tier, View};
use crate::path::{PathState, Role};
use crate::{ByteCount, Instant};

/// New data and all urgent data go on the primary path alone; other retransmissions go on the fastest of the other
/// paths.
///
/// The primary is the path that the application chooses ([`Event::PrimaryWished`]), otherwise the home: the oldest of
/// the best role and the least cost, or with [`Self::by_rank`] the fastest of these. While it does not work, the
/// fastest of the others takes over; when it works again, it is primary again.
///
/// A path that costs more than the last primary that needed no permission takes over, and carries retransmissions,
/// only with permission of the application ([`Event::CostlyAllowed`]). Permission holds for one path: another path of
/// the same cost needs its own. A path without permission counts as one that does not work, so a backup of no higher
/// cost takes over. When nothing else works the application is asked ([`Notice::CostlyPathNeeded`]), and data waits.
///
/// A path that costs the peer more needs no permission, because the application that set its cost is not here to ask.
/// Cheaper paths in use of no lesser tier go before it.
#[derive(Debug, Clone, Default)]
pub struct Primary {
    order: Order,
    wished: Option<PathId>,
    /// The primary.
    present: Option<PathId>,
    /// The cost of the last primary that needed no permission.
    free_cost: Option<u8>,
    allowed: SmallVec<[PathId; 4]>,
    /// The path for which permission was requested.
    asked: Option<PathId>,
    notices: SmallVec<[Notice; 2]>,
}

/// The order that determines the home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Order {
    #[default]
    Age,
    Rate,
}

impl Primary {
    /// Makes the fastest path primary. Another one must be faster by a quarter to replace it.
    pub fn by_rank() -> Self {
        Self { order: Order::Rate, ..Self::default() }
    }

    /// Parses `rank`, or an empty text for the oldest path.
    pub(super) fn parse(settings: &str) -> Result<Self, String> {
        match settings {
            "" => Ok(Self::default()),
            "rank" => Ok(Self::by_rank()),
            _ => Err("takes rank for the fastest path as primary, or nothing for the oldest".to_owned()),
        }
    }

    /// The present primary; reports a change, and requests permission if only a costly path is left.
    fn primary<'a>(&mut self, view: &View<'a>) -> Option<&'a PathView> {
        self.allowed.retain(|path| view.path(*path).is_some());
        let found = self.choose(view);
        match found {
            Some(path) => {
                if self.present != Some(path.id) {
                    self.notices.push(Notice::PrimaryIs(path.id));
                }
                self.present = Some(path.id);
                let before = self.free_cost(view.paths).filter(|_| self.has_leave(path));
                self.free_cost = Some(before.unwrap_or(u8::MAX).min(own_cost(path)));
                self.asked = None;
            }
            None => self.ask(view),
        }
        found
    }

    fn choose<'a>(&self, view: &View<'a>) -> Option<&'a PathView> {
        let works = view.in_use_of(|path| self.needs_no_consent(path, view.paths));
        if let Some(wished) = works.clone().find(|path| Some(path.id) == self.wished) {
            return Some(wished);
        }
        let present = works.clone().find(|path| Some(path.id) == self.present);
        let gives_way =
            |path: &&PathView| works.clone().any(|other| is_settled(other) && spares_peer(path, Some(other)));
        let present = present.filter(|path| !gives_way(path));
        match self.order {
            Order::Age => {
                let home = home(view.paths).map(|path| path.id);
                let at_home = works.clone().find(|path| Some(path.id) == home && is_settled(path));
                at_home.or_else(|| present.filter(|path| is_settled(path))).or_else(|| fastest(works))
            }
            Order::Rate => {
                let best = fastest(works)?;
                let stays = |path: &&PathView| {
                    group(path) == group(best) && capacity(path).scaled(5, 4) >= capacity(best)
                };
                present.filter(stays).or(Some(best))
            }
        }
    }

    /// Whether the path may be used without a request for permission.
    fn needs_no_consent(&self, path: &PathView, paths: &[PathView]) -> bool {
        self.free_cost(paths).is_none_or(|cost| own_cost(path) <= cost) || self.has_leave(path)
    }

    fn has_leave(&self, path: &PathView) -> bool {
        self.allowed.contains(&path.id) || self.wished == Some(path.id)
    }

    /// The highest cost that needs no permission. Before the first primary the home counts as one.
    fn free_cost(&self, paths: &[PathView]) -> Option<u8> {
        self.free_cost.or_else(|| home(paths).map(own_cost))
    }

    fn ask(&mut self, view: &View<'_>) {
        let Some(path) = fastest(view.in_use()) else { return };
        if self.asked != Some(path.id) {
            self.asked = Some(path.id);
            self.notices.push(Notice::CostlyPathNeeded(path.id));
        }
    }
}

impl Scheduler for Primary {
    fn name(&self) -> &'static str {
        "primary"
    }

    fn is_guarded(&self) -> bool {
        false
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        let primary = self.primary(view);
        if view.retransmissions > ByteCount::ZERO {
            let usable = view.in_use_of(|path| self.needs_no_consent(path, view.paths));
            let open = usable.filter(|path| has_room(path) && !spares_peer(path, primary));
            let best = open.min_by_key(|path| {
                let is_primary = primary.is_some_and(|primary| primary.id == path.id);
                (Some(path.id) == view.retransmit_off, is_primary, Reverse(capacity(path)), path.id)
            });
            return best.map_or(Decision::WAIT, |path| {
                Decision::send(path.id, path.sendable, Source::Retransmission)
            });
        }
        primary.filter(|path| has_room(path)).map_or(Decision::WAIT, fill)
    }

    fn on_event(&mut self, event: &Event) {
        match *event {
            Event::PrimaryWished { path } => self.wished = path,
            Event::CostlyAllowed { path } => {
                if !self.allowed.contains(&path) {
                    self.allowed.push(path);
                }
            }
            Event::Sent { .. }
            | Event::Acked { .. }
            | Event::Lost { .. }
            | Event::Path { .. }
            | Event::StreamBound { .. } => {}
        }
    }

    fn on_urgent(&mut self, view: &View<'_>) {
        self.primary(view);
    }

    fn may_use(&self, path: &PathView, paths: &[PathView]) -> bool {
        let primary = self.choose(&View::new(Instant::from_nanos(0), paths));
        primary.is_some_and(|primary| primary.id == path.id)
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        (!self.notices.is_empty()).then(|| self.notices.remove(0))
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        let chosen = self.choose(view);
        let primary = chosen.map(|path| path.id);
        let meant = self.wished.filter(|wished| view.path(*wished).is_some());
        let meant = meant.or_else(|| {
            if self.order == Order::Age { home(view.paths).map(|path| path.id) } else { primary }
        });
        match primary {
            _ if !self.needs_no_consent(path, view.paths) => Purpose::NeedsConsent,
            _ if spares_peer(path, chosen) => Purpose::MoreCostly,
            Some(primary) if primary != path.id => Purpose::Retransmissions,
            _ if meant == Some(path.id) => Purpose::Primary,
            _ => Purpose::Fallback,
        }
    }
}

/// The oldest path of the best role and the least cost, working or not.
fn home(paths: &[PathView]) -> Option<&PathView> {
    let opened = paths.iter().filter(|path| {
        !matches!(path.state, PathState::Validating | PathState::Closed) && path.role != Role::Never
    });
    opened.min_by_key(|path| (path.role, path.terms.cost, path.id))
}

/// The part of a cost that the application of this end set.
fn own_cost(path: &PathView) -> u8 {
    if path.peer_pays { 0 } else { path.terms.cost }
}

/// Whether a path carries nothing because it costs the peer more than this other one, which is of no lesser tier.
fn spares_peer(path: &PathView, other: Option<&PathView>) -> bool {
    let is_better = |other: &PathView| other.tier() <= path.tier() && other.terms.cost < path.terms.cost;
    path.peer_pays && other.is_some_and(is_better)
}

/// The criteria that count more than speed.
fn group(path: &PathView) -> (Option<Tier>, u8) {
    (path.tier(), path.terms.cost)
}

/// The fastest path of the best group.
fn fastest<'a>(paths: impl Iterator<Item = &'a PathView>) -> Option<&'a PathView> {
    paths.min_by_key(|path| (group(path), Reverse(capacity(path)), path.id))
}

/// Whether a path is past its probation.
fn is_settled(path: &PathView) -> bool {
    path.state != PathState::Probation
}
