//! The fields of IP headers that the emulator needs: addresses, ports, marks, checksums.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use crate::scenario::Sent;

/// The parts of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    version: Version,
    transport: Transport,
    /// Where the transport's header begins.
    offset: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

/// The transport of a packet, as far as it can be translated and its checksum updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
    /// An echo request or reply, whose identifier serves as the port of the requester.
    Echo,
    /// Anything else, fragments included.
    Other,
}

/// An end of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
}

impl Header {
    /// Parses the headers; `None` if this is no IP packet.
    pub(super) fn read(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        match first >> 4 {
            4 => {
                let offset = usize::from(first & 0x0F) * 4;
                // More fragments follow, or this is not the first.
                let is_fragment = word(packet, 6)? & 0x3FFF != 0;
                let protocol = if is_fragment { FRAGMENT } else { *packet.get(9)? };
                Self::with(packet, Version::V4, protocol, offset.max(20))
            }
            6 => Self::with(packet, Version::V6, *packet.get(6)?, 40),
            _ => None,
        }
    }

    fn with(packet: &[u8], version: Version, protocol: u8, offset: usize) -> Option<Self> {
        packet.get(offset.checked_sub(1)?)?;
        let kind = packet.get(offset).copied();
        let transport = match (version, protocol, kind) {
            (_, 6, _) => Transport::Tcp,
            (_, 17, _) => Transport::Udp,
            (Version::V4, 1, Some(0 | 8)) | (Version::V6, 58, Some(128 | 129)) => Transport::Echo,
            _ => Transport::Other,
        };
        let mut header = Self { version, transport, offset };
        if packet.len() < offset + header.transport_len() {
            header.transport = Transport::Other;
        }
        Some(header)
    }

    /// The destination, read without the other fields.
    pub(super) fn destination(packet: &[u8]) -> Option<IpAddr> {
        match packet.first()? >> 4 {
            4 => address(packet, Version::V4, End::Destination),
            6 => address(packet, Version::V6, End::Destination),
            _ => None,
        }
    }

    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    /// An end with its port: 0 if it has none, and the identifier of an echo at either end.
    pub(super) fn end(&self, packet: &[u8], end: End) -> Option<SocketAddr> {
        let port = self.port_at(end).map_or(Some(0), |at| word(packet, at))?;
        Some(SocketAddr::new(address(packet, self.version, end)?, port))
    }

    /// Replaces an end and updates the checksums. With an address of another family it returns `None` and changes
    /// nothing.
    pub(super) fn set_end(&self, packet: &mut [u8], end: End, to: SocketAddr) -> Option<()> {
        let place = address_at(self.version, end);
        match (self.version, to.ip()) {
            (Version::V4, IpAddr::V4(ip)) => self.replace_all(packet, place.start, &ip.octets()),
            (Version::V6, IpAddr::V6(ip)) => self.replace_all(packet, place.start, &ip.octets()),
            (Version::V4, IpAddr::V6(_)) | (Version::V6, IpAddr::V4(_)) => return None,
        }
        if let Some(at) = self.port_at(end) {
            self.replace(packet, at, to.port());
        }
        Some(())
    }

