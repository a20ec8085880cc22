//! Pings: one request, one path, one response (spec 6.37).
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{
    ConnectionConfig, Event, Misuse, PairUse, PathId, PathState, PingToken, Role, SendRefusal,
};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MS, SECOND, connected_with, mbit, path_figures};
use manyway_sim::{EndpointPair, PairBuilder, Side};

const PATHS: [PathId; 2] = [PathId(0), PathId(1)];

/// Two paths with round trips of 20 and 60 ms.
fn two_paths() -> EndpointPair {
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 30 * MS);
    let mut config = ConnectionConfig::default();
    config.keep_alive = Some(10 * SECOND);
    let mut pair = connected_with(builder, &config).unwrap();
    pair.run_for(SECOND).unwrap();
    pair
}

fn ping(pair: &mut EndpointPair, side: Side, path: PathId) -> PingToken {
    pair.peer(side).unwrap().connection().unwrap().ping(path).unwrap()
}

fn pongs(pair: &mut EndpointPair, side: Side) -> Vec<(PathId, PingToken, Duration)> {
    let events = pair.peer(side).unwrap().events();
    let pong = |event: &Event| {
        let Event::Pong { path, token, rtt } = event else { return None };
        Some((*path, *token, *rtt))
    };
    events.iter().filter_map(|(_, event)| pong(event)).collect()
}

#[test]
fn a_ping_is_answered_on_its_own_path_at_either_end() {
    let mut pair = two_paths();
    for side in [Side::Client, Side::Server] {
        for path in PATHS {
            assert_eq!(ping(&mut pair, side, path), PingToken(0));
        }
        pair.run_for(SECOND).unwrap();
        let answers = pongs(&mut pair, side);
        assert_eq!(answers.len(), 2, "{answers:?}");
        for ((path, token, rtt), (wanted, least)) in answers.iter().zip(PATHS.iter().zip([20, 60])) {
            assert_eq!((path, *token), (wanted, PingToken(0)));
            assert!((least * MS..(least + 3) * MS).contains(rtt), "{path} {rtt:?}");
        }
    }
}

#[test]
fn a_lost_ping_is_not_repeated_and_the_next_one_has_its_own_response() {
    let mut pair = two_paths();
    pair.cut(1, Direction::Up);
    let lost = ping(&mut pair, Side::Client, PATHS[1]);
    pair.run_for(50 * MS).unwrap();
    pair.restore(1, Direction::Up);
    pair.run_for(3 * SECOND).unwrap();
    assert_eq!(pongs(&mut pair, Side::Client), []);
    let next = ping(&mut pair, Side::Client, PATHS[1]);
    pair.run_for(SECOND).unwrap();
    let answers = pongs(&mut pair, Side::Client);
    assert_eq!(answers.iter().map(|(_, token, _)| *token).collect::<Vec<_>>(), [next], "{lost}");
}

#[test]
fn an_idle_path_that_answers_no_ping_is_dead_within_a_second_and_returns() {
    for direction in [Direction::Up, Direction::Down, Direction::Both] {
        let mut pair = two_paths();
        pair.cut(1, direction);
        for path in PATHS {
            ping(&mut pair, Side::Client, path);
        }
        pair.run_for(SECOND).unwrap();
        let states = |pair: &mut EndpointPair| {
            path_figures(pair, Side::Client).iter().map(|path| path.state).collect::<Vec<_>>()
        };
        assert_eq!(states(&mut pair), [PathState::Active, PathState::Dead], "{direction:?}");
        pair.restore(1, direction);
        pair.run_for(3 * SECOND).unwrap();
        assert_eq!(states(&mut pair), [PathState::Active; 2], "{direction:?}");
    }
}

