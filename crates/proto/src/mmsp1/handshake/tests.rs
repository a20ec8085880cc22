use proptest::prelude::*;

use super::*;
use crate::LocalAddress;
use crate::mmsp1::table;

const START: Instant = Instant::from_nanos(5_000_000_000);
const STATES: [HandshakeState; 4] = [
    HandshakeState::Closed,
    HandshakeState::SynSent,
    HandshakeState::InfoPinged,
    HandshakeState::Established,
];
const EVENTS: [HandshakeEvent; 16] = [
    HandshakeEvent::Connect,
    HandshakeEvent::Syn,
    HandshakeEvent::ValidPing,
    HandshakeEvent::StalePing,
    HandshakeEvent::ForgedPing,
    HandshakeEvent::SynAck,
    HandshakeEvent::BadSynAck,
    HandshakeEvent::PeerSynSmaller,
    HandshakeEvent::PeerSynLarger,
    HandshakeEvent::Pong,
    HandshakeEvent::Data,
    HandshakeEvent::Timer,
    HandshakeEvent::LastTimer,
    HandshakeEvent::Rst,
    HandshakeEvent::LastRst,
    HandshakeEvent::Close,
];

fn after(millis: u64) -> Instant {
    START + Duration::from_millis(millis)
}

fn pair(local: u8, remote: u8) -> FourTuple {
    let local =
        LocalAddress { interface: local.into(), address: SocketAddr::from(([10, 0, local, 1], 1000)) };
    FourTuple::udp(local, SocketAddr::from(([10, 0, remote, 2], 5001)))
}

fn client(places: &[FourTuple]) -> Handshake {
    Handshake::client(START, places.to_vec())
}

/// Everything that is due up to `end`, with its time in ms.
fn sent_until(handshake: &mut Handshake, end: Instant) -> (Vec<(u64, FourTuple, HandshakePacket)>, Moved) {
    let mut sent = Vec::new();
    while let Some(now) = handshake.deadline().filter(|at| *at <= end) {
        let moved = handshake.on_timeout(now);
        if moved != Moved::No {
            return (sent, moved);
        }
        let Some((tuple, packet)) = handshake.take_due(now) else { panic!("a deadline with nothing to do") };
        sent.push((u64::try_from((now - START).as_millis()).unwrap(), tuple, packet));
    }
    (sent, Moved::No)
}

#[test]
fn the_machine_is_its_table() {
    table::check(HandshakeState::Closed, &STATES, &EVENTS, &TABLE);
    for from in STATES {
        for event in EVENTS {
            let mut handshake = client(&[pair(0, 0)]);
            handshake.state = from;
            let moved = handshake.step(START, event);
            let row = find(&TABLE, from, event);
            assert_eq!(handshake.state, row.map_or(from, |row| row.to), "{from:?} {event:?}");
            let is_over = handshake.state == HandshakeState::Closed && from != HandshakeState::Closed;
            assert_eq!(matches!(moved, Moved::Ended(_)), is_over, "{from:?} {event:?}");
            let is_established =
                handshake.state == HandshakeState::Established && from != HandshakeState::Established;
            assert_eq!(moved == Moved::Established, is_established, "{from:?} {event:?}");
            if is_over || is_established {
                assert_eq!(handshake.deadline(), None, "{from:?} {event:?}: no timer is left");
            }
        }
    }
}

#[test]
fn the_usual_handshake_takes_one_syn_and_one_ping() {
    let mut handshake = client(&[pair(0, 0)]);
    assert_eq!(handshake.take_due(START), Some((pair(0, 0), HandshakePacket::Syn)));
    assert_eq!(handshake.take_due(START), None);
    assert_eq!(handshake.on_syn_ack(after(100), pair(0, 0), b"info", &[]), Moved::No);
    assert_eq!((handshake.rtt(), handshake.info()), (Some(Duration::from_millis(100)), &b"info"[..]));
    assert_eq!(handshake.take_due(after(100)), Some((pair(0, 0), HandshakePacket::Ping)));
    assert_eq!(handshake.deadline(), Some(after(100 + 3 * 100 + 20)), "one PTO of the first sample");
    assert_eq!(handshake.on(after(200), HandshakeEvent::Pong), Moved::Established);
    assert_eq!((handshake.deadline(), handshake.take_due(after(900))), (None, None));
    assert_eq!(Handshake::server(START).state(), HandshakeState::Established);
}

