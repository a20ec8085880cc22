//! All connections of one process: routes datagrams to them and collects their packets.

mod admission;
mod connect;
pub(crate) mod cookie;
mod demux;
#[cfg(feature = "fuzzing")]
pub(crate) mod established;
mod handle;
mod incoming;
mod mac_keys;
mod mmsp1;
mod observer;
mod placement;
mod recent;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use manyway_wire::mmsp2::{HeaderForm, short_destination};
use manyway_wire::rendezvous::Message;
use manyway_wire::{ConnectionId, PathId};

pub use connect::{ClientConfig, ConnectError};
pub use handle::ConnectionHandle;
pub use mmsp1::{AddressFilter, Mmsp1Server};
pub use observer::Observed;
pub use placement::{HandOver, Placer};

use crate::collections::timer_heap::TimerHeap;
use crate::connection::Connection;
use crate::event::Event;
use crate::mmsp2::reset_token::ResetKey;
use crate::mmsp2::{Arrival, ArrivalRow, IdChange};
use crate::path::InterfaceMtus;
use crate::rendezvous::RelayKey;
use crate::{
    ConnectionConfig, Ecn, FourTuple, IdLayout, Instant, Rng, SealJobs, SendRefusal, Shard, Transmit,
    Undelivered,
};

use admission::Admission;
use cookie::CookieKeys;
use demux::{Demux, Route};
use mmsp1::Mmsp1Endpoint;
use observer::Observer;
use placement::{Origin, Placement};
use slots::Slots;

/// Configuration of an endpoint.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Settings for clients; `None` (the default) answers no client.
    pub server: Option<ServerConfig>,
    /// Settings for clients that come over MMSP/1, which protects and authenticates nothing; `None` (the default) answers
    /// no such client.
    pub mmsp1: Option<Mmsp1Server>,
    /// The permanent key of stateless resets; an endpoint that keeps it over a restart can end connections from
    /// before. `None` (the default) uses a random one.
    pub reset_key: Option<[u8; 32]>,
    /// Which one of several endpoints on the same port it is; all of them need the same `reset_key`. Default
    /// [`Shard::ALONE`]. Clients over MMSP/1, which has no connection IDs, need an endpoint that is alone.
    pub shard: Shard,
    /// Length and first bytes of the connection IDs that it issues. Default 8 bytes without a prefix.
    pub ids: IdLayout,
    /// Which one of those endpoints gets a new client; `None` (the default): the one to which its random connection ID
    /// leads. Clients that come over a stream are not placed.
    pub placer: Option<Arc<dyn Placer>>,
}

/// Settings for connections that clients open.
#[derive(Clone)]
pub struct ServerConfig {
    /// Certificates or raw keys, and permitted clients; TLS 1.3 with ALPN `mmsp/2`.
    pub tls: Arc<rustls::ServerConfig>,
    /// The certificate for clients that request one, besides raw keys in `tls`
    /// ([`certificate_config`](crate::identity::certificate_config)).
    pub certificate: Option<Arc<rustls::ServerConfig>>,
    /// Settings of each connection.
    pub connection: Arc<ConnectionConfig>,
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// All connections of one process, client and server alike.
///
/// The driver's loop passes every datagram to [`handle_datagram`](Self::handle_datagram), and calls
/// [`handle_timeout`](Self::handle_timeout) when [`poll_timeout`](Self::poll_timeout) is reached. After either, and
/// after calls to a connection, it calls [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event)
/// until both are empty.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    slots: Slots,
    demux: Demux,
    /// By the slots of connections. Deadlines move with each packet, so a postponed deadline stays here unchanged,
    /// and the slot is consulted when it expires.
    timers: TimerHeap,
    /// Connections that may have packets to send, or events.
    busy: VecDeque<ConnectionHandle>,
    eventful: VecDeque<ConnectionHandle>,
    /// Answers that need no connection.
    outbox: VecDeque<(Transmit, Vec<u8>)>,
    /// Connections by the [mark](ResetKey::mark) of each token that ends them.
    resets: BTreeMap<[u8; 16], ConnectionHandle>,
    admission: Admission,
    placement: Placement,
    interfaces: InterfaceMtus,
    cookies: Option<CookieKeys>,
    /// Exists from the first connection or packet of MMSP/1 on.
    mmsp1: Option<Box<Mmsp1Endpoint>>,
    /// Exists from the first question to a rendezvous server on that belongs to no connection.
    observer: Option<Box<Observer>>,
    reset_key: Arc<ResetKey>,
    rng: Rng,
    /// Memory for the jobs of a batch; empty between calls.
    jobs: SealJobs,
}

