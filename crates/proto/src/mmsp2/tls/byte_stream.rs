//! Ordered, retransmitted TLS bytes of one encryption level.

use manyway_wire::Writer;
use manyway_wire::mmsp2::{Crypto, crypto_overhead};

use super::ranges::Ranges;
use crate::Violation;
use crate::packet::content::{Contents, SentContent};

/// Most gaps remembered; 64 KiB in packets of a usual size have far fewer.
const MAX_GAPS: usize = 256;
/// Blocks are padded to a multiple of this.
const BLOCK_ALIGNMENT: usize = 4;
/// Limit of the length field of a block.
const MAX_BLOCK: usize = 65_532;

/// The bytes of this end. All are kept until the level ends, because a flight is only a few kilobytes.
#[derive(Debug, Default)]
pub(super) struct SendBytes {
    bytes: Vec<u8>,
    /// To be sent, for the first time or again.
    pending: Ranges,
    acked: Ranges,
}

impl SendBytes {
    /// Adds bytes at the end.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let start = length_of(&self.bytes);
        self.bytes.extend_from_slice(bytes);
        self.pending.insert(start..length_of(&self.bytes));
    }

    /// Whether any bytes are to be sent.
    pub(super) fn wants(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes CRYPTO blocks while there are bytes to send and space for at least one.
    pub(super) fn write_into(&mut self, writer: &mut Writer<'_>, contents: &mut Contents) {
        while let Some(range) = self.pending.first() {
            let overhead = crypto_overhead(range.start);
            let block = writer.remaining().min(MAX_BLOCK) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
            let Some(room) = block.checked_sub(overhead).filter(|room| *room > 0) else { return };
            let Some(data) = usize::try_from(range.start)
                .ok()
                .and_then(|start| self.bytes.get(start..))
                .and_then(|rest| rest.get(..room.min(to_usize(range.end - range.start))))
            else {
                debug_assert!(false, "pending bytes are held");
                return;
            };
            Crypto { offset: range.start, data }.encode(writer);
            let end = range.start + length_of(data);
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            contents.push(SentContent::Handshake { offset: range.start, length });
            self.pending.remove(&(range.start..end));
        }
    }

    /// Records bytes that arrived; they are never sent again.
    pub(super) fn on_delivered(&mut self, offset: u64, length: u32) {
        let range = offset..offset.saturating_add(u64::from(length)).min(length_of(&self.bytes));
        self.pending.remove(&range);
        self.acked.insert(range);
    }

    /// Sends lost bytes again, without those that another packet delivered.
    pub(super) fn on_lost(&mut self, offset: u64, length: u32) {
        let range = offset..offset.saturating_add(u64::from(length)).min(length_of(&self.bytes));
        self.pending.insert(range);
        for acked in self.acked.iter() {
            self.pending.remove(acked);
        }
    }

    /// Sends all undelivered bytes again.
    pub(super) fn resend_all(&mut self) {
        self.pending.clear();
        self.on_lost(0, u32::MAX);
    }

    /// Whether all bytes were delivered.
    #[cfg(test)]
    pub(super) fn is_delivered(&self) -> bool {
        let all = 0..length_of(&self.bytes);
        all.is_empty() || self.acked.first() == Some(all)
    }
}

/// The bytes of the peer, put in order.
#[derive(Debug, Default)]
pub(super) struct ReceiveBytes {
    /// Bytes from here on were not taken yet.
    next: u64,
    /// Buffer for the bytes from `next` on, up to the highest that arrived.
    ahead: Vec<u8>,
    arrived: Ranges,
}

impl ReceiveBytes {
    /// Takes bytes, in any order and any number of times.
    ///
    /// # Errors
    /// [`Violation::TooManyGaps`] if they end more than `most_ahead` bytes behind those in order, or leave too many
    /// gaps.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8], most_ahead: u64) -> Result<(), Violation> {
        const TOO_FAR: Violation = Violation::TooManyGaps { stream: None };
        let end = offset.checked_add(length_of(data)).ok_or(TOO_FAR)?;
        let start = offset.max(self.next);
        if end <= start {
            return Ok(());
        }
        if end - self.next > most_ahead {
            return Err(TOO_FAR);
        }
        let (to, upto) = (to_usize(start - self.next), to_usize(end - self.next));
        if self.ahead.len() < upto {
            self.ahead.resize(upto, 0);
        }
        if let (Some(to), Some(from)) = (self.ahead.get_mut(to..upto), data.get(to_usize(start - offset)..)) {
            to.copy_from_slice(from);
        }
        self.arrived.insert(start..end);
        if self.arrived.len() > MAX_GAPS {
            // In an Initial packet this does not end the connection, so none of it may stay.
            self.arrived.remove(&(start..end));
            return Err(TOO_FAR);
        }
        Ok(())
    }

    /// Takes the bytes that are in order, if any.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        let ready = self.arrived.first().filter(|range| range.start == self.next)?;
        let later = self.ahead.split_off(to_usize(ready.end - ready.start).min(self.ahead.len()));
        self.next = ready.end;
        self.arrived.remove(&ready);
        Some(std::mem::replace(&mut self.ahead, later))
    }

    /// Whether these bytes reach beyond those taken.
    pub(super) fn is_new(&self, offset: u64, data: &[u8]) -> bool {
        offset.saturating_add(length_of(data)) > self.next
    }

    /// Whether bytes wait for others before them.
    pub(super) fn has_gap(&self) -> bool {
        !self.arrived.is_empty()
    }
}