// spec 3.77, 3.111
#[test]
fn six_packets_go_to_all_addresses_in_turn() {
    let places = [pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1)];
    let mut handshake = client(&places);
    let (sent, moved) = sent_until(&mut handshake, after(100_000));
    let times: Vec<u64> = sent.iter().map(|(at, ..)| *at).collect();
    assert_eq!(times, [0, 1000, 3000, 7000, 15_000, 31_000]);
    let tuples: Vec<FourTuple> = sent.iter().map(|(_, tuple, _)| *tuple).collect();
    assert_eq!(tuples, [places, places].concat()[..6]);
    assert!(sent.iter().all(|(.., packet)| *packet == HandshakePacket::Syn));
    assert_eq!(moved, Moved::Ended(HandshakeEnd::NoAnswer));
}

// spec 3.111
#[test]
fn ping_goes_from_the_address_at_which_syn_ack_came() {
    let mut handshake = client(&[pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1)]);
    let _ = sent_until(&mut handshake, after(1000));
    let named = [pair(1, 1).remote.ip(), "fd00::7".parse().unwrap()];
    assert_eq!(handshake.on_syn_ack(after(1100), pair(1, 0), b"info", &named), Moved::No);
    assert_eq!(handshake.rtt(), None, "two SYNs went: the answer may belong to either");
    let (sent, moved) = sent_until(&mut handshake, after(100_000));
    let tuples: Vec<FourTuple> = sent.iter().map(|(_, tuple, _)| *tuple).collect();
    assert_eq!(tuples, [pair(1, 0), pair(1, 1)].repeat(3));
    assert!(sent.iter().all(|(.., packet)| *packet == HandshakePacket::Ping));
    assert_eq!(moved, Moved::Ended(HandshakeEnd::NoAnswer));
}

// spec 3.105, 3.56
#[test]
fn a_newer_info_of_the_same_server_goes_into_ping_at_once() {
    let mut handshake = client(&[pair(0, 0)]);
    let _ = handshake.take_due(START);
    handshake.on_syn_ack(after(10), pair(0, 0), b"old", &[]);
    assert_eq!(handshake.take_due(after(10)), Some((pair(0, 0), HandshakePacket::Ping)));
    handshake.on_syn_ack(after(11), pair(0, 0), b"old", &[]);
    assert_eq!(handshake.take_due(after(11)), None, "the same INFO again is a copy of the packet");
    let mut pings = 1;
    for number in 0_u8..20 {
        handshake.on_syn_ack(after(12), pair(0, 0), &[number], &[]);
        assert_eq!(handshake.info(), [number]);
        pings += u32::from(handshake.take_due(after(12)).is_some());
    }
    assert_eq!(pings, crate::repeat::MAX_TRIES, "a server cannot cause more than six PINGs");
}

// spec 3.58
#[test]
fn data_completes_the_handshake_when_pong_is_lost() {
    let mut handshake = client(&[pair(0, 0)]);
    assert_eq!(handshake.on(START, HandshakeEvent::Data), Moved::No, "data before SYN-ACK belong to nothing");
    handshake.on_syn_ack(after(10), pair(0, 0), b"info", &[]);
    assert_eq!(handshake.on(after(20), HandshakeEvent::Data), Moved::Established);
    assert_eq!(handshake.on(after(20), HandshakeEvent::Pong), Moved::No);
}

