use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_proto::{ByteCount, Instant, Rate};
use manyway_sim::link::{Drops, LinkConfig, LossModel, Parcel, Probability, QueueConfig, QueueLimit};
use manyway_sim::nat::NatConfig;

use super::header::{End, Header, Transport, ecn, mark_congestion, word};
use super::packet::IpPacket;
use super::pool::Pool;
use super::switch::{Exit, Switch};
use super::translate::Translator;
use crate::scenario::{
    Change, Checksum, Damage, Direction, Ending, Interface, Link, Pattern, Route, Scenario, Setting, Side,
};

const MS: Duration = Duration::from_millis(1);
const START: Instant = Instant::from_nanos(1_000_000_000);
const TCP: u8 = 6;
const UDP: u8 = 17;
const PING: u8 = 1;
const PING6: u8 = 58;

/// The one's complement sum of 16-bit words, computed from scratch.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)))
        .sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// Whether all checksums of a packet are valid.
fn is_sound(packet: &[u8]) -> bool {
    let (offset, protocol, addresses) = match packet[0] >> 4 {
        4 => (20, packet[9], &packet[12..20]),
        _ => (40, packet[6], &packet[8..40]),
    };
    let length = u16::try_from(packet.len() - offset).unwrap();
    let mut covered = packet[offset..].to_vec();
    if protocol != PING {
        covered.extend(std::iter::repeat_n(0, covered.len() % 2));
        covered.extend_from_slice(addresses);
        covered.extend_from_slice(&[0, protocol]);
        covered.extend_from_slice(&length.to_be_bytes());
    }
    let has_none = protocol == UDP && packet[26..28] == [0, 0] && offset == 20;
    (offset == 40 || sum(&packet[..20]) == 0xFFFF) && (has_none || sum(&covered) == 0xFFFF)
}

/// A packet with valid checksums and `payload` bytes after the transport's header.
fn packet(protocol: u8, source: &str, destination: &str, payload: usize) -> Vec<u8> {
    let (source, destination): (SocketAddr, SocketAddr) =
        (source.parse().unwrap(), destination.parse().unwrap());
    let mut transport = Vec::new();
    transport.extend(source.port().to_be_bytes());
    transport.extend(destination.port().to_be_bytes());
    let length = if protocol == TCP { 20 } else { 8 };
    transport.resize(length, 0);
    match protocol {
        TCP => transport[12] = 0x50,
        UDP => transport[4..6].copy_from_slice(&u16::try_from(8 + payload).unwrap().to_be_bytes()),
        // The identifier is the port of the requester.
        _ => {
            transport[..4].copy_from_slice(&[if protocol == PING { 8 } else { 128 }, 0, 0, 0]);
            transport[4..6].copy_from_slice(&source.port().to_be_bytes());
        }
    }
    transport.extend((0..payload).map(|number| u8::try_from(number % 251).unwrap()));
    let (mut bytes, pseudo) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = vec![0x45, 0x02, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0];
            header[2..4].copy_from_slice(&u16::try_from(20 + transport.len()).unwrap().to_be_bytes());
            header.extend(from.octets());
            header.extend(to.octets());
            let checksum = !sum(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            let pseudo = header[12..].to_vec();
            (header, pseudo)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut header = vec![0x60, 0x20, 0, 1, 0, 0, protocol, 64];
            header[4..6].copy_from_slice(&u16::try_from(transport.len()).unwrap().to_be_bytes());
            header.extend(from.octets());
            header.extend(to.octets());
            let pseudo = header[8..].to_vec();
            (header, pseudo)
        }
        _ => panic!("two families"),
    };
    let mut covered = transport.clone();
    if protocol != PING {
        covered.extend(std::iter::repeat_n(0, covered.len() % 2));
        covered.extend(pseudo);
        covered.extend([0, protocol]);
        covered.extend(u16::try_from(transport.len()).unwrap().to_be_bytes());
    }
    let place = [(TCP, 16), (UDP, 6), (PING, 2), (PING6, 2)]
        .into_iter()
        .find(|(kind, _)| *kind == protocol)
        .unwrap()
        .1;
    let checksum = !sum(&covered);
    transport[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(transport);
    assert!(is_sound(&bytes));
    bytes
}

/// Packets of every kind that can be translated, with the address that replaces their source.
fn kinds() -> Vec<(Vec<u8>, SocketAddr)> {
    let (near, far) = ("10.0.0.2:4001", "192.0.2.1:443");
    let (near6, far6) = ("[fd00::2]:4001", "[2001:db8::1]:443");
    let mut kinds = Vec::new();
    for payload in [0, 1, 2, 999] {
        for protocol in [TCP, UDP, PING] {
            kinds.push((packet(protocol, near, far, payload), "198.51.100.7:65535".parse().unwrap()));
        }
        for protocol in [TCP, UDP, PING6] {
            kinds.push((packet(protocol, near6, far6, payload), "[2001:db8:ffff::7]:1".parse().unwrap()));
        }
    }
    kinds
}

