//! The packets of the four-way handshake, and the start of the connection that follows (spec 3.50 to 3.5c).

use std::net::{IpAddr, SocketAddr};

use manyway_wire::mmsp1::{
    Block, Cause, ErrorCode, Info, Opening, Ping, ProbeAck, ProbeData, Response, Rst, Syn, SynAck, Tag,
    encode_error, encode_rst,
};
use manyway_wire::{DecodeError, PathId, Writer};

use super::closing::CloseEnd;
use super::handshake::{HandshakeEnd, HandshakeEvent, HandshakePacket, HandshakeState, Moved};
use super::input::PacketArrival;
use super::streams::Streams;
use super::unnumbered::note_sent;
use super::{Mmsp1, TagChange};
use crate::engine::{Engine, Phase, single};
use crate::event::Event;
use crate::observe::Fact;
use crate::path::PathReason;
use crate::{ClosedBy, ConnectionError, FourTuple, Instant, Rng, Side, Transmit};

/// Bytes for addresses in a SYN that also leave room in a PING for the INFO that repeats them.
const ROOM_FOR_ADDRESSES: usize = 900;
/// Most bytes of an INFO that a client takes: PING with it has to fit into 1200 bytes.
const LONGEST_INFO: usize = 1100;

impl Mmsp1 {
    /// Takes a packet during the handshake of a client; true if it completes the handshake, so that its content counts.
    pub(super) fn on_handshake_packet(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        arrival: &PacketArrival<'_>,
    ) -> bool {
        if !self.handshake.is_candidate(&arrival.tuple) {
            return false;
        }
        for block in arrival.packet.blocks() {
            let event = match block {
                Ok(Block::SynAck(syn_ack)) => {
                    self.on_syn_ack(engine, now, arrival.tuple, &syn_ack);
                    continue;
                }
                Ok(Block::Rst(rst)) => {
                    self.on_handshake_rst(engine, now, arrival, &rst);
                    continue;
                }
                Ok(Block::Probe(probe)) if self.peer.is_some() => {
                    self.answer_probe(now, arrival.tuple, probe.data, &mut engine.shared.rng);
                    continue;
                }
                Ok(Block::Pong) => HandshakeEvent::Pong,
                Ok(Block::Sack(_) | Block::Data(_)) => HandshakeEvent::Data,
                Ok(_) => continue,
                Err(error) => {
                    self.on_unreadable_answer(now, arrival, &error);
                    continue;
                }
            };
            if self.handshake.on(now, event) == Moved::Established {
                self.establish(engine, now, arrival.tuple);
                return true;
            }
        }
        false
    }

    fn on_syn_ack(&mut self, engine: &mut Engine, now: Instant, tuple: FourTuple, syn_ack: &SynAck<'_>) {
        let is_other = |peer: Opening| peer.tag != syn_ack.opening.tag;
        let waits = matches!(self.handshake.state(), HandshakeState::SynSent | HandshakeState::InfoPinged);
        if !waits || syn_ack.info.len() > LONGEST_INFO || self.peer.is_some_and(is_other) {
            return;
        }
        if self.peer.is_none() {
            self.peer = Some(syn_ack.opening);
            self.tag_changes.push_back(TagChange::PeerKnown { peer: syn_ack.opening.tag });
            // spec 3.105: a further SYN-ACK replaces INFO and nothing else.
            self.peer_addresses.set_peer(tuple.remote.ip(), syn_ack.addresses.iter());
            if let Some(path) = engine.paths.get_mut(PathId::FIRST) {
                path.addresses.set(tuple);
                path.set_role(engine.manager.role_of(&tuple.local));
            }
        }
        let named: Vec<IpAddr> = self.peer_addresses.further_addresses().collect();
        let moved = self.handshake.on_syn_ack(now, tuple, syn_ack.info, &named);
        self.on_handshake_moved(engine, now, moved);
    }

    /// spec 3.5c: the attempt over that address ends.
    fn on_handshake_rst(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        arrival: &PacketArrival<'_>,
        rst: &Rst<'_>,
    ) {
        if !self.is_rightly_tagged(arrival.packet.header.connection, rst.reflected) {
            return;
        }
        let moved = self.handshake.on_rst(now, arrival.tuple.remote);
        if self.handshake.state() == HandshakeState::SynSent {
            // Another server may answer now.
            let lost = self.peer.take();
            self.tag_changes.extend(lost.map(|peer| TagChange::PeerLost { peer: peer.tag }));
        }
        self.on_handshake_moved(engine, now, moved);
    }

    /// A SYN-ACK that cannot be read does not count, and the attempt goes on (spec 3.106).
    fn on_unreadable_answer(&mut self, now: Instant, arrival: &PacketArrival<'_>, error: &DecodeError) {
        let is_syn_ack = arrival.packet.payload.first() == Some(&SynAck::KIND);
        if !is_syn_ack || self.handshake.state() != HandshakeState::SynSent {
            return;
        }
        self.handshake.on(now, HandshakeEvent::BadSynAck);
        let server = arrival.packet.payload.get(4..8).and_then(|tag| tag.first_chunk().copied());
        let server = server.map(|tag| Tag(u32::from_be_bytes(tag))).filter(|tag| tag.0 != 0);
        let answer = arrival.packet.header.answer(server.unwrap_or(self.own.tag));
        let response = Response::to(error);
        let (Response::Error(code) | Response::Reset(code)) = response else { return };
        if !self.errors.may_report(now, code) {
            return;
        }
        match (response, server) {
            (Response::Error(code), Some(_)) => {
                let cause = Cause { code, information: &[] };
                self.queue_answer(arrival.tuple, answer, |w| {
                    encode_error(w, std::iter::once(cause));
                });
            }
            (Response::Reset(code), _) => {
                let information: &[u8] = if code == ErrorCode::INVALID_FIELD { &[SynAck::KIND] } else { &[] };
                let cause = Cause { code, information };
                self.queue_answer(arrival.tuple, answer, |w| {
                    encode_rst(w, server.is_none(), std::iter::once(cause));
                });
            }
            (Response::Error(_), None) | (Response::Drop, _) => {}
        }
    }

