//! Assembly of one received message: from pieces in any order to the whole.

use bytes::Bytes;

use crate::collections::range_set::RangeSet;
use crate::mmsp2::stream::byte_reassembly::PIECE_OVERHEAD;

/// Assembles the pieces of a message, in memory that its cost covers.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Up to the highest offset reached; missing bytes are zero.
    data: Vec<u8>,
    /// Every byte below has arrived.
    arrived: u32,
    /// Ranges that arrived ahead of a gap.
    ahead: RangeSet,
    /// Known once the last piece arrived.
    length: Option<u32>,
    /// Known once the first piece arrived.
    protocol: Option<u32>,
}

/// A piece of a message; its end is below 2³².
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) offset: u32,
    /// With the first piece only.
    pub(super) protocol: Option<u32>,
    pub(super) end: bool,
    pub(super) data: &'a [u8],
}

impl Piece<'_> {
    pub(super) fn reach(&self) -> u32 {
        self.offset.saturating_add(u32::try_from(self.data.len()).unwrap_or(u32::MAX))
    }

    /// Whether the piece is the whole message.
    pub(super) fn is_whole(&self) -> bool {
        self.protocol.is_some() && self.end
    }
}

impl Assembly {
    /// The highest offset reached by any piece.
    pub(super) fn reach(&self) -> u32 {
        u32::try_from(self.data.len()).unwrap_or(u32::MAX)
    }

