//! Follows all connections of a capture.

use std::collections::BTreeMap;
use std::fmt;

use manyway_wire::mmsp2::{HeaderForm, LongKind, MIN_SEALED, decode_protected};
use manyway_wire::{ConnectionId, PathId, Side};

use crate::key_log::KeyLog;
use crate::packet::{Inside, Level, Packet, Sealed};
use crate::session::{SealedPacket, Session, level_of};

/// Most connections that are followed; beyond it, the oldest is dropped.
const MOST_SESSIONS: usize = 4096;
/// Most IDs that are known of one connection.
const MOST_IDS: usize = 1024;

/// The issuer of an ID, and its path.
#[derive(Debug, Clone, Copy)]
struct Issued {
    session: u64,
    issuer: Side,
    path: PathId,
}

/// Describes each packet, and decrypts it if its keys are known.
///
/// Packets must come in the order of the capture: IDs, packet numbers and keys follow from earlier ones. Costs O(log
/// IDs) and one decryption a packet. At most 4096 connections are followed at a time.
#[derive(Default)]
pub struct Inspector {
    log: KeyLog,
    sessions: BTreeMap<u64, Session>,
    ids: BTreeMap<ConnectionId, Issued>,
    /// Issued reset tokens, with the connection.
    tokens: BTreeMap<[u8; 16], u64>,
    last_session: u64,
}

impl Inspector {
    /// Decrypts with the secrets of `log`; without any, only the Initial packets.
    pub fn new(log: KeyLog) -> Self {
        Self { log, ..Self::default() }
    }

    /// Adds lines of a key log, such as those in a pcapng file; returns how many.
    pub fn add_keys(&mut self, text: &[u8]) -> usize {
        self.log.add(text)
    }

