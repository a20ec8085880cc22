//! Paths: the addresses of both ends, what the system says of them, and the application's wishes.

use std::net::SocketAddr;

use manyway_wire::PathId;

use super::Connection;
use crate::engine::{AddressPair, LinkNews};
use crate::path::{LocalCandidate, PathReason, PingToken, SendRefusal};
use crate::scheduler::{self, PathTerms, Purpose};
use crate::{FourTuple, Instant, LocalAddress, Misuse};

impl Connection {
    /// Tells which addresses this end may use from now on. At a client paths over missing ones close at once, and new ones
    /// are tried. A server leaves them at its rendezvous server; its paths go on until [`relocate`](Self::relocate) or
    /// [`on_links_changed`](Self::on_links_changed) says that their addresses are gone.
    pub fn set_local_addresses(&mut self, now: Instant, locals: &[LocalCandidate]) {
        let (engine, mmsp2) = self.parts();
        engine.manager.set_locals(locals);
        mmsp2.on_locals_changed(engine);
        engine.on_locals_changed(now);
        self.carry_out(now);
    }

    /// The addresses that this end was told to use by [`set_local_addresses`](Self::set_local_addresses), or at the start.
    pub fn local_candidates(&self) -> Vec<LocalCandidate> {
        self.engine.manager.local_candidates().to_vec()
    }

    /// The addresses of the peer that are known: those that the application named, and those that the peer did.
    pub fn remote_addresses(&self) -> Vec<SocketAddr> {
        self.engine.manager.remotes().collect()
    }

    /// Adds addresses of the peer, as from a new look at its name, and has them asked first. Where there is no room for
    /// them, they take the places of others that no working path uses.
    pub fn add_remote_addresses(&mut self, now: Instant, remotes: &[SocketAddr]) {
        self.engine.add_remote_addresses(now, remotes);
        self.carry_out(now);
    }

    /// Tells the peer by which addresses this end can be reached from now on, at most 8; a server does.
    pub fn set_advertised_addresses(&mut self, addresses: &[SocketAddr]) {
        let (engine, mmsp2) = self.parts();
        mmsp2.advertise(engine, addresses);
    }

    /// The rendezvous servers that this end goes to.
    pub fn rendezvous_servers(&self) -> &[SocketAddr] {
        self.mmsp2().rendezvous_servers()
    }

    /// Every pair of addresses of one family that this end could use, by own address, and what is done with it. Empty
    /// at a server, which opens no paths. Costs O(pairs × paths).
    pub fn address_pairs(&self) -> Vec<AddressPair> {
        self.engine.address_pairs()
    }

    /// Tells a server's connection what became of the links below its paths; `news_of` says it for the addresses of a
    /// path, `None` if nothing changed. Paths that lost their link are dead at once while another path is live, and dead
    /// ones that have it again are asked at once. A client is told by
    /// [`set_local_addresses`](Self::set_local_addresses) instead; here it does nothing.
    pub fn on_links_changed(&mut self, now: Instant, news_of: impl Fn(&FourTuple) -> Option<LinkNews>) {
        self.engine.on_links_changed(now, news_of);
        self.carry_out(now);
    }

    /// Tells a server's connection which addresses of its host lead elsewhere (`homes`), and which paths lost theirs. If no
    /// live path has its own any more, those that lost it are dead and speak to the client from `homes`, by PROBE; so do
    /// others that are dead already. A client is told by [`set_local_addresses`](Self::set_local_addresses) instead; here
    /// it does nothing.
    pub fn relocate(&mut self, now: Instant, homes: &[LocalAddress], has_lost: impl Fn(&FourTuple) -> bool) {
        self.engine.relocate(now, homes, has_lost);
        self.carry_out(now);
    }

    /// This host slept, or the program stood still, until now: asks all paths at once, says again what belongs to a
    /// set-up or an end under way, and counts the times for all of these, for idleness and for the silence of paths from
    /// now on. To be called before anything else that has to do with time (spec 6.40).
    pub fn on_wake(&mut self, now: Instant) {
        self.wire.on_wake(&self.engine, now);
        self.engine.on_wake(now);
        self.carry_out(now);
    }

    /// Whether a path lies between these addresses, or may during the set-up.
    pub(crate) fn uses(&self, tuple: &FourTuple) -> bool {
        let lies_there = || self.engine.paths.iter().any(|path| path.tuple() == *tuple);
        self.is_handshaking() || (self.engine.phase.is_open() && lies_there())
    }

