//! The end of a connection: orderly, immediate, from both ends, over bad links, and by timeout.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ClosedBy, ConnectionConfig, ConnectionError, Event, KeyLimits, SendRefusal};
use manyway_sim::link::{LinkConfig, LossModel, Probability};
use manyway_sim::pair::Direction;
use manyway_sim::rule::{Action, Matching};
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected, connected_with, mbit, megabytes};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Pattern, Side};

const BOTH: [Side; 2] = [Side::Client, Side::Server];

fn one_path() -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS)
}

fn close(pair: &mut EndpointPair, side: Side, code: u64) {
    let now = pair.now();
    pair.peer(side).unwrap().connection().unwrap().close(now, code, "done");
}

fn ended(pair: &mut EndpointPair, side: Side) -> Option<ConnectionError> {
    pair.peer(side).and_then(|peer| manyway_sim::Peer::ended(peer).cloned())
}

fn closed(by: ClosedBy, code: u64) -> ConnectionError {
    ConnectionError::Closed { by, code, reason: "done".to_owned() }
}

/// No connection is left at either end, at most this long after the close.
fn is_forgotten(pair: &mut EndpointPair, within: Duration) {
    pair.run_for(within).unwrap();
    for side in BOTH {
        assert_eq!(pair.peer(side).unwrap().endpoint().connections(), 0, "{side:?}");
    }
}

#[test]
fn a_close_tells_both_ends_the_closer_and_the_reason() {
    for side in BOTH {
        let mut pair = connected(one_path()).unwrap();
        close(&mut pair, side, 7);
        pair.run_for(100 * MS).unwrap();
        assert_eq!(ended(&mut pair, side), Some(closed(ClosedBy::Us, 7)));
        assert_eq!(ended(&mut pair, side.other()), Some(closed(ClosedBy::Peer, 7)));
        is_forgotten(&mut pair, SECOND);
    }
}

#[test]
fn no_path_event_follows_the_end() {
    let mut pair = connected(one_path()).unwrap();
    let tuple = pair.peer(Side::Client).unwrap().connection().unwrap().statistics().paths[0].tuple;
    let now = pair.now();
    pair.peer(Side::Client).unwrap().connection().unwrap().abort(now, 7, "done");
    let client = pair.peer(Side::Client).unwrap();
    client.endpoint().on_send_refused(now, tuple, SendRefusal::Unreachable);
    pair.run_for(100 * MS).unwrap();
    let events = pair.peer(Side::Client).unwrap().events();
    assert!(matches!(events.last(), Some((_, Event::Closed(_)))), "{:?}", events.last());
}

#[test]
fn both_ends_can_close_at_once() {
    let mut pair = connected(one_path()).unwrap();
    close(&mut pair, Side::Client, 1);
    close(&mut pair, Side::Server, 2);
    pair.run_for(100 * MS).unwrap();
    for side in BOTH {
        assert!(matches!(ended(&mut pair, side), Some(ConnectionError::Closed { .. })));
    }
    is_forgotten(&mut pair, 2 * SECOND);
}

#[test]
fn each_step_of_the_close_can_be_lost() {
    for lossy in BOTH {
        for closing in BOTH {
            for first in 0..3 {
                let mut pair = connected(one_path()).unwrap();
                pair.run_for(500 * MS).unwrap();
                let matching = Matching::all().from(pair.host(lossy)).index(first..=first);
                pair.world_mut().network_mut().add_rule(matching, Action::Drop);
                close(&mut pair, closing, 7);
                pair.run_for(2 * SECOND).unwrap();
                assert_eq!(ended(&mut pair, closing), Some(closed(ClosedBy::Us, 7)), "{lossy:?} {first}");
                assert_eq!(
                    ended(&mut pair, closing.other()),
                    Some(closed(ClosedBy::Peer, 7)),
                    "{lossy:?} {first}"
                );
                is_forgotten(&mut pair, 10 * SECOND);
            }
        }
    }
}

#[test]
fn a_close_over_a_lossy_link_ends_both_sides() {
    let bad = LinkConfig::new(mbit(5), 30 * MS).with_loss(LossModel::Random(Probability::from_percent(20.0)));
    for seed in 0..50 {
        let mut pair = connected(PairBuilder::new().seed(seed).path_with(bad.clone(), bad.clone())).unwrap();
        close(&mut pair, Side::Client, 7);
        if seed % 2 == 0 {
            close(&mut pair, Side::Server, 8);
        }
        pair.run_for(20 * SECOND).unwrap();
        for side in BOTH {
            let end = ended(&mut pair, side);
            assert!(matches!(end, Some(ConnectionError::Closed { .. })), "seed {seed} {side:?} {end:?}");
        }
        is_forgotten(&mut pair, 20 * SECOND);
    }
}

#[test]
fn a_close_delivers_everything_that_was_written_before() {
    for side in BOTH {
        let mut pair = connected(one_path()).unwrap();
        let host = pair.host(side);
        pair.start(side, Box::new(Exchange::new(host, megabytes(1))));
        // All of it is written now, and almost nothing sent.
        pair.run_for(Duration::from_nanos(1)).unwrap();
        close(&mut pair, side, 7);
        pair.run_for(2 * SECOND).unwrap();
        assert_eq!(pair.received(side.other()).total(), megabytes(1), "{side:?}");
        assert_eq!(ended(&mut pair, side), Some(closed(ClosedBy::Us, 7)));
        assert_eq!(ended(&mut pair, side.other()), Some(closed(ClosedBy::Peer, 7)));
    }
}

