//! Extracts the UDP datagram from a frame of some link type.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use manyway_wire::Reader;

use super::item::{Datagram, Item, Skip};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// VLAN tags, which precede the type.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const UDP: u8 = 17;

/// Addresses and payload of a datagram, and the number of its missing bytes.
type Found<'a> = (SocketAddr, SocketAddr, &'a [u8], usize);

/// The content of a frame.
pub(super) fn item(link: i32, number: u64, time: Option<Duration>, frame: &[u8]) -> Item<'_> {
    match find(link, frame) {
        Ok((source, destination, payload, missing)) => Item::Datagram(Datagram {
            number,
            time,
            addresses: Some((source, destination)),
            payload,
            missing,
        }),
        Err(why) => Item::Skipped { number, time, why },
    }
}

fn find(link: i32, frame: &[u8]) -> Result<Found<'_>, Skip> {
    let mut reader = Reader::new(frame);
    let network = match link {
        // BSD loopback: the family in the byte order of the capturing host, with values for IPv6 that differ among
        // systems.
        0 | 108 => match reader.array::<4>().map_err(|_| Skip::Cut)? {
            [0, 0, 0, 2] | [2, 0, 0, 0] => IPV4,
            [0, 0, 0, family] | [family, 0, 0, 0] if matches!(family, 10 | 24 | 28 | 30) => IPV6,
            _ => return Err(Skip::NotUdp),
        },
        1 => {
            skip(&mut reader, 12)?;
            ether_type(&mut reader)?
        }
        // Raw IP, under the numbers of the registry and of some systems.
        12 | 14 | 101 => return ip(frame),
        228 => IPV4,
        229 => IPV6,
        113 => {
            skip(&mut reader, 14)?;
            ether_type(&mut reader)?
        }
        276 => {
            let network = take_u16(&mut reader)?;
            skip(&mut reader, 18)?;
            if VLAN.contains(&network) {
                skip(&mut reader, 2)?;
                ether_type(&mut reader)?
            } else {
                network
            }
        }
        other => return Err(Skip::UnknownLink(other)),
    };
    match network {
        IPV4 => ipv4(reader.rest()),
        IPV6 => ipv6(reader.rest()),
        _ => Err(Skip::NotUdp),
    }
}

fn ether_type(reader: &mut Reader<'_>) -> Result<u16, Skip> {
    loop {
        let network = take_u16(reader)?;
        if !VLAN.contains(&network) {
            return Ok(network);
        }
        skip(reader, 2)?;
    }
}

fn ip(packet: &[u8]) -> Result<Found<'_>, Skip> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => ipv4(packet),
        Some(6) => ipv6(packet),
        Some(_) => Err(Skip::NotUdp),
        None => Err(Skip::Cut),
    }
}

/// The datagram in `packet`, if it is certainly a whole IP packet with UDP: all lengths and, for IPv4, the checksum are
/// right.
pub(super) fn certain_ip(packet: &[u8]) -> Option<Found<'_>> {
    let claims = |at: usize| {
        packet
            .get(at..at + 2)
            .and_then(|bytes| bytes.first_chunk())
            .map(|b| usize::from(u16::from_be_bytes(*b)))
    };
    let fits = match packet.first()? {
        0x45 => claims(2)? == packet.len() && checksum(packet.get(..20)?) == 0xffff,
        first if first >> 4 == 6 => claims(4)? + 40 == packet.len(),
        _ => false,
    };
    ip(packet).ok().filter(|(_, _, payload, missing)| fits && *missing == 0 && !payload.is_empty())
}

fn checksum(header: &[u8]) -> u32 {
    let sum: u32 =
        header.chunks(2).map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))).sum();
    (sum & 0xffff) + (sum >> 16)
}

fn ipv4(packet: &[u8]) -> Result<Found<'_>, Skip> {
    let mut reader = Reader::new(packet);
    let first = take_u8(&mut reader)?;
    let header = usize::from(first & 0x0f) * 4;
    if first >> 4 != 4 || header < 20 {
        return Err(Skip::NotUdp);
    }
    skip(&mut reader, 1)?;
    let total = usize::from(take_u16(&mut reader)?);
    skip(&mut reader, 2)?;
    let fragment = take_u16(&mut reader)?;
    skip(&mut reader, 1)?;
    let protocol = take_u8(&mut reader)?;
    skip(&mut reader, 2)?;
    let source = take_ipv4(&mut reader)?;
    let destination = take_ipv4(&mut reader)?;
    if protocol != UDP {
        return Err(Skip::NotUdp);
    }
    // The more-fragments flag, or an offset.
    if fragment & 0x3fff != 0 {
        return Err(Skip::Fragment);
    }
    // Zero where the network card segments the packet later.
    let end = if total == 0 { packet.len() } else { total.min(packet.len()) };
    udp(source.into(), destination.into(), packet.get(header..end).ok_or(Skip::Cut)?)
}

fn ipv6(packet: &[u8]) -> Result<Found<'_>, Skip> {
    let mut reader = Reader::new(packet);
    if take_u8(&mut reader)? >> 4 != 6 {
        return Err(Skip::NotUdp);
    }
    skip(&mut reader, 3)?;
    let length = usize::from(take_u16(&mut reader)?);
    let mut next = take_u8(&mut reader)?;
    skip(&mut reader, 1)?;
    let source = Ipv6Addr::from(reader.array::<16>().map_err(|_| Skip::Cut)?);
    let destination = Ipv6Addr::from(reader.array::<16>().map_err(|_| Skip::Cut)?);
    let rest = reader.rest();
    let end = if length == 0 { rest.len() } else { length.min(rest.len()) };
    let mut reader = Reader::new(rest.get(..end).ok_or(Skip::Cut)?);
    loop {
        match next {
            UDP => return udp(source.into(), destination.into(), reader.rest()),
            // Hop by hop, routing, destination: their length counts units of 8 bytes beyond the first 8.
            0 | 43 | 60 => {
                next = take_u8(&mut reader)?;
                let length = usize::from(take_u8(&mut reader)?);
                skip(&mut reader, 6 + 8 * length)?;
            }
            44 => {
                next = take_u8(&mut reader)?;
                skip(&mut reader, 1)?;
                let place = take_u16(&mut reader)?;
                skip(&mut reader, 4)?;
                if place & 0xfff9 != 0 {
                    return Err(if next == UDP { Skip::Fragment } else { Skip::NotUdp });
                }
            }
            _ => return Err(Skip::NotUdp),
        }
    }
}

