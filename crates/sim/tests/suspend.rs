//! A host is suspended, or its program is stopped, and continues in the middle of its work.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ClosedBy, ConnectionConfig, ConnectionError, PathState};
use manyway_sim::nightly::is_nightly;
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{
    MINUTE, MS, SECOND, connected, connected_with, count_in, mbit, megabytes, path_events, path_figures,
};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Pattern, Peer as _, Side, endpoint_pair, endpoint_pair_with};

fn two_paths() -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 20 * MS)
}

/// Suspends and resumes an end, and informs its machine as a driver does.
fn sleep(pair: &mut EndpointPair, side: Side, time: Duration) {
    pair.stop(side);
    pair.run_for(time).unwrap();
    wake(pair, side);
}

fn wake(pair: &mut EndpointPair, side: Side) {
    let now = pair.now();
    pair.peer(side).unwrap().connection().unwrap().on_wake(now);
    pair.resume(side);
}

#[test]
fn a_transfer_continues_within_a_second_after_either_end_was_suspended() {
    for from in [Side::Client, Side::Server] {
        for sleeper in [Side::Client, Side::Server] {
            let times = [SECOND, 3 * SECOND, 20 * SECOND];
            // By day each sender and sleeper with one of them.
            let day = (from as usize + 2 * (sleeper as usize)) % 3;
            let chosen = if is_nightly() { 0..3 } else { day..day + 1 };
            for time in times[chosen].iter().copied() {
                let case = format!("{from:?} sends, {sleeper:?} sleeps for {time:?}");
                let mut pair = connected(two_paths()).unwrap();
                let host = pair.host(from);
                pair.start(from, Box::new(Exchange::new(host, megabytes(20))));
                pair.run_for(SECOND).unwrap();
                sleep(&mut pair, sleeper, time);
                let (woke_at, before) = (pair.now(), pair.delivered(from));
                pair.run_for(SECOND).unwrap();
                let moved = pair.received(from.other()).first_bin_with_bytes_after(woke_at);
                assert!(moved.is_some_and(|at| at - woke_at < 500 * MS), "{case}: {moved:?}");
                pair.run_for(2 * SECOND).unwrap();
                let after = pair.delivered(from);
                for path in 0..2 {
                    assert!(after[path] > before[path] + megabytes(1), "{case}: {before:?} {after:?}");
                }
                pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
                assert_eq!(count_in(&mut pair, sleeper, PathState::Active), 2, "{case}");
            }
        }
    }
}

#[test]
fn the_time_of_a_suspend_is_no_round_trip() {
    for sleeper in [Side::Client, Side::Server] {
        let mut pair = connected(two_paths()).unwrap();
        let host = pair.host(sleeper);
        pair.start(sleeper, Box::new(Exchange::new(host, megabytes(20))));
        pair.run_for(2 * SECOND).unwrap();
        sleep(&mut pair, sleeper, 5 * SECOND);
        pair.run_for(300 * MS).unwrap();
        for path in path_figures(&mut pair, sleeper) {
            assert!(path.smoothed_rtt < 300 * MS, "{sleeper:?}: {path:?}");
        }
    }
}

#[test]
fn a_suspended_end_suspects_no_path_for_the_time_of_the_suspend() {
    let mut pair = connected(two_paths()).unwrap();
    let host = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(20))));
    pair.run_for(2 * SECOND).unwrap();
    let before = path_events(&mut pair, Side::Client).len();
    // Too short for the peer to declare the paths dead.
    sleep(&mut pair, Side::Client, 300 * MS);
    pair.run_for(2 * SECOND).unwrap();
    let events = path_events(&mut pair, Side::Client).split_off(before);
    assert!(events.is_empty(), "{events:?}");
}

/// Ten minutes exceed every timeout of the suspended end, but the peer has longer ones.
#[test]
fn a_suspend_of_ten_minutes_does_not_use_up_the_own_timeouts() {
    for sleeper in [Side::Client, Side::Server] {
        let mut config = ConnectionConfig::default();
        config.idle_timeout = 20 * MINUTE;
        config.no_path_timeout = 20 * MINUTE;
        let mut pair = connected_with(two_paths(), &config).unwrap();
        let host = pair.host(sleeper);
        pair.start(sleeper, Box::new(Exchange::new(host, megabytes(10))));
        pair.run_for(SECOND).unwrap();
        sleep(&mut pair, sleeper, 10 * MINUTE);
        pair.run_until(10 * SECOND, "transferred", |pair| pair.is_quiet()).unwrap();
    }
}

