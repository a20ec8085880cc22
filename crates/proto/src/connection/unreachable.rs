//! What routers and hosts say of packets that they did not deliver (spec 6.52).
//!
//! Anybody can say so, also who only guesses the addresses. So it must quote an id that only those on the way know, it
//! raises no more than suspicion, and that rarely: the path answers, and is active again.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::{ConnectionId, PathId};

use super::Connection;
use crate::Instant;
use crate::path::PathReason;

/// A path that was suspected on such a word is not suspected on another one for so long.
const REST: Duration = Duration::from_secs(5);

impl Connection {
    /// Somebody says that a packet for `remote` was not delivered; `quoted` are the first bytes of its UDP payload.
    /// True if a path became suspect.
    pub fn on_unreachable(&mut self, now: Instant, remote: SocketAddr, quoted: &[u8]) -> bool {
        let Some(id) = self.quoted_path(remote, quoted) else { return false };
        let Some(path) = self.paths.get(id) else { return false };
        let rests = path.last_unreachable().is_some_and(|last| now - last < REST);
        let in_flight = path.space.recovery.packets_in_flight() > 0;
        if rests || !in_flight || !path.state().carries_data() || !self.another_works(now, id) {
            return false;
        }
        if let Some(path) = self.paths.get_mut(id) {
            path.on_unreachable(now);
        }
        self.suspect(now, id, PathReason::Unreachable);
        true
    }

    /// The path to that address whose packets look as quoted.
    fn quoted_path(&self, remote: SocketAddr, quoted: &[u8]) -> Option<PathId> {
        let quoted = quoted.get(1..)?.get(..ConnectionId::LENGTH)?;
        let to_it = self.paths.iter().filter(|path| path.tuple.remote == remote);
        let mut named = to_it.filter(|path| {
            let used = self.ids.remote.current(path.id);
            used.is_some_and(|used| used.as_slice() == quoted)
        });
        named.next().map(|path| path.id)
    }
}
