//! The checksum of the internet protocols (RFC 1071) over what UDP and ICMP cover.

use std::net::IpAddr;

use etherparse::checksum::Sum16BitWords;

use super::ip::Ends;

/// The sum over a message, and where the protocol has it over the pseudo header, too. 0 for a message whose checksum
/// is right.
pub(crate) fn over(pseudo_header: Option<(Ends, u8)>, message: &[u8]) -> u16 {
    let mut sum = Sum16BitWords::new();
    if let Some((ends, protocol)) = pseudo_header {
        for address in [ends.0, ends.1] {
            sum = match address {
                IpAddr::V4(address) => sum.add_4bytes(address.octets()),
                IpAddr::V6(address) => sum.add_16bytes(address.octets()),
            };
        }
        // No message is longer than a packet.
        let length = u16::try_from(message.len()).unwrap_or_default();
        sum = sum.add_2bytes([0, protocol]).add_2bytes(length.to_be_bytes());
    }
    sum.add_slice(message).ones_complement().to_be()
}
