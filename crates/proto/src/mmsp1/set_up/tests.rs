use proptest::prelude::*;

use super::*;
use crate::LocalAddress;
use crate::mmsp1::table;

const START: Instant = Instant::from_nanos(5_000_000_000);
const STATES: [SetUpState; 4] =
    [SetUpState::Closed, SetUpState::SynSent, SetUpState::InfoPinged, SetUpState::Established];
const EVENTS: [SetUpEvent; 16] = [
    SetUpEvent::Connect,
    SetUpEvent::Syn,
    SetUpEvent::ValidPing,
    SetUpEvent::StalePing,
    SetUpEvent::ForgedPing,
    SetUpEvent::SynAck,
    SetUpEvent::BadSynAck,
    SetUpEvent::PeerSynSmaller,
    SetUpEvent::PeerSynLarger,
    SetUpEvent::Pong,
    SetUpEvent::Data,
    SetUpEvent::Timer,
    SetUpEvent::LastTimer,
    SetUpEvent::Rst,
    SetUpEvent::LastRst,
    SetUpEvent::Close,
];

fn after(millis: u64) -> Instant {
    START + Duration::from_millis(millis)
}

fn pair(local: u8, remote: u8) -> FourTuple {
    let local =
        LocalAddress { interface: local.into(), address: SocketAddr::from(([10, 0, local, 1], 1000)) };
    FourTuple::udp(local, SocketAddr::from(([10, 0, remote, 2], 5001)))
}

fn client(places: &[FourTuple]) -> SetUp {
    SetUp::client(START, places.to_vec())
}

/// Everything that is due up to `end`, with its time in ms.
fn sent_until(set_up: &mut SetUp, end: Instant) -> (Vec<(u64, FourTuple, Say)>, Moved) {
    let mut sent = Vec::new();
    while let Some(now) = set_up.deadline().filter(|at| *at <= end) {
        let moved = set_up.on_timeout(now);
        if moved != Moved::No {
            return (sent, moved);
        }
        let Some((tuple, say)) = set_up.take_due(now) else { panic!("a deadline with nothing to do") };
        sent.push((u64::try_from((now - START).as_millis()).unwrap(), tuple, say));
    }
    (sent, Moved::No)
}

#[test]
fn the_machine_is_its_table() {
    table::check(SetUpState::Closed, &STATES, &EVENTS, &TABLE);
    for from in STATES {
        for event in EVENTS {
            let mut set_up = client(&[pair(0, 0)]);
            set_up.state = from;
            let moved = set_up.step(START, event);
            let row = find(&TABLE, from, event);
            assert_eq!(set_up.state, row.map_or(from, |row| row.to), "{from:?} {event:?}");
            let is_over = set_up.state == SetUpState::Closed && from != SetUpState::Closed;
            assert_eq!(matches!(moved, Moved::Ended(_)), is_over, "{from:?} {event:?}");
            let is_established = set_up.state == SetUpState::Established && from != SetUpState::Established;
            assert_eq!(moved == Moved::Established, is_established, "{from:?} {event:?}");
            if is_over || is_established {
                assert_eq!(set_up.deadline(), None, "{from:?} {event:?}: no timer is left");
            }
        }
    }
}

#[test]
fn the_usual_set_up_takes_one_syn_and_one_ping() {
    let mut set_up = client(&[pair(0, 0)]);
    assert_eq!(set_up.take_due(START), Some((pair(0, 0), Say::Syn)));
    assert_eq!(set_up.take_due(START), None);
    assert_eq!(set_up.on_syn_ack(after(100), pair(0, 0), b"info"), Moved::No);
    assert_eq!((set_up.rtt(), set_up.info()), (Some(Duration::from_millis(100)), &b"info"[..]));
    assert_eq!(set_up.take_due(after(100)), Some((pair(0, 0), Say::Ping)));
    assert_eq!(set_up.deadline(), Some(after(100 + 3 * 100 + 20)), "one PTO of the first sample");
    assert_eq!(set_up.on(after(200), SetUpEvent::Pong), Moved::Established);
    assert_eq!((set_up.deadline(), set_up.take_due(after(900))), (None, None));
    assert_eq!(SetUp::server(START).state(), SetUpState::Established);
}

// spec 3.77
#[test]
fn six_packets_go_to_all_addresses_in_turn() {
    let places = [pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1)];
    let mut set_up = client(&places);
    let (sent, moved) = sent_until(&mut set_up, after(100_000));
    let times: Vec<u64> = sent.iter().map(|(at, ..)| *at).collect();
    assert_eq!(times, [0, 1000, 3000, 7000, 15_000, 31_000]);
    let tuples: Vec<FourTuple> = sent.iter().map(|(_, tuple, _)| *tuple).collect();
    assert_eq!(tuples, [places, places].concat()[..6]);
    assert!(sent.iter().all(|(.., say)| *say == Say::Syn));
    assert_eq!(moved, Moved::Ended(SetUpEnd::NoAnswer));
}

// spec 3.54
#[test]
fn ping_goes_from_the_address_at_which_syn_ack_came() {
    let mut set_up = client(&[pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1)]);
    let _ = sent_until(&mut set_up, after(1000));
    assert_eq!(set_up.on_syn_ack(after(1100), pair(1, 0), b"info"), Moved::No);
    assert_eq!(set_up.rtt(), None, "two SYNs went: nobody knows which one was answered");
    let (sent, moved) = sent_until(&mut set_up, after(100_000));
    let tuples: Vec<FourTuple> = sent.iter().map(|(_, tuple, _)| *tuple).collect();
    assert_eq!(tuples, [pair(1, 0), pair(1, 1)].repeat(3));
    assert!(sent.iter().all(|(.., say)| *say == Say::Ping));
    assert_eq!(moved, Moved::Ended(SetUpEnd::NoAnswer));
}

