//! Paths: the addresses of both ends, reports of the system about them, and requests of the application.

use std::net::SocketAddr;

use manyway_wire::PathId;

use super::Connection;
use crate::engine::{AddressPair, LinkNews, carriers, on_links_changed, on_unreachable};
use crate::mmsp2::Mmsp2;
use crate::path::{LocalCandidate, Path, PathReason, PingToken, SendRefusal};
use crate::recovery::CarrierFigures;
use crate::scheduler::{self, PathTerms, Purpose};
use crate::wire::for_connection_wire;
use crate::{ByteCount, FourTuple, Instant, LocalAddress, Misuse};

impl Connection {
    /// Sets the addresses that this end may use. A client at once closes paths over missing ones, and tries new ones.
    /// A server registers them at its rendezvous server; its paths continue until [`relocate`](Self::relocate) or
    /// [`on_links_changed`](Self::on_links_changed) reports that their addresses are gone. Over MMSP/1 only those count that
    /// were there at the start, because its addresses do not change during a connection (spec 3.80).
    pub fn set_local_addresses(&mut self, now: Instant, locals: &[LocalCandidate]) {
        let engine = &mut self.engine;
        for_connection_wire!(&mut self.wire, wire => wire.set_locals(engine, now, locals));
        self.carry_out(now);
    }

    /// The addresses from [`set_local_addresses`](Self::set_local_addresses), or from the start.
    pub fn local_candidates(&self) -> Vec<LocalCandidate> {
        self.engine.manager.local_candidates().to_vec()
    }

    /// The known addresses of the peer: those from the application, and those that the peer advertised.
    pub fn remote_addresses(&self) -> Vec<SocketAddr> {
        self.engine.manager.remotes().collect()
    }

    /// Adds addresses of the peer, as from a new name look-up, and challenges them first. If there is no space for
    /// them, they replace others that no working path uses. Without effect over MMSP/1, whose addresses do not change.
    pub fn add_remote_addresses(&mut self, now: Instant, remotes: &[SocketAddr]) {
        if self.mmsp2().is_none() {
            return;
        }
        self.engine.add_remote_addresses(now, remotes);
        self.carry_out(now);
    }

    /// Advertises to the peer the addresses at which this end can be reached from now on, at most 8; for servers. Without
    /// effect over MMSP/1.
    pub fn set_advertised_addresses(&mut self, addresses: &[SocketAddr]) {
        if let Some((engine, mmsp2)) = self.parts() {
            mmsp2.advertise(engine, addresses);
        }
    }

    /// The rendezvous servers that this end uses.
    pub fn rendezvous_servers(&self) -> &[SocketAddr] {
        self.mmsp2().map_or(&[], Mmsp2::rendezvous_servers)
    }

    /// Every candidate pair of one family, by local address, and its state. Empty at a server, which opens no paths.
    /// Costs O(pairs × paths).
    pub fn address_pairs(&self) -> Vec<AddressPair> {
        self.engine.address_pairs()
    }

    /// Memory in which a client keeps its measurements of address pairs; 0 at a server.
    pub fn pair_memory(&self) -> ByteCount {
        let selection = self.engine.manager.selection.as_ref();
        selection.map_or(ByteCount(0), |selection| selection.checks.memory())
    }

    /// Reports to a server's connection the state of the links below its paths; `news_of` gives it for the addresses
    /// of a path, `None` if nothing changed. Paths that lost their link are dead at once while another path is live,
    /// and dead ones with a restored link are challenged at once. Has no effect at a client, which uses
    /// [`set_local_addresses`](Self::set_local_addresses) instead.
    pub fn on_links_changed(&mut self, now: Instant, news_of: impl Fn(&FourTuple) -> Option<LinkNews>) {
        on_links_changed(&mut self.engine, now, news_of);
        self.carry_out(now);
    }

    /// Reports to a server's connection which addresses of its host are usable (`local_addresses`), and which paths lost
    /// theirs. If no live path has its own any more, declares those that lost it dead, and challenges the client from
    /// `local_addresses`; other dead paths do so too. Has no effect at a client, which uses
    /// [`set_local_addresses`](Self::set_local_addresses) instead.
    pub fn relocate(
        &mut self,
        now: Instant,
        local_addresses: &[LocalAddress],
        has_lost: impl Fn(&FourTuple) -> bool,
    ) {
        self.engine.relocate(now, local_addresses, has_lost);
        self.carry_out(now);
    }

