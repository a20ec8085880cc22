//! Packets of hostile programs, and of every size.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use manyway_capture::packet::{Datagram, Echo, Invalid, Packet, Uncomposable, Unreachable, dscp};
use proptest::prelude::*;

const REASONS: [Unreachable; 5] = [
    Unreachable::Network,
    Unreachable::Host,
    Unreachable::Port,
    Unreachable::Prohibited,
    Unreachable::TooLarge(1280),
];

fn ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = any::<([u8; 4], u16, [u8; 4], u16)>().prop_map(|(from, port, to, to_port)| {
        (SocketAddr::from((from, port)), SocketAddr::from((to, to_port)))
    });
    let v6 = any::<([u8; 16], u16, [u8; 16], u16)>().prop_map(|(from, port, to, to_port)| {
        (SocketAddr::from((from, port)), SocketAddr::from((to, to_port)))
    });
    prop_oneof![v4, v6]
}

fn composed((source, destination): (SocketAddr, SocketAddr), payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    Datagram { source, destination, payload }.compose(&mut packet).unwrap();
    packet
}

/// Whatever comes, nothing panics and an answer is a valid packet.
fn take(packet: &[u8]) {
    let mut answers = vec![Vec::new()];
    if let Ok(Packet::Echo(echo)) = Packet::parse(packet) {
        let _ = echo.compose_reply(&mut answers[0]);
    }
    for reason in REASONS {
        let mut answer = Vec::new();
        assert_eq!(reason.compose(packet, &mut answer), !answer.is_empty());
        answers.push(answer);
    }
    for answer in answers.iter().filter(|answer| !answer.is_empty()) {
        assert!(matches!(Packet::parse(answer), Ok(Packet::Other(1 | 58))), "{answer:?}");
        // An error about an error, or an answer to an answer, would never end.
        assert!(!Unreachable::Port.compose(answer, &mut Vec::new()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_datagram_is_read_as_it_was_composed(ends in ends(), payload in prop::collection::vec(any::<u8>(), 0..2000)) {
        let packet = composed(ends, &payload);
        let datagram = Datagram { source: ends.0, destination: ends.1, payload: &payload };
        prop_assert_eq!(Packet::parse(&packet), Ok(Packet::Datagram(datagram)));
        take(&packet);
    }

    #[test]
    fn arbitrary_packets_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), version in 4_u8..=6) {
        take(&bytes);
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = (version << 4) | (*first & 0x0F);
        }
        take(&bytes);
    }

    #[test]
    fn a_datagram_that_is_damaged_or_cut_off_is_taken(
        ends in ends(),
        payload in prop::collection::vec(any::<u8>(), 0..100),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let packet = composed(ends, &payload);
        take(&packet[..cut.index(packet.len())]);
        let mut damaged = packet;
        for (index, byte) in damage {
            let at = index.index(damaged.len());
            damaged[at] = byte;
        }
        take(&damaged);
    }
}

const V4: (SocketAddr, SocketAddr) = (
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), 4000),
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 53),
);
const V6: (SocketAddr, SocketAddr) = (
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0xfd6d, 0, 0, 0, 0, 0, 0, 1)), 4000),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)), 53),
);

#[test]
fn a_wrong_checksum_is_noticed_and_only_ipv4_may_omit_it() {
    for (ends, udp) in [(V4, 20), (V6, 40)] {
        let packet = composed(ends, b"data");
        let changed = |at: usize, bytes: &[u8]| {
            let mut packet = packet.clone();
            packet[at..at + bytes.len()].copy_from_slice(bytes);
            packet
        };
        let other = [b'D'];
        assert_eq!(Packet::parse(&changed(udp + 8, &other)), Err(Invalid::Checksum));
        let without = Packet::parse(&changed(udp + 6, &[0, 0])).map(drop);
        assert_eq!(without, if udp == 20 { Ok(()) } else { Err(Invalid::Checksum) });
    }
    let mut packet = composed(V4, b"data");
    packet[8] -= 1;
    assert_eq!(Packet::parse(&packet), Err(Invalid::Checksum), "of the header");
}

#[test]
fn the_code_point_of_a_packet_is_read() {
    for (ends, at, bytes) in [(V4, 1, &[0xB9][..]), (V6, 0, &[0x6B, 0x90])] {
        let mut packet = composed(ends, b"data");
        assert_eq!(dscp(&packet), Some(0));
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(dscp(&packet), Some(46));
    }
    assert_eq!(dscp(&[]), None);
}