    /// A SYN of the peer came from where the own one went (spec 3.5a). True if the endpoint answers it as a server.
    pub(crate) fn on_peer_syn(&mut self, now: Instant, tuple: &FourTuple, syn: &Syn<'_>) -> bool {
        if self.handshake.state() != HandshakeState::SynSent || !self.handshake.is_candidate(tuple) {
            return true;
        }
        let is_larger = syn.opening.tag > self.own.tag;
        let event = if is_larger { HandshakeEvent::PeerSynLarger } else { HandshakeEvent::PeerSynSmaller };
        self.handshake.on(now, event);
        is_larger
    }

    /// A valid PING came: this end is the server of the connection, whose own attempt has ended, if there was one.
    pub(crate) fn serve(&mut self, engine: &mut Engine, now: Instant, tuple: FourTuple, info: &Info<'_>) {
        engine.side = Side::Server;
        (self.own, self.peer, self.ports) = (info.server, Some(info.client), [info.ports[1], info.ports[0]]);
        self.streams = Streams::new(Side::Server, &engine.config.streams, &self.own);
        let named = info.ipv4.iter().map(|octets| (*octets).into());
        let named = named.chain(info.ipv6.iter().map(|octets| (*octets).into()));
        self.peer_addresses.set_peer(tuple.remote.ip(), named);
        self.tag_changes.push_back(TagChange::PeerKnown { peer: info.client.tag });
        self.handshake.on(now, HandshakeEvent::ValidPing);
        self.establish(engine, now, tuple);
    }

    fn establish(&mut self, engine: &mut Engine, now: Instant, tuple: FourTuple) {
        let Some(peer) = self.peer else { return };
        self.streams.set_peer(&self.own, &peer);
        engine.phase = Phase::Established;
        self.counts.established = true;
        engine.observe(now, &Fact::Established);
        let rtt = self.handshake.rtt();
        if let Some(path) = engine.paths.get_mut(PathId::FIRST) {
            path.addresses.validate(tuple);
            if let Some(rtt) = rtt {
                path.recovery.seed_rtt(rtt);
            }
            // spec 3.84
            path.challenger.start(now, vec![tuple], rtt);
            let working = path.working_state();
            engine.advance_path(now, PathId::FIRST, working, PathReason::Connected);
        }
        self.monitor.watch(now, PathId::FIRST);
        engine.events.push(Event::Connected);
        if engine.side == Side::Client {
            // spec 3.54: other addresses to which SYN went need not be those of this server.
            engine.manager.keep_remotes(|address| self.peer_addresses.is_peer(address.ip()));
            self.try_peer_addresses(engine, now, tuple.remote);
            engine.open_missing_paths(now);
        }
    }

    /// The server's further addresses are tried as advertised ones are (spec 3.123).
    fn try_peer_addresses(&self, engine: &mut Engine, now: Instant, server: SocketAddr) {
        for (id, address) in (0..).zip(self.peer_addresses.further_addresses()) {
            let address = SocketAddr::new(address, server.port());
            engine.on_add_address(now, server.ip(), (id, 0), address);
        }
    }

    pub(super) fn on_handshake_moved(&mut self, engine: &mut Engine, now: Instant, moved: Moved) {
        let Moved::Ended(end) = moved else { return };
        let error = match end {
            HandshakeEnd::NoAnswer => ConnectionError::ConnectTimeout,
            HandshakeEnd::Refused => ConnectionError::AbortedByPeer {
                code: 0,
                reason: "the server takes no connection".to_owned(),
            },
            HandshakeEnd::Closed => self.own_close(ClosedBy::Us),
        };
        self.end(engine, now, CloseEnd::Reset, error);
    }

    /// The next packet of the handshake.
    pub(super) fn transmit_handshake(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let (tuple, packet) = self.handshake.take_due(now)?;
        match packet {
            HandshakePacket::Syn => {
                let syn = Syn {
                    opening: self.own,
                    addresses: self.named.in_syn(self.own.outgoing, ROOM_FOR_ADDRESSES),
                    unrecognised: None,
                };
                self.write_packet(buffer, self.own.tag, |w| syn.encode(w));
            }
            HandshakePacket::Ping => {
                let ping = Ping { info: self.handshake.info(), unrecognised: None };
                self.write_packet(buffer, self.peer_tag(), |w| ping.encode(w));
            }
            HandshakePacket::Rst => self.write_packet(buffer, self.peer_tag(), |w| {
                encode_rst(w, false, std::iter::empty());
            }),
        }
        note_sent(engine, now, buffer);
        Some(single(tuple, buffer.len()))
    }

    /// A PROBE is answered before the handshake is complete, too (spec 3.58).
    fn answer_probe(&mut self, now: Instant, tuple: FourTuple, echo: ProbeData, rng: &mut Rng) {
        let own = tuple.local.address.ip();
        let data = self.peer_addresses.probe_data(now, PathId::FIRST, own, rng.next_u64());
        let header = self.header(self.peer_tag());
        self.queue_answer(tuple, header, |w| ProbeAck { echo, data, unrecognised: None }.encode(w));
    }

    pub(super) fn queue_pong(&mut self, tuple: FourTuple) {
        let header = self.header(self.peer_tag());
        self.queue_answer(tuple, header, |w: &mut Writer<'_>| Block::Pong.encode(w));
    }
}