#[test]
fn checksums_stay_valid_when_ends_are_replaced() {
    for (mut packet, to) in kinds() {
        for end in [End::Source, End::Destination] {
            let header = Header::read(&packet).unwrap();
            header.set_end(&mut packet, end, to).unwrap();
            assert!(is_sound(&packet), "{header:?}");
            assert_eq!(header.end(&packet, end), Some(to));
        }
        assert_eq!(Header::destination(&packet), Some(to.ip()));
    }
}

#[test]
fn an_absent_udp_checksum_stays_absent() {
    let mut packet = packet(UDP, "10.0.0.2:1", "10.0.0.3:2", 10);
    packet[26..28].copy_from_slice(&[0, 0]);
    let header = Header::read(&packet).unwrap();
    header.set_end(&mut packet, End::Source, "10.9.9.9:9".parse().unwrap()).unwrap();
    assert_eq!(packet[26..28], [0, 0]);
    assert!(is_sound(&packet));
}

#[test]
fn an_end_of_another_family_changes_nothing() {
    let mut packet = packet(UDP, "10.0.0.2:1", "10.0.0.3:2", 10);
    let before = packet.clone();
    let header = Header::read(&packet).unwrap();
    assert_eq!(header.set_end(&mut packet, End::Source, "[fd00::1]:9".parse().unwrap()), None);
    assert_eq!(packet, before);
}

#[test]
fn a_mark_changes_two_bits_and_keeps_the_checksum_valid() {
    for (mut packet, _) in kinds() {
        assert_eq!(ecn(&packet), 2);
        mark_congestion(&mut packet);
        assert_eq!(ecn(&packet), 3);
        assert!(is_sound(&packet));
    }
}

#[test]
fn a_marked_packet_is_marked_and_not_dropped_by_the_next_queue() {
    let pool = std::rc::Rc::new(Pool::default());
    for (before, _) in kinds() {
        let mut packet = IpPacket::new(pool.fill(&before), 0, &std::rc::Rc::default());
        assert!(packet.is_ecn_capable());
        packet.mark_congestion();
        assert!(packet.is_ecn_capable());
    }
}

#[test]
fn a_repaired_flip_is_one_bit_of_the_payload_with_valid_checksums() {
    let pool = std::rc::Rc::new(Pool::default());
    for (number, (before, _)) in kinds().into_iter().enumerate() {
        let mut packet = IpPacket::new(pool.fill(&before), 0, &std::rc::Rc::default());
        packet.checksum = Checksum::Repaired;
        let header = Header::read(&before).unwrap();
        let payload = header.payload(&before);
        for random in [0, 7, 8, 1 << 40, u64::MAX, 37 * number as u64] {
            packet.flip_bit(random);
            assert!(is_sound(packet.buffer.bytes()));
            packet.flip_bit(random);
            assert_eq!(packet.buffer.bytes(), before);
        }
        packet.flip_bit(13);
        let differ = |(a, b): (&u8, &u8)| (a ^ b).count_ones();
        let after = packet.buffer.bytes();
        let flipped: u32 = after[payload.clone()].iter().zip(&before[payload.clone()]).map(differ).sum();
        assert_eq!(flipped, u32::from(!payload.is_empty()));
    }
}

#[test]
fn a_stale_flip_is_one_bit_anywhere_and_breaks_a_checksum() {
    let pool = std::rc::Rc::new(Pool::default());
    let before = packet(UDP, "10.0.0.2:1", "10.0.0.3:2", 10);
    for random in 0..8 * before.len() as u64 {
        let mut packet = IpPacket::new(pool.fill(&before), 0, &std::rc::Rc::default());
        packet.flip_bit(random);
        let flipped: u32 = packet.buffer.bytes().iter().zip(&before).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(flipped, 1);
        // If version or protocol are hit, there is nothing to compare.
        if ![0, 9].contains(&(random / 8)) {
            assert!(!is_sound(packet.buffer.bytes()), "bit {random}");
        }
    }
}