fn udp(source: IpAddr, destination: IpAddr, segment: &[u8]) -> Result<Found<'_>, Skip> {
    let mut reader = Reader::new(segment);
    let source = SocketAddr::new(source, take_u16(&mut reader)?);
    let destination = SocketAddr::new(destination, take_u16(&mut reader)?);
    let length = usize::from(take_u16(&mut reader)?);
    skip(&mut reader, 2)?;
    let payload = reader.rest();
    // Zero where it does not fit the field.
    let claimed = if length == 0 { payload.len() } else { length.saturating_sub(8) };
    let present = payload.get(..claimed).unwrap_or(payload);
    Ok((source, destination, present, claimed - present.len()))
}

fn skip(reader: &mut Reader<'_>, count: usize) -> Result<(), Skip> {
    reader.bytes(count).map(|_| ()).map_err(|_| Skip::Cut)
}

fn take_u8(reader: &mut Reader<'_>) -> Result<u8, Skip> {
    reader.u8().map_err(|_| Skip::Cut)
}

fn take_u16(reader: &mut Reader<'_>) -> Result<u16, Skip> {
    reader.u16().map_err(|_| Skip::Cut)
}

fn take_ipv4(reader: &mut Reader<'_>) -> Result<Ipv4Addr, Skip> {
    reader.array::<4>().map(Ipv4Addr::from).map_err(|_| Skip::Cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with UDP from port 1 to port 2 that carries "abc".
    fn packet_v4() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 1, 0, 2, 0, 11, 0, 0]);
        packet.extend(b"abc");
        packet
    }

    fn packet_v6(extensions: &[u8], next: u8) -> Vec<u8> {
        let length = u8::try_from(extensions.len() + 11).unwrap();
        let mut packet = vec![0x60, 0, 0, 0, 0, length, next, 64];
        packet.extend(Ipv6Addr::LOCALHOST.octets());
        packet.extend(Ipv6Addr::LOCALHOST.octets());
        packet.extend(extensions);
        packet.extend([0, 1, 0, 2, 0, 11, 0, 0]);
        packet.extend(b"abc");
        packet
    }

    fn framed(head: &[u8], packet: &[u8]) -> Vec<u8> {
        [head, packet].concat()
    }

    #[test]
    fn a_datagram_is_found_on_every_kind_of_link() {
        let (v4, v6) = (packet_v4(), packet_v6(&[], 17));
        let ethernet = |kind: [u8; 2]| [&[0; 12][..], &kind].concat();
        let cases = [
            (1, framed(&ethernet([8, 0]), &v4)),
            (1, framed(&[&ethernet([0x81, 0])[..], &[0, 5, 0x86, 0xdd]].concat(), &v6)),
            (113, framed(&[&[0; 14][..], &[8, 0]].concat(), &v4)),
            (276, framed(&[&[0x86, 0xdd][..], &[0; 18]].concat(), &v6)),
            (0, framed(&[2, 0, 0, 0], &v4)),
            (108, framed(&[0, 0, 0, 30], &v6)),
            (101, v4.clone()),
            (101, v6.clone()),
            (228, v4),
            (229, v6),
        ];
        for (link, frame) in cases {
            let (source, destination, payload, missing) = find(link, &frame).unwrap();
            assert_eq!(
                (source.port(), destination.port(), payload, missing),
                (1, 2, &b"abc"[..], 0),
                "{link}"
            );
            for length in 0..frame.len() {
                // Cut anywhere: the parser returns, and reads nothing beyond the end.
                let _ = find(link, &frame[..length]);
            }
        }
        assert_eq!(find(7, &[]), Err(Skip::UnknownLink(7)));
    }

    #[test]
    fn fragments_are_named_and_a_short_capture_reports_missing_bytes() {
        let mut fragment = packet_v4();
        fragment[6] = 0x20;
        assert_eq!(find(101, &fragment), Err(Skip::Fragment));
        assert_eq!(find(101, &packet_v6(&[17, 0, 0, 1, 0, 0, 0, 0], 44)), Err(Skip::Fragment));
        assert!(
            find(101, &packet_v6(&[17, 0, 0, 0, 0, 0, 0, 0], 44)).is_ok(),
            "a fragment that is the whole"
        );
        assert!(find(101, &packet_v6(&[17, 0, 0, 0, 0, 0, 0, 0], 60)).is_ok());
        let short = &packet_v4()[..29];
        assert_eq!(find(101, short).unwrap().3, 2);
    }

    #[test]
    fn an_ip_packet_is_distinguished_from_a_packet_of_mmsp_by_its_checksum() {
        let mut packet = packet_v4();
        assert!(certain_ip(&packet).is_none());
        let sum = !u16::try_from(checksum(&packet[..20])).unwrap();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        assert!(certain_ip(&packet).is_some());
        assert!(certain_ip(&packet_v6(&[], 17)).is_some());
        assert!(certain_ip(&packet[..30]).is_none());
    }
}
