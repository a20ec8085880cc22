//! Several endpoints that serve one port together: which one a datagram belongs to.

use manyway_wire::ConnectionId;

/// Which of several endpoints on one port this one is.
///
/// The sixth byte of each connection ID that an endpoint issues, modulo the number of endpoints, is its index. So a
/// filter of the system finds the endpoint of a datagram by one byte and without state, and the bytes before are free for
/// a load balancer ([`IdLayout`](crate::IdLayout)).
///
/// ```
/// use manyway_proto::Shard;
///
/// let second = Shard::new(1, 4).unwrap();
/// assert_eq!((second.index(), second.count()), (1, 4));
/// // A short header: the connection ID begins behind its first byte.
/// assert_eq!(second.of_datagram(&[0x40, 1, 2, 3, 4, 5, 7, 8, 9]), 3);
/// assert_eq!(Shard::new(4, 4), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u8,
    count: u8,
}

impl Shard {
    /// The only endpoint of its port.
    pub const ALONE: Self = Self { index: 0, count: 1 };
    /// Most endpoints on one port.
    pub const MOST: usize = 64;
    /// Where the byte stands in a datagram with a long header, whose first bit is 1.
    pub const IN_LONG_HEADER: usize = 6 + Self::IN_ID;
    /// Where it stands in a datagram with a short header.
    pub const IN_SHORT_HEADER: usize = 1 + Self::IN_ID;
    /// Where it stands in an answer of a rendezvous server, whose first two bytes are 0: in the nonce of the request.
    pub const IN_RENDEZVOUS: usize = 20 + Self::IN_ID;
    /// Where it stands in a connection ID.
    pub(crate) const IN_ID: usize = 5;

    /// The endpoint `index` of `count`, from 0 on; `None` unless the index is below the count, and that at most
    /// [`MOST`](Self::MOST).
    pub fn new(index: usize, count: usize) -> Option<Self> {
        let fits = index < count && count <= Self::MOST;
        Some(Self { index: u8::try_from(index).ok()?, count: u8::try_from(count).ok()? }).filter(|_| fits)
    }

    /// The index of the endpoint.
    pub fn index(self) -> usize {
        self.index.into()
    }

    /// How many endpoints share the port.
    pub fn count(self) -> usize {
        self.count.into()
    }

    /// The index of the endpoint to which a datagram, or a record of a stream, belongs by its connection ID. The ID of a
    /// new client is random. One that is too short belongs to the first endpoint.
    pub fn of_datagram(self, datagram: &[u8]) -> usize {
        let at = match datagram {
            [first, ..] if *first >= 0x80 => Self::IN_LONG_HEADER,
            [0, 0, ..] => Self::IN_RENDEZVOUS,
            _ => Self::IN_SHORT_HEADER,
        };
        datagram.get(at).map_or(0, |byte| usize::from(byte % self.count))
    }

    /// The index of the endpoint to which a connection ID leads.
    pub(super) fn of_id(self, id: &ConnectionId) -> usize {
        id.as_slice().get(Self::IN_ID).map_or(0, |byte| usize::from(byte % self.count))
    }

    /// Makes a random connection ID, or nonce, one of this endpoint.
    pub(crate) fn mark(self, id: &mut [u8]) {
        if let Some(byte) = id.get_mut(Self::IN_ID) {
            let base = *byte - *byte % self.count;
            // The last few values would lead beyond a byte.
            *byte = base.checked_add(self.index).unwrap_or(self.index);
        }
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self::ALONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_becomes_one_of_the_endpoint_and_all_of_them_occur() {
        for count in 1..=Shard::MOST {
            for index in 0..count {
                let shard = Shard::new(index, count).unwrap();
                let mut seen = std::collections::BTreeSet::new();
                for byte in 0..=u8::MAX {
                    let mut id = [9, 9, 9, 9, 9, byte, 9];
                    shard.mark(&mut id);
                    assert_eq!(usize::from(id[5]) % count, index);
                    seen.insert(id[5]);
                    id[5] = 9;
                    assert_eq!(id, [9; 7]);
                }
                assert!(seen.len() >= 256 / count);
            }
        }
        assert_eq!(Shard::new(0, 0), None);
        assert_eq!(Shard::new(0, Shard::MOST + 1), None);
    }

    #[test]
    fn datagrams_of_any_length_belong_to_some_endpoint() {
        let shard = Shard::new(0, 3).unwrap();
        for first in [0, 1, 0x40, 0x80, 0xff] {
            for length in 0..30 {
                assert!(shard.of_datagram(&vec![first; length]) < 3);
            }
        }
    }
}
