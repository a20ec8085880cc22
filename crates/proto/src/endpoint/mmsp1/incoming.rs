//! Datagrams of MMSP/1: to their connections, to a new one, or answered without keeping state.

use std::sync::Arc;

use manyway_wire::DecodeError;
use manyway_wire::frame::RawBlocks;
use manyway_wire::mmsp1::{
    Block, Cause, ErrorCode, Header, Info, Packet, PacketError, Ping, Response, Syn, SynAck, Tag,
};

use super::answers::{self, Asked};
use super::info::InfoError;
use super::{Client, Live, Mmsp1Endpoint};
use crate::connection::Connection;
use crate::endpoint::admission::Answer;
use crate::endpoint::{ConnectionHandle, Endpoint};
use crate::mmsp1::{Mmsp1, Named, PacketArrival, opening};
use crate::prefix::Prefix;
use crate::{ConnectionConfig, ConnectionError, FourTuple, Instant, Side};

impl Endpoint {
    /// Handles a datagram that begins as packets of MMSP/1 do.
    pub(in crate::endpoint) fn handle_mmsp1(&mut self, now: Instant, tuple: FourTuple, datagram: &[u8]) {
        let speaks = self.mmsp1.is_some() || self.config.mmsp1.is_some();
        if !speaks || !tuple.is_datagram() {
            return;
        }
        let packet = match Packet::decode(datagram) {
            Ok(packet) => packet,
            Err(error) => return self.note_damaged(tuple, datagram, &error),
        };
        let size = datagram.len();
        let rng = &mut self.rng;
        self.mmsp1.get_or_insert_with(|| Box::new(Mmsp1Endpoint::new(now, rng)));
        if packet.payload.first() == Some(&Syn::KIND) {
            return self.handle_syn(now, tuple, &packet, size);
        }
        if let Some(handle) = self.mmsp1_connection(tuple, packet.header.connection) {
            return self.handle_known(now, handle, tuple, &packet, size);
        }
        self.handle_unmatched(now, tuple, &packet, size);
    }

    /// A datagram that is no packet is dropped; a wrong checksum counts for the connection whose tag stands there.
    fn note_damaged(&mut self, tuple: FourTuple, datagram: &[u8], error: &PacketError) {
        tracing::debug!(from = %tuple.remote, %error, "no packet of MMSP/1");
        if matches!(error, PacketError::Checksum { .. })
            && let Ok((header, _)) = Header::decode(datagram)
            && let Some(handle) = self.mmsp1_connection(tuple, header.connection)
            && let Some(connection) = self.slots.get_mut(handle)
        {
            connection.on_damaged();
        }
    }

    /// The connection with this tag of its own, if it may hear the sender.
    fn mmsp1_connection(&self, tuple: FourTuple, tag: Tag) -> Option<ConnectionHandle> {
        let live = self.mmsp1.as_ref()?.live.get(&tag)?;
        let is_filtered = live.port.is_none();
        (!is_filtered || self.mmsp1_takes(&tuple)).then_some(live.handle)
    }

    /// Whether clients may come from there.
    fn mmsp1_takes(&self, tuple: &FourTuple) -> bool {
        self.config.mmsp1.as_ref().is_none_or(|server| server.from.allows(tuple.remote.ip()))
    }

    fn deliver_mmsp1(&mut self, now: Instant, handle: ConnectionHandle, arrival: &PacketArrival<'_>) {
        if let Some(connection) = self.slots.get_mut(handle) {
            connection.handle_packet(now, arrival);
        }
        self.touch(handle);
    }

    /// A packet under the tag of a connection.
    fn handle_known(
        &mut self,
        now: Instant,
        handle: ConnectionHandle,
        tuple: FourTuple,
        packet: &Packet<'_>,
        size: usize,
    ) {
        let mut has_own_info = false;
        if let Some(ping) = ping_of(packet) {
            match self.check_own_info(now, handle, tuple, packet, &ping) {
                Ok(is_own) => has_own_info = is_own,
                Err(code) => return self.reset_ping(now, tuple, packet.header, code),
            }
        }
        self.deliver_mmsp1(now, handle, &PacketArrival { tuple, packet: *packet, size, has_own_info });
    }

