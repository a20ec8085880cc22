//! Link state reports of the system for a server's paths.

use super::{Engine, Side};
use crate::path::{Path, PathReason, PathState};
use crate::{FourTuple, Instant};

/// State of the link below a path, as the system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkNews {
    /// The local address is gone, or its interface is down or without a carrier.
    Lost,
    /// The link is up again, or for the first time.
    Back,
}

/// The links below a server's paths changed; `None` for an unchanged link.
pub(crate) fn on_links_changed(
    engine: &mut Engine,
    now: Instant,
    news_of: impl Fn(&FourTuple) -> Option<LinkNews>,
) {
    if engine.side == Side::Client || !engine.phase.is_open() {
        return;
    }
    let has = |path: &Path, news| news_of(&path.tuple()) == Some(news);
    // spec 6.129: if every link reports down, ignore the reports: the system may be wrong and nothing else is left
    // to try.
    if engine.paths.iter().any(|path| path.is_live() && !has(path, LinkNews::Lost)) {
        for id in engine.paths.ids() {
            let is_used = |path: &&Path| path.state().carries_data() || path.state() == PathState::Suspect;
            if !engine.paths.get(id).filter(is_used).is_some_and(|path| has(path, LinkNews::Lost)) {
                continue;
            }
            engine.declare_dead(now, id, PathReason::AddressGone);
            if let Some(path) = engine.paths.get_mut(id) {
                path.forget_flaps();
            }
        }
    }
    for path in engine.paths.iter_mut().filter(|path| path.state() == PathState::Dead) {
        if has(path, LinkNews::Back) {
            path.challenger.challenge_by(now);
        }
    }
}