#[test]
fn truncated_and_unknown_packets_are_read_without_harm() {
    for (packet, to) in kinds() {
        for length in 0..packet.len().min(70) {
            let mut cut = packet[..length].to_vec();
            if let Some(header) = Header::read(&cut) {
                let payload = header.payload(&cut);
                assert!(payload.start <= payload.end && payload.end == cut.len());
                header.set_end(&mut cut, End::Source, to);
            }
            mark_congestion(&mut cut);
            Header::destination(&cut);
        }
    }
    let mut rng = manyway_proto::Rng::from_seed([3; 32]);
    for length in 0..2_000 {
        let mut noise = vec![0; length % 100];
        rng.fill(&mut noise);
        if let Some(header) = Header::read(&noise) {
            header.payload(&noise);
        }
        Translator::new(NatConfig::new("198.51.100.7".parse().unwrap())).outbound(START, &mut noise);
    }
}

#[test]
fn a_fragment_has_no_ports() {
    let mut packet = packet(UDP, "10.0.0.2:1", "10.0.0.3:2", 100);
    packet[6] = 0x20;
    assert_eq!(Header::read(&packet).unwrap().transport(), Transport::Other);
    packet[6] = 0x40;
    assert_eq!(Header::read(&packet).unwrap().transport(), Transport::Udp);
}

#[test]
fn a_nat_translates_answers_back_and_keeps_checksums_valid() {
    for (mut packet, outer) in kinds() {
        let mut translator = Translator::new(NatConfig::new(outer.ip()));
        let header = Header::read(&packet).unwrap();
        let (inner, peer) =
            (header.end(&packet, End::Source).unwrap(), header.end(&packet, End::Destination).unwrap());
        translator.outbound(START, &mut packet).unwrap();
        let seen = header.end(&packet, End::Source).unwrap();
        assert!(is_sound(&packet) && seen.ip() == outer.ip());
        // The answer: an echo keeps its identifier, everything else swaps its ports.
        header.set_end(&mut packet, End::Source, peer).unwrap();
        header.set_end(&mut packet, End::Destination, seen).unwrap();
        translator.inbound(START, &mut packet).unwrap();
        assert!(is_sound(&packet));
        assert_eq!(header.end(&packet, End::Destination), Some(inner));
        translator.rebind();
        header.set_end(&mut packet, End::Destination, seen).unwrap();
        assert_eq!(translator.inbound(START, &mut packet), None);
    }
}

/// Records delivered packets, with their interface.
#[derive(Debug, Default)]
struct Kept(Vec<(usize, Vec<u8>)>);

impl Exit for Kept {
    fn give(&mut self, interface: usize, packet: &[u8]) -> bool {
        self.0.push((interface, packet.to_vec()));
        true
    }
}

/// Two interfaces at the client, one at the server: each route has a link of its own, then both share one.
fn shared(first: LinkConfig, last: LinkConfig) -> Scenario {
    let interface = |name: &str| Interface {
        name: name.into(),
        addresses: Vec::new(),
        mtu: 1500,
        nat: None,
        cost: 0,
        is_for_others: false,
        tcp_packet: None,
        starts_down: false,
    };
    let link = |name: &str, config: &LinkConfig| Link {
        name: name.into(),
        up: config.clone(),
        down: config.clone(),
        checksum: Checksum::Stale,
    };
    let route = |client| Route {
        name: format!("r{client}"),
        client,
        server: 0,
        links: vec![client, 2],
        shares: Vec::new(),
    };
    Scenario {
        name: String::new(),
        title: String::new(),
        group: String::new(),
        source: String::new(),
        duration: Duration::ZERO,
        client: vec![interface("a"), interface("b")],
        server: vec![interface("s")],
        links: vec![link("la", &first), link("lb", &first), link("cell", &last)],
        routes: vec![route(0), route(1)],
        cross_routes: Vec::new(),
        traffic: Vec::new(),
        cross_traffic: Vec::new(),
        events: Vec::new(),
        ending: Ending::Complete,
        damage: None,
    }
}

const A: &str = "10.77.1.1:1";
const B: &str = "10.77.2.1:1";
const S: &str = "10.78.1.1:2";

fn switch(scenario: &Scenario) -> Switch {
    let addresses = [A, B, S].map(|text| vec![text.parse::<SocketAddr>().unwrap().ip()]);
    Switch::new(START, scenario, &addresses, 1).unwrap()
}

fn drain(switch: &mut Switch) -> (Vec<(usize, Vec<u8>)>, Vec<Instant>) {
    let (mut kept, mut times) = (Kept::default(), Vec::new());
    while let Some(at) = switch.next() {
        let before = kept.0.len();
        switch.advance(at, &mut kept);
        times.extend(std::iter::repeat_n(at, kept.0.len() - before));
    }
    (kept.0, times)
}

