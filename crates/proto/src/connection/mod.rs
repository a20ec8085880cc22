//! The connection for applications and drivers: passes each call to the engine or to the wire.

mod paths;
mod statistics;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;

use manyway_wire::mmsp1::{Info, Syn, Tag};
use manyway_wire::{ConnectionId, Side};

pub use statistics::ConnectionStatistics;

use crate::engine::Engine;
use crate::error::Undelivered;
use crate::event::Event;
use crate::mmsp1::{self, Mmsp1, PacketArrival, TagChange};
use crate::mmsp2::{self, Arrival, ArrivalRow, IdChange, Mmsp2, Start};
use crate::observe::Observer;
use crate::path::InterfaceMtus;
use crate::path::manager::PathManager;
use crate::stream::StreamEvent;
use crate::time::Earliest;
use crate::wire::{Wire, for_connection_wire};
use crate::{ConfigError, ConnectionConfig, ConnectionError, FourTuple, Instant, Misuse, SealJobs, Transmit};

/// One connection over any number of paths.
///
/// Obtained from [`Endpoint::connection`](crate::Endpoint::connection).
#[derive(Debug)]
pub struct Connection {
    engine: Engine,
    wire: Wire,
}

impl Connection {
    /// Starts a handshake over MMSP/2 with `remotes` from `locals`; `None` if no pair of them fits.
    pub(crate) fn client(start: Start, manager: PathManager, stream: Option<FourTuple>) -> Option<Self> {
        let (engine, mmsp2) = Mmsp2::client(start, manager, stream)?;
        Some(Self { engine, wire: Wire::Mmsp2(Box::new(mmsp2)) })
    }

    /// Answers a client over MMSP/2; `proven` if a cookie has validated its address.
    pub(crate) fn server(
        start: Start,
        tuple: FourTuple,
        remote_id: ConnectionId,
        info: Vec<u8>,
        proven: bool,
    ) -> Self {
        let (engine, mmsp2) = Mmsp2::server(start, tuple, remote_id, info, proven);
        Self { engine, wire: Wire::Mmsp2(Box::new(mmsp2)) }
    }

    /// Starts a handshake over MMSP/1 under this tag and with this port in the header; `None` if no pair of addresses fits.
    pub(crate) fn mmsp1_client(start: mmsp1::Start, own: (Tag, u16), manager: PathManager) -> Option<Self> {
        let (engine, mmsp1) = Mmsp1::client(start, own, manager)?;
        Some(Self { engine, wire: Wire::Mmsp1(Box::new(mmsp1)) })
    }

    /// Serves the client of a valid INFO over MMSP/1.
    pub(crate) fn mmsp1_server(start: mmsp1::Start, tuple: FourTuple, info: &Info<'_>) -> Self {
        let (engine, mmsp1) = Mmsp1::server(start, tuple, info);
        Self { engine, wire: Wire::Mmsp1(Box::new(mmsp1)) }
    }

    /// Whether this end opened the connection.
    pub fn side(&self) -> Side {
        self.engine.side
    }

    /// Whether the connection goes over MMSP/1, which neither encrypts nor authenticates.
    pub fn is_mmsp1(&self) -> bool {
        self.as_mmsp1().is_some()
    }

    pub(crate) fn config(&self) -> &Arc<ConnectionConfig> {
        &self.engine.config
    }

    /// Whether streams may be used.
    pub fn is_established(&self) -> bool {
        self.engine.phase.is_established()
    }