impl Endpoint {
    /// Starts without connections; all randomness comes from `rng`.
    pub fn new(config: EndpointConfig, mut rng: Rng) -> Self {
        let key = config.reset_key.unwrap_or_else(|| {
            let mut key = [0; 32];
            rng.fill(&mut key);
            key
        });
        let (shard, placer) = (config.shard, config.placer.clone());
        let reset_key = Arc::new(ResetKey::new(&key, shard, config.ids));
        Self {
            config,
            slots: Slots::default(),
            demux: Demux::new(&mut rng),
            timers: TimerHeap::default(),
            busy: VecDeque::new(),
            eventful: VecDeque::new(),
            outbox: VecDeque::new(),
            resets: BTreeMap::new(),
            admission: Admission::new(reset_key.secret(b"admission"), shard.count()),
            placement: Placement::new(shard, placer),
            interfaces: InterfaceMtus::default(),
            cookies: None,
            mmsp1: None,
            observer: None,
            reset_key,
            rng,
            jobs: SealJobs::default(),
        }
    }

    /// Handles one datagram, or one [record](crate::Records) of a stream; it is decrypted in place. The
    /// cost is independent of the number of connections, and a datagram that cannot be decrypted leaves no state.
    pub fn handle_datagram(&mut self, now: Instant, tuple: FourTuple, ecn: Ecn, datagram: &mut [u8]) {
        let size = datagram.len();
        self.handle_datagrams(now, tuple, ecn, datagram, size);
    }

    /// Handles the datagrams of one receive call between the same addresses, each of `size` bytes but for the last,
    /// which may be shorter: what segmentation offload delivers. The same as
    /// [`handle_datagram`](Self::handle_datagram) for each, at less cost: datagrams of one path are looked up once.
    pub fn handle_datagrams(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        ecn: Ecn,
        row: &mut [u8],
        size: usize,
    ) {
        self.handle_row((now, Origin::Network), tuple, ecn, row, size);
    }

    /// The next datagram that another endpoint of the port has to handle, by [`take_over`](Self::take_over). At most 256
    /// wait.
    pub fn poll_hand_over(&mut self) -> Option<HandOver> {
        self.placement.poll()
    }

    /// Handles a datagram that another endpoint of the port received.
    pub fn take_over(&mut self, now: Instant, handed_over: HandOver) {
        let (tuple, ecn, mut datagram) = handed_over.into_parts();
        let size = datagram.len();
        self.handle_row((now, Origin::OtherEndpoint), tuple, ecn, &mut datagram, size);
    }

    fn handle_row(
        &mut self,
        (now, origin): (Instant, Origin),
        tuple: FourTuple,
        ecn: Ecn,
        row: &mut [u8],
        size: usize,
    ) {
        let size = if size == 0 { row.len() } else { size };
        let mut rest = row;
        while !rest.is_empty() {
            let known = self.find_row(rest, size);
            let length = known.map_or_else(|| size.min(rest.len()), |(length, ..)| length);
            let (now_handled, later) = rest.split_at_mut(length);
            rest = later;
            let Some((_, handle, path)) = known else {
                self.handle_single((now, origin), tuple, ecn, now_handled);
                continue;
            };
            if let Some(connection) = self.slots.get_mut(handle) {
                connection.handle_row(now, ArrivalRow { tuple, ecn, path, row: now_handled, size });
            }
            self.touch(handle);
        }
    }