    /// This host slept, or the program was stopped, until now: challenges all paths at once, repeats the packets of a
    /// handshake or close in progress, and restarts the timers of these, of idleness and of silence. Called before
    /// any other call with a time (spec 6.40).
    pub fn on_wake(&mut self, now: Instant) {
        self.wire.on_wake(&self.engine, now);
        self.engine.on_wake(now);
        self.carry_out(now);
    }

    /// Whether a path uses these addresses, or may during the handshake.
    pub(crate) fn uses(&self, tuple: &FourTuple) -> bool {
        let lies_there = || self.engine.paths.iter().any(|path| path.tuple() == *tuple);
        self.is_handshaking() || (self.engine.phase.is_open() && lies_there())
    }

    /// Whether a path uses a stream carrier, or is a candidate for it.
    pub(crate) fn uses_stream(&self, stream: &FourTuple) -> bool {
        let is_there = |path: &Path| path.tuple() == *stream || path.prober.is_target(stream);
        !stream.is_datagram() && !self.is_closed() && self.engine.paths.iter().any(is_there)
    }

    /// The system refuses to send between these addresses: the path is dead at once. During the handshake, the other
    /// candidates go on.
    pub fn on_send_refused(&mut self, now: Instant, tuple: FourTuple, refusal: SendRefusal) {
        if self.is_handshaking() {
            for_connection_wire!(&mut self.wire, wire => wire.on_send_refused(now, &tuple));
        } else {
            self.engine.on_send_refused(now, tuple, refusal);
            self.carry_out(now);
        }
    }

    /// Opens a path over a stream carrier, such as a TCP connection, that the driver has connected from a client;
    /// `None` if that is not possible now: the connection is not established, this end is a server or has a path
    /// there already, or the limits of both ends allow no further path, or the peer has issued no ID for one yet: then
    /// a later call may succeed. A server's paths over streams begin with
    /// their first record.
    pub fn open_path(&mut self, now: Instant, tuple: FourTuple) -> Option<PathId> {
        self.mmsp2()?;
        let opened = carriers::open_stream_path(&mut self.engine, now, tuple);
        self.carry_out(now);
        opened
    }

    /// A stream carrier has ended: its path closes, and what was in flight on it is sent again elsewhere. If the
    /// handshake goes over it, the connection ends.
    pub fn on_carrier_closed(&mut self, now: Instant, tuple: FourTuple) {
        if self.is_handshaking() {
            if !tuple.is_datagram() && self.engine.paths.iter().any(|path| path.tuple() == tuple) {
                self.give_up(now, crate::ConnectionError::NoPath);
            }
            return;
        }
        carriers::on_carrier_closed(&mut self.engine, now, &tuple);
        self.carry_out(now);
    }

    /// The system's figures of a stream carrier, for the scheduler and instead of the congestion window of this end.
    /// Best reported before each turn of sending, and whenever the carrier has acknowledged something. On a datagram
    /// carrier they are ignored. Costs O(paths).
    pub fn on_carrier_figures(&mut self, now: Instant, tuple: FourTuple, figures: CarrierFigures) {
        carriers::on_carrier_figures(&mut self.engine, now, &tuple, figures);
    }

    /// The receive windows that a target rate wants for paths over TCP; the driver sets them after each
    /// [`Event::TargetRate`](crate::Event::TargetRate), and when such a path opens. Empty without a target.
    pub fn carrier_windows(&self) -> Vec<(FourTuple, ByteCount)> {
        self.mmsp2().map_or_else(Vec::new, |mmsp2| mmsp2.targets.carrier_windows(&self.engine))
    }

    /// How many TCP connections on each interface that uses TCP a target rate wants, of this end or of the server;
    /// `None` leaves that to the driver.
    pub fn wanted_connections(&self) -> Option<u8> {
        self.mmsp2()?.targets.wanted_connections()
    }

    /// How many more paths the limits of both ends allow.
    pub fn path_room(&self) -> usize {
        self.engine.path_room()
    }

    /// The driver can pass nothing on to the carrier of these addresses now: no packet is built for a path there until
    /// [`on_writable`](Self::on_writable), while other paths go on. Data waits for it about a round trip, as for a full
    /// window, and then goes elsewhere. Costs O(paths).
    pub fn on_blocked(&mut self, now: Instant, tuple: FourTuple) {
        carriers::on_blocked(&mut self.engine, now, &tuple);
    }