#[test]
fn fragments_are_dropped() {
    let mut v4 = composed(V4, b"data");
    // More fragments follow.
    v4[6..8].copy_from_slice(&[0x20, 0]);
    v4[10..12].copy_from_slice(&[0, 0]);
    let words = v4[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>();
    let sum = !u16::try_from((sum & 0xFFFF) + (sum >> 16)).unwrap();
    v4[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(Packet::parse(&v4), Err(Invalid::Fragment));
    let whole = composed(V6, b"data");
    let mut v6 = whole[..40].to_vec();
    v6[5] += 8;
    v6[6] = 44;
    v6.extend([17, 0, 0, 1, 0, 0, 0, 9]);
    v6.extend(&whole[40..]);
    assert_eq!(Packet::parse(&v6), Err(Invalid::Fragment));
}

#[test]
fn extension_headers_of_ipv6_are_skipped() {
    let whole = composed(V6, b"data");
    let mut packet = whole[..40].to_vec();
    packet[5] += 8;
    packet[6] = 60;
    // Destination options that are padding.
    packet.extend([17, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend(&whole[40..]);
    let Ok(Packet::Datagram(datagram)) = Packet::parse(&packet) else { panic!("{packet:?}") };
    assert_eq!((datagram.destination, datagram.payload), (V6.1, &b"data"[..]));
}

#[test]
fn the_largest_datagrams_are_composed_and_larger_ones_refused() {
    let bytes = vec![7; 65_528];
    let compose = |ends: (SocketAddr, SocketAddr), length: usize| {
        let mut packet = vec![1, 2];
        let datagram = Datagram { source: ends.0, destination: ends.1, payload: &bytes[..length] };
        let result = datagram.compose(&mut packet);
        (result, packet.len() - 2)
    };
    assert_eq!(compose(V4, 65_507), (Ok(()), 65_535));
    assert_eq!(compose(V4, 65_508), (Err(Uncomposable), 0));
    assert_eq!(compose(V6, 65_527), (Ok(()), 65_575));
    assert_eq!(compose(V6, 65_528), (Err(Uncomposable), 0));
    assert_eq!(compose((V4.0, V6.1), 1), (Err(Uncomposable), 0));
}

#[test]
fn errors_quote_what_they_are_about_and_have_the_size_that_is_allowed() {
    for (ends, most, quote) in [(V4, 576, 28), (V6, 1280, 48)] {
        let packet = composed(ends, &[9; 3000]);
        let mut answer = Vec::new();
        assert!(Unreachable::Port.compose(&packet, &mut answer));
        assert_eq!(answer.len(), most);
        assert_eq!(answer[quote..], packet[..most - quote]);
    }
}

#[test]
fn packets_to_many_hosts_and_without_a_sender_get_no_error() {
    for (from, to) in [
        ("198.18.0.1:1", "224.0.0.251:5353"),
        ("198.18.0.1:1", "255.255.255.255:67"),
        ("0.0.0.0:68", "192.0.2.1:67"),
        ("[fd6d::1]:1", "[ff02::fb]:5353"),
        ("[::]:1", "[2001:db8::1]:1"),
    ] {
        let packet = composed((from.parse().unwrap(), to.parse().unwrap()), b"x");
        assert!(!Unreachable::Port.compose(&packet, &mut Vec::new()), "{from} {to}");
    }
}

#[test]
fn an_echo_request_is_read_and_its_reply_has_the_same_content() {
    for (source, destination) in [(V4.0.ip(), V4.1.ip()), (V6.0.ip(), V6.1.ip())] {
        let echo = Echo {
            source: destination,
            destination: source,
            identifier: 3,
            sequence: 4,
            payload: b"content",
        };
        let mut composed = Vec::new();
        let request = Echo { source, destination, ..echo };
        request.compose(&mut composed).unwrap();
        assert_eq!(Packet::parse(&composed), Ok(Packet::Echo(request)));
        let mut packet = Vec::new();
        echo.compose_reply(&mut packet).unwrap();
        let icmp = if source.is_ipv4() { 20 } else { 40 };
        // The reply becomes a request: 8 for 0, or 128 for 129.
        let (kind, sum) = (packet[icmp], u16::from_be_bytes([packet[icmp + 2], packet[icmp + 3]]));
        let (request, sum) = if kind == 0 { (8, sum - 0x800) } else { (128, sum + 0x100) };
        packet[icmp] = request;
        packet[icmp + 2..icmp + 4].copy_from_slice(&sum.to_be_bytes());
        let expected = Echo { source, destination, ..echo };
        assert_eq!(Packet::parse(&packet), Ok(Packet::Echo(expected)));
        packet[icmp + 8] = b'C';
        assert_eq!(Packet::parse(&packet), Err(Invalid::Checksum));
    }
}
