//! Datagrams of unknown senders: accept, require address validation, or answer without keeping state.

use std::sync::Arc;

use manyway_wire::mmsp2::{HeaderForm, LongKind, VERSION};
use manyway_wire::{ConnectionId, PathId};

use super::Endpoint;
use super::admission::Answer;
use super::cookie::{CookieFacts, CookieKeys};
use super::demux::Route;
use super::placement::Origin;
use super::slots::HalfOpen;

use crate::connection::Connection;
use crate::engine::single;
use crate::mmsp2::stateless::{self, FIRST_FLIGHT, FirstIds, FirstPacket};
use crate::mmsp2::tls::Handshake;
use crate::mmsp2::{Arrival, FIRST_KEPT_NUMBER, Start, own_parameters};
use crate::prefix::Prefix;
use crate::{ConnectionError, FourTuple, Instant, Side};

/// Most answers that wait for the socket.
const MAX_OUTBOX: usize = 256;
/// A reset is shorter than its cause, and long enough to look like any packet.
const LEAST_RESET: usize = 21;
const MOST_RESET: usize = 43;

impl Endpoint {
    /// Handles a datagram with an id that belongs to no connection.
    pub(super) fn handle_unknown(&mut self, now: Instant, arrival: Arrival<'_>, origin: Origin) {
        let (HeaderForm::Long { destination, .. } | HeaderForm::Short { destination }) = arrival.header.form
        else {
            return;
        };
        let is_short = matches!(arrival.header.form, HeaderForm::Short { .. });
        if is_short && self.take_reset(now, arrival.datagram) {
            return;
        }
        let is_new = origin == Origin::Network && arrival.tuple.is_datagram();
        if let Some(shard) = self.placement.owner_of(&destination).filter(|_| is_new) {
            return self.placement.hand_over(shard, &arrival);
        }
        match arrival.header.form {
            HeaderForm::Long { kind: LongKind::Initial, .. } => self.handle_stranger(now, arrival, origin),
            HeaderForm::Short { .. } => {
                self.reset_stranger(now, arrival.tuple, &destination, arrival.datagram.len());
            }
            HeaderForm::Long { .. } | HeaderForm::OtherVersion { .. } | HeaderForm::VersionList { .. } => {}
        }
    }

    /// Handles an Initial packet with an unknown destination id: a client's first datagram.
    fn handle_stranger(&mut self, now: Instant, arrival: Arrival<'_>, origin: Origin) {
        let HeaderForm::Long { destination, source, .. } = arrival.header.form else { return };
        let tuple = arrival.tuple;
        let least = ConnectionId::MIN_ISSUED;
        if self.config.server.is_none()
            || is_too_small(&tuple, arrival.datagram.len())
            || destination.as_slice().len() < least
        {
            return;
        }
        // spec 7.38
        let prefix = Prefix::of(tuple.remote);
        if self.admission.is_barred(now, prefix) {
            return;
        }
        let facts = CookieFacts { client: tuple.remote, original_destination: destination, source };
        let local_id = self.server_id(&facts);
        if let Some(shard) = self.placement.placed_at(now, &local_id).filter(|_| tuple.is_datagram()) {
            return self.placement.hand_over(shard, &arrival);
        }
        // spec 7.8: a late copy of a first flight; its connection uses another id for the client by now, or has ended
        if self.demux.get(&local_id).is_some() || self.admission.begun.get(now, &local_id).is_some() {
            return;
        }
        // Garbage costs one attempt at decryption, and neither a place nor a TLS session.
        let Some(first) = self.look_into(now, &facts, &arrival) else { return };
        let must_return_info = must_return_info(&tuple, &first);
        if self.admission.is_under_load() && must_return_info {
            return self.answer_with_info(now, tuple, &facts, first.packet_number);
        }
        if !must_return_info && self.admission.has_its_share(prefix) {
            return;
        }
        // A stream stays where it is, and a client that got INFO knows the id of this endpoint.
        let may_go = origin == Origin::Network && must_return_info;
        if let Some(shard) = may_go.then(|| self.placement.place(now, local_id)).flatten() {
            return self.placement.hand_over(shard, &arrival);
        }
        self.accept(now, arrival, &facts, first);
    }

    /// Decrypts a copy of the datagram without keeping state; `None` if that fails.
    fn look_into(&self, now: Instant, facts: &CookieFacts, arrival: &Arrival<'_>) -> Option<FirstPacket> {
        let cookies = self.cookies.as_ref();
        stateless::open_first_packet(arrival, &facts.original_destination, |info| {
            cookies.is_some_and(|cookies| cookies.open(now, info, facts).is_ok())
        })
    }

