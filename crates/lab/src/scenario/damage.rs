//! Damage to what a host sends for the first time, while what it repeats passes.

use manyway_proto::{ByteCount, Rng};
use manyway_sim::link::Probability;
use manyway_wire::mmsp1::{Block, Packet, Tseq};

/// Damage to what the client sends for the first time, before it reaches any link.
///
/// First transmissions are told by what travels in clear text: DATA blocks of MMSP/1 by their TSEQ, segments of TCP by
/// their sequence number. Whatever else is sent, such as packets of MMSP/2, stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Which of them are damaged.
    pub pattern: Pattern,
    /// What happens to the checksum of UDP or TCP.
    pub checksum: Checksum,
}

/// What happens to the checksum of a corrupted packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// It stays, so the receiving system drops the packet.
    #[default]
    Stale,
    /// It is repaired, so the error reaches the receiving program.
    Repaired,
}

/// Which first transmissions are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Each with this probability.
    Share(Probability),
    /// Of each `of` bytes of data the last `part`.
    Last {
        /// Bytes that are damaged.
        part: ByteCount,
        /// Bytes after which the pattern repeats itself.
        of: ByteCount,
    },
}

/// The data of a packet that the client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent<'a> {
    /// The payload of a UDP datagram.
    Datagram(&'a [u8]),
    /// A TCP segment: the number of its first byte, and how many bytes it has.
    Segment {
        /// Its sequence number.
        sequence: u32,
        /// Bytes of its data.
        length: usize,
    },
}

/// Follows what a host sends, and says what is to be damaged.
///
/// ```
/// use manyway_lab::scenario::{Damage, FirstTransmissions, Pattern, Sent};
/// use manyway_proto::{ByteCount, Rng};
///
/// let pattern = Pattern::Last { part: ByteCount(1_000), of: ByteCount(2_000) };
/// let mut following = FirstTransmissions::new(pattern, Rng::from_seed([0; 32]));
/// let mut damages = |sequence| following.damages(Sent::Segment { sequence, length: 1_000 });
/// assert_eq!([7, 1_007, 1_007, 2_007, 3_007].map(&mut damages), [false, true, false, false, true]);
/// ```
#[derive(Debug)]
pub struct FirstTransmissions {
    pattern: Pattern,
    rng: Rng,
    /// The number behind the newest one that was sent.
    next: Option<Tseq>,
    /// Bytes of data sent for the first time.
    bytes: u64,
}

impl FirstTransmissions {
    /// Begins with the next packet.
    pub const fn new(pattern: Pattern, rng: Rng) -> Self {
        Self { pattern, rng, next: None, bytes: 0 }
    }

    /// Whether a packet is to be damaged: it carries data for the first time, and the pattern meets it.
    pub fn damages(&mut self, sent: Sent<'_>) -> bool {
        let before = self.bytes;
        match sent {
            Sent::Datagram(datagram) => self.follow_blocks(datagram),
            Sent::Segment { sequence, length } => {
                let end = Tseq(sequence).plus(u32::try_from(length).unwrap_or(0));
                if length > 0 && self.next.is_none_or(|next| next.precedes(end)) {
                    self.next = Some(end);
                    self.bytes += u64::try_from(length).unwrap_or(0);
                }
            }
        }
        self.bytes > before && self.meets(before)
    }

    /// Counts the DATA blocks of a packet that were not sent before.
    fn follow_blocks(&mut self, datagram: &[u8]) {
        let Ok(packet) = Packet::decode(datagram) else { return };
        for block in packet.blocks() {
            let Ok(Block::Data(data)) = block else { continue };
            if self.next.is_none_or(|next| !data.tseq.precedes(next)) {
                self.next = Some(data.tseq.plus(1));
                self.bytes += u64::try_from(data.data.len()).unwrap_or(0);
            }
        }
    }

    /// Whether the pattern meets data that begins at this byte.
    fn meets(&mut self, byte: u64) -> bool {
        match self.pattern {
            Pattern::Share(share) => share.happens(&mut self.rng),
            Pattern::Last { part, of } => {
                byte.checked_rem(of.get()).is_some_and(|place| place >= of.get().saturating_sub(part.get()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use manyway_wire::Writer;
    use manyway_wire::mmsp1::{Data, Fragment, Header, Sseq, Tag, seal};

    use super::*;

    fn packet(numbers: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes, 1400);
        Header { source_port: 1, destination_port: 2, connection: Tag(3) }.encode(&mut w);
        for number in numbers {
            Data {
                tseq: Tseq(*number),
                stream: 0,
                sseq: Sseq(0),
                protocol: 0,
                fragment: Fragment::Whole,
                unordered: false,
                data: &[7; 100],
            }
            .encode(&mut w);
        }
        seal(&mut bytes);
        bytes
    }

    fn following(pattern: Pattern) -> FirstTransmissions {
        FirstTransmissions::new(pattern, Rng::from_seed([1; 32]))
    }

    #[test]
    fn only_packets_with_a_new_tseq_are_damaged() {
        let mut following = following(Pattern::Share(Probability::ALWAYS));
        let mut damages = |numbers: &[u32]| following.damages(Sent::Datagram(&packet(numbers)));
        assert!(damages(&[u32::MAX - 1]));
        assert!(damages(&[u32::MAX, 0]));
        assert!(!damages(&[u32::MAX]) && !damages(&[0]), "sent again");
        assert!(damages(&[0, 1]), "one of them is new");
        assert!(!damages(&[]), "no data");
    }

    #[test]
    fn what_is_no_mmsp1_and_segments_without_data_are_left_alone() {
        let mut following = following(Pattern::Share(Probability::ALWAYS));
        assert!(!following.damages(Sent::Datagram(&[0x80; 1200])));
        assert!(!following.damages(Sent::Segment { sequence: 5, length: 0 }));
        assert!(following.damages(Sent::Segment { sequence: 5, length: 10 }));
        assert!(!following.damages(Sent::Segment { sequence: 5, length: 10 }));
    }

    #[test]
    fn the_last_part_of_each_so_many_bytes_is_met() {
        let mut following = following(Pattern::Last { part: ByteCount(200), of: ByteCount(500) });
        let met: Vec<bool> =
            (0..10).map(|number| following.damages(Sent::Datagram(&packet(&[number])))).collect();
        assert_eq!(met, [false, false, false, true, true, false, false, false, true, true]);
    }

    #[test]
    fn a_share_is_met_at_random() {
        let mut following = following(Pattern::Share(Probability::from_percent(40.0)));
        let met = (0..1000).filter(|number| following.damages(Sent::Datagram(&packet(&[*number])))).count();
        assert!((350..450).contains(&met), "{met}");
    }
}