fn length_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn to_usize(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_AHEAD: u64 = 1000;

    fn blocks(buffer: &[u8], contents: &Contents) -> Vec<(u64, u32)> {
        assert_eq!(buffer.len() % 4, 0);
        contents
            .iter()
            .map(|content| {
                let SentContent::Handshake { offset, length } = *content else { panic!("{content:?}") };
                (offset, length)
            })
            .collect()
    }

    fn written(bytes: &mut SendBytes, room: usize) -> Vec<(u64, u32)> {
        let (mut buffer, mut contents) = (Vec::new(), Contents::new());
        bytes.write_into(&mut Writer::new(&mut buffer, room), &mut contents);
        assert!(buffer.len() <= room);
        blocks(&buffer, &contents)
    }

    #[test]
    fn bytes_are_cut_to_fit_the_writer() {
        let mut bytes = SendBytes::default();
        bytes.push(&[7; 100]);
        assert_eq!(written(&mut bytes, 5), []);
        assert_eq!(written(&mut bytes, 47), [(0, 39)]);
        assert_eq!(written(&mut bytes, 1000), [(39, 61)]);
        assert!(!bytes.wants());
    }

    #[test]
    fn only_lost_and_undelivered_bytes_are_sent_again() {
        let mut bytes = SendBytes::default();
        bytes.push(&[7; 100]);
        written(&mut bytes, 1000);
        bytes.on_delivered(20, 30);
        bytes.on_lost(0, 100);
        assert_eq!(written(&mut bytes, 1000), [(0, 20), (50, 50)]);
        bytes.on_delivered(50, 50);
        bytes.resend_all();
        assert_eq!(written(&mut bytes, 1000), [(0, 20)]);
        assert!(!bytes.is_delivered());
        bytes.on_delivered(0, 20);
        bytes.resend_all();
        assert!(!bytes.wants() && bytes.is_delivered());
    }

    #[test]
    fn bytes_in_any_order_come_out_in_order() {
        let mut bytes = ReceiveBytes::default();
        bytes.insert(4, b"efgh", MAX_AHEAD).unwrap();
        assert_eq!(bytes.take(), None);
        assert!(bytes.has_gap());
        bytes.insert(0, b"abcdef", MAX_AHEAD).unwrap();
        bytes.insert(0, b"abc", MAX_AHEAD).unwrap();
        assert_eq!(bytes.take().as_deref(), Some(&b"abcdefgh"[..]));
        bytes.insert(10, b"k", MAX_AHEAD).unwrap();
        bytes.insert(6, b"ghij", MAX_AHEAD).unwrap();
        assert_eq!(bytes.take().as_deref(), Some(&b"ijk"[..]));
        assert!(!bytes.has_gap());
    }

    #[test]
    fn bytes_too_far_ahead_are_refused() {
        let mut bytes = ReceiveBytes::default();
        assert_eq!(bytes.insert(MAX_AHEAD - 1, b"a", MAX_AHEAD), Ok(()));
        assert_eq!(bytes.insert(MAX_AHEAD, b"a", MAX_AHEAD), Err(Violation::TooManyGaps { stream: None }));
        assert_eq!(bytes.insert(u64::MAX, b"a", MAX_AHEAD), Err(Violation::TooManyGaps { stream: None }));
    }

    #[test]
    fn bytes_with_too_many_gaps_are_refused() {
        let mut bytes = ReceiveBytes::default();
        let refused = (1..1000).find(|at| bytes.insert(at * 2, b"a", MAX_AHEAD).is_err());
        assert_eq!(refused, Some(1 + u64::try_from(MAX_GAPS).unwrap()));
    }
}