    /// Sends SYN-ACK with the INFO and nothing else: the client returns it (spec 4.12, 7.10).
    fn answer_with_info(&mut self, now: Instant, tuple: FourTuple, facts: &CookieFacts, number: u64) {
        let answer = Answer::Info(Prefix::of(tuple.remote));
        if number >= FIRST_KEPT_NUMBER || !self.admission.may_answer(now, answer) {
            return;
        }
        let info = self.make_info(now, facts);
        let ids = FirstIds {
            original_destination: facts.original_destination,
            client: facts.source,
            own: self.server_id(facts),
        };
        if let Some(packet) = stateless::syn_ack(&ids, number, &info) {
            self.push_answer(tuple, packet);
        }
    }

    fn make_info(&mut self, now: Instant, facts: &CookieFacts) -> Vec<u8> {
        let rng = &mut self.rng;
        self.cookies.get_or_insert_with(|| CookieKeys::new(now, rng)).seal(now, facts)
    }

    /// The server's id, derived from the client's ids, so that every candidate of the client's attempts reaches the
    /// same connection.
    fn server_id(&self, facts: &CookieFacts) -> ConnectionId {
        self.reset_key.derive_id(&facts.original_destination, &facts.source)
    }

    fn accept(&mut self, now: Instant, arrival: Arrival<'_>, facts: &CookieFacts, first: FirstPacket) {
        let Some(server) = self.config.server.clone() else { return };
        let local_id = self.server_id(facts);
        let tuple = arrival.tuple;
        let prefix = Prefix::of(tuple.remote);
        let info = self.make_info(now, facts);
        let config = server.connection;
        let parameters =
            own_parameters(&config, local_id, Some((facts.original_destination, &self.reset_key)));
        let handshake = Handshake::server(server.tls, &parameters);
        let handshake = match server.certificate {
            Some(tls) => handshake.and_then(|handshake| handshake.with_fallback(tls, &parameters)),
            None => handshake,
        };
        let handshake = match handshake {
            Ok(handshake) => handshake,
            Err(error) => {
                tracing::error!(%error, "the server's TLS configuration can not be used");
                return;
            }
        };
        let start = Start {
            now,
            config,
            interfaces: self.interfaces.clone(),
            rng: self.rng.fork(),
            reset_key: Arc::clone(&self.reset_key),
            original_destination: facts.original_destination,
            local_id,
            tls: handshake,
        };
        let mut connection = Connection::server(start, tuple, facts.source, info, first.is_validated);
        connection.handle_datagram(now, arrival);
        if !connection.has_heard() {
            return;
        }
        let handle = self.slots.insert(connection);
        let route = Route { slot: handle.slot, path: PathId::FIRST };
        self.demux.insert(facts.original_destination, route);
        self.demux.insert(local_id, route);
        self.admission.begun.note(now, local_id, ());
        let validated = (!must_return_info(&tuple, &first)).then_some(prefix);
        let (id, evicted) = self.admission.admit(handle, validated);
        self.slots.set_half_open(handle, Some(HalfOpen { id, prefix }));
        if let Some(oldest) = evicted
            && let Some(connection) = self.slots.get_mut(oldest)
        {
            connection.evict(now).into_iter().for_each(|id| self.admission.begun.forget(&id));
            self.touch(oldest);
        }
        self.touch(handle);
    }

    /// Handles a datagram whose header cannot be read: a reset may be shorter than any packet to an ID of this endpoint.
    // spec 7.36
    pub(super) fn handle_undecodable(&mut self, now: Instant, datagram: &[u8]) {
        if datagram.first().is_some_and(|first| first >> 6 == 1) {
            self.take_reset(now, datagram);
        }
    }

    /// Ends the connection whose reset token is at the end of the datagram; false if there is none.
    pub(super) fn take_reset(&mut self, now: Instant, datagram: &[u8]) -> bool {
        let Some(token) = datagram.last_chunk::<16>() else { return false };
        let Some(handle) = self.resets.get(&self.reset_key.mark(token)).copied() else { return false };
        if let Some(connection) = self.slots.get_mut(handle) {
            connection.on_stateless_reset(now);
        }
        self.touch(handle);
        true
    }

    /// Answers a packet of an unknown connection with a stateless reset, which only the issuer of the id can create.
    pub(super) fn reset_stranger(&mut self, now: Instant, tuple: FourTuple, id: &ConnectionId, size: usize) {
        if size <= LEAST_RESET || !self.reset_key.may_have_issued(id) {
            return;
        }
        if !self.admission.may_answer(now, Answer::Reset) {
            return;
        }
        let length = (size - 1).clamp(LEAST_RESET, MOST_RESET);
        let mut bytes = vec![0; length];
        self.rng.fill(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            // spec 4.5: bit 0x20 of a packet is clear
            *first = (*first & 0x1f) | 0x40;
        }
        if let Some(end) = bytes.last_chunk_mut::<16>() {
            *end = self.reset_key.token(id);
        }
        self.push_answer(tuple, bytes);
    }

