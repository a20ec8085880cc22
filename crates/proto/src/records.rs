//! Records: what a datagram would hold, on a stream carrier, after its length (spec 4.24).

use crate::FourTuple;

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

    /// The next complete record, for [`Endpoint::handle_datagram`](crate::Endpoint::handle_datagram). Costs O(1).
    pub fn next_record(&mut self) -> Option<&mut [u8]> {
        let length = usize::from(u16::from_be_bytes(*self.bytes.get(self.at..)?.first_chunk::<PREFIX>()?));
        let begin = self.at + PREFIX;
        let record = self.bytes.get_mut(begin..begin + length)?;
        self.at = begin + length;
        Some(record)
    }
}

/// Leaves space for the length of a record at the end of `buffer`; nothing if packets are datagrams there.
pub(crate) fn begin(tuple: &FourTuple, buffer: &mut Vec<u8>) -> Option<usize> {
    (!tuple.is_datagram()).then(|| {
        buffer.extend_from_slice(&[0; PREFIX]);
        buffer.len()
    })
}

/// Fills in the length of the record that [`begin`] began, or takes the space back if nothing follows it.
pub(crate) fn end(buffer: &mut Vec<u8>, begun: Option<usize>) {
    let Some(at) = begun else { return };
    let Some(length) = length_of(buffer.len().saturating_sub(at)) else {
        return buffer.truncate(at - PREFIX);
    };
    if let Some(prefix) = buffer.get_mut(at - PREFIX..at) {
        prefix.copy_from_slice(&length);
    }
}

/// Makes a record of the whole `buffer`, unless packets are datagrams there.
pub(crate) fn frame(tuple: &FourTuple, buffer: &mut Vec<u8>) {
    if !tuple.is_datagram()
        && let Some(length) = length_of(buffer.len())
    {
        drop(buffer.splice(..0, length));
    }
}

/// The encoded length of a record; `None` if it is empty. No packet exceeds the largest record.
fn length_of(bytes: usize) -> Option<[u8; PREFIX]> {
    debug_assert!(bytes <= u16::MAX.into(), "{bytes} bytes are more than a record can have");
    u16::try_from(bytes).ok().filter(|length| *length > 0).map(u16::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalAddress;

    fn tcp() -> FourTuple {
        let local = LocalAddress { interface: 1, address: "10.0.0.1:1".parse().unwrap() };
        FourTuple::tcp(local, "10.0.0.2:1".parse().unwrap())
    }

    #[test]
    fn records_of_any_size_are_split_again_however_the_bytes_arrive() {
        let mut stream = Vec::new();
        let sizes = [1, 0, 1200, 65_535, 3];
        for size in sizes {
            let begun = begin(&tcp(), &mut stream);
            stream.extend(std::iter::repeat_n(7, size));
            end(&mut stream, begun);
        }
        let mut last = vec![9; 40];
        frame(&tcp(), &mut last);
        stream.append(&mut last);
        for step in [1, 2, 3, 1000, 1_000_000] {
            let mut records = Records::default();
            let mut found = Vec::new();
            for bytes in stream.chunks(step) {
                records.push(bytes);
                while let Some(record) = records.next_record() {
                    found.push(record.len());
                }
            }
            // Nothing was written for the empty one.
            assert_eq!(found, [1, 1200, 65_535, 3, 40]);
        }
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

    #[test]
    fn datagrams_have_no_length_before_them() {
        let udp = FourTuple { carrier: crate::Carrier::Udp, ..tcp() };
        let mut buffer = vec![1, 2];
        let begun = begin(&udp, &mut buffer);
        end(&mut buffer, begun);
        frame(&udp, &mut buffer);
        assert_eq!(buffer, [1, 2]);
    }
}