    /// Whether a PING under the tag of a live connection has an INFO of it, be it expired; false if it earns no answer.
    fn check_own_info(
        &self,
        now: Instant,
        handle: ConnectionHandle,
        tuple: FourTuple,
        packet: &Packet<'_>,
        ping: &Ping<'_>,
    ) -> Result<bool, ErrorCode> {
        let (Some(mmsp1), Some(connection)) = (&self.mmsp1, self.slots.get(handle)) else { return Ok(false) };
        if connection.side() == Side::Client {
            return Ok(false);
        }
        match mmsp1.keys.open(now, ping.info, (packet.header.connection, tuple.remote)) {
            Ok((info, _)) => {
                let peer = connection.as_mmsp1().and_then(|mmsp1| mmsp1.known_peer());
                if peer == Some(info.client.tag) { Ok(true) } else { Err(ErrorCode::UNRECOGNISED_ERROR) }
            }
            Err(InfoError::Elsewhere) => Ok(false),
            Err(InfoError::Forged) => Err(ErrorCode::STALE_INFO),
        }
    }

    fn handle_syn(&mut self, now: Instant, tuple: FourTuple, packet: &Packet<'_>, size: usize) {
        let header = packet.header;
        self.forget_complete_attempts();
        if self.attempts().any(|attempt| attempt.overrules_syn(&tuple, header.connection)) {
            return;
        }
        let own = self.own_attempt(&tuple);
        let config = match own {
            Some(handle) => self.slots.get(handle).map(|connection| Arc::clone(connection.config())),
            None => self.config.mmsp1.as_ref().map(|server| Arc::clone(&server.connection)),
        };
        let Some(config) = config.filter(|_| own.is_some() || self.mmsp1_takes(&tuple)) else { return };
        let prefix = Prefix::of(tuple.remote);
        if !self.admission.may_answer(now, Answer::Info(prefix)) {
            return;
        }
        let syn = match packet.blocks().next() {
            Some(Ok(Block::Syn(syn))) if syn.opening.tag == header.connection => syn,
            Some(Ok(_)) => {
                return self.push_answer(tuple, answers::rst_to_syn(header, ErrorCode::INVALID_FIELD));
            }
            Some(Err(error)) => return self.refuse_syn(tuple, header, &error),
            None => return,
        };
        if let Some(handle) = own
            && let Some(connection) = self.slots.get_mut(handle)
            && !connection.on_peer_syn(now, &tuple, &syn)
        {
            return;
        }
        let asked = Asked { tuple, header, size, syn: &syn };
        self.answer_syn(now, &asked, &config);
    }

    fn refuse_syn(&mut self, tuple: FourTuple, header: Header, error: &DecodeError) {
        if let Response::Reset(code) = Response::to(error) {
            self.push_answer(tuple, answers::rst_to_syn(header, code));
        }
    }

    fn answer_syn(&mut self, now: Instant, asked: &Asked<'_>, config: &ConnectionConfig) {
        let Some(mmsp1) = &mut self.mmsp1 else { return };
        let tag = mmsp1.unused_tag(now, &mut self.rng);
        let server = opening(config, tag, &mut self.rng);
        let named = Named::new(config.advertised.iter().map(|address| address.ip()));
        let answer = mmsp1.syn_ack(now, asked, server, &named);
        self.push_answer(asked.tuple, answer);
    }

    /// Attempts whose handshake is complete are attempts no more.
    fn forget_complete_attempts(&mut self) {
        let Some(mmsp1) = &mut self.mmsp1 else { return };
        let slots = &self.slots;
        let is_open = |handle: &ConnectionHandle| slots.get(*handle).and_then(Connection::as_mmsp1);
        mmsp1.attempts.retain(|handle| is_open(handle).is_some_and(|mmsp1| mmsp1.is_attempting()));
    }

    /// The attempts of this end to connect.
    fn attempts(&self) -> impl Iterator<Item = &Mmsp1> {
        let handles = self.mmsp1.iter().flat_map(|mmsp1| &mmsp1.attempts);
        handles.filter_map(|handle| self.slots.get(*handle)?.as_mmsp1())
    }

