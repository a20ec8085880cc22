//! Shares by weight: fixed ones such as 1:1:2 (CMT 2.6.1 and 4.4, the static ratio of Goff-Phatak III), those of the
//! interfaces, or measured rates.

use manyway_wire::PathId;
use smallvec::SmallVec;

use super::choice::{has_room, preferred, purpose_alike, turn, will_have_room};
use super::{Decision, Event, PathTerms, PathView, Purpose, Scheduler, Source, View};
use crate::ByteCount;

/// Gives each path bytes in proportion to its weight.
///
/// Of the paths that are not ahead of their share it takes the one whose next turn would end first, so that a path is
/// never more than about a turn off its share.
///
/// Fixed shares are kept: while a path that is due cannot send, the others exceed their shares by 64 KiB at most and
/// then wait for it, as long as it works. So the path that is slowest for its weight sets the pace. With measured
/// rates no path waits.
#[derive(Debug, Clone)]
pub struct Weighted {
    weights: Weights,
    lanes: SmallVec<[Lane; 8]>,
}

/// The origin of weights.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Weights {
    Measured,
    /// By the order of the paths.
    Fixed(Box<[u32]>),
    /// By the weights of the interfaces.
    Interfaces,
}

/// Bytes that one path has carried.
#[derive(Debug, Clone, Copy)]
struct Lane {
    path: PathId,
    /// Place in the list of weights; a new path takes that of a closed one.
    slot: usize,
    weight: u64,
    /// Bytes for each unit of weight, in 2⁻³², beyond those of the path with the least.
    level: u64,
}

/// How far a path may exceed its share while another one cannot send.
const SLACK: u64 = 64 << 10;

impl Weighted {
    /// Weighs paths by their delivery rates.
    pub fn measured() -> Self {
        Self { weights: Weights::Measured, lanes: SmallVec::new() }
    }

    /// Weighs paths by their interfaces ([`PathTerms::weight`]).
    pub fn by_interface() -> Self {
        Self { weights: Weights::Interfaces, lanes: SmallVec::new() }
    }

    /// Weighs paths by numbers from 1 to 1000, in the order in which the paths opened; those beyond the list have 1.
    /// `None` if there is no number, or one out of that range.
    pub fn fixed(weights: &[u32]) -> Option<Self> {
        let is_good = !weights.is_empty() && weights.iter().all(|weight| PathTerms::WEIGHTS.contains(weight));
        is_good.then(|| Self { weights: Weights::Fixed(weights.into()), lanes: SmallVec::new() })
    }

    /// Parses `1:1:2`, or `fixed` for the weights of the interfaces; an empty text means measured rates.
    pub(super) fn parse(settings: &str) -> Result<Self, String> {
        match settings {
            "" => return Ok(Self::measured()),
            "fixed" => return Ok(Self::by_interface()),
            _ => {}
        }
        let weights: Option<Vec<u32>> = settings.split(':').map(|weight| weight.parse().ok()).collect();
        weights.and_then(|weights| Self::fixed(&weights)).ok_or_else(|| {
            let (least, most) = PathTerms::WEIGHTS.into_inner();
            format!(
                "takes weights from {least} to {most}, one a path: weighted=1:1:2, or weighted=fixed for those of the \
                 interfaces, or none to go by measured rates"
            )
        })
    }

    /// Adapts the lanes to the paths; paths that take no part are kept level with the rest.
    fn follow(&mut self, view: &View<'_>) {
        self.lanes.retain(|lane| view.path(lane.path).is_some());
        for path in view.paths {
            if self.lanes.iter().all(|lane| lane.path != path.id) {
                let is_free = |slot: &usize| self.lanes.iter().all(|lane| lane.slot != *slot);
                let slot = (0..=self.lanes.len()).find(is_free).unwrap_or_default();
                let level = self.share(view);
                self.lanes.push(Lane { path: path.id, slot, weight: 1, level });
            }
        }
        let share = self.share(view);
        for lane in &mut self.lanes {
            let Some(path) = view.path(lane.path) else { continue };
            lane.weight = match &self.weights {
                Weights::Measured => path.expected_rate().bytes_per_second(),
                Weights::Fixed(weights) => weights.get(lane.slot).copied().unwrap_or(1).into(),
                Weights::Interfaces => {
                    let (least, most) = PathTerms::WEIGHTS.into_inner();
                    path.terms.weight.clamp(least, most).into()
                }
            };
            if preferred(view).all(|member| member.id != path.id) {
                lane.level = share;
            }
        }
        let least = self.lanes.iter().map(|lane| lane.level).min().unwrap_or_default();
        for lane in &mut self.lanes {
            lane.level -= least;
        }
    }

    /// The level at which all paths have exactly their shares.
    fn share(&self, view: &View<'_>) -> u64 {
        let (mut bytes, mut weights) = (0_u128, 0_u128);
        for lane in preferred(view).filter_map(|path| self.lane(path.id)) {
            bytes = bytes.saturating_add(u128::from(lane.level) * u128::from(lane.weight));
            weights += u128::from(lane.weight);
        }
        bytes.checked_div(weights).and_then(|level| u64::try_from(level).ok()).unwrap_or_default()
    }

    fn lane(&self, path: PathId) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.path == path)
    }

    /// Of the paths that are not ahead of their share the one whose turn would end first; if these are full, the one
    /// that is ahead least.
    fn due<'a>(&self, view: &View<'a>) -> Option<&'a PathView> {
        let share = self.share(view);
        let open = view.candidates().filter_map(|path| Some((path, self.lane(path.id)?)));
        let (path, lane) = open.min_by_key(|(path, lane)| {
            let end = lane.level.saturating_add(per_weight(turn(path), lane.weight));
            (lane.level > share, end, path.id)
        })?;
        let ahead = (u128::from(lane.level.saturating_sub(share)) * u128::from(lane.weight)) >> 32;
        let waits = self.weights != Weights::Measured
            && ahead >= u128::from(SLACK)
            && preferred(view).any(|other| !has_room(other) && will_have_room(other));
        (!waits).then_some(path)
    }
}

impl Scheduler for Weighted {
    fn name(&self) -> &'static str {
        "weighted"
    }

    fn is_guarded(&self) -> bool {
        self.weights == Weights::Measured
    }

    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.follow(view);
        let Some(path) = self.due(view) else { return Decision::WAIT };
        if self.weights == Weights::Measured {
            // A path that cannot send loses the turn that another one takes.
            let level = self.lane(path.id).map_or(0, |lane| lane.level);
            for full in preferred(view).filter(|path| !has_room(path)) {
                if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.path == full.id) {
                    lane.level = lane.level.max(level);
                }
            }
        }
        Decision::send(path.id, turn(path).min(path.sendable), Source::Next)
    }

    fn on_event(&mut self, event: &Event) {
        if let Event::Sent { path, bytes, .. } = event
            && let Some(lane) = self.lanes.iter_mut().find(|lane| lane.path == *path)
        {
            lane.level = lane.level.saturating_add(per_weight(*bytes, lane.weight));
        }
    }

    fn purpose(&self, path: &PathView, view: &View<'_>) -> Purpose {
        purpose_alike(path, view)
    }
}

/// Bytes for each unit of weight, in 2⁻³².
fn per_weight(bytes: ByteCount, weight: u64) -> u64 {
    let exact = (u128::from(bytes.get()) << 32) / u128::from(weight.max(1));
    u64::try_from(exact).unwrap_or(u64::MAX)
}
