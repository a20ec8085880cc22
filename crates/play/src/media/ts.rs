//! The length of an MPEG transport stream (ISO/IEC 13818-1): from its first clock reference (PCR) to its last.

use std::time::Duration;

use super::step::Step;

/// Bytes at the beginning and at the end that are searched: little first, since the film itself waits for the network,
/// then four times as much until a clock reference is found, which comes at least every 100 ms.
const LITTLE: u64 = 16 << 10;
const MUCH: u64 = 1 << 20;
/// Bytes of a packet, which begins with [`SYNC`]; in M2TS four bytes stand before it.
const PACKET: usize = 188;
const SYNC: u8 = 0x47;
/// Packets that have to begin with it, one after the other, to be taken for such.
const CERTAIN: usize = 4;
/// Ticks of the base of a clock reference in a second, and the value at which the base wraps.
const TICKS: u64 = 90_000;
const WRAP: u64 = 1 << 33;

/// Reads the beginning, then the end.
#[derive(Debug)]
pub(crate) struct Search {
    size: u64,
    /// How much is read at once; 0 before anything was.
    read: u64,
    /// The first clock reference.
    first: Option<Clock>,
}

/// A clock reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clock {
    stream: u16,
    ticks: u64,
}

impl Search {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, read: 0, first: None }
    }

    pub(crate) fn step(&mut self, bytes: &[u8]) -> Step {
        if self.read == 0 {
            self.read = LITTLE;
            return Step::Read(0..LITTLE.min(self.size));
        }
        let found = match self.first {
            None => clocks(bytes).next(),
            Some(first) => clocks(bytes).filter(|clock| clock.stream == first.stream).last(),
        };
        match (self.first, found) {
            (Some(first), Some(last)) => {
                let ticks = (WRAP + last.ticks - first.ticks) % WRAP;
                return Step::Done((ticks > 0).then(|| Duration::from_millis(ticks * 1000 / TICKS)));
            }
            (None, Some(first)) => (self.first, self.read) = (Some(first), LITTLE),
            (_, None) if self.read < MUCH && self.read < self.size => self.read *= 4,
            (_, None) => return Step::Done(None),
        }
        let start = if self.first.is_some() { self.size.saturating_sub(self.read) } else { 0 };
        Step::Read(start..start.saturating_add(self.read).min(self.size))
    }
}

/// The clock references of the packets in these bytes.
fn clocks(bytes: &[u8]) -> impl Iterator<Item = Clock> {
    let (start, stride) = packets(bytes).unwrap_or((bytes.len(), PACKET));
    bytes.get(start..).unwrap_or_default().chunks(stride).filter_map(clock)
}

/// Where the first packet begins, and from one to the next.
fn packets(bytes: &[u8]) -> Option<(usize, usize)> {
    let begins = |at: usize| bytes.get(at) == Some(&SYNC);
    let mut places =
        [PACKET, PACKET + 4].into_iter().flat_map(|stride| (0..stride).map(move |at| (at, stride)));
    places.find(|(at, stride)| (0..CERTAIN).all(|number| begins(at + number * stride)))
}

/// The clock reference of a packet, if it has one.
fn clock(packet: &[u8]) -> Option<Clock> {
    let [SYNC, high, low, flags, length, kinds, base @ ..] = packet else { return None };
    let has_clock = flags & 0x20 != 0 && *length >= 7 && kinds & 0x10 != 0;
    let base = base.first_chunk::<5>().filter(|_| has_clock)?;
    let [a, b, c, d, e] = base.map(u64::from);
    let ticks = a << 25 | b << 17 | c << 9 | d << 1 | e >> 7;
    Some(Clock { stream: u16::from(high & 0x1f) << 8 | u16::from(*low), ticks })
}

#[cfg(test)]
mod tests {
    use super::super::media_length;
    use super::*;

    fn packet(stream: u16, ticks: Option<u64>) -> Vec<u8> {
        let [high, low] = stream.to_be_bytes();
        let mut packet = vec![SYNC, high, low, 0x10];
        if let Some(ticks) = ticks {
            packet[3] = 0x30;
            packet.extend([7, 0x10]);
            packet.extend(&(ticks << 7 << 24).to_be_bytes()[0..5]);
            packet.push(0);
        }
        packet.resize(PACKET, 0xff);
        packet
    }

    fn stream(from: u64, count: u64) -> Vec<Vec<u8>> {
        let clocked = |number: u64| [packet(256, Some((from + number * TICKS) % WRAP)), packet(257, None)];
        (0..=count).flat_map(clocked).collect()
    }

    #[test]
    fn the_length_is_that_between_the_first_and_the_last_clock() {
        for from in [0, 12_345, WRAP - 5 * TICKS] {
            let packets = stream(from, 90);
            assert_eq!(media_length("a.ts", &packets.concat()), Some(Duration::from_secs(90)), "{from}");
            let m2ts: Vec<_> = packets.iter().flat_map(|packet| [&[0; 4][..], packet].concat()).collect();
            assert_eq!(media_length("a.ts", &m2ts), Some(Duration::from_secs(90)));
        }
        let mut other = stream(0, 30);
        other.push(packet(300, Some(70 * TICKS)));
        other.insert(0, packet(257, None));
        assert_eq!(media_length("a.ts", &other.concat()), Some(Duration::from_secs(30)), "another clock");
    }

    #[test]
    fn clocks_that_are_rare_are_found_in_more_bytes() {
        let rare = |ticks| {
            [packet(257, None).repeat(1000), packet(256, Some(ticks)), packet(257, None).repeat(1000)]
        };
        let file = [rare(0).concat(), rare(7 * TICKS).concat()].concat();
        assert_eq!(media_length("a.ts", &file), Some(Duration::from_secs(7)));
    }

    #[test]
    fn what_is_no_transport_stream_has_no_length() {
        for file in [Vec::new(), vec![SYNC; 100], vec![0; 100_000], packet(1, Some(5)), stream(7, 0).concat()]
        {
            assert_eq!(media_length("a.ts", &file), None);
        }
    }
}