    /// The system refuses to send between these addresses: the path is dead at once. During the set-up, the other address
    /// pairs go on.
    pub fn on_send_refused(&mut self, now: Instant, tuple: FourTuple, refusal: SendRefusal) {
        if self.is_handshaking() {
            self.mmsp2_mut().on_send_refused(now, &tuple);
        } else {
            self.engine.on_send_refused(now, tuple, refusal);
            self.carry_out(now);
        }
    }

    /// Somebody says that a packet for `remote` was not delivered; `quoted` are the first bytes of its UDP payload.
    /// True if a path became suspect.
    pub fn on_unreachable(&mut self, now: Instant, remote: SocketAddr, quoted: &[u8]) -> bool {
        let (engine, mmsp2) = self.parts();
        let Some(path) = mmsp2.quoted_path(engine, remote, quoted) else { return false };
        let is_suspect = engine.on_unreachable(now, path);
        self.carry_out(now);
        is_suspect
    }

    /// The system refuses datagrams of `size` bytes between two addresses as too large: smaller ones are used from now
    /// on (spec 6.34). Costs O(paths).
    pub fn on_datagram_too_large(&mut self, now: Instant, tuple: FourTuple, size: usize) {
        self.engine.on_datagram_too_large(now, tuple, size);
    }

    /// Asks once how far the peer is on a path; the answer is an [`Event::Pong`](crate::Event::Pong). The question goes out
    /// whatever the state of the path and is never repeated; a lost one has no answer. At most 256 questions of a path wait
    /// for theirs; beyond that the oldest is forgotten. While the path has no id of the peer, or its address was named by
    /// the peer alone or proved nothing yet, it waits. Costs about 40 bytes in each direction.
    ///
    /// # Errors
    /// If there is no such path, or the connection is not established.
    pub fn ping(&mut self, path: PathId) -> Result<PingToken, Misuse> {
        self.check_usable()?;
        let path = self.engine.paths.get_mut(path).ok_or(Misuse::UnknownPath { path })?;
        Ok(path.wish_ping())
    }

    /// A path closed by the application.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn close_path(&mut self, now: Instant, path: PathId) -> Result<(), Misuse> {
        if self.engine.paths.get(path).is_none() {
            return Err(Misuse::UnknownPath { path });
        }
        self.engine.close_own_path(now, path, PathReason::ClosedByApplication);
        self.carry_out(now);
        Ok(())
    }

    /// Makes a path the primary one, or with `None` leaves the choice to the scheduler again. Only the scheduler
    /// `primary` has one; the others go on as before. A path that does not work is primary as soon as it does.
    ///
    /// # Errors
    /// If there is no such path, or the connection is not established.
    pub fn set_primary(&mut self, path: Option<PathId>) -> Result<(), Misuse> {
        self.check_path(path)?;
        self.engine.sending.scheduler.on_event(&scheduler::Event::PrimaryWished { path });
        Ok(())
    }

    /// Allows that a path is used although it costs more than the last primary that needed no leave: the answer to
    /// [`Event::CostlyPathNeeded`](crate::Event::CostlyPathNeeded). It holds for as long as the path is open: with another
    /// address it is another path.
    ///
    /// # Errors
    /// If there is no such path, or the connection is not established.
    pub fn allow_costly(&mut self, path: PathId) -> Result<(), Misuse> {
        self.check_path(Some(path))?;
        self.engine.sending.scheduler.on_event(&scheduler::Event::CostlyAllowed { path });
        Ok(())
    }

    fn check_path(&self, path: Option<PathId>) -> Result<(), Misuse> {
        self.check_usable()?;
        match path {
            Some(path) if self.engine.paths.get(path).is_none() => Err(Misuse::UnknownPath { path }),
            Some(_) | None => Ok(()),
        }
    }

    /// Says what it costs to use the interface of an own address, or that address if it belongs to none: for paths that
    /// are open, and those to come. Default: nothing, without a limit. An interface without any quota left is as gone from
    /// the next call of [`set_local_addresses`](Self::set_local_addresses) on.
    pub fn set_terms(&mut self, local: LocalAddress, terms: PathTerms) {
        self.engine.manager.set_terms(local, terms);
    }

    /// What the scheduler of this end has each path for that is in use; for people who ask why it carries data or none.
    pub fn purposes(&self, now: Instant) -> Vec<(PathId, Purpose)> {
        crate::engine::purposes(&self.engine, &self.wire, now)
    }
}