    /// How many of the first bytes are packets with a short header and one destination, which is an id of a connection,
    /// and where they belong.
    fn find_row(&self, row: &[u8], size: usize) -> Option<(usize, ConnectionHandle, PathId)> {
        let id_length = self.reset_key.id_length();
        let mut destinations = row.chunks(size).map(|datagram| short_destination(datagram, id_length));
        let id = destinations.next().flatten()?;
        let (handle, path) = self.find(&id)?;
        let packets = 1 + destinations.take_while(|other| *other == Some(id)).count();
        Some((row.len().min(packets * size), handle, path))
    }

    fn handle_single(
        &mut self,
        (now, origin): (Instant, Origin),
        tuple: FourTuple,
        ecn: Ecn,
        datagram: &mut [u8],
    ) {
        if Message::is_meant(datagram) {
            return self.handle_rendezvous(now, tuple, datagram);
        }
        // spec 3.4: two zero bits begin the packets of MMSP/1.
        if datagram.first().is_some_and(|byte| byte >> 6 == 0) {
            return self.handle_mmsp1(now, tuple, datagram);
        }
        let id_length = self.reset_key.id_length();
        let Ok(header) = manyway_wire::mmsp2::decode_protected(datagram, id_length) else {
            return self.handle_undecodable(now, datagram);
        };
        let id = match &header.form {
            HeaderForm::Long { destination, .. } | HeaderForm::Short { destination } => *destination,
            HeaderForm::OtherVersion { .. } => {
                return self.offer_versions(now, tuple, &header.form, datagram.len());
            }
            HeaderForm::VersionList { .. } => return self.take_version_list(now, &header.form),
        };
        match self.find(&id) {
            Some((handle, path)) => {
                self.deliver(now, handle, Arrival { tuple, ecn, path, header, datagram });
            }
            None => {
                let path = PathId::FIRST;
                self.handle_unknown(now, Arrival { tuple, ecn, path, header, datagram }, origin);
            }
        }
    }

    /// Handles a message of a rendezvous server; its token leads to the connection as an id does (spec 10.2).
    fn handle_rendezvous(&mut self, now: Instant, tuple: FourTuple, datagram: &[u8]) {
        let Ok(message) = Message::decode(datagram) else { return };
        let found = ConnectionId::from_slice(&message.token).and_then(|id| self.find(&id));
        let Some((handle, _)) = found else { return self.on_observed(tuple, &message) };
        if let Some(connection) = self.slots.get_mut(handle) {
            connection.on_rendezvous(now, tuple.remote, &message.body);
        }
        self.touch(handle);
    }

    /// Takes an answer of a rendezvous server that belongs to no connection.
    fn on_observed(&mut self, tuple: FourTuple, message: &Message<'_>) {
        if self.observer.is_none() {
            return;
        }
        let nonce = self.rendezvous_nonce();
        let datagram = self.observer().on_message(tuple.remote, message, nonce);
        self.outbox.extend(datagram);
    }

    /// Asks the rendezvous server at the remote address where it sees the local one.
    /// [`poll_observed`](Self::poll_observed) has the answer, if one comes.
    pub fn observe(&mut self, tuple: FourTuple) {
        let nonce = self.rendezvous_nonce();
        let datagram = self.observer().observe(tuple, nonce);
        self.outbox.push_back(datagram);
    }

    /// Asks the rendezvous server at the remote address to relay between the local one and the other end of a code.
    /// [`poll_observed`](Self::poll_observed) tells if it does. To be repeated until then, and later unless packets go that
    /// way.
    pub fn bind_relay(&mut self, tuple: FourTuple, key: RelayKey) {
        let nonce = self.rendezvous_nonce();
        let datagram = self.observer().bind(tuple, key, nonce);
        self.outbox.extend(datagram);
    }