#[test]
fn an_idle_connection_survives_a_suspend_beyond_its_own_idle_timeout_if_the_peer_does() {
    // No path works when the suspend begins: 50 of 60 s are used up, and ten minutes follow.
    let (config, mut patient) = (ConnectionConfig::default(), ConnectionConfig::default());
    patient.no_path_timeout = 20 * MINUTE;
    for (slept_through, lives) in [(true, true), (false, false)] {
        let mut pair = endpoint_pair_with(two_paths(), &config, &patient);
        pair.connect(10 * SECOND).unwrap();
        let host = pair.host(Side::Client);
        pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(10))));
        pair.run_for(SECOND).unwrap();
        (0..2).for_each(|path| pair.cut(path, Direction::Both));
        pair.run_for(50 * SECOND).unwrap();
        if slept_through {
            pair.stop(Side::Client);
        }
        pair.run_for(10 * MINUTE).unwrap();
        (0..2).for_each(|path| pair.restore(path, Direction::Both));
        if slept_through {
            wake(&mut pair, Side::Client);
        }
        if lives {
            pair.run_until(20 * SECOND, "transferred", |pair| pair.is_quiet()).unwrap();
        } else {
            assert_eq!(pair.ended().map(|(_, error)| error), Some(ConnectionError::NoPath));
        }
    }
}

// spec 6.40
#[test]
fn a_suspended_handshake_gets_its_whole_time_again_and_continues_at_once() {
    let mut pair = endpoint_pair(two_paths(), &ConnectionConfig::default());
    (0..2).for_each(|path| pair.cut(path, Direction::Both));
    pair.begin().unwrap();
    pair.run_for(SECOND).unwrap();
    pair.stop(Side::Client);
    pair.run_for(10 * MINUTE).unwrap();
    (0..2).for_each(|path| pair.restore(path, Direction::Both));
    wake(&mut pair, Side::Client);
    pair.run_for(200 * MS).unwrap();
    assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), 2);
}

#[test]
fn data_written_before_a_close_arrives_after_a_suspend_beyond_its_time_limit() {
    let mut patient = ConnectionConfig::default();
    patient.idle_timeout = 20 * MINUTE;
    patient.no_path_timeout = 20 * MINUTE;
    let mut pair = connected_with(two_paths(), &patient).unwrap();
    let (host, now) = (pair.host(Side::Client), pair.now());
    let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
    let stream = connection.open_stream().unwrap();
    let length = connection.write(stream, Pattern::new(host, stream).bytes(0, 3_000_000)).unwrap();
    connection.finish(stream).unwrap();
    connection.close(now, 7, "done");
    pair.reference_mut().on_write(host, stream, length);
    pair.reference_mut().on_finish(host, stream);
    pair.run_for(100 * MS).unwrap();
    sleep(&mut pair, Side::Client, 5 * MINUTE);
    pair.run_for(5 * SECOND).unwrap();
    assert_eq!(pair.received(Side::Server).total(), megabytes(3));
    let error = pair.peer(Side::Client).unwrap().ended().cloned();
    let reason = "done".to_owned();
    assert_eq!(error, Some(ConnectionError::Closed { by: ClosedBy::Us, code: 7, reason }));
}

/// The peer gave up meanwhile and dropped the connection: its reset reports that at once.
#[test]
fn a_suspended_end_learns_at_once_that_the_peer_gave_up() {
    let mut pair = connected(two_paths()).unwrap();
    pair.run_for(SECOND).unwrap();
    sleep(&mut pair, Side::Client, 10 * MINUTE);
    assert!(pair.peer(Side::Client).unwrap().connection().is_some());
    pair.run_for(SECOND).unwrap();
    let error = pair.peer(Side::Client).unwrap().ended().cloned();
    assert_eq!(error, Some(ConnectionError::Reset));
}
