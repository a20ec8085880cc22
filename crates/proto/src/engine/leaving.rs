//! Paths that stay only until another one works: to addresses that the peer withdrew (spec 6.8), and over rendezvous
//! servers that relay to the peer (spec 10.46).

use manyway_wire::PathId;

use super::Engine;
use crate::Instant;
use crate::path::{Path, PathReason};

/// Paths of datagrams over a relay give way to others, as soon as an address of the peer is known. A TCP connection
/// gives way to UDP by itself.
pub(crate) fn leave_relays(engine: &mut Engine) {
    let Engine { paths, manager, .. } = engine;
    for path in paths.iter().filter(|path| path.is_live() && path.is_datagram()) {
        let remote = path.tuple().remote;
        if manager.is_relay(remote) {
            manager.leave_relay(remote);
        }
    }
}

/// A path works again, or for the first time. If it goes over a relay, the client tries other addresses beside it.
pub(crate) fn on_path_works(engine: &mut Engine, now: Instant, id: PathId) {
    let remote = engine.paths.get(id).map(|path| path.tuple().remote);
    if remote.is_some_and(|remote| engine.manager.is_relay(remote)) {
        engine.retarget_paths(now);
        engine.open_missing_paths(now);
    }
}

/// Whether every path that works goes over a relay, and there is one.
pub(crate) fn is_relayed(engine: &Engine) -> bool {
    let is_relay = |path: &Path| engine.manager.is_relay(path.tuple().remote);
    let mut live = engine.paths.iter().filter(|path| path.is_live()).peekable();
    live.peek().is_some() && live.all(is_relay)
}

/// Closes paths to withdrawn addresses and to relays, once another path works.
pub(crate) fn close(engine: &mut Engine, now: Instant) {
    if !engine.manager.has_deprecated() {
        return;
    }
    let leaves = |path: &Path| engine.manager.is_deprecated(path.tuple().remote);
    if !engine.paths.iter().any(|path| path.is_live() && !leaves(path)) {
        return;
    }
    for id in engine.paths.ids() {
        let Some(remote) = engine.paths.get(id).map(|path| path.tuple().remote) else { continue };
        if engine.manager.is_deprecated(remote) {
            let is_relay = engine.manager.is_relay(remote);
            let reason = if is_relay { PathReason::Replaced } else { PathReason::AddressGone };
            engine.close_own_path(now, id, reason);
        }
    }
    engine.manager.forget_deprecated();
}