    /// Whether TLS is incomplete; a server counts such connections against its limit.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.engine.phase.is_handshaking()
    }

    /// Whether the connection has ended and may be forgotten.
    pub fn is_closed(&self) -> bool {
        self.engine.phase == crate::engine::Phase::Closed
    }

    /// The peer's key as DER of its `SubjectPublicKeyInfo`, once TLS showed it. Over MMSP/1 there are
    /// no keys: always `None`.
    pub fn peer_public_key(&self) -> Option<&[u8]> {
        self.mmsp2()?.peer_public_key()
    }

    /// Reports all further facts to `observer`.
    pub fn set_observer(&mut self, observer: Box<dyn Observer>) {
        self.engine.shared.observer = Some(observer);
    }

    /// Changes the congestion controller of every path, including future ones. Each path starts again with it, as a
    /// path on which nothing was sent yet. Default is that of the [`ConnectionConfig`](crate::ConnectionConfig).
    ///
    /// # Errors
    /// If there is none of that name; nothing is changed then.
    pub fn set_congestion(&mut self, name: &str) -> Result<(), ConfigError> {
        self.engine.set_congestion(name)
    }

    /// Closes in order: data already written still arrives, then the peer gets `code` and `reason`.
    ///
    /// [`Event::Closed`](crate::Event::Closed) follows. Data of the peer is accepted for at most 30 s.
    pub fn close(&mut self, now: Instant, code: u64, reason: &str) {
        let engine = &mut self.engine;
        for_connection_wire!(&mut self.wire, wire => wire.close(engine, now, code, reason));
    }

    /// Ends at once without flushing; the peer gets `code` and `reason`.
    pub fn abort(&mut self, now: Instant, code: u64, reason: &str) {
        let engine = &mut self.engine;
        for_connection_wire!(&mut self.wire, wire => wire.abort(engine, now, code, reason));
    }

    /// Ends at once, because the peer is no longer authorised: that end sees [`ConnectionError::Authentication`] with
    /// `reason`.
    pub fn revoke(&mut self, now: Instant, reason: &str) {
        let engine = &mut self.engine;
        for_connection_wire!(&mut self.wire, wire => wire.revoke(engine, now, reason));
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.engine.events.pop() {
            return Some(event);
        }
        Some(match for_connection_wire!(&mut self.wire, wire => wire.streams.poll_event())? {
            StreamEvent::Opened => Event::StreamOpened,
            StreamEvent::Available => Event::StreamsAvailable,
            StreamEvent::Readable(stream) => Event::StreamReadable(stream),
            StreamEvent::Reset(stream, _) => Event::StreamReadable(stream),
            StreamEvent::Writable(stream) => Event::StreamWritable(stream),
            StreamEvent::Finished(stream) => Event::StreamFinished(stream),
            StreamEvent::Stopped(stream, code) => Event::StreamStopped { stream, code },
            StreamEvent::Abandoned(stream, message) => Event::MessageAbandoned { stream, message },
        })
    }

    fn mmsp2(&self) -> Option<&Mmsp2> {
        match &self.wire {
            Wire::Mmsp2(mmsp2) => Some(mmsp2),
            Wire::Mmsp1(_) => None,
            #[cfg(feature = "toy-wire")]
            Wire::Toy(_) => None,
        }
    }

    fn parts(&mut self) -> Option<(&mut Engine, &mut Mmsp2)> {
        match &mut self.wire {
            Wire::Mmsp2(mmsp2) => Some((&mut self.engine, mmsp2)),
            Wire::Mmsp1(_) => None,
            #[cfg(feature = "toy-wire")]
            Wire::Toy(_) => None,
        }
    }

    fn mmsp1(&mut self) -> Option<(&mut Engine, &mut Mmsp1)> {
        match &mut self.wire {
            Wire::Mmsp1(mmsp1) => Some((&mut self.engine, mmsp1)),
            Wire::Mmsp2(_) => None,
            #[cfg(feature = "toy-wire")]
            Wire::Toy(_) => None,
        }
    }

    fn check_usable(&self) -> Result<(), Misuse> {
        if self.is_established() { Ok(()) } else { Err(Misuse::ConnectionClosed) }
    }

    /// Lets the wire carry out the notices of the engine.
    fn carry_out(&mut self, now: Instant) {
        self.wire.carry_out(&mut self.engine, now);
    }
}

/// Calls of the endpoint.
impl Connection {
    /// Handles a datagram for this connection.
    pub(crate) fn handle_datagram(&mut self, now: Instant, arrival: Arrival<'_>) {
        if let Some((engine, mmsp2)) = self.parts() {
            mmsp2::handle_datagram(mmsp2, engine, now, arrival);
        }
    }