#[test]
fn an_abort_ends_both_sides_at_once() {
    for side in BOTH {
        let mut pair = connected(one_path()).unwrap();
        let host = pair.host(side);
        pair.start(side, Box::new(Exchange::new(host, megabytes(5))));
        pair.run_for(300 * MS).unwrap();
        let now = pair.now();
        pair.peer(side).unwrap().connection().unwrap().abort(now, 9, "stop");
        pair.run_for(150 * MS).unwrap();
        assert!(matches!(ended(&mut pair, side), Some(ConnectionError::Closed { by: ClosedBy::Us, .. })));
        let expected = ConnectionError::AbortedByPeer { code: 0x1009, reason: "stop".to_owned() };
        assert_eq!(ended(&mut pair, side.other()), Some(expected));
        is_forgotten(&mut pair, 3 * SECOND);
    }
}

#[test]
fn a_close_uses_any_path_that_works() {
    for closing in BOTH {
        let mut pair = connected(one_path().path(mbit(20), 10 * MS)).unwrap();
        pair.run_for(500 * MS).unwrap();
        pair.cut(0, Direction::Both);
        close(&mut pair, closing, 7);
        pair.run_for(3 * SECOND).unwrap();
        assert_eq!(ended(&mut pair, closing), Some(closed(ClosedBy::Us, 7)), "{closing:?}");
        assert_eq!(ended(&mut pair, closing.other()), Some(closed(ClosedBy::Peer, 7)), "{closing:?}");
    }
}

#[test]
fn a_close_without_a_peer_ends_by_itself() {
    let mut pair = connected(one_path()).unwrap();
    pair.run_for(500 * MS).unwrap();
    pair.cut(0, Direction::Both);
    close(&mut pair, Side::Client, 7);
    pair.run_for(10 * SECOND).unwrap();
    assert_eq!(ended(&mut pair, Side::Client), Some(closed(ClosedBy::Us, 7)));
    // The server receives nothing: its idle time ends it.
    pair.run_for(30 * SECOND).unwrap();
    assert_eq!(ended(&mut pair, Side::Server), Some(ConnectionError::IdleTimeout));
}

#[test]
fn an_idle_connection_ends_after_its_time_and_a_keep_alive_prevents_it() {
    let mut config = ConnectionConfig::default();
    config.idle_timeout = 5 * SECOND;
    let mut pair = connected_with(one_path(), &config).unwrap();
    pair.run_for(4500 * MS).unwrap();
    assert_eq!(pair.ended(), None);
    pair.run_for(2 * SECOND).unwrap();
    for side in BOTH {
        assert_eq!(ended(&mut pair, side), Some(ConnectionError::IdleTimeout));
    }
    config.keep_alive = Some(2 * SECOND);
    let mut pair = connected_with(one_path().path(mbit(5), 50 * MS), &config).unwrap();
    pair.run_for(10 * MINUTE).unwrap();
    assert_eq!(pair.ended(), None);
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
}

// spec 7.43, 7.54
#[test]
fn a_receiver_in_the_middle_of_a_stream_asks_once_before_it_drops_a_silent_peer() {
    let mut config = ConnectionConfig::default();
    config.idle_timeout = 10 * SECOND;
    for (is_finished, lives_on) in [(false, true), (true, false)] {
        let mut pair = connected_with(one_path(), &config).unwrap();
        let host = pair.host(Side::Client);
        let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
        let stream = connection.open_stream().unwrap();
        let length = connection.write(stream, Pattern::new(host, stream).bytes(0, 10_000)).unwrap();
        pair.reference_mut().on_write(host, stream, length);
        if is_finished {
            pair.peer(Side::Client).unwrap().connection().unwrap().finish(stream).unwrap();
            pair.reference_mut().on_finish(host, stream);
        }
        pair.run_for(12 * SECOND).unwrap();
        assert_eq!(pair.ended().is_none(), lives_on, "finished: {is_finished}");
        pair.run_for(5 * SECOND).unwrap();
        for side in BOTH {
            assert_eq!(ended(&mut pair, side), Some(ConnectionError::IdleTimeout), "{side:?}");
        }
    }
}

#[test]
fn a_connection_with_a_keep_alive_notices_that_its_peer_is_gone() {
    let mut config = ConnectionConfig::default();
    config.idle_timeout = 5 * SECOND;
    config.keep_alive = Some(SECOND);
    config.no_path_timeout = 10 * SECOND;
    let mut pair = connected_with(one_path(), &config).unwrap();
    pair.run_for(20 * SECOND).unwrap();
    pair.cut(0, Direction::Both);
    pair.run_for(20 * SECOND).unwrap();
    for side in BOTH {
        assert_eq!(ended(&mut pair, side), Some(ConnectionError::NoPath), "{side:?}");
    }
}

#[test]
fn keys_are_updated_under_load_at_both_ends() {
    let mut config = ConnectionConfig::default();
    config.key_limits = KeyLimits::default();
    config.key_limits.update_after_packets = 1000;
    let lossy =
        LinkConfig::new(mbit(20), 20 * MS).with_loss(LossModel::Random(Probability::from_percent(1.0)));
    let builder = one_path().path_with(lossy.clone(), lossy);
    let mut pair = connected_with(builder, &config).unwrap();
    for from in BOTH {
        let host = pair.host(from);
        pair.start(from, Box::new(Exchange::new(host, megabytes(10))));
    }
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    let figures = BOTH.map(|side| pair.peer(side).unwrap().connection().unwrap().statistics());
    let updates: u64 = figures.iter().map(|figures| figures.key_updates).sum();
    assert!(updates >= 5, "{figures:?}");
    assert!(figures.iter().all(|figures| figures.packets_refused < 20), "{figures:?}");
}
