//! Checks that blocks of a pcapng file are long enough for their own framing: `pcap-parser` relies on it for some
//! kinds.

use std::io::{self, Read};

/// The type of a section header, with which every file begins; the same in both byte orders.
pub(super) const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Type, length, and length again.
const SHORTEST: u32 = 12;
const LITTLE: [u8; 4] = [0x4d, 0x3c, 0x2b, 0x1a];

/// Whether a file or block with this beginning is pcapng, or a new section of it.
pub(super) fn is_pcapng(head: &[u8]) -> bool {
    head.starts_with(&PCAPNG)
}

/// Passes a pcapng file on as long as its blocks have valid lengths, and fails at the first invalid one.
#[derive(Debug)]
pub(super) struct Framing<R> {
    input: R,
    /// The known part of the current block's header.
    head: Vec<u8>,
    /// Bytes left of the block after its header.
    rest: u64,
    order: Order,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Sound,
    Broken,
}

impl<R: Read> Framing<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, head: Vec::new(), rest: 0, order: Order::Little, state: State::Sound }
    }

    /// Follows the blocks through `bytes`; returns how many of them may be passed on.
    fn follow(&mut self, bytes: &[u8]) -> usize {
        let mut place = 0;
        while let Some(left) = bytes.get(place..).filter(|left| !left.is_empty()) {
            if self.rest > 0 {
                let skipped = usize::try_from(self.rest).unwrap_or(usize::MAX).min(left.len());
                self.rest -= skipped as u64;
                place += skipped;
                continue;
            }
            self.head.extend(left.first());
            place += 1;
            // The byte order follows the length of a section.
            let whole = if is_pcapng(&self.head) { 12 } else { 8 };
            if self.head.len() == whole {
                let Some(rest) = self.begin() else {
                    self.state = State::Broken;
                    // The last byte of the header is held back until the length is checked.
                    return place - 1;
                };
                self.rest = rest;
                self.head.clear();
            }
        }
        place
    }

    /// The header is complete: computes the length of the rest of its block, if it is valid.
    fn begin(&mut self) -> Option<u64> {
        let word = |at: usize| self.head.get(at..).and_then(|word| word.first_chunk::<4>().copied());
        if let Some(magic) = word(8) {
            self.order = if magic == LITTLE { Order::Little } else { Order::Big };
        }
        let length = match self.order {
            Order::Little => u32::from_le_bytes(word(4)?),
            Order::Big => u32::from_be_bytes(word(4)?),
        };
        (length >= SHORTEST).then(|| u64::from(length).saturating_sub(self.head.len() as u64))
    }
}

impl<R: Read> Read for Framing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.state == State::Sound {
            let length = self.input.read(buffer)?;
            let sound = self.follow(buffer.get(..length).unwrap_or_default());
            if sound > 0 || length == 0 {
                return Ok(sound);
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "a block is shorter than its frame"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, length: u32, order: Order) -> Vec<u8> {
        let word = |word: u32| if order == Order::Little { word.to_le_bytes() } else { word.to_be_bytes() };
        let mut bytes = [word(kind), word(length)].concat();
        bytes.resize(length.max(12) as usize, 0);
        if kind == 0x0a0d_0d0a {
            bytes[8..12].copy_from_slice(&word(0x1a2b_3c4d));
        }
        bytes
    }

    /// Gives one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(1).min(buffer.len());
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn a_file_is_read_up_to_a_block_shorter_than_its_framing() {
        for order in [Order::Little, Order::Big] {
            let mut file = [block(0x0a0d_0d0a, 28, order), block(1, 20, order)].concat();
            let sound = file.len();
            let mut whole = Vec::new();
            Framing::new(&*file).read_to_end(&mut whole).unwrap();
            assert_eq!(whole, file);
            file.extend(block(0x8000_0001, 8, order));
            let mut at_once = Vec::new();
            Framing::new(&*file).read_to_end(&mut at_once).unwrap_err();
            let mut drop_by_drop = Vec::new();
            Framing::new(Drops(&file)).read_to_end(&mut drop_by_drop).unwrap_err();
            assert_eq!(at_once, drop_by_drop);
            assert_eq!(at_once, file[..sound + 7]);
        }
    }
}
