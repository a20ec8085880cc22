//! The largest segment of TCP that a packet of its connection may carry.

use etherparse::{IpNumber, IpSlice};

/// Lowers the maximum segment size that a packet which opens a TCP connection offers, to what packets of `mtu` bytes take;
/// returns whether it did. Hosts whose way here loses the errors about too large packets need it (RFC 4459, 3.2).
pub fn clamp_segment_size(packet: &mut [u8], mtu: u16) -> bool {
    let Some((begin, most)) = tcp_of(packet, mtu) else { return false };
    let Some(message) = packet.get_mut(begin..) else { return false };
    let Some(place) = option_of(message) else { return false };
    let Some(Ok(old)) = message.get(place..place + 2).map(<[u8; 2]>::try_from) else { return false };
    if u16::from_be_bytes(old) <= most {
        return false;
    }
    let new = most.to_be_bytes();
    if let Some(value) = message.get_mut(place..place + 2) {
        value.copy_from_slice(&new);
    }
    if let Some(sum) = message.get_mut(CHECKSUM..CHECKSUM + 2) {
        let before =
            u16::from_be_bytes([sum.first().copied().unwrap_or(0), sum.last().copied().unwrap_or(0)]);
        // The sum is over words of 16 bits; a value at an odd place lies in two of them, with its bytes swapped.
        let word = |bytes: [u8; 2]| {
            if place % 2 == 0 { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
        };
        sum.copy_from_slice(&adjusted(before, word(old), word(new)).to_be_bytes());
    }
    true
}

/// Where the TCP header of a packet that opens a connection begins, and the largest segment.
fn tcp_of(packet: &[u8], mtu: u16) -> Option<(usize, u16)> {
    let slice = IpSlice::from_slice(packet).ok().filter(|slice| !slice.is_fragmenting_payload())?;
    let payload = slice.payload();
    if payload.ip_number != IpNumber::TCP || payload.payload.get(FLAGS)? & SYN == 0 {
        return None;
    }
    let headers = TCP_HEADER + if slice.source_addr().is_ipv4() { 20 } else { 40 };
    let begin = packet.len().checked_sub(payload.payload.len())?;
    Some((begin, mtu.checked_sub(headers)?))
}

/// Where the value of the option stands in a TCP header.
fn option_of(message: &[u8]) -> Option<usize> {
    let end = usize::from(message.get(OFFSET)? >> 4) * 4;
    let mut at = usize::from(TCP_HEADER);
    while at < end {
        match *message.get(at)? {
            END => return None,
            PADDING => at += 1,
            kind => {
                let length = usize::from(*message.get(at + 1)?);
                if kind == SEGMENT_SIZE {
                    return (length == 4 && at + 4 <= end).then_some(at + 2);
                }
                at += length.max(2);
            }
        }
    }
    None
}

/// A checksum after a word under it has changed (RFC 1624).
fn adjusted(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded).unwrap_or(u16::MAX)
}

const TCP_HEADER: u16 = 20;
/// Places in a TCP header.
const OFFSET: usize = 12;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const SYN: u8 = 0x02;
/// Kinds of options.
const END: u8 = 0;
const PADDING: u8 = 1;
const SEGMENT_SIZE: u8 = 2;

#[cfg(test)]
mod tests {
    use etherparse::{PacketBuilder, TcpOptionElement};
    use proptest::prelude::*;

    use super::*;

    /// A packet that opens a connection with this segment size, behind so many bytes of padding.
    fn opening(is_v4: bool, padding: usize, size: u16) -> Vec<u8> {
        let mut options = vec![TcpOptionElement::Noop; padding];
        options.push(TcpOptionElement::MaximumSegmentSize(size));
        let ip = if is_v4 {
            PacketBuilder::ipv4([10, 99, 0, 2], [10, 99, 0, 1], 64)
        } else {
            PacketBuilder::ipv6([7; 16], [8; 16], 64)
        };
        let mut packet = Vec::new();
        ip.tcp(40_000, 80, 7, 9000).syn().options(&options).unwrap().write(&mut packet, b"data").unwrap();
        packet
    }

    proptest! {
        #[test]
        fn what_is_offered_fits_the_mtu_and_the_checksum_is_right(
            is_v4: bool,
            padding in 0..4_usize,
            size: u16,
            mtu in 1280..=9000_u16,
        ) {
            let mut packet = opening(is_v4, padding, size);
            let most = mtu - if is_v4 { 40 } else { 60 };
            prop_assert_eq!(clamp_segment_size(&mut packet, mtu), size > most);
            prop_assert_eq!(packet, opening(is_v4, padding, size.min(most)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..100), mtu: u16) {
            clamp_segment_size(&mut bytes, mtu);
            let mut packet = opening(true, 1, 9000);
            let length = packet.len();
            packet.iter_mut().zip(&bytes).skip(20).for_each(|(place, byte)| *place = *byte);
            clamp_segment_size(&mut packet, mtu);
            prop_assert_eq!(packet.len(), length);
        }
    }
}
