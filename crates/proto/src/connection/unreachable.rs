//! What routers and hosts say of packets that they did not deliver (spec 6.52, 7.44).
//!
//! Anybody can say so, also who only guesses the addresses. So it must quote an id that only those on the way know, and on
//! a path it raises no more than suspicion, and that rarely: the path answers, and is active again. Who is on the way can
//! end a connection attempt in any case.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_wire::{ConnectionId, PathId};

use super::{Connection, Initiator};
use crate::error::{ConnectionError, Undelivered};
use crate::path::PathReason;
use crate::{FourTuple, Instant};

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

    /// The same of a packet of a handshake to which nobody answered yet. The attempt ends once that was said of all pairs of
    /// addresses; true if it counts.
    // spec 7.44
    pub(crate) fn on_leg_unreachable(
        &mut self,
        now: Instant,
        tuple: &FourTuple,
        quoted: &[u8],
        undelivered: Undelivered,
    ) -> bool {
        if !self.is_handshaking() || self.side != Initiator::Client {
            return false;
        }
        let Some(setup) = &mut self.setup else { return false };
        let is_heard = setup.peer_keeps_state || setup.infos_taken > 0 || setup.race.is_settled();
        // spec 4.3: behind the first byte stand the version and the length of the id.
        let is_quoted = quoted.get(6..).is_some_and(|id| id.starts_with(setup.first_destination.as_slice()));
        if is_heard || !is_quoted || !setup.race.on_unreachable(now, tuple) {
            return false;
        }
        if setup.race.is_lost() {
            self.give_up(now, ConnectionError::Unreachable { remote: tuple.remote, undelivered });
        }
        true
    }

    /// The path to that address whose packets look as quoted.
    fn quoted_path(&self, remote: SocketAddr, quoted: &[u8]) -> Option<PathId> {
        let quoted = quoted.get(1..)?.get(..ConnectionId::LENGTH)?;
        let to_it = self.paths.iter().filter(|path| path.tuple().remote == remote);
        let mut named = to_it.filter(|path| {
            let used = self.ids.remote.current(path.id);
            used.is_some_and(|used| used.as_slice() == quoted)
        });
        named.next().map(|path| path.id)
    }
}
