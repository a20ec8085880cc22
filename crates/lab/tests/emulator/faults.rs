//! Damage, size limits, outages, NATs and marks, as the receiving program sees them.

use std::io::IoSliceMut;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};

use manyway_lab::scenario::{Change, Checksum, Direction, Scenario, Side};
use manyway_sim::link::{LinkConfig, Probability, QueueConfig, Reaction};
use manyway_sim::nat::NatConfig;
use manyway_sim::nightly::is_nightly;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::common::{Bench, MS, mbit, open, passes, send_numbered, single};

#[test]
fn a_stale_checksum_makes_the_system_drop_damaged_packets() {
    const COUNT: u64 = 3_000;
    let Some(bench) = Bench::shared(&damaging(Checksum::Stale)) else { return };
    let (near, far) = bench.pair(0);
    let arrived = send_numbered((&near, &far), COUNT, 300, 600 * MS, 200 * MS);
    let damaged = bench.emulator.finish().unwrap().totals.links[0].up.corrupted.packets;
    assert!((500..700).contains(&damaged), "{damaged}");
    assert_eq!(arrived.len() as u64, COUNT - damaged);
    assert!(arrived.iter().all(|arrived| arrived.flipped == 0));
}

#[test]
fn a_repaired_checksum_lets_the_damage_through() {
    const COUNT: u64 = 3_000;
    for family in [Family::V4, Family::V6] {
        let scenario = with_family(damaging(Checksum::Repaired), family);
        let Some(bench) = Bench::shared(&scenario) else { return };
        let (near, far) = bench.pair(0);
        let arrived = send_numbered((&near, &far), COUNT, 400, 600 * MS, 200 * MS);
        let damaged = bench.emulator.finish().unwrap().totals.links[0].up.corrupted.packets;
        assert_eq!(arrived.len() as u64, COUNT);
        // Of 400 bytes 16 are number and send time, in which damage is not counted.
        let seen = arrived.iter().filter(|arrived| arrived.flipped == 1).count() as u64;
        assert!(seen <= damaged && seen > damaged * 85 / 100, "{seen} of {damaged}");
        assert!(arrived.iter().all(|arrived| arrived.flipped <= 1));
    }
}

fn damaging(checksum: Checksum) -> Scenario {
    let mut scenario = single(&open(MS).with_corruption(Probability::from_percent(20.0)));
    scenario.links[0].checksum = checksum;
    scenario
}

#[test]
fn a_link_takes_packets_up_to_its_mtu() {
    for (family, header) in [(Family::V4, 28), (Family::V6, 48)] {
        let Some(bench) = Bench::shared(&with_family(single(&open(MS).with_mtu(1_300)), family)) else {
            return;
        };
        let (near, far) = bench.pair(0);
        for (size, expected) in [(1_300 - header, 1), (1_301 - header, 0)] {
            let arrived = send_numbered((&near, &far), 1, size, MS, 150 * MS);
            assert_eq!(arrived.len(), expected, "{size} bytes");
        }
        assert_eq!(bench.emulator.finish().unwrap().totals.links[0].up.too_large.packets, 1);
    }
}

#[test]
fn an_outage_of_one_direction_leaves_the_other() {
    let Some(bench) = Bench::shared(&single(&open(MS))) else { return };
    let (near, far) = bench.pair(0);
    let control = bench.emulator.control();
    assert!(passes(&near, &far) && passes(&far, &near));
    control.apply(&Change::Cut { link: 0, direction: Direction::Up }).unwrap();
    assert!(!passes(&near, &far) && passes(&far, &near));
    control.apply(&Change::Cut { link: 0, direction: Direction::Down }).unwrap();
    assert!(!passes(&near, &far) && !passes(&far, &near));
    control.apply(&Change::Restore { link: 0, direction: Direction::Both }).unwrap();
    assert!(passes(&near, &far) && passes(&far, &near));
    let link = &control.snapshot().unwrap().links[0];
    assert_eq!((link.up.outage.packets, link.down.outage.packets), (2, 1));
    assert!(control.apply(&Change::Cut { link: 1, direction: Direction::Up }).is_err());
}

#[test]
fn a_nat_hides_the_host_times_out_and_rebinds() {
    let mut scenario = single(&open(MS));
    let outer = "192.0.2.77".parse().unwrap();
    let timeout = 600 * MS;
    scenario.client[0].nat = Some(NatConfig::new(outer).with_timeout(timeout));
    let Some(bench) = Bench::shared(&scenario) else { return };
    let (near, far) = (bench.socket(Side::Client, 0), bench.socket(Side::Server, 0));
    near.connect(far.local_addr().unwrap()).unwrap();
    let first = seen_from(&near, &far);
    assert_eq!(first.ip(), outer);
    assert_eq!(seen_from(&near, &far), first);
    assert!(answers(&far, first, &near));
    // Longer than the timeout without a packet from inside.
    std::thread::sleep(timeout + 100 * MS);
    assert!(!answers(&far, first, &near));
    let second = seen_from(&near, &far);
    assert_ne!(second, first);
    assert!(answers(&far, second, &near));

    let rebind = Change::Rebind { side: Side::Client, interface: 0 };
    bench.emulator.control().apply(&rebind).unwrap();
    assert!(!answers(&far, second, &near));
    let third = seen_from(&near, &far);
    assert!(third.ip() == outer && third != second);
    assert!(answers(&far, third, &near));
    assert_eq!(bench.emulator.finish().unwrap().totals.interfaces[0].untranslated.packets, 2);
}