    /// Handles packets with short headers whose id belongs to this connection.
    pub(crate) fn handle_row(&mut self, now: Instant, row: ArrivalRow<'_>) {
        if let Some((engine, mmsp2)) = self.parts() {
            mmsp2::handle_row(mmsp2, engine, now, row);
        }
    }

    /// Handles a packet of MMSP/1 for this connection.
    pub(crate) fn handle_packet(&mut self, now: Instant, arrival: &PacketArrival<'_>) {
        if let Some((engine, mmsp1)) = self.mmsp1() {
            mmsp1.handle_packet(engine, now, arrival);
        }
    }

    /// A valid PING came over MMSP/1 while this end waited for the answer to its own SYN: this end is the server now.
    pub(crate) fn serve(&mut self, now: Instant, tuple: FourTuple, info: &Info<'_>) {
        if let Some((engine, mmsp1)) = self.mmsp1() {
            mmsp1.serve(engine, now, tuple, info);
            self.carry_out(now);
        }
    }

    /// A SYN of MMSP/1 came from where this end's SYN went; true if the endpoint answers it.
    pub(crate) fn on_peer_syn(&mut self, now: Instant, tuple: &FourTuple, syn: &Syn<'_>) -> bool {
        self.mmsp1().is_none_or(|(_, mmsp1)| mmsp1.on_peer_syn(now, tuple, syn))
    }

    /// A packet of MMSP/1 under a tag of this connection came with a wrong checksum.
    pub(crate) fn on_damaged(&mut self) {
        if let Some((_, mmsp1)) = self.mmsp1() {
            mmsp1.on_damaged();
        }
    }

    /// The part of a connection over MMSP/1 that its endpoint asks.
    pub(crate) fn as_mmsp1(&self) -> Option<&Mmsp1> {
        match &self.wire {
            Wire::Mmsp1(mmsp1) => Some(mmsp1),
            Wire::Mmsp2(_) => None,
            #[cfg(feature = "toy-wire")]
            Wire::Toy(_) => None,
        }
    }

    /// The next change of the tags of a connection over MMSP/1.
    pub(crate) fn poll_tag_change(&mut self) -> Option<TagChange> {
        self.mmsp1()?.1.poll_tag_change()
    }