#[test]
fn a_ping_on_a_dead_path_is_answered_when_the_path_works_again_and_revives_it() {
    let mut pair = two_paths();
    pair.cut(1, Direction::Both);
    let now = pair.now();
    let tuple = path_figures(&mut pair, Side::Client)[1].tuple;
    pair.peer(Side::Client).unwrap().connection().unwrap().on_send_refused(
        now,
        tuple,
        SendRefusal::Unreachable,
    );
    // After a minute the path itself is probed only every 5 s.
    pair.run_for(70 * SECOND).unwrap();
    assert_eq!(path_figures(&mut pair, Side::Client)[1].state, PathState::Dead);
    ping(&mut pair, Side::Client, PATHS[1]);
    pair.run_for(SECOND).unwrap();
    assert_eq!(pongs(&mut pair, Side::Client), []);

    pair.restore(1, Direction::Both);
    let token = ping(&mut pair, Side::Client, PATHS[1]);
    pair.run_for(100 * MS).unwrap();
    let answers = pongs(&mut pair, Side::Client);
    assert_eq!(
        answers.iter().map(|(path, token, _)| (*path, *token)).collect::<Vec<_>>(),
        [(PATHS[1], token)]
    );
    // spec 6.77: a probe in a full datagram follows the small one.
    pair.run_for(100 * MS).unwrap();
    assert_ne!(path_figures(&mut pair, Side::Client)[1].state, PathState::Dead);
}

#[test]
fn a_path_in_reserve_answers_too() {
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 30 * MS);
    let mut pair = manyway_sim::endpoint_pair(builder, &ConnectionConfig::default());
    pair.peer(Side::Client).unwrap().set_role(2, Role::Backup);
    pair.connect(SECOND).unwrap();
    pair.run_for(SECOND).unwrap();
    let states: Vec<_> = path_figures(&mut pair, Side::Client).iter().map(|path| path.state).collect();
    assert!(states.contains(&PathState::Backup), "{states:?}");
    for path in PATHS {
        ping(&mut pair, Side::Client, path);
    }
    pair.run_for(SECOND).unwrap();
    assert_eq!(pongs(&mut pair, Side::Client).len(), 2);
}

#[test]
fn outstanding_pings_are_bounded() {
    let mut pair = two_paths();
    pair.cut(0, Direction::Up);
    let first = ping(&mut pair, Side::Client, PATHS[0]);
    for _ in 0..2000 {
        ping(&mut pair, Side::Client, PATHS[0]);
    }
    pair.run_for(5 * MS).unwrap();
    // As many probes are sent as may be outstanding.
    let sent = path_figures(&mut pair, Side::Client)[0].packets_sent;
    assert!(sent < 300, "{sent} packets, the first {first}");
}

#[test]
fn a_closed_path_has_no_ping() {
    let mut pair = two_paths();
    let now = pair.now();
    let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
    connection.close_path(now, PATHS[1]).unwrap();
    assert_eq!(connection.ping(PATHS[1]), Err(Misuse::UnknownPath { path: PATHS[1] }));
    let uses: Vec<_> = connection.address_pairs().iter().map(|pair| pair.usage).collect();
    assert!(
        uses.contains(&PairUse::Path(PATHS[0])) && uses.contains(&PairUse::ClosedByApplication),
        "{uses:?}"
    );
}

#[test]
fn another_congestion_control_takes_over_in_mid_transfer() {
    let mut pair = two_paths();
    let host = pair.host(Side::Client);
    let load = manyway_sim::traffic::Exchange::new(host, manyway_sim::scenario::megabytes(10));
    pair.start(Side::Client, Box::new(load));
    pair.run_for(SECOND).unwrap();
    let connection = pair.peer(Side::Client).unwrap().connection().unwrap();
    assert!(connection.set_congestion("magic").is_err());
    assert_eq!(connection.statistics().congestion, "bbr");
    connection.set_congestion("new-reno").unwrap();
    assert_eq!(connection.statistics().congestion, "new-reno");
    pair.run_until(60 * SECOND, "transferred", |pair| pair.is_quiet()).unwrap();
}