#[test]
fn packets_pass_all_links_of_their_route_both_ways() {
    let rate = |megabits: u64| Rate::from_bits_per_second(megabits * 1_000_000);
    let scenario = shared(LinkConfig::new(rate(8), 3 * MS), LinkConfig::new(rate(4), 10 * MS));
    let mut switch = switch(&scenario);
    let up = packet(UDP, B, S, 972);
    let down = packet(UDP, S, A, 972);
    switch.enter(START, 1, &up, &mut Kept::default());
    switch.enter(START, 2, &down, &mut Kept::default());
    // 1 ms and 3 ms, 2 ms and 10 ms.
    let (mut kept, times) = drain(&mut switch);
    kept.sort();
    assert!(kept == [(0, down), (2, up)]);
    assert_eq!(times, [START + 16 * MS; 2]);
}

#[test]
fn a_late_call_moves_packets_at_their_own_times() {
    let rate = Rate::from_bits_per_second(8_000_000);
    let scenario = shared(LinkConfig::new(rate, 3 * MS), LinkConfig::new(rate, 10 * MS));
    let mut switch = switch(&scenario);
    switch.begin(START);
    for _ in 0..20 {
        switch.enter(START, 0, &packet(UDP, A, S, 972), &mut Kept::default());
    }
    let mut kept = Kept::default();
    switch.advance(START + 500 * MS, &mut kept);
    assert_eq!(kept.0.len(), 20);
    // The first after 1 + 3 + 1 + 10 ms, then one each millisecond.
    let routes = switch.routes();
    assert_eq!(routes[0].up.span(), Some((15 * MS, 34 * MS)));
    assert_eq!(routes[0].up.total(), ByteCount(20_000));
    assert_eq!(routes[1].up.total(), ByteCount::ZERO);
    assert_eq!(switch.snapshot(START + 500 * MS).lateness.worst, 496 * MS);
}

#[test]
fn drops_are_counted_for_the_route_whose_packet_it_was() {
    let rate = Rate::from_bits_per_second(8_000_000);
    let first = LinkConfig::default().with_loss(LossModel::None);
    let last = LinkConfig::new(rate, Duration::ZERO)
        .with_queue(QueueConfig::drop_tail(QueueLimit::Bytes(ByteCount(5_000))))
        .with_duplication(Probability::ALWAYS);
    let mut switch = switch(&shared(first, last));
    switch.begin(START);
    for _ in 0..10 {
        switch.enter(START, 0, &packet(UDP, A, S, 972), &mut Kept::default());
        switch.advance(START, &mut Kept::default());
    }
    for _ in 0..3 {
        switch.enter(START, 1, &packet(UDP, B, S, 972), &mut Kept::default());
        switch.advance(START, &mut Kept::default());
    }
    let (kept, _) = drain(&mut switch);
    // One in service and five that wait, twice each.
    assert_eq!(kept.len(), 12);
    let routes = switch.routes();
    assert_eq!((routes[0].dropped, routes[1].dropped), (4, 3));
    let snapshot = switch.snapshot(START);
    assert_eq!(snapshot.links[2].up.queue_full.packets, 7);
    assert_eq!(snapshot.links[2].up.duplicated.packets, 6);
    assert_eq!(snapshot.interfaces[2].received.packets, 12);
}

#[test]
fn packets_without_a_route_are_counted_and_dropped() {
    let mut switch = switch(&shared(LinkConfig::default(), LinkConfig::default()));
    let mut kept = Kept::default();
    switch.enter(START, 0, &packet(UDP, A, B, 10), &mut kept);
    switch.enter(START, 0, &[0x60, 1, 2], &mut kept);
    switch.enter(START, 0, &[], &mut kept);
    switch.enter(START, 9, &packet(UDP, A, S, 10), &mut kept);
    assert_eq!(switch.next(), None);
    assert_eq!(switch.snapshot(START).interfaces[0].unrouted.packets, 3);
}

#[test]
fn destinations_follow_a_new_address() {
    let mut switch = switch(&shared(LinkConfig::default(), LinkConfig::default()));
    let to = "10.99.0.1:2";
    switch.readdress(Side::Server, 0, &[to.parse::<SocketAddr>().unwrap().ip()]).unwrap();
    switch.enter(START, 0, &packet(UDP, A, S, 10), &mut Kept::default());
    switch.enter(START, 0, &packet(UDP, A, to, 10), &mut Kept::default());
    assert_eq!(drain(&mut switch).0, [(2, packet(UDP, A, to, 10))]);
    assert!(switch.readdress(Side::Server, 1, &[]).is_err());
}

