//! Records: what a datagram would hold, on a stream carrier, after its length (spec 4.24).

/// Bytes of the length before each record.
const PREFIX: usize = 2;

/// Splits the bytes of a stream carrier into records, however they arrive.
///
/// ```
/// use manyway_proto::Records;
///
/// let mut records = Records::default();
/// records.push(&[0, 3, 7, 8]);
/// assert_eq!(records.next_record(), None);
/// records.push(&[9, 0, 1, 5]);
/// assert_eq!(records.next_record(), Some(&mut [7, 8, 9][..]));
/// assert_eq!(records.next_record(), Some(&mut [5][..]));
/// ```
#[derive(Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    /// Where the next record begins.
    at: usize,
}

impl Records {
    /// Adds bytes in the order in which they arrived. A caller that takes all complete records after each call keeps at
    /// most one incomplete record, of 65 537 bytes with its length.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at.min(self.bytes.len()));
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// What goes before the `length` bytes of a record on the stream; `None` if a record cannot have so many.
    pub fn prefix(length: usize) -> Option<[u8; 2]> {
        u16::try_from(length).ok().map(u16::to_be_bytes)
    }

    /// The next complete record, which stays. Costs O(1).
    pub fn peek_record(&self) -> Option<&[u8]> {
        let (begin, end) = self.bounds()?;
        self.bytes.get(begin..end)
    }

    /// Where the next record stands, if its length is known.
    fn bounds(&self) -> Option<(usize, usize)> {
        let length = usize::from(u16::from_be_bytes(*self.bytes.get(self.at..)?.first_chunk::<PREFIX>()?));
        let begin = self.at + PREFIX;
        Some((begin, begin + length))
    }

    /// The next complete record, for [`Endpoint::handle_datagram`](crate::Endpoint::handle_datagram). Costs O(1).
    pub fn next_record(&mut self) -> Option<&mut [u8]> {
        let (begin, end) = self.bounds()?;
        let record = self.bytes.get_mut(begin..end)?;
        self.at = end;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_any_size_are_split_again_however_the_bytes_arrive() {
        let mut stream = Vec::new();
        let sizes = [1, 0, 1200, 65_535, 3];
        for size in sizes {
            stream.extend(Records::prefix(size).unwrap());
            stream.extend(std::iter::repeat_n(7, size));
        }
        for step in [1, 2, 3, 1000, 1_000_000] {
            let mut records = Records::default();
            let mut found = Vec::new();
            for bytes in stream.chunks(step) {
                records.push(bytes);
                while let Some(peeked) = records.peek_record().map(<[u8]>::to_vec) {
                    let record = records.next_record().unwrap();
                    assert_eq!(record, peeked);
                    found.push(record.len());
                }
            }
            assert_eq!(found, sizes);
        }
    }

    #[test]
    fn a_record_has_at_most_65_535_bytes() {
        assert_eq!(Records::prefix(65_535), Some([0xff, 0xff]));
        assert_eq!(Records::prefix(65_536), None);
    }

    #[test]
    fn an_incomplete_record_is_all_that_is_kept() {
        let mut records = Records::default();
        let mut stream = vec![0xff, 0xff];
        stream.resize(65_537, 0);
        for _ in 0..100 {
            for bytes in stream.chunks(1000) {
                records.push(bytes);
                while records.next_record().is_some() {}
            }
        }
        assert!(records.bytes.len() <= 65_537 + 1000);
    }
}