    /// Answers a client of another version with the version that this server speaks.
    pub(super) fn offer_versions(&mut self, now: Instant, tuple: FourTuple, form: &HeaderForm, size: usize) {
        let HeaderForm::OtherVersion { destination, source, .. } = form else { return };
        if self.config.server.is_none()
            || is_too_small(&tuple, size)
            || !self.admission.may_answer(now, Answer::Versions)
        {
            return;
        }
        self.push_answer(tuple, stateless::version_list(source, destination));
    }

    /// Handles the answer of a server that does not speak our version. The answer is unprotected, so it only ends a
    /// handshake without any other response.
    pub(super) fn take_version_list(&mut self, now: Instant, form: &HeaderForm) {
        let HeaderForm::VersionList { destination, versions, .. } = form else { return };
        let Some((handle, _)) = self.find(destination) else { return };
        if let Some(connection) = self.slots.get_mut(handle)
            && connection.is_handshaking()
            && connection.side() == Side::Client
            && !connection.has_heard()
            && !versions.contains(&VERSION)
        {
            connection.give_up(now, ConnectionError::VersionMismatch { offered: versions.clone() });
            self.touch(handle);
        }
    }

    pub(super) fn push_answer(&mut self, tuple: FourTuple, bytes: Vec<u8>) {
        if self.outbox.len() < MAX_OUTBOX {
            let transmit = single(tuple, bytes.len());
            self.outbox.push_back((transmit, bytes));
        }
    }
}

/// Whether a datagram is so small that an answer could amplify it.
fn is_too_small(tuple: &FourTuple, size: usize) -> bool {
    tuple.is_datagram() && size < FIRST_FLIGHT
}

/// Whether the sender has yet to show that it is there, by INFO that it returns or by a stream that it opened (spec
/// 4.27).
fn must_return_info(tuple: &FourTuple, first: &FirstPacket) -> bool {
    tuple.is_datagram() && !first.is_validated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyLimits;
    use crate::endpoint::{ClientConfig, ServerConfig};
    use crate::mmsp2::packet_builder::{HeaderFacts, PacketBuilder};
    use crate::mmsp2::protection::Protector;
    use crate::mmsp2::tls::testing;
    use crate::{ConnectionConfig, Ecn, EndpointConfig, LocalAddress, LocalCandidate, Role};

    #[test]
    fn small_initial_packets_from_foreign_addresses_get_no_answer() {
        let now = Instant::from_nanos(1);
        let at = |address: &str| LocalAddress { interface: 1, address: address.parse().unwrap() };
        let (server_address, client_address) = (at("10.0.0.2:1"), at("10.0.0.1:1"));
        let tls = testing::server_config(1, 2);
        let server =
            ServerConfig { tls, certificate: None, connection: Arc::new(ConnectionConfig::default()) };
        let config = EndpointConfig { server: Some(server), ..EndpointConfig::default() };
        let mut server = Endpoint::new(config, crate::Rng::from_seed([1; 32]));
        let mut client = Endpoint::new(EndpointConfig::default(), crate::Rng::from_seed([2; 32]));
        let config = ClientConfig {
            tls: testing::client_config(2, 1),
            server_name: "manyway".try_into().unwrap(),
            connection: Arc::new(ConnectionConfig::default()),
        };
        let local = LocalCandidate { address: client_address, role: Role::Primary };
        client.connect(now, &config, &[local], &[server_address.address]).unwrap();
        let mut buffer = Vec::new();
        client.poll_transmit(now, &mut buffer).unwrap();
        let HeaderForm::Long { destination, source, .. } =
            manyway_wire::mmsp2::decode_protected(&buffer, 8).unwrap().form
        else {
            panic!("a client begins with a long header")
        };
        let from = |remote| FourTuple::udp(server_address, remote);
        server.handle_datagram(now, from(client_address.address), Ecn::NotEct, &mut buffer);
        while server.poll_transmit(now, &mut buffer).is_some() {}
        for number in 10..110 {
            let facts = HeaderFacts {
                path: PathId::FIRST,
                destination,
                packet_number: number,
                largest_acked: None,
                size: FIRST_FLIGHT,
            };
            let mut protector = Protector::new(Side::Client, KeyLimits::default());
            protector.set_initial_keys(&destination);
            let mut bytes = Vec::new();
            let builder = PacketBuilder::long(&mut bytes, &facts, LongKind::Initial, source);
            manyway_wire::mmsp2::AckNow.encode(&mut builder.writer(&mut bytes));
            builder.finish(&mut bytes, &mut protector).unwrap();
            assert!(protector.run_jobs(&mut bytes));
            let victim = at(if number % 2 == 0 { "203.0.113.1:53" } else { "203.0.113.1:54" });
            server.handle_datagram(now, from(victim.address), Ecn::NotEct, &mut bytes);
            assert!(server.poll_transmit(now, &mut buffer).is_none());
        }
    }
}
