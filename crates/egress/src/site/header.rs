//! What has to be known of an IP packet to carry it.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the header of an IP packet says, and the lane of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Who sends it.
    pub source: IpAddr,
    /// Who is to get it.
    pub destination: IpAddr,
    /// The number of the protocol in it; of IPv6, of what follows its header.
    pub protocol: u8,
    /// The ports of the source and of the destination, of protocols that have some. `None` in a fragment.
    pub ports: Option<[u16; 2]>,
    /// The differentiated services code point (RFC 2474).
    pub dscp: u8,
    lane: u16,
}

impl Header {
    /// Reads the header of a packet; `None` if the bytes are not exactly one packet of IPv4 or IPv6.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_v4(packet),
            6 => Self::of_v6(packet),
            _ => None,
        }
    }

    fn of_v4(packet: &[u8]) -> Option<Self> {
        let [first, class, high, low, _, _, fragment @ .., _, _, _, _] = packet.first_chunk::<12>()?;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let begin = usize::from(first & 0x0f) * 4;
        if length != packet.len() || begin < LEAST_V4 || begin > length {
            return None;
        }
        let source = Ipv4Addr::from(*packet.get(12..)?.first_chunk::<4>()?);
        let destination = Ipv4Addr::from(*packet.get(16..)?.first_chunk::<4>()?);
        let protocol = *packet.get(9)?;
        // More fragments, or an offset: only the first one has ports.
        let is_fragment = u16::from_be_bytes(*fragment) & 0x3fff != 0;
        let ports = packet.get(begin..).filter(|_| !is_fragment).and_then(|rest| ports(protocol, rest));
        let lane = lane((source, destination, protocol, ports));
        let (source, destination, dscp) = (source.into(), destination.into(), class >> 2);
        Some(Self { source, destination, protocol, ports, dscp, lane })
    }

    fn of_v6(packet: &[u8]) -> Option<Self> {
        let [first, label @ .., high, low, protocol, _] = packet.first_chunk::<8>()?;
        if usize::from(u16::from_be_bytes([*high, *low])) + LEAST_V6 != packet.len() {
            return None;
        }
        let source = Ipv6Addr::from(*packet.get(8..)?.first_chunk::<16>()?);
        let destination = Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?);
        // Without the traffic class, which programs change within a flow.
        let [class, middle, bottom] = *label;
        let label = [class & 0x0f, middle, bottom];
        let ports = packet.get(LEAST_V6..).and_then(|rest| ports(*protocol, rest));
        // A label tells flows apart also behind extension headers (RFC 6437).
        let lane = lane((source, destination, label, *protocol, ports.filter(|_| label == [0; 3])));
        let (source, destination, dscp) = (source.into(), destination.into(), first << 4 >> 2 | class >> 6);
        Some(Self { source, destination, protocol: *protocol, ports, dscp, lane })
    }

    /// The lane of the packet, below [`LANES`]: the packets of a flow have the same.
    // egress 11.6
    pub(crate) fn lane(&self) -> u16 {
        self.lane
    }
}

/// Both ports, of protocols that begin with them.
fn ports(protocol: u8, message: &[u8]) -> Option<[u16; 2]> {
    let [high, low, to_high, to_low] = *message.first_chunk().filter(|_| PORTS.contains(&protocol))?;
    Some([u16::from_be_bytes([high, low]), u16::from_be_bytes([to_high, to_low])])
}

fn lane(flow: impl Hash) -> u16 {
    // Without a key: who makes flows share a lane delays its own packets.
    let mut hasher = DefaultHasher::new();
    flow.hash(&mut hasher);
    u16::try_from(hasher.finish() % u64::from(LANES)).unwrap_or_default()
}