    /// Sends a knock, which the peer ignores: it makes a NAT on the way accept packets from there (spec 10.26).
    pub fn knock(&mut self, tuple: FourTuple) {
        self.outbox.push_back(observer::knock(tuple));
    }

    /// The next answer of a rendezvous server. At most 64 wait.
    pub fn poll_observed(&mut self) -> Option<Observed> {
        self.observer.as_mut()?.poll()
    }

    fn observer(&mut self) -> &mut Observer {
        let Self { observer, rng, .. } = self;
        observer.get_or_insert_with(|| Box::new(Observer::new(rng)))
    }

    /// The answer has the nonce, so the system can tell whose it is.
    fn rendezvous_nonce(&mut self) -> u64 {
        let mut nonce = self.rng.next_u64().to_be_bytes();
        self.config.shard.mark(&mut nonce);
        u64::from_be_bytes(nonce)
    }

    /// The connection and path of an id.
    fn find(&self, id: &ConnectionId) -> Option<(ConnectionHandle, PathId)> {
        let route = self.demux.get(id)?;
        Some((self.slots.handle_at(route.slot)?, route.path))
    }

    fn deliver(&mut self, now: Instant, handle: ConnectionHandle, arrival: Arrival<'_>) {
        if let Some(connection) = self.slots.get_mut(handle) {
            connection.handle_datagram(now, arrival);
        }
        self.touch(handle);
    }