/// The source of a datagram from the client, as the server sees it.
fn seen_from(near: &UdpSocket, far: &UdpSocket) -> SocketAddr {
    far.set_read_timeout(Some(1_000 * MS)).unwrap();
    near.send(b"who am I").unwrap();
    far.recv_from(&mut [0; 100]).unwrap().1
}

/// Whether a datagram from the server to this address reaches the client.
fn answers(far: &UdpSocket, to: SocketAddr, near: &UdpSocket) -> bool {
    near.set_read_timeout(Some(150 * MS)).unwrap();
    far.send_to(b"you are", to).unwrap();
    near.recv(&mut [0; 100]).is_ok()
}

#[test]
fn a_queue_marks_ecn_capable_packets_and_drops_the_rest() {
    let config = LinkConfig::new(mbit(10), 2 * MS).with_queue(QueueConfig::codel(Reaction::Mark));
    for (family, mark) in [
        (Family::V4, Some(EcnCodepoint::Ect0)),
        (Family::V6, None),
        (Family::V6, Some(EcnCodepoint::Ect0)),
        (Family::V4, None),
    ]
    .into_iter()
    // Of four combinations CI runs two with each family and each mark.
    .take(if is_nightly() { 4 } else { 2 })
    {
        let Some(bench) = Bench::shared(&with_family(single(&config), family)) else { return };
        let (near, far) = bench.pair(0);
        let marks = flood_marked(&near, &far, mark);
        let seen = marks.iter().filter(|mark| **mark == Some(EcnCodepoint::Ce)).count();
        assert!(marks.iter().all(|arrived| *arrived == mark || *arrived == Some(EcnCodepoint::Ce)));
        let up = bench.emulator.finish().unwrap().totals.links[0].up;
        assert_eq!(up.marked.packets, seen as u64);
        assert_eq!((seen > 0, up.queue_law.packets > 0), (mark.is_some(), mark.is_none()), "{up:?}");
    }
}

/// Sends faster than the link for a while; returns the marks of what arrives.
fn flood_marked(near: &UdpSocket, far: &UdpSocket, ecn: Option<EcnCodepoint>) -> Vec<Option<EcnCodepoint>> {
    let (near_ref, far_ref) = (UdpSockRef::from(near), UdpSockRef::from(far));
    let sender = UdpSocketState::new(near_ref).unwrap();
    let receiver = UdpSocketState::new(far_ref).unwrap();
    let contents = [0; 1_400];
    let destination = far.local_addr().unwrap();
    let transmit = Transmit { destination, ecn, contents: &contents, segment_size: None, src_ip: None };
    let mut marks = Vec::new();
    for _ in 0..600 {
        for _ in 0..2 {
            sender.try_send(UdpSockRef::from(near), &transmit).unwrap();
        }
        std::thread::sleep(MS);
        take_marks(&receiver, far, &mut marks);
    }
    std::thread::sleep(MS * 1_100);
    take_marks(&receiver, far, &mut marks);
    marks
}

fn take_marks(receiver: &UdpSocketState, far: &UdpSocket, marks: &mut Vec<Option<EcnCodepoint>>) {
    let mut buffer = vec![0; 1 << 16];
    let mut meta = [RecvMeta::default()];
    while let Ok(1) = receiver.recv(UdpSockRef::from(far), &mut [IoSliceMut::new(&mut buffer)], &mut meta) {
        marks.extend(std::iter::repeat_n(meta[0].ecn, meta[0].len.div_ceil(meta[0].stride)));
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Family {
    V4,
    V6,
}

/// The scenario with addresses of one family.
fn with_family(mut scenario: Scenario, family: Family) -> Scenario {
    if family == Family::V6 {
        let place = |side: u16, number: usize| {
            vec![Ipv6Addr::new(0xfd00, side, u16::try_from(number).unwrap(), 0, 0, 0, 0, 1).into()]
        };
        for (number, interface) in scenario.client.iter_mut().enumerate() {
            interface.addresses = place(0x77, number);
        }
        for (number, interface) in scenario.server.iter_mut().enumerate() {
            interface.addresses = place(0x78, number);
        }
    }
    scenario
}