#[test]
fn a_cut_drops_packets_in_flight_in_that_direction_only() {
    let delay = LinkConfig::default().with_delay(manyway_sim::link::DelayModel::constant(10 * MS));
    let mut switch = switch(&shared(LinkConfig::default(), delay));
    switch.enter(START, 0, &packet(UDP, A, S, 10), &mut Kept::default());
    switch.enter(START, 2, &packet(UDP, S, A, 10), &mut Kept::default());
    switch.advance(START + MS, &mut Kept::default());
    switch.apply(START + MS, &Change::Cut { link: 2, direction: Direction::Up }).unwrap();
    assert_eq!(drain(&mut switch).0.len(), 1);
    let snapshot = switch.snapshot(START);
    assert_eq!((snapshot.links[2].up.outage.packets, snapshot.links[2].down.outage.packets), (1, 0));
    assert!(switch.apply(START, &Change::Cut { link: 3, direction: Direction::Both }).is_err());
    assert!(switch.apply(START, &Change::Rebind { side: Side::Client, interface: 0 }).is_err());
}

#[test]
fn a_route_over_a_missing_link_or_interface_is_refused() {
    let mut scenario = shared(LinkConfig::default(), LinkConfig::default());
    scenario.routes[1].links.push(3);
    assert!(Switch::new(START, &scenario, &[], 1).is_err());
}

#[test]
fn a_translated_packet_is_found_by_its_outer_address() {
    let mut scenario = shared(LinkConfig::default(), LinkConfig::default());
    scenario.client[0].nat = Some(NatConfig::new("198.51.100.7".parse().unwrap()));
    let mut switch = switch(&scenario);
    switch.enter(START, 0, &packet(UDP, A, S, 10), &mut Kept::default());
    let (kept, _) = drain(&mut switch);
    let header = Header::read(&kept[0].1).unwrap();
    let seen = header.end(&kept[0].1, End::Source).unwrap();
    assert_eq!(word(&kept[0].1, 20), Some(seen.port()));
    // The inner address is unknown outside.
    switch.enter(START, 2, &packet(UDP, S, A, 10), &mut Kept::default());
    switch.enter(START, 2, &packet(UDP, S, &seen.to_string(), 10), &mut Kept::default());
    switch.enter(START, 2, &packet(UDP, "10.78.1.1:9", &seen.to_string(), 10), &mut Kept::default());
    assert_eq!(drain(&mut switch).0, [(0, packet(UDP, S, A, 10))]);
    let snapshot = switch.snapshot(START);
    assert_eq!(
        (snapshot.interfaces[2].unrouted.packets, snapshot.interfaces[0].untranslated.packets),
        (1, 1)
    );
}

#[test]
fn what_the_client_sends_first_is_damaged_and_what_it_repeats_passes() {
    for checksum in [Checksum::Stale, Checksum::Repaired] {
        let mut scenario = shared(LinkConfig::default(), LinkConfig::default());
        scenario.damage = Some(Damage { pattern: Pattern::Share(Probability::ALWAYS), checksum });
        let mut switch = switch(&scenario);
        let sent = packet(TCP, A, S, 1000);
        for _ in 0..2 {
            switch.enter(START, 0, &sent, &mut Kept::default());
        }
        let back = packet(TCP, S, A, 1000);
        switch.enter(START, 2, &back, &mut Kept::default());
        let (kept, _) = drain(&mut switch);
        let arrived = |interface| kept.iter().filter(move |(at, _)| *at == interface).map(|(_, bytes)| bytes);
        let up: Vec<_> = arrived(2).collect();
        assert_eq!((up.len(), *up[0] == sent, *up[1] == sent), (2, false, true));
        assert_eq!(is_sound(up[0]), checksum == Checksum::Repaired);
        assert_eq!(arrived(0).collect::<Vec<_>>(), [&back]);
    }
}

#[test]
fn a_link_that_drops_udp_lets_tcp_pass_until_it_drops_nothing() {
    let blocked = LinkConfig::default().with_drops(Drops::Udp);
    let mut switch = switch(&shared(blocked, LinkConfig::default()));
    let send = |switch: &mut Switch| {
        for protocol in [TCP, UDP] {
            switch.enter(START, 0, &packet(protocol, A, S, 10), &mut Kept::default());
        }
        drain(switch).0
    };
    assert_eq!(send(&mut switch), [(2, packet(TCP, A, S, 10))]);
    let up = switch.snapshot(START).links[0].up;
    assert_eq!((up.offered.packets, up.filtered.packets, up.delivered.packets), (2, 1, 1));
    let setting = Setting::Drops(Drops::Nothing);
    switch.apply(START, &Change::Set { link: 0, direction: Direction::Up, setting }).unwrap();
    assert_eq!(send(&mut switch).len(), 2);
}