    /// The connection of this end that waits for the answer to its SYN from there (spec 3.5a).
    fn own_attempt(&self, tuple: &FourTuple) -> Option<ConnectionHandle> {
        let waits = |handle: &&ConnectionHandle| {
            let mmsp1 = self.slots.get(**handle).and_then(Connection::as_mmsp1);
            mmsp1.is_some_and(|mmsp1| mmsp1.waits_for_syn_ack(tuple))
        };
        self.mmsp1.as_ref()?.attempts.iter().find(waits).copied()
    }

    /// A packet that belongs to no connection (spec 3.6).
    fn handle_unmatched(&mut self, now: Instant, tuple: FourTuple, packet: &Packet<'_>, size: usize) {
        let header = packet.header;
        let first = packet.blocks().next();
        if let Some(Ok(Block::Rst(_) | Block::FinDone(_))) = first {
            let found = self.mmsp1.as_ref().and_then(|mmsp1| mmsp1.by_peer.get(&header.connection)).copied();
            if let Some(handle) = found {
                let arrival = PacketArrival { tuple, packet: *packet, size, has_own_info: false };
                self.deliver_mmsp1(now, handle, &arrival);
            }
            return;
        }
        if let Some(ping) = ping_of(packet) {
            return self.handle_ping(now, tuple, packet, size, &ping);
        }
        let Some(mmsp1) = &mut self.mmsp1 else { return };
        let tombstone = mmsp1.tombstones.get(now, header.connection).copied();
        if let Some(tombstone) = tombstone.filter(|tombstone| tombstone.is_orderly) {
            if first == Some(Ok(Block::FinAck)) && mmsp1.may_answer_unmatched(now) {
                self.push_answer(tuple, answers::fin_done(header.answer(tombstone.peer), false));
            }
            return;
        }
        // Hosts outside the filter get no answer: they do not learn that a server listens.
        if self.config.mmsp1.is_some() && !self.mmsp1_takes(&tuple) {
            return;
        }
        // A packet whose blocks are all skipped is not empty.
        if RawBlocks::new(packet.payload).next().is_none_or(|block| block.is_err()) {
            return;
        }
        let answer = match first {
            Some(Ok(Block::Error(_) | Block::Pong | Block::SynAck(_))) => return,
            Some(Ok(Block::FinAck)) => answers::fin_done(header.answer(header.connection), true),
            _ if is_quiet(packet) => return,
            _ if has_ping(packet) => {
                let cause = Cause { code: ErrorCode::NO_INFO, information: &[] };
                answers::reflected_rst(header, Some(cause))
            }
            _ => answers::reflected_rst(header, None),
        };
        self.answer_unmatched(now, tuple, answer);
    }

    fn answer_unmatched(&mut self, now: Instant, tuple: FourTuple, answer: Vec<u8>) {
        if self.mmsp1.as_mut().is_some_and(|mmsp1| mmsp1.may_answer_unmatched(now)) {
            self.push_answer(tuple, answer);
        }
    }

    fn reset_ping(&mut self, now: Instant, tuple: FourTuple, header: Header, code: ErrorCode) {
        let information: &[u8] = if code == ErrorCode::STALE_INFO { &[0; 4] } else { &[] };
        let answer = answers::reflected_rst(header, Some(Cause { code, information }));
        self.answer_unmatched(now, tuple, answer);
    }