// spec 3.54, 3.56
#[test]
fn a_newer_info_of_the_same_server_goes_into_ping_at_once() {
    let mut set_up = client(&[pair(0, 0)]);
    let _ = set_up.take_due(START);
    set_up.on_syn_ack(after(10), pair(0, 0), b"old");
    assert_eq!(set_up.take_due(after(10)), Some((pair(0, 0), Say::Ping)));
    set_up.on_syn_ack(after(11), pair(0, 0), b"old");
    assert_eq!(set_up.take_due(after(11)), None, "the same INFO again is a copy of the packet");
    let mut pings = 1;
    for number in 0_u8..20 {
        set_up.on_syn_ack(after(12), pair(0, 0), &[number]);
        assert_eq!(set_up.info(), [number]);
        pings += u32::from(set_up.take_due(after(12)).is_some());
    }
    assert_eq!(pings, crate::repeat::MAX_TRIES, "a server cannot cause more than six PINGs");
}

// spec 3.58
#[test]
fn data_completes_the_set_up_when_pong_is_lost() {
    let mut set_up = client(&[pair(0, 0)]);
    assert_eq!(set_up.on(START, SetUpEvent::Data), Moved::No, "data before SYN-ACK belong to nothing");
    set_up.on_syn_ack(after(10), pair(0, 0), b"info");
    assert_eq!(set_up.on(after(20), SetUpEvent::Data), Moved::Established);
    assert_eq!(set_up.on(after(20), SetUpEvent::Pong), Moved::No);
}

// spec 3.5a
#[test]
fn of_two_attempts_at_once_one_connection_comes_out() {
    let mut smaller = client(&[pair(0, 0)]);
    assert_eq!(smaller.on(after(1), SetUpEvent::PeerSynLarger), Moved::No);
    assert!(smaller.take_due(after(1)).is_some(), "a forged SYN ends no attempt");
    assert_eq!(smaller.on(after(2), SetUpEvent::ValidPing), Moved::Established);
    assert_eq!(smaller.on_syn_ack(after(3), pair(0, 0), b"late"), Moved::No);
    assert_eq!(smaller.state(), SetUpState::Established);
    let mut larger = client(&[pair(0, 0)]);
    assert_eq!(larger.on(after(1), SetUpEvent::PeerSynSmaller), Moved::No);
    assert_eq!(larger.state(), SetUpState::SynSent);
}

// spec 3.5c
#[test]
fn rst_ends_the_attempt_over_one_address() {
    let (first, second) = (pair(0, 0), pair(0, 1));
    let mut set_up = client(&[first, second]);
    assert_eq!(set_up.take_due(START), Some((first, Say::Syn)));
    assert_eq!(set_up.on_rst(after(1), first.remote), Moved::No);
    assert_eq!(set_up.take_due(after(1)), Some((second, Say::Syn)));
    set_up.on_syn_ack(after(2), second, b"info");
    assert_eq!(set_up.on_rst(after(3), first.remote), Moved::No);
    assert_eq!(set_up.state(), SetUpState::InfoPinged, "another address refused");
    assert_eq!(set_up.on_rst(after(4), second.remote), Moved::Ended(SetUpEnd::Refused));
}

#[test]
fn closing_tells_a_server_that_may_have_a_connection() {
    let mut early = client(&[pair(0, 0)]);
    assert_eq!(early.on(START, SetUpEvent::Close), Moved::Ended(SetUpEnd::Closed));
    assert_eq!(early.take_due(START), None);
    let mut late = client(&[pair(0, 0)]);
    late.on_syn_ack(after(1), pair(0, 0), b"info");
    assert_eq!(late.on(after(2), SetUpEvent::Close), Moved::Ended(SetUpEnd::Closed));
    assert_eq!(late.take_due(after(2)), Some((pair(0, 0), Say::Rst)));
    assert_eq!(late.take_due(after(2)), None);
}

#[test]
fn after_sleep_the_six_packets_begin_anew() {
    let mut set_up = client(&[pair(0, 0)]);
    let _ = sent_until(&mut set_up, after(31_000));
    set_up.on_wake(after(500_000));
    let (sent, _) = sent_until(&mut set_up, after(501_000));
    assert_eq!(sent.len(), 2);
}

proptest! {
    #[test]
    fn any_events_leave_deadlines_with_something_to_do(
        events in prop::collection::vec((0_usize..18, 0_u64..3000, 0_u8..2), 0..60),
    ) {
        let mut set_up = client(&[pair(0, 0), pair(0, 1), pair(1, 0)]);
        let mut now = START;
        for (event, wait, place) in events {
            now += Duration::from_millis(wait);
            set_up.on_timeout(now);
            let _ = set_up.take_due(now);
            prop_assert_eq!(set_up.take_due(now), None);
            if let Some(deadline) = set_up.deadline() {
                prop_assert!(deadline > now, "a deadline in the past would keep the driver busy");
            }
            match EVENTS.get(event) {
                Some(SetUpEvent::SynAck) => set_up.on_syn_ack(now, pair(0, place), &[place]),
                Some(SetUpEvent::Rst | SetUpEvent::LastRst) | None => set_up.on_rst(now, pair(0, place).remote),
                Some(SetUpEvent::Timer | SetUpEvent::LastTimer) => set_up.on_timeout(now),
                Some(event) => set_up.on(now, *event),
            };
        }
    }
}