    /// Writes the next batch of datagrams into the empty `buffer`, and what seals them to `jobs`.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        buffer: &mut Vec<u8>,
        jobs: &mut SealJobs,
    ) -> Option<Transmit> {
        let transmit = self.engine.poll_transmit(&mut self.wire, now, buffer);
        self.wire.move_jobs(jobs);
        transmit
    }

    /// When [`Self::handle_timeout`] has to be called next; costs O(paths).
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let mut earliest = Earliest::default();
        earliest.take(self.wire.deadline(&self.engine));
        if self.engine.phase.is_open() {
            earliest.take(self.engine.expiry().at());
            if !self.is_handshaking() {
                earliest.take(self.engine.poll_timeout(&self.wire));
            }
        }
        earliest.get()
    }

    /// Does the work that is due at `now`; a call before the deadline does no harm.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.wire.on_timeout(&mut self.engine, now);
        if self.engine.phase.is_open() && !self.is_handshaking() {
            self.engine.handle_timeout(&mut self.wire, now);
        }
    }

    /// Turns notices of the scheduler into events; true if there were any.
    pub(crate) fn forward_notices(&mut self) -> bool {
        self.engine.forward_notices()
    }

    /// Sets the MTUs of this host's interfaces.
    pub(crate) fn set_interface_mtus(&mut self, now: Instant, interfaces: InterfaceMtus) {
        self.engine.set_interface_mtus(now, interfaces);
    }

    /// Whether any packet of the peer was decrypted.
    pub(crate) fn has_heard(&self) -> bool {
        for_connection_wire!(&self.wire, wire => wire.has_heard())
    }

    /// Whether the handshake was completed, now or before the end.
    pub(crate) fn was_established(&self) -> bool {
        for_connection_wire!(&self.wire, wire => wire.was_established())
    }

    /// When this server refused the client's key; returns it once.
    pub(crate) fn take_refused(&mut self) -> Option<Instant> {
        self.parts()?.1.take_refused()
    }

    pub(crate) fn poll_id_change(&mut self) -> Option<IdChange> {
        self.parts()?.1.ids.poll_change()
    }

    /// The peer proved that it issued an id of this connection and has lost its state.
    pub(crate) fn on_stateless_reset(&mut self, now: Instant) {
        if let Some((engine, mmsp2)) = self.parts() {
            mmsp2.on_stateless_reset(engine, now);
        }
    }

    /// Ends without a CLOSE, because the peer does not receive any.
    pub(crate) fn give_up(&mut self, now: Instant, error: ConnectionError) {
        let engine = &mut self.engine;
        for_connection_wire!(&mut self.wire, wire => wire.give_up(engine, now, error));
    }

    /// Ends at once without a trace: evicts the handshake of a client in favour of newer ones. Returns this end's id.
    pub(crate) fn evict(&mut self, now: Instant) -> Option<ConnectionId> {
        let (engine, mmsp2) = self.parts()?;
        mmsp2.evict(engine, now)
    }

    /// A datagram with the rendezvous token of this connection arrived from `from`.
    pub(crate) fn on_rendezvous(
        &mut self,
        now: Instant,
        from: SocketAddr,
        body: &manyway_wire::rendezvous::Body<'_>,
    ) {
        if let Some((engine, mmsp2)) = self.parts() {
            mmsp2.on_rendezvous(engine, now, from, body);
            self.carry_out(now);
        }
    }

    /// An ICMP error says that a packet between these addresses was not delivered; `quoted` are the first bytes of
    /// its UDP payload. True if the error counts: a path became suspect, or a connection attempt lost a candidate.
    pub(crate) fn on_undelivered(
        &mut self,
        now: Instant,
        tuple: &FourTuple,
        quoted: &[u8],
        undelivered: Undelivered,
    ) -> bool {
        self.on_unreachable(now, tuple.remote, quoted) || {
            let engine = &mut self.engine;
            for_connection_wire!(&mut self.wire, wire => {
                wire.on_candidate_unreachable(engine, now, tuple, Some(quoted), undelivered)
            })
        }
    }

    /// This host finds no link address for the next hop between these addresses. True if the report counts: a connection
    /// attempt lost a candidate.
    pub(crate) fn on_neighbour_lost(&mut self, now: Instant, tuple: &FourTuple) -> bool {
        let engine = &mut self.engine;
        for_connection_wire!(&mut self.wire, wire => {
            wire.on_candidate_unreachable(engine, now, tuple, None, Undelivered::NoNeighbour)
        })
    }
}

#[cfg(feature = "fuzzing")]
impl Connection {
    /// Builds a packet of any content in the name of this end: sealed with its keys, with its next packet number
    /// after `skipped` others. Loss recovery does not know the packet.
    ///
    /// `None` if there are no keys or no id for it, or the payload is too short for a packet.
    pub fn forge(
        &mut self,
        level: crate::EncryptionLevel,
        path: manyway_wire::PathId,
        skipped: u8,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let (engine, mmsp2) = self.parts()?;
        mmsp2.forge(engine, (level, path), skipped, payload)
    }

    /// Completes the handshake without TLS: with these keys, as if TLS had delivered these parameters.
    ///
    /// # Errors
    /// As for a peer that sends such parameters.
    pub(crate) fn establish_with(
        &mut self,
        now: Instant,
        keys: mmsp2::tls::NewKeys,
        peer: manyway_wire::mmsp2::Parameters,
    ) -> Result<(), crate::Violation> {
        let Some((engine, mmsp2)) = self.parts() else { return Ok(()) };
        let result = mmsp2.establish_with(engine, now, keys, peer);
        self.carry_out(now);
        result
    }
}