    /// The data of a UDP datagram or a TCP segment; `None` for any other packet.
    pub(super) fn sent<'a>(&self, packet: &'a [u8]) -> Option<Sent<'a>> {
        let payload = self.payload(packet);
        match self.transport {
            Transport::Udp => packet.get(payload).map(Sent::Datagram),
            Transport::Tcp => {
                let bytes = packet.get(self.offset + 4..)?.first_chunk()?;
                Some(Sent::Segment { sequence: u32::from_be_bytes(*bytes), length: payload.len() })
            }
            Transport::Echo | Transport::Other => None,
        }
    }

    /// The bytes after the transport's header, or after the IP header.
    pub(super) fn payload(&self, packet: &[u8]) -> Range<usize> {
        let words = packet.get(self.offset + 12).map_or(0, |byte| usize::from(byte >> 4));
        let length = match self.transport {
            Transport::Tcp => words * 4,
            Transport::Udp | Transport::Echo | Transport::Other => self.transport_len(),
        };
        (self.offset + length).min(packet.len())..packet.len()
    }

    /// Replaces the aligned 16 bits at `at` and updates the checksums that cover them.
    pub(super) fn replace(&self, packet: &mut [u8], at: usize, new: u16) {
        let Some(old) = word(packet, at) else { return };
        set_word(packet, at, new);
        if self.version == Version::V4 && at < self.offset {
            mend_at(packet, 10, old, new);
        }
        let Some(checksum) = self.checksum_at() else { return };
        if at < self.offset && !self.is_in_pseudo_header(at) {
            return;
        }
        if self.transport != Transport::Udp {
            return mend_at(packet, checksum, old, new);
        }
        // Zero means that a UDP packet has no checksum.
        if word(packet, checksum) != Some(0) {
            mend_at(packet, checksum, old, new);
            if word(packet, checksum) == Some(0) {
                set_word(packet, checksum, 0xFFFF);
            }
        }
    }

    fn replace_all(&self, packet: &mut [u8], at: usize, bytes: &[u8]) {
        for (number, pair) in bytes.chunks_exact(2).enumerate() {
            if let [high, low] = *pair {
                self.replace(packet, at + 2 * number, u16::from_be_bytes([high, low]));
            }
        }
    }

    fn is_in_pseudo_header(&self, at: usize) -> bool {
        let is_address = at >= address_at(self.version, End::Source).start;
        is_address && (self.transport != Transport::Echo || self.version == Version::V6)
    }

    fn port_at(&self, end: End) -> Option<usize> {
        match (self.transport, end) {
            (Transport::Tcp | Transport::Udp, End::Source) => Some(self.offset),
            (Transport::Tcp | Transport::Udp, End::Destination) => Some(self.offset + 2),
            (Transport::Echo, _) => Some(self.offset + 4),
            (Transport::Other, _) => None,
        }
    }

    fn checksum_at(&self) -> Option<usize> {
        match self.transport {
            Transport::Tcp => Some(self.offset + 16),
            Transport::Udp => Some(self.offset + 6),
            Transport::Echo => Some(self.offset + 2),
            Transport::Other => None,
        }
    }

    /// The minimum length of the transport's header.
    fn transport_len(&self) -> usize {
        match self.transport {
            Transport::Tcp => 20,
            Transport::Udp | Transport::Echo => 8,
            Transport::Other => 0,
        }
    }
}

/// The ECN field of a packet (RFC 3168), 0 if it is no IP packet.
pub(super) fn ecn(packet: &[u8]) -> u8 {
    match (packet.first().map(|first| first >> 4), packet.get(1)) {
        (Some(4), Some(class)) => class & 3,
        (Some(6), Some(class)) => (class >> 4) & 3,
        _ => 0,
    }
}

/// Marks a packet with CE.
pub(super) fn mark_congestion(packet: &mut [u8]) {
    set_ecn(packet, 3);
}

/// Replaces the ECN field of a packet.
pub(super) fn set_ecn(packet: &mut [u8], bits: u16) {
    let (Some(header), Some(first)) = (Header::read(packet), word(packet, 0)) else { return };
    match header.version {
        Version::V4 => header.replace(packet, 0, first & !3 | bits),
        Version::V6 => set_word(packet, 0, first & !0x30 | bits << 4),
    }
}

/// Stands for the protocol of a fragment: "no next header".
const FRAGMENT: u8 = 59;

fn address_at(version: Version, end: End) -> Range<usize> {
    match (version, end) {
        (Version::V4, End::Source) => 12..16,
        (Version::V4, End::Destination) => 16..20,
        (Version::V6, End::Source) => 8..24,
        (Version::V6, End::Destination) => 24..40,
    }
}

fn address(packet: &[u8], version: Version, end: End) -> Option<IpAddr> {
    let bytes = packet.get(address_at(version, end))?;
    Some(match version {
        Version::V4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        Version::V6 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
    })
}

/// Sixteen bits; those after the end of the packet count as 0, as in checksums.
pub(super) fn word(packet: &[u8], at: usize) -> Option<u16> {
    let high = *packet.get(at)?;
    Some(u16::from_be_bytes([high, packet.get(at + 1).copied().unwrap_or(0)]))
}

fn set_word(packet: &mut [u8], at: usize, new: u16) {
    for (place, byte) in packet.iter_mut().skip(at).zip(new.to_be_bytes()) {
        *place = byte;
    }
}

/// Updates the checksum at `checksum` for a replaced word (RFC 1624, equation 3).
fn mend_at(packet: &mut [u8], checksum: usize, old: u16, new: u16) {
    let Some(before) = word(packet, checksum) else { return };
    let sum = u32::from(!before) + u32::from(!old) + u32::from(new);
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let [.., high, low] = ((folded & 0xFFFF) + (folded >> 16)).to_be_bytes();
    set_word(packet, checksum, !u16::from_be_bytes([high, low]));
}