    /// How a piece contradicts earlier ones.
    pub(super) fn contradiction(&self, piece: &Piece<'_>) -> Option<&'static str> {
        let reach = piece.reach();
        if self.length.is_some_and(|length| reach > length || (piece.end && reach < length)) {
            return Some("it has two ends");
        }
        if piece.end && reach < self.reach() {
            return Some("it ends below bytes of it");
        }
        let other = |known| piece.protocol.is_some_and(|said| said != known);
        self.protocol.is_some_and(other).then_some("it has two payload protocols")
    }

    /// Takes a piece without contradictions; duplicate bytes are dropped.
    pub(super) fn insert(&mut self, piece: &Piece<'_>) {
        self.protocol = self.protocol.or(piece.protocol);
        let reach = piece.reach();
        if piece.end {
            self.length = Some(reach);
        }
        if reach > self.reach() {
            self.grow(reach);
        }
        self.copy_new(piece);
        if piece.offset > self.arrived {
            self.ahead.insert(u64::from(piece.offset)..u64::from(reach));
            return;
        }
        self.arrived = self.arrived.max(reach);
        while let Some(first) = self.ahead.first().filter(|first| first.start <= u64::from(self.arrived)) {
            self.arrived = self.arrived.max(u32::try_from(first.end).unwrap_or(u32::MAX));
            self.ahead.pop_first();
        }
    }

    /// The first copy of a byte counts, so that acknowledged data cannot change.
    fn copy_new(&mut self, piece: &Piece<'_>) {
        let start = u64::from(piece.offset.max(self.arrived));
        for gap in self.ahead.gaps(start..u64::from(piece.reach())) {
            let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let offset = u64::from(piece.offset);
            let from = piece.data.get(index(gap.start - offset)..index(gap.end - offset));
            let to = self.data.get_mut(index(gap.start)..index(gap.end));
            if let (Some(to), Some(from)) = (to, from) {
                to.copy_from_slice(from);
            }
        }
    }

    fn grow(&mut self, reach: u32) {
        let length = usize::try_from(reach).unwrap_or(usize::MAX);
        if self.data.capacity() < length {
            // Grows by a quarter while the length is unknown, so that little memory is empty.
            let spare = if self.length.is_some() { 0 } else { length / 4 };
            self.data.reserve_exact(length - self.data.len() + spare);
        }
        self.data.resize(length, 0);
    }

    pub(super) fn is_whole(&self) -> bool {
        self.protocol.is_some() && self.length == Some(self.arrived)
    }

    /// Cost of pieces ahead of gaps beyond their bytes, in bytes of memory (spec 8.19).
    pub(super) fn overhead(&self) -> u64 {
        self.ahead.iter().len() as u64 * PIECE_OVERHEAD
    }

    /// The message and its payload protocol.
    pub(super) fn into_parts(self) -> (Bytes, u32) {
        (Bytes::from(self.data), self.protocol.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect()
    }

    fn piece(data: &[u8], from: usize, to: usize) -> Piece<'_> {
        Piece {
            offset: u32::try_from(from).unwrap(),
            protocol: (from == 0).then_some(7),
            end: to == data.len(),
            data: &data[from..to],
        }
    }

    #[test]
    fn the_only_piece_of_an_empty_message_completes_it() {
        let mut assembly = Assembly::default();
        assembly.insert(&piece(&[], 0, 0));
        assert!(assembly.is_whole());
        assert_eq!(assembly.into_parts(), (Bytes::new(), 7));
    }

    #[test]
    fn the_first_copy_of_a_byte_counts() {
        let mut assembly = Assembly::default();
        assembly.insert(&Piece { offset: 4, protocol: None, end: false, data: b"good" });
        assembly.insert(&Piece { offset: 2, protocol: None, end: true, data: b"--evil--" });
        assembly.insert(&Piece { offset: 0, protocol: Some(7), end: false, data: b"ab" });
        assert!(assembly.is_whole());
        assert_eq!(assembly.into_parts().0, Bytes::from_static(b"ab--good--"));
    }

    // spec 8.30
    #[test]
    fn contradictions_are_detected() {
        let mut assembly = Assembly::default();
        assembly.insert(&Piece { offset: 0, protocol: Some(7), end: false, data: b"ab" });
        assembly.insert(&Piece { offset: 4, protocol: None, end: false, data: b"ef" });
        let says = |piece: Piece<'_>, assembly: &Assembly| assembly.contradiction(&piece).is_some();
        assert!(says(Piece { offset: 4, protocol: None, end: true, data: b"e" }, &assembly));
        assert!(says(Piece { offset: 0, protocol: Some(8), end: false, data: b"a" }, &assembly));
        assert!(!says(Piece { offset: 2, protocol: None, end: false, data: b"xyz" }, &assembly));
        assembly.insert(&Piece { offset: 6, protocol: None, end: true, data: b"g" });
        assert!(says(Piece { offset: 6, protocol: None, end: true, data: b"gh" }, &assembly));
        assert!(says(Piece { offset: 9, protocol: None, end: false, data: b"" }, &assembly));
        assert!(says(Piece { offset: 5, protocol: None, end: true, data: b"f" }, &assembly));
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_and_cut_make_the_message(
            length in 0_usize..400,
            cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..30),
            tail in any::<bool>(),
        ) {
            let data = pattern(length);
            let mut assembly = Assembly::default();
            let mut here = vec![false; length];
            let mut seen = (false, false);
            let all = [(0, length / 2), (length / 2, length)];
            let cuts = cuts.iter().map(|(a, b)| (a.index(length + 1), b.index(length + 1)));
            let cuts = cuts.map(|(a, b)| (a.min(b), a.max(b)));
            for (from, to) in cuts.chain(all.into_iter().filter(|_| tail)) {
                let piece = piece(&data, from, to);
                prop_assert_eq!(assembly.contradiction(&piece), None);
                assembly.insert(&piece);
                here[from..to].fill(true);
                seen = (seen.0 || from == 0, seen.1 || to == length);
                prop_assert_eq!(assembly.is_whole(), seen == (true, true) && here.iter().all(|here| *here));
                let length = assembly.data.len();
                prop_assert!(assembly.data.capacity() <= (length + length / 4).max(8));
            }
            if assembly.is_whole() {
                prop_assert_eq!(assembly.into_parts(), (Bytes::from(data), 7));
            }
        }
    }
}
