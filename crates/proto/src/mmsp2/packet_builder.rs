//! Builds one packet: header, then blocks, then the seal.

use manyway_wire::mmsp2::{LengthField, LongHeader, LongKind, Padding, packet_number};
use manyway_wire::{ConnectionId, PathId, Writer};

use crate::EncryptionLevel;
use crate::engine::packet::Built;
use crate::mmsp2::protection::{Outgoing, Protector};
use crate::packet::content::Contents;
use crate::recovery::PacketKind;

/// A packet whose header is written and whose blocks are being added.
#[derive(Debug)]
pub(crate) struct PacketBuilder {
    level: EncryptionLevel,
    path: PathId,
    pub(crate) packet_number: u64,
    start: usize,
    number_offset: usize,
    number_length: usize,
    payload: usize,
    /// End of the payload, which leaves space for the tag.
    end: usize,
    length_field: Option<LengthField>,
    pub(crate) contents: Contents,
    /// Whether any block is ack-eliciting.
    pub(crate) ack_eliciting: bool,
    /// Whether the packet is ack-eliciting only as an ACK query.
    pub(crate) is_ack_query: bool,
    /// The payload before it is sealed, for an observer.
    clear: Option<Vec<u8>>,
}

/// The fields of the header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderFacts {
    pub(crate) path: PathId,
    pub(crate) destination: ConnectionId,
    pub(crate) packet_number: u64,
    pub(crate) largest_acked: Option<u64>,
    /// Most bytes of the whole packet.
    pub(crate) size: usize,
}

impl PacketBuilder {
    /// Starts a 1-RTT packet at the end of `buffer`.
    pub(crate) fn short(buffer: &mut Vec<u8>, facts: &HeaderFacts, key_phase: bool) -> Self {
        let start = buffer.len();
        let number_length = packet_number::truncated_len(facts.packet_number, facts.largest_acked);
        let mut writer = Writer::new(buffer, start + facts.size);
        manyway_wire::mmsp2::encode_short(
            &mut writer,
            &facts.destination,
            key_phase,
            facts.packet_number,
            number_length,
        );
        Self::begin(EncryptionLevel::OneRtt, buffer, start, facts, number_length, None)
    }

    /// Starts a handshake packet at the end of `buffer`.
    pub(crate) fn long(
        buffer: &mut Vec<u8>,
        facts: &HeaderFacts,
        kind: LongKind,
        source: ConnectionId,
    ) -> Self {
        let start = buffer.len();
        let number_length = packet_number::truncated_len(facts.packet_number, facts.largest_acked);
        let header = LongHeader { kind, destination: facts.destination, source };
        let mut writer = Writer::new(buffer, start + facts.size);
        let field = header.encode(&mut writer, facts.packet_number, number_length);
        let level = match kind {
            LongKind::Initial => EncryptionLevel::Initial,
            LongKind::Handshake => EncryptionLevel::Handshake,
        };
        Self::begin(level, buffer, start, facts, number_length, Some(field))
    }

    fn begin(
        level: EncryptionLevel,
        buffer: &[u8],
        start: usize,
        facts: &HeaderFacts,
        number_length: usize,
        length_field: Option<LengthField>,
    ) -> Self {
        let payload = buffer.len();
        Self {
            level,
            path: facts.path,
            packet_number: facts.packet_number,
            start,
            number_offset: payload - number_length,
            number_length,
            payload,
            end: (start + facts.size).saturating_sub(Protector::TAG_LENGTH),
            length_field,
            contents: Contents::new(),
            ack_eliciting: false,
            is_ack_query: false,
            clear: None,
        }
    }

    /// The writer for blocks.
    pub(crate) fn writer<'a>(&self, buffer: &'a mut Vec<u8>) -> Writer<'a> {
        Writer::new(buffer, self.end)
    }

    pub(crate) fn is_empty(&self, buffer: &[u8]) -> bool {
        buffer.len() == self.payload
    }

    /// How loss recovery treats the packet, unless it is a PMTU probe.
    fn kind(&self) -> PacketKind {
        match (self.ack_eliciting, self.is_ack_query) {
            (true, _) => PacketKind::Ordinary,
            (false, true) => PacketKind::AckQuery,
            (false, false) => PacketKind::AckOnly,
        }
    }

    /// Bytes of the packet so far.
    pub(crate) fn len(&self, buffer: &[u8]) -> usize {
        buffer.len() - self.start
    }

    /// Removes the packet again.
    pub(crate) fn cancel(self, buffer: &mut Vec<u8>) {
        buffer.truncate(self.start);
    }

    /// Fills the packet with PADDING up to `size` bytes in total, as far as its limit permits.
    pub(crate) fn pad_to(&self, buffer: &mut Vec<u8>, size: usize) {
        let wanted = (self.start + size).saturating_sub(Protector::TAG_LENGTH).min(self.end);
        // Blocks start at multiples of four: only the last block may lack its padding.
        let missing = wanted.saturating_sub(buffer.len());
        if missing > 0 {
            Padding { length: missing }.encode(&mut self.writer(buffer));
        }
    }

    /// Keeps a copy of the payload as it is now.
    pub(crate) fn keep_clear(&mut self, buffer: &[u8]) {
        self.clear = buffer.get(self.payload..).map(<[u8]>::to_vec);
    }

    /// Completes the packet and leaves its seal to a job of `protector`; `None` if the keys can no
    /// longer be used.
    pub(crate) fn finish(mut self, buffer: &mut Vec<u8>, protector: &mut Protector) -> Option<Built> {
        debug_assert!(buffer.len() <= self.end, "the packet has {} bytes too many", buffer.len() - self.end);
        if let Some(field) = self.length_field.take() {
            let end = buffer.len() + Protector::TAG_LENGTH;
            manyway_wire::mmsp2::patch_length(buffer, field, end);
        }
        let outgoing = Outgoing {
            level: self.level,
            path: self.path,
            packet_number: self.packet_number,
            start: self.start,
            number_offset: self.number_offset,
            number_length: self.number_length,
        };
        if protector.seal(&outgoing, buffer).is_err() {
            buffer.truncate(self.start);
            return None;
        }
        Some(Built {
            level: Some(self.level),
            path: self.path,
            packet_number: self.packet_number,
            takes_number: true,
            size: buffer.len() - self.start,
            kind: self.kind(),
            contents: std::mem::take(&mut self.contents),
            carries_data: false,
            clear: self.clear.take(),
        })
    }
}