    /// Writes the next datagrams to send into `buffer`, which is cleared first; `None` when there are no more now.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let mut jobs = std::mem::take(&mut self.jobs);
        let transmit = self.poll_transmit_unsealed(now, buffer, &mut jobs).filter(|_| jobs.run(buffer));
        self.jobs = jobs;
        if transmit.is_none() {
            buffer.clear();
        }
        transmit
    }

    /// As [`poll_transmit`](Self::poll_transmit), but leaves it to the caller to seal the packets: before anything of
    /// `buffer` is sent, `jobs` must be [run](SealJobs::run), on any thread, and must succeed. What `jobs` had before is
    /// dropped. Batches may be sealed in any order, and while the endpoint goes on.
    pub fn poll_transmit_unsealed(
        &mut self,
        now: Instant,
        buffer: &mut Vec<u8>,
        jobs: &mut SealJobs,
    ) -> Option<Transmit> {
        buffer.clear();
        jobs.clear();
        if let Some((transmit, bytes)) = self.outbox.pop_front() {
            buffer.extend_from_slice(&bytes);
            return Some(transmit);
        }
        while let Some(handle) = self.busy.pop_front() {
            let Some(connection) = self.slots.get_mut(handle) else { continue };
            if let Some(transmit) = connection.poll_transmit(now, buffer, jobs) {
                // At the back, so that every connection gets its turn.
                self.busy.push_back(handle);
                return Some(transmit);
            }
            buffer.clear();
            self.slots.set_queued(handle, false);
            self.refresh(handle);
        }
        None
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due. Up to date once [`poll_transmit`](Self::poll_transmit)
    /// returned `None`; it may be too early, but never too late. Costs O(1).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| at)
    }

    /// Does the work that is due; costs O(log connections) for each connection with due work.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, slot)) = self.timers.first().filter(|(at, _)| *at <= now) {
            let handle = self.slots.handle_at(slot);
            let deadline = handle.and_then(|handle| self.slots.deadline(handle));
            let later = deadline.filter(|at| *at > now);
            self.timers.set(slot, later);
            let Some(handle) = handle.filter(|_| later.is_none()) else { continue };
            self.slots.set_deadline(handle, None);
            if let Some(connection) = self.slots.get_mut(handle) {
                connection.handle_timeout(now);
            }
            self.touch(handle);
        }
    }

    /// The next event for an application, with its connection.
    pub fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        while let Some(handle) = self.eventful.front().copied() {
            if let Some(event) = self.slots.get_mut(handle).and_then(Connection::poll_event) {
                return Some((handle, event));
            }
            self.eventful.pop_front();
            self.slots.set_eventful(handle, false);
            self.refresh(handle);
        }
        None
    }

    /// Gives access to a connection; `None` once it has ended and all events were polled. Call
    /// [`poll_transmit`](Self::poll_transmit) afterwards.
    pub fn connection(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        self.slots.get(handle)?;
        self.touch(handle);
        self.slots.get_mut(handle)
    }

    /// A connection to read, `None` as for [`connection`](Self::connection). It need not be polled afterwards.
    pub fn peek(&self, handle: ConnectionHandle) -> Option<&Connection> {
        self.slots.get(handle)
    }

    /// Sets the largest IP packet, in bytes, that may leave from each address of this host, whenever it changes: it
    /// bounds the search for the datagram size. Unlisted addresses count as 1500. Costs O(connections).
    pub fn set_interface_mtus(&mut self, now: Instant, known: &[(std::net::IpAddr, u32)]) {
        self.interfaces = InterfaceMtus::new(known);
        for handle in self.handles() {
            if let Some(connection) = self.slots.get_mut(handle) {
                connection.set_interface_mtus(now, self.interfaces.clone());
            }
            self.touch(handle);
        }
    }

    /// Reports that the system refuses to send between two addresses: paths there are dead at once. Costs
    /// O(connections).
    pub fn on_send_refused(&mut self, now: Instant, tuple: FourTuple, refusal: SendRefusal) {
        self.tell_users_of(&tuple, |connection| connection.on_send_refused(now, tuple, refusal));
    }

    /// Reports that the driver can pass nothing on to the carrier between two addresses now: no packet is built for
    /// paths there until [`on_writable`](Self::on_writable), while others go on. A driver that knows the connection
    /// calls [`Connection::on_blocked`] instead. Costs O(connections).
    pub fn on_blocked(&mut self, now: Instant, tuple: FourTuple) {
        self.tell_users_of(&tuple, |connection| connection.on_blocked(now, tuple));
    }

    /// Reports that the carrier between two addresses takes packets again. Costs O(connections).
    pub fn on_writable(&mut self, tuple: FourTuple) {
        self.tell_users_of(&tuple, |connection| connection.on_writable(tuple));
    }

    /// Reports that the stream carrier between two addresses has ended: its path closes. Costs O(connections).
    pub fn on_carrier_closed(&mut self, now: Instant, tuple: FourTuple) {
        self.tell_users_of(&tuple, |connection| connection.on_carrier_closed(now, tuple));
    }

    /// The connection of which a path uses this stream carrier; `None` as long as nothing that arrived over it belongs to
    /// a connection, and once the path is closed. Costs O(connections × paths).
    pub fn user_of_stream(&self, stream: &FourTuple) -> Option<ConnectionHandle> {
        self.slots.handles().find(|handle| self.uses_stream(*handle, stream))
    }

    /// Whether a path of the connection uses this stream carrier. Costs O(paths).
    pub fn uses_stream(&self, connection: ConnectionHandle, stream: &FourTuple) -> bool {
        self.slots.get(connection).is_some_and(|connection| connection.uses_stream(stream))
    }

    /// Reports an ICMP error for a packet between two addresses; `quoted` are the first bytes of its UDP payload. It
    /// may be forged: at most one path becomes suspect, or a connection attempt to a peer that never answered ends.
    /// Costs O(connections).
    pub fn on_unreachable(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        quoted: &[u8],
        undelivered: Undelivered,
    ) {
        for handle in self.handles() {
            let connection = self.slots.get_mut(handle);
            let took = connection
                .is_some_and(|connection| connection.on_undelivered(now, &tuple, quoted, undelivered));
            if took {
                self.touch(handle);
            }
        }
    }

    /// Reports that this host finds no link address for the next hop between two addresses (ARP, neighbour discovery). Only
    /// a connection attempt to a peer that never answered takes note. Costs O(connections).
    pub fn on_neighbour_lost(&mut self, now: Instant, tuple: FourTuple) {
        for handle in self.handles() {
            let connection = self.slots.get_mut(handle);
            if connection.is_some_and(|connection| connection.on_neighbour_lost(now, &tuple)) {
                self.touch(handle);
            }
        }
    }

    /// Reports that the system refuses datagrams of `size` bytes between two addresses as too large. Costs
    /// O(connections).
    pub fn on_datagram_too_large(&mut self, now: Instant, tuple: FourTuple, size: usize) {
        self.tell_users_of(&tuple, |connection| connection.on_datagram_too_large(now, tuple, size));
    }

    fn tell_users_of(&mut self, tuple: &FourTuple, tell: impl Fn(&mut Connection)) {
        for handle in self.handles() {
            if let Some(connection) = self.slots.get_mut(handle).filter(|user| user.uses(tuple)) {
                tell(connection);
                self.touch(handle);
            }
        }
    }

    /// Number of connections, including draining ones.
    pub fn connections(&self) -> usize {
        self.slots.len()
    }

    /// Whether the connection still exists. Costs O(1).
    pub fn contains(&self, handle: ConnectionHandle) -> bool {
        self.slots.get(handle).is_some()
    }

    /// The handle of every connection. Costs O(connections).
    pub fn handles(&self) -> Vec<ConnectionHandle> {
        self.slots.handles().collect()
    }

    /// Marks a connection as having work to do.
    fn touch(&mut self, handle: ConnectionHandle) {
        if self.slots.set_queued(handle, true) {
            self.busy.push_back(handle);
        }
        if self.slots.set_eventful(handle, true) {
            self.eventful.push_back(handle);
        }
    }

    /// Follows a connection's ids and deadline, and forgets it at its end.
    fn refresh(&mut self, handle: ConnectionHandle) {
        let Some(connection) = self.slots.get_mut(handle) else { return };
        while let Some(change) = connection.poll_id_change() {
            match change {
                IdChange::Added(id, path) => {
                    self.demux.insert(id, Route { slot: handle.slot, path });
                }
                IdChange::Removed(id) => {
                    self.demux.remove(&id);
                }
                IdChange::TokenIssued(token) => {
                    self.resets.insert(self.reset_key.mark(&token), handle);
                }
                IdChange::TokenRetired(token) => {
                    self.resets.remove(&self.reset_key.mark(&token));
                }
            }
        }
        if let Some(mmsp1) = &mut self.mmsp1 {
            while let Some(change) = connection.poll_tag_change() {
                mmsp1.on_tag_change(handle, change);
            }
        }
        let deadline = connection.poll_timeout();
        let ended = connection.is_closed();
        let established = connection.was_established();
        let refused = connection.take_refused();
        // Notices of a scheduler arise while there is data to send.
        let has_news = connection.forward_notices();
        if let Some((at, half_open)) = refused.zip(self.slots.half_open(handle)) {
            self.admission.on_refused(at, half_open.prefix);
        }
        if (established || ended)
            && let Some(half_open) = self.slots.set_half_open(handle, None)
        {
            self.admission.release(half_open.id);
        }
        if has_news && self.slots.set_eventful(handle, true) {
            self.eventful.push_back(handle);
        }
        self.slots.set_deadline(handle, deadline);
        let noted = self.timers.get(handle.slot);
        if noted.is_none() || deadline.is_none() || noted > deadline {
            self.timers.set(handle.slot, deadline);
        }
        if ended && !self.slots.is_eventful(handle) {
            self.timers.set(handle.slot, None);
            self.slots.remove(handle);
        }
    }
}