    /// The carrier of these addresses takes packets again.
    pub fn on_writable(&mut self, tuple: FourTuple) {
        carriers::on_writable(&mut self.engine, &tuple);
    }

    /// An ICMP error says that a packet for `remote` was not delivered; `quoted` are the first bytes of its UDP
    /// payload. True if a path became suspect, or is challenged.
    pub fn on_unreachable(&mut self, now: Instant, remote: SocketAddr, quoted: &[u8]) -> bool {
        let engine = &self.engine;
        let path = for_connection_wire!(&self.wire, wire => wire.quoted_path(engine, remote, quoted));
        let Some(path) = path else { return false };
        let is_suspect = on_unreachable(&mut self.engine, now, path);
        self.carry_out(now);
        is_suspect
    }

    /// The system refuses datagrams of `size` bytes between two addresses as too large: smaller ones are used from
    /// now on (spec 6.125). Costs O(paths).
    pub fn on_datagram_too_large(&mut self, now: Instant, tuple: FourTuple, size: usize) {
        self.engine.on_datagram_too_large(now, tuple, size);
    }

    /// Measures the RTT on a path once; the result is an [`Event::Pong`](crate::Event::Pong). The ping goes out in
    /// any state of the path and is never repeated; a lost one has no result. At most 256 pings of a path wait for
    /// their responses; beyond that the oldest is forgotten. A ping waits while the path has no connection ID of the
    /// peer, or its address is unverified or unvalidated. Costs about 40 bytes in each direction.
    ///
    /// # Errors
    /// If there is no such path, or the connection is not established.
    pub fn ping(&mut self, path: PathId) -> Result<PingToken, Misuse> {
        self.check_usable()?;
        let path = self.engine.paths.get_mut(path).ok_or(Misuse::UnknownPath { path })?;
        Ok(path.request_ping())
    }

    /// Closes a path at the request of the application.
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

    /// Closes a path over a stream carrier, such as a TCP connection, without losing what is on its way there: the peer is
    /// told to send on other paths, and the path closes 2 s later.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn retire_path(&mut self, now: Instant, path: PathId) -> Result<(), Misuse> {
        if self.engine.paths.get(path).is_none() {
            return Err(Misuse::UnknownPath { path });
        }
        carriers::retire(&mut self.engine, now, path);
        self.carry_out(now);
        Ok(())
    }

    /// Makes a path the primary one, or with `None` leaves the choice to the scheduler again. Only the scheduler
    /// `primary` has one; the others continue as before. A path that does not work becomes primary as soon as it
    /// does.
    ///
    /// # Errors
    /// If there is no such path, or the connection is not established.
    pub fn set_primary(&mut self, path: Option<PathId>) -> Result<(), Misuse> {
        self.check_path(path)?;
        self.engine.sending.scheduler.on_event(&scheduler::Event::PrimaryWished { path });
        Ok(())
    }

    /// Permits a path although it costs more than the last primary that needed no permission: the answer to
    /// [`Event::CostlyPathNeeded`](crate::Event::CostlyPathNeeded). The permission lasts while the path is open: a
    /// path with another address needs its own.
    ///
    /// # Errors
    /// If there is no such path, or the connection is not established.
    pub fn allow_costly(&mut self, path: PathId) -> Result<(), Misuse> {
        self.check_path(Some(path))?;
        self.engine.sending.scheduler.on_event(&scheduler::Event::CostlyAllowed { path });
        Ok(())
    }

    pub(super) fn check_path(&self, path: Option<PathId>) -> Result<(), Misuse> {
        self.check_usable()?;
        match path {
            Some(path) if self.engine.paths.get(path).is_none() => Err(Misuse::UnknownPath { path }),
            Some(_) | None => Ok(()),
        }
    }

    /// Sets cost and quota of a local address's interface, or of that address if it belongs to none, for open and
    /// future paths. Default: free, without a limit. An interface without any quota left counts as gone from the next
    /// call of [`set_local_addresses`](Self::set_local_addresses) on. The peer learns the cost (not over MMSP/1), and
    /// its scheduler goes by it where the peer has set none itself.
    pub fn set_terms(&mut self, local: LocalAddress, terms: PathTerms) {
        crate::engine::set_terms(&mut self.engine, local, terms);
    }

    /// The purpose of each used path in the view of this end's scheduler: it explains why a path carries data or
    /// none.
    pub fn purposes(&self, now: Instant) -> Vec<(PathId, Purpose)> {
        crate::engine::purposes(&self.engine, &self.wire, now)
    }
}