    /// Describes the packets of one datagram: at least one, unless the datagram is empty.
    pub fn datagram(&mut self, bytes: &[u8]) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut offset = 0;
        while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            let packet = self.packet(offset, rest);
            // A header that cannot be read ends the datagram (spec 4.9).
            offset = if packet.header.is_err() { bytes.len() } else { offset + packet.length.max(1) };
            packets.push(packet);
        }
        packets
    }

    fn packet(&mut self, offset: usize, rest: &[u8]) -> Packet {
        let mut packet = Packet {
            offset,
            length: rest.len(),
            header: Ok(HeaderForm::Short { destination: ConnectionId::from_u64(0) }),
            connection: None,
            sender: None,
            path: None,
            inside: Inside::Nothing,
        };
        let protected = match decode_protected(rest, self.id_length(rest)) {
            Ok(protected) => protected,
            Err(error) => {
                packet.header = Err(error);
                return packet;
            }
        };
        packet.length = protected.length.min(rest.len());
        match &protected.form {
            HeaderForm::Long { kind, destination, source, .. } => {
                let bytes = rest.get(..packet.length).unwrap_or_default();
                let ids = (*destination, *source);
                self.long(&mut packet, *kind, ids, (protected.number_offset, bytes));
            }
            HeaderForm::Short { destination } => {
                packet.length = segment(rest, destination);
                let bytes = rest.get(..packet.length).unwrap_or_default();
                self.short(&mut packet, *destination, (protected.number_offset, bytes));
            }
            HeaderForm::OtherVersion { .. } | HeaderForm::VersionList { .. } => {}
        }
        packet.header = Ok(protected.form);
        packet
    }

    /// The length of the ID in a short header, which only its receiver knows: that of a known ID, or of most.
    fn id_length(&self, packet: &[u8]) -> usize {
        let is_known = |length: &usize| {
            let id = packet.get(1..1 + length).and_then(ConnectionId::from_slice);
            id.is_some_and(|id| self.ids.contains_key(&id))
        };
        let mut lengths = ConnectionId::MIN_ISSUED..=ConnectionId::MAX_LENGTH;
        lengths.find(is_known).unwrap_or(ConnectionId::MIN_ISSUED)
    }

    fn long(
        &mut self,
        packet: &mut Packet,
        kind: LongKind,
        (destination, source): (ConnectionId, ConnectionId),
        (number_offset, bytes): (usize, &[u8]),
    ) {
        let level = level_of(kind);
        let known = self.ids.get(&destination).copied();
        let (session, sender) = match known {
            Some(issued) => (issued.session, other(issued.issuer)),
            None if level == Level::Initial => (0, Side::Client),
            None => return packet.inside = Inside::Sealed(Sealed::UnknownConnection),
        };
        let sealed = SealedPacket { level, sender, path: PathId::FIRST, number_offset, bytes };
        if known.is_some() {
            packet.connection = Some(session);
            packet.sender = Some(sender);
            packet.inside = self.open(session, &sealed);
        } else {
            // It may be the first of a connection: then its keys follow from its destination ID.
            let mut fresh = Session::new(&destination);
            match fresh.open(&sealed, &self.log) {
                Ok((opened, _)) => {
                    let session = self.insert(fresh);
                    packet.connection = Some(session);
                    packet.sender = Some(sender);
                    packet.inside = Inside::Opened(opened);
                    self.issue(session, destination, Side::Server, PathId::FIRST);
                }
                Err(_) => packet.inside = Inside::Sealed(Sealed::UnknownConnection),
            }
        }
        if let (Inside::Opened(_), Some(session)) = (&packet.inside, packet.connection) {
            self.issue(session, source, sender, PathId::FIRST);
        }
    }

    fn short(
        &mut self,
        packet: &mut Packet,
        destination: ConnectionId,
        (number_offset, bytes): (usize, &[u8]),
    ) {
        let Some(issued) = self.ids.get(&destination).copied() else {
            packet.inside = Inside::Sealed(if self.is_reset(bytes) {
                Sealed::StatelessReset
            } else {
                Sealed::UnknownConnection
            });
            return;
        };
        packet.connection = Some(issued.session);
        packet.sender = Some(other(issued.issuer));
        packet.path = Some(issued.path);
        let sender = other(issued.issuer);
        let sealed = SealedPacket { level: Level::OneRtt, sender, path: issued.path, number_offset, bytes };
        packet.inside = self.open(issued.session, &sealed);
        if matches!(packet.inside, Inside::Sealed(_)) && self.is_reset(bytes) {
            packet.inside = Inside::Sealed(Sealed::StatelessReset);
        }
    }

    fn open(&mut self, session: u64, sealed: &SealedPacket<'_>) -> Inside {
        let Some(state) = self.sessions.get_mut(&session) else {
            return Inside::Sealed(Sealed::UnknownConnection);
        };
        match state.open(sealed, &self.log) {
            Ok((opened, learnt)) => {
                for (id, path, token) in learnt.ids {
                    if self.issue(session, id, sealed.sender, path) {
                        self.tokens.insert(token, session);
                    }
                }
                Inside::Opened(opened)
            }
            Err(why) => Inside::Sealed(why),
        }
    }

    /// Whether the packet ends with an issued token (spec 4.11). Its ID may be any.
    fn is_reset(&self, bytes: &[u8]) -> bool {
        let Some(end) = bytes.last_chunk::<16>() else { return false };
        self.tokens.contains_key(end)
    }

    fn insert(&mut self, session: Session) -> u64 {
        if self.sessions.len() >= MOST_SESSIONS
            && let Some((number, oldest)) = self.sessions.pop_first()
        {
            for id in oldest.ids {
                if self.ids.get(&id).is_some_and(|issued| issued.session == number) {
                    self.ids.remove(&id);
                }
            }
            self.tokens.retain(|_, session| *session != number);
        }
        self.last_session += 1;
        self.sessions.insert(self.last_session, session);
        self.last_session
    }

    /// Records an ID; returns false if it was known, or there are too many.
    fn issue(&mut self, session: u64, id: ConnectionId, issuer: Side, path: PathId) -> bool {
        let Some(state) = self.sessions.get_mut(&session) else { return false };
        let known = self.ids.get(&id).is_some_and(|issued| issued.session == session);
        if known || state.ids.len() >= MOST_IDS {
            return false;
        }
        state.ids.push(id);
        self.ids.insert(id, Issued { session, issuer, path });
        true
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector")
            .field("log", &self.log)
            .field("connections", &self.last_session)
            .finish_non_exhaustive()
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

/// The length of the first datagram in `rest`, which is one datagram, or many that a sender passed to the system at
/// once: a capture shows them as one before they are segmented. Then each has the same ID at the same offset.
fn segment(rest: &[u8], destination: &ConnectionId) -> usize {
    let id = destination.as_slice();
    let least = 1 + id.len() + MIN_SEALED;
    let Some(later) = rest.get(least..).filter(|_| !id.is_empty()) else { return rest.len() };
    let next = later.windows(id.len() + 1).position(|window| {
        window.split_first().is_some_and(|(first, found)| found == id && first & 0xe0 == 0x40)
    });
    next.map_or(rest.len(), |position| least + position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_of_one_send_call_are_separated() {
        let id = ConnectionId::from_u64(0x0102_0304_0506_0708);
        let mut one = vec![0x41];
        one.extend_from_slice(id.as_slice());
        one.extend([9; 40]);
        let mut many = one.repeat(3);
        many.truncate(many.len() - 5);
        let lengths: Vec<_> =
            Inspector::default().datagram(&many).iter().map(|packet| packet.length).collect();
        assert_eq!(lengths, [49, 49, 44]);
    }

    #[test]
    fn an_unreadable_header_ends_the_datagram() {
        let packets = Inspector::default().datagram(&[0x20; 100]);
        assert_eq!(packets.len(), 1);
        assert!(packets[0].is_malformed());
        assert!(Inspector::default().datagram(&[]).is_empty());
    }
}