// spec 3.5a
#[test]
fn simultaneous_open_yields_one_connection() {
    let mut smaller = client(&[pair(0, 0)]);
    assert_eq!(smaller.on(after(1), HandshakeEvent::PeerSynLarger), Moved::No);
    assert!(smaller.take_due(after(1)).is_some(), "a forged SYN ends no attempt");
    assert_eq!(smaller.on(after(2), HandshakeEvent::ValidPing), Moved::Established);
    assert_eq!(smaller.on_syn_ack(after(3), pair(0, 0), b"late", &[]), Moved::No);
    assert_eq!(smaller.state(), HandshakeState::Established);
    let mut larger = client(&[pair(0, 0)]);
    assert_eq!(larger.on(after(1), HandshakeEvent::PeerSynSmaller), Moved::No);
    assert_eq!(larger.state(), HandshakeState::SynSent);
}

// spec 3.5c
#[test]
fn rst_ends_the_attempt_over_one_address() {
    let (first, second) = (pair(0, 0), pair(0, 1));
    let mut handshake = client(&[first, second]);
    assert_eq!(handshake.take_due(START), Some((first, HandshakePacket::Syn)));
    assert_eq!(handshake.on_rst(after(1), first.remote), Moved::No);
    assert_eq!(handshake.take_due(after(1)), Some((second, HandshakePacket::Syn)));
    handshake.on_syn_ack(after(2), second, b"info", &[]);
    assert_eq!(handshake.on_rst(after(3), first.remote), Moved::No);
    assert_eq!(handshake.state(), HandshakeState::InfoPinged, "another address refused");
    assert_eq!(handshake.on_rst(after(4), second.remote), Moved::Ended(HandshakeEnd::Refused));
}

#[test]
fn closing_tells_a_server_that_may_have_a_connection() {
    let mut early = client(&[pair(0, 0)]);
    assert_eq!(early.on(START, HandshakeEvent::Close), Moved::Ended(HandshakeEnd::Closed));
    assert_eq!(early.take_due(START), None);
    let mut late = client(&[pair(0, 0)]);
    late.on_syn_ack(after(1), pair(0, 0), b"info", &[]);
    assert_eq!(late.on(after(2), HandshakeEvent::Close), Moved::Ended(HandshakeEnd::Closed));
    assert_eq!(late.take_due(after(2)), Some((pair(0, 0), HandshakePacket::Rst)));
    assert_eq!(late.take_due(after(2)), None);
}

#[test]
fn after_sleep_the_six_packets_begin_anew() {
    let mut handshake = client(&[pair(0, 0)]);
    let _ = sent_until(&mut handshake, after(31_000));
    handshake.on_wake(after(500_000));
    let (sent, _) = sent_until(&mut handshake, after(501_000));
    assert_eq!(sent.len(), 2);
}

proptest! {
    #[test]
    fn any_events_leave_deadlines_with_something_to_do(
        events in prop::collection::vec((0_usize..18, 0_u64..3000, 0_u8..2), 0..60),
    ) {
        let mut handshake = client(&[pair(0, 0), pair(0, 1), pair(1, 0)]);
        let mut now = START;
        for (event, wait, place) in events {
            now += Duration::from_millis(wait);
            handshake.on_timeout(now);
            let _ = handshake.take_due(now);
            prop_assert_eq!(handshake.take_due(now), None);
            if let Some(deadline) = handshake.deadline() {
                prop_assert!(deadline > now, "a deadline in the past would keep the driver busy");
            }
            match EVENTS.get(event) {
                Some(HandshakeEvent::SynAck) => handshake.on_syn_ack(now, pair(0, place), &[place], &[]),
                Some(HandshakeEvent::Rst | HandshakeEvent::LastRst) | None => handshake.on_rst(now, pair(0, place).remote),
                Some(HandshakeEvent::Timer | HandshakeEvent::LastTimer) => handshake.on_timeout(now),
                Some(event) => handshake.on(now, *event),
            };
        }
    }
}
