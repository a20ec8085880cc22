//! One connection of the capture.

use manyway_wire::mmsp2::{Block, LongKind, reserved_bits_are_clear};
use manyway_wire::{ConnectionId, PathId, Side};

use crate::blocks::blocks;
use crate::key_log::{KeyLog, Label};
use crate::keys::{Secret, Suite};
use crate::numbers::Numbers;
use crate::open::DirectionKeys;
use crate::packet::{Level, Opened, Sealed};

/// The part of a hello that has to be read: up to the cipher suite after the longest session ID.
const HELLO: usize = 4 + 2 + 32 + 1 + 32 + 2;

/// A value for each direction.
#[derive(Debug, Default)]
struct Both<T> {
    client: T,
    server: T,
}

impl<T> Both<T> {
    fn of(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

/// A packet of a connection, by its header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SealedPacket<'a> {
    pub(crate) level: Level,
    pub(crate) sender: Side,
    pub(crate) path: PathId,
    pub(crate) number_offset: usize,
    pub(crate) bytes: &'a [u8],
}

/// What the inspector learns from a decrypted packet.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    /// Ids that the sender issued, with their paths and reset tokens.
    pub(crate) ids: Vec<(ConnectionId, PathId, [u8; 16])>,
}

/// One connection.
#[derive(Default)]
pub(crate) struct Session {
    initial: Both<Option<DirectionKeys>>,
    handshake: Both<Option<DirectionKeys>>,
    one_rtt: Both<Option<DirectionKeys>>,
    hellos: Both<Hello>,
    numbers: Numbers,
    /// IDs of this connection that the inspector knows.
    pub(crate) ids: Vec<ConnectionId>,
}

impl Session {
    /// A connection whose first packet names this destination.
    pub(crate) fn new(original_destination: &ConnectionId) -> Self {
        let mut session = Self::default();
        for side in [Side::Client, Side::Server] {
            let secret = Secret::initial(original_destination, side);
            *session.initial.of(side) = secret.and_then(DirectionKeys::new);
        }
        session
    }

    /// Decrypts a packet and records its information.
    pub(crate) fn open(
        &mut self,
        packet: &SealedPacket<'_>,
        log: &KeyLog,
    ) -> Result<(Opened, Learnt), Sealed> {
        let SealedPacket { level, sender, path, number_offset, bytes } = *packet;
        if level != Level::Initial {
            self.derive(level, sender, log)?;
        }
        let keys = match level {
            Level::Initial => self.initial.of(sender),
            Level::Handshake => self.handshake.of(sender),
            Level::OneRtt => self.one_rtt.of(sender),
        };
        let keys = keys.as_mut().ok_or(Sealed::NoHello)?;
        let header = keys.unmask(bytes, number_offset).ok_or(Sealed::Refused)?;
        let sealed = bytes.get(header.bytes.len()..).ok_or(Sealed::Refused)?;
        let space = (sender, level, if level == Level::OneRtt { path } else { PathId::FIRST });
        let number = self.numbers.expand(space, header.truncated, header.number_length);
        let opened = if level == Level::OneRtt {
            let bit = manyway_wire::mmsp2::key_phase(header.first);
            let opened = keys.open_in_phase(bit, (path, number), &header.bytes, sealed);
            opened.map(|(phase, payload)| (Some(phase), payload))
        } else {
            keys.open(number, &header.bytes, sealed).map(|payload| (None, payload))
        };
        let (key_phase, payload) = opened.ok_or(Sealed::Refused)?;
        self.numbers.on_opened(space, number);
        let learnt = self.learn(level, sender, &payload);
        let reserved_bits_set = !reserved_bits_are_clear(header.first);
        Ok((Opened { packet_number: number, key_phase, reserved_bits_set, payload }, learnt))
    }

    /// Derives the keys of a direction, if they are missing.
    fn derive(&mut self, level: Level, sender: Side, log: &KeyLog) -> Result<(), Sealed> {
        let (keys, label) = match level {
            Level::Initial => return Ok(()),
            Level::Handshake => (self.handshake.of(sender), Label::Handshake(sender)),
            Level::OneRtt => (self.one_rtt.of(sender), Label::Traffic(sender)),
        };
        if keys.is_some() {
            return Ok(());
        }
        let random = self.hellos.client.random().ok_or(Sealed::NoHello)?;
        let secret = log.secret(&random, label).ok_or(Sealed::NoSecret(label))?;
        let number = self.hellos.server.cipher_suite().ok_or(Sealed::NoHello)?;
        let suite = Suite::from_number(number).ok_or(Sealed::UnknownCipher(number))?;
        *keys = Secret::new(suite, secret).and_then(DirectionKeys::new);
        if keys.is_none() { Err(Sealed::NoSecret(label)) } else { Ok(()) }
    }

    fn learn(&mut self, level: Level, sender: Side, payload: &[u8]) -> Learnt {
        let mut learnt = Learnt::default();
        for block in blocks(payload).map_while(|at| at.block.ok()) {
            if let (Level::Initial, Block::Crypto(piece)) = (level, block) {
                self.hellos.of(sender).add(piece.offset, piece.data);
            }
            if let (Level::OneRtt, Block::NewCid(new)) = (level, block) {
                learnt.ids.push((new.id, new.path, new.reset_token));
            }
        }
        learnt
    }
}

/// The level of a packet with a long header.
pub(crate) fn level_of(kind: LongKind) -> Level {
    match kind {
        LongKind::Initial => Level::Initial,
        LongKind::Handshake => Level::Handshake,
    }
}

/// The first bytes of a `ClientHello` or `ServerHello`, from pieces in any order.
#[derive(Debug)]
struct Hello {
    bytes: [Option<u8>; HELLO],
}

impl Default for Hello {
    fn default() -> Self {
        Self { bytes: [None; HELLO] }
    }
}

impl Hello {
    fn add(&mut self, offset: u64, data: &[u8]) {
        let Some(room) = usize::try_from(offset).ok().and_then(|offset| self.bytes.get_mut(offset..)) else {
            return;
        };
        for (place, byte) in room.iter_mut().zip(data) {
            place.get_or_insert(*byte);
        }
    }

    fn at(&self, offset: usize) -> Option<u8> {
        self.bytes.get(offset).copied().flatten()
    }

    /// Type, length and version come before it (RFC 8446, section 4.1.2).
    fn random(&self) -> Option<[u8; 32]> {
        let mut random = [0; 32];
        for (place, offset) in random.iter_mut().zip(6..) {
            *place = self.at(offset)?;
        }
        Some(random)
    }

    /// The session ID before it varies in length (RFC 8446, section 4.1.3).
    fn cipher_suite(&self) -> Option<u16> {
        let offset = 39 + usize::from(self.at(38)?);
        Some(u16::from_be_bytes([self.at(offset)?, self.at(offset + 1)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_read_from_pieces_in_any_order() {
        let mut bytes = vec![2, 0, 0, 90, 3, 3];
        bytes.extend([7; 32]);
        bytes.extend([3, 1, 2, 3, 0x13, 0x02, 0]);
        let mut hello = Hello::default();
        hello.add(40, &bytes[40..]);
        assert_eq!((hello.random(), hello.cipher_suite()), (None, None));
        hello.add(0, &bytes[..40]);
        hello.add(u64::MAX, &bytes);
        hello.add(1000, &bytes);
        assert_eq!((hello.random(), hello.cipher_suite()), (Some([7; 32]), Some(0x1302)));
    }
}