    /// A PING that belongs to no connection: a valid one begins one (spec 3.55, 3.56).
    fn handle_ping(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        packet: &Packet<'_>,
        size: usize,
        ping: &Ping<'_>,
    ) {
        let header = packet.header;
        let Some(mmsp1) = &self.mmsp1 else { return };
        let own = self.own_attempt(&tuple);
        if own.is_none() && !self.mmsp1_takes(&tuple) {
            return;
        }
        match mmsp1.keys.open(now, ping.info, (header.connection, tuple.remote)) {
            Ok((_, None)) if mmsp1.tombstones.get(now, header.connection).is_some() => {}
            Ok((info, None)) if own.is_none() && !mmsp1.served.takes(&client_of(&info)) => {
                tracing::debug!(from = %tuple.remote, "too many connections of MMSP/1");
                self.reset_ping(now, tuple, header, ErrorCode::UNRECOGNISED_ERROR);
            }
            Ok((info, None)) => {
                self.begin_serving(now, tuple, own, &info);
                let found = self.mmsp1.as_ref().and_then(|mmsp1| mmsp1.live.get(&header.connection));
                if let Some(handle) = found.map(|live| live.handle) {
                    let arrival = PacketArrival { tuple, packet: *packet, size, has_own_info: true };
                    self.deliver_mmsp1(now, handle, &arrival);
                }
            }
            Ok((info, Some(expired))) => {
                let millis = u32::try_from(expired.as_millis()).unwrap_or(u32::MAX);
                let information = &millis.max(1).to_be_bytes()[..];
                let cause = Cause { code: ErrorCode::STALE_INFO, information };
                let report = answers::error(header.answer(info.client.tag), cause);
                self.answer_unmatched(now, tuple, report);
                // spec 3.74: it costs as much as the SYN-ACK that answers a SYN.
                let may_renew = self.admission.may_answer(now, Answer::Info(Prefix::of(tuple.remote)));
                if let Some(mmsp1) = self.mmsp1.as_mut().filter(|_| may_renew) {
                    let renewed = mmsp1.renewed(now, header, &info);
                    self.push_answer(tuple, renewed);
                }
            }
            Err(InfoError::Elsewhere) => {}
            Err(InfoError::Forged) => {
                self.reset_ping(now, tuple, header, ErrorCode::STALE_INFO);
            }
        }
    }

    /// Makes the connection of a valid INFO; an own attempt to the same peer becomes it (spec 3.142), and the connection
    /// that this client had before has ended (spec 3.5b).
    fn begin_serving(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        own: Option<ConnectionHandle>,
        info: &Info<'_>,
    ) {
        let client = client_of(info);
        let mut port = None;
        let handle = match own {
            Some(handle) => {
                let Some(connection) = self.slots.get_mut(handle) else { return };
                let before = connection.as_mmsp1().map(|mmsp1| mmsp1.own().tag);
                connection.serve(now, tuple, info);
                let before = before.zip(self.mmsp1.as_mut()).and_then(|(tag, mmsp1)| mmsp1.live.remove(&tag));
                port = before.and_then(|live| live.port);
                handle
            }
            None => {
                let Some(server) = &self.config.mmsp1 else { return };
                let config = Arc::clone(&server.connection);
                let start = self.mmsp1_start(now, &config);
                self.slots.insert(Connection::mmsp1_server(start, tuple, info))
            }
        };
        let Some(mmsp1) = &mut self.mmsp1 else { return };
        let old = mmsp1.served.insert(client, handle);
        mmsp1.live.insert(info.server.tag, Live { handle, client: Some(client), port });
        if let Some(old) = old
            && let Some(connection) = self.slots.get_mut(old)
        {
            connection.give_up(now, ConnectionError::Reset);
            self.touch(old);
        }
        self.touch(handle);
    }
}

fn client_of(info: &Info<'_>) -> Client {
    (info.address, info.ports)
}

/// The PING of a packet, wherever it stands: it is read before everything else.
fn ping_of<'a>(packet: &Packet<'a>) -> Option<Ping<'a>> {
    // Few packets have one: the others are not decoded for it.
    if !has_ping(packet) {
        return None;
    }
    packet.blocks().find_map(|block| if let Ok(Block::Ping(ping)) = block { Some(ping) } else { None })
}

/// Whether a packet has a PING, readable or not.
fn has_ping(packet: &Packet<'_>) -> bool {
    RawBlocks::new(packet.payload).any(|frame| frame.is_ok_and(|frame| frame.kind == Ping::KIND))
}

/// Whether the first block is one to which nothing answers, although it cannot be read.
fn is_quiet(packet: &Packet<'_>) -> bool {
    use manyway_wire::mmsp1::{ErrorReport, FinDone, Pong, Rst};
    let quiet = [Rst::KIND, ErrorReport::KIND, Pong::KIND, SynAck::KIND, FinDone::KIND];
    packet.payload.first().is_some_and(|kind| quiet.contains(kind))
}