/// Lanes of a direction.
pub(crate) const LANES: u16 = 1024;
const LEAST_V4: usize = 20;
const LEAST_V6: usize = 40;
/// TCP, UDP, DCCP, SCTP, UDP-Lite.
const PORTS: [u8; 5] = [6, 17, 33, 132, 136];

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet of this protocol.
    pub(crate) fn packet(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = match (source.parse().unwrap(), destination.parse().unwrap()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let length = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
                let start = [0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0];
                [&start[..], &from.octets(), &to.octets()].concat()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
                let start = [0x60, 0, 0, 0, length[0], length[1], protocol, 64];
                [&start[..], &from.octets(), &to.octets()].concat()
            }
            _ => panic!("two families"),
        };
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn addresses_are_read_and_what_is_not_one_packet_is_refused() {
        for (from, to) in [("10.99.0.2", "192.168.9.7"), ("fd00::2", "2001:db8::7")] {
            let whole = packet(from, to, 253, b"content");
            let header = Header::parse(&whole).unwrap();
            assert_eq!((header.source, header.destination), (from.parse().unwrap(), to.parse().unwrap()));
            for length in 0..whole.len() {
                assert_eq!(Header::parse(&whole[..length]), None, "{length}");
            }
            assert_eq!(Header::parse(&[&whole[..], &[0]].concat()), None);
            let mut wrong = whole.clone();
            wrong[0] ^= 0x30;
            assert_eq!(Header::parse(&wrong), None);
        }
        let mut short = packet("10.99.0.2", "192.168.9.7", 253, b"content");
        short[0] = 0x44;
        assert_eq!(Header::parse(&short), None, "a header of 16 bytes");
    }

    // egress 11.6
    #[test]
    fn the_packets_of_a_flow_have_one_lane_and_flows_have_several() {
        let lane = |bytes: &[u8]| Header::parse(bytes).unwrap().lane();
        let of = |ports: [u8; 4]| packet("10.99.0.2", "10.99.0.1", 17, &[&ports[..], b"more"].concat());
        assert_eq!(lane(&of([1, 2, 3, 4])), lane(&of([1, 2, 3, 4])));
        let different: std::collections::BTreeSet<_> = (0..100).map(|n| lane(&of([1, n, 3, 4]))).collect();
        assert!(different.len() > 80, "{}", different.len());
        // Fragments go together, and without ports.
        let fragment = |ports| {
            let mut bytes = of(ports);
            bytes[6] = 0x20;
            lane(&bytes)
        };
        assert_eq!(fragment([1, 2, 3, 4]), fragment([5, 6, 7, 8]));
        // Other protocols have none.
        let esp = |payload: &[u8]| lane(&packet("fd00::1", "fd00::2", 50, payload));
        assert_eq!(esp(b"12345678"), esp(b"87654321"));
        let labelled = |label, class| {
            let mut bytes = packet("fd00::1", "fd00::2", 6, b"12345678");
            bytes[1] = class;
            bytes[3] = label;
            lane(&bytes)
        };
        assert_eq!(labelled(1, 0x10), labelled(1, 0x20));
        assert_ne!(labelled(1, 0), labelled(2, 0));
    }

    #[test]
    fn ports_and_code_points_are_read_in_either_version() {
        let message = [0x13, 0x8c, 0, 53, 0, 0, 0, 0];
        for (source, destination) in [("10.99.0.2", "10.99.0.1"), ("fd00::1", "fd00::2")] {
            let mut bytes = packet(source, destination, 17, &message);
            // Code point 46 (EF), without and with bits of ECN behind it.
            if bytes[0] == 0x45 {
                bytes[1] = 0xb9;
            } else {
                (bytes[0], bytes[1]) = (0x6b, 0x90);
            }
            let header = Header::parse(&bytes).unwrap();
            assert_eq!((header.protocol, header.ports, header.dscp), (17, Some([5004, 53]), 46));
        }
        let icmp = Header::parse(&packet("10.99.0.2", "10.99.0.1", 1, &message)).unwrap();
        assert_eq!((icmp.protocol, icmp.ports, icmp.dscp), (1, None, 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(header) = Header::parse(&bytes) {
                prop_assert!(header.lane() < LANES && header.source.is_ipv4() == header.destination.is_ipv4());
            }
        }
    }
}
