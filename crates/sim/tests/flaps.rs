//! Paths that die and return repeatedly (spec 6.51).
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_proto::{ByteCount, PathState, Rate};
use manyway_sim::link::LinkState;
use manyway_sim::nightly::few_or_many;
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{
    MINUTE, MS, SECOND, connected, count_in, mbit, megabytes, path_events, path_figures,
};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side};

const SIDES: [Side; 2] = [Side::Client, Side::Server];
/// The path that flaps; the other one works all the time.
const FLAPPING: usize = 1;
const RATE: Rate = Rate::from_bytes_per_second(1_250_000);

/// Two equal paths, and more data from `from` than they carry in the test.
fn sending(from: Side) -> EndpointPair {
    let mut pair = connected(PairBuilder::new().path(RATE, 10 * MS).path(RATE, 10 * MS)).unwrap();
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, megabytes(1000))));
    pair.run_for(2 * SECOND).unwrap();
    pair
}

/// Cuts the path that flaps for a while, and leaves it up for a while, this many times.
fn flap(pair: &mut EndpointPair, (down, up): (Duration, Duration), times: u32) {
    for _ in 0..times {
        pair.cut(FLAPPING, Direction::Both);
        pair.run_for(down).unwrap();
        pair.restore(FLAPPING, Direction::Both);
        pair.run_for(up).unwrap();
    }
}

/// Time from now until the path that flaps carries data.
fn used_after(pair: &mut EndpointPair, from: Side) -> Duration {
    let (since, before) = (pair.now(), pair.delivered(from)[FLAPPING]);
    while pair.delivered(from)[FLAPPING] < before + ByteCount(20_000) && pair.now() - since < MINUTE {
        pair.run_for(10 * MS).unwrap();
    }
    pair.now() - since
}

/// How often the path that flaps returned at the sending end.
fn returns(pair: &mut EndpointPair, from: Side) -> usize {
    let events = path_events(pair, from);
    events.iter().filter(|(_, event)| event.state == PathState::Probation).count()
}

#[test]
fn a_path_that_flaps_is_used_less_and_less_until_it_has_settled() {
    for from in SIDES.into_iter().take(few_or_many(1, 2)) {
        let mut pair = sending(from);
        let (start, before) = (pair.now(), pair.delivered(from));
        let mut carried = Vec::new();
        for _ in 0..5 {
            let before = pair.delivered(from)[FLAPPING];
            flap(&mut pair, (300 * MS, 300 * MS), 10);
            carried.push(pair.delivered(from)[FLAPPING] - before);
        }
        let returns = returns(&mut pair, from);
        assert!(returns <= 10, "{from:?}: {returns} of 50 times, {carried:?}");
        let later: u64 = carried[1..].iter().map(|carried| carried.get()).sum();
        assert!(later < carried[0].get() * 3, "{from:?}: {carried:?}");
        let duplicates = pair.peer(from).unwrap().connection().unwrap().statistics().duplicate_bytes_sent;
        assert!(duplicates <= ByteCount(60_000), "{from:?}: {duplicates} sent twice");
        let other = (pair.delivered(from)[0] - before[0]).per(pair.now() - start);
        assert!(other >= mbit(9), "{from:?}: {other}");
        let silence = pair.received(from.other()).longest_silence();
        assert!(silence <= 150 * MS, "{from:?}: {silence:?}");

        pair.cut(FLAPPING, Direction::Both);
        pair.run_for(300 * MS).unwrap();
        pair.restore(FLAPPING, Direction::Both);
        let used = used_after(&mut pair, from);
        assert!(used <= 1800 * MS, "{from:?} settled, used after {used:?}");
        pair.run_for(MINUTE).unwrap();
        pair.cut(FLAPPING, Direction::Both);
        pair.run_for(SECOND).unwrap();
        pair.restore(FLAPPING, Direction::Both);
        let used = used_after(&mut pair, from);
        assert!(used <= 500 * MS, "{from:?} after a quiet minute, used after {used:?}");
    }
}

#[test]
fn a_path_that_dies_occasionally_is_used_at_once_each_time() {
    for from in SIDES {
        let mut pair = sending(from);
        for death in 0..8 {
            pair.cut(FLAPPING, Direction::Both);
            pair.run_for(400 * MS).unwrap();
            pair.restore(FLAPPING, Direction::Both);
            let used = used_after(&mut pair, from);
            assert!(used <= 500 * MS, "{from:?} {death}: {used:?}");
            pair.run_for(1500 * MS).unwrap();
        }
        assert_eq!(returns(&mut pair, from), 8, "{from:?}");
    }
}

#[test]
fn a_path_that_flaps_is_used_at_once_when_no_other_works() {
    for from in SIDES {
        let mut pair = sending(from);
        flap(&mut pair, (300 * MS, 300 * MS), 12);
        assert_eq!(count_in(&mut pair, from, PathState::Dead), 1, "{from:?}: it answers, and stays dead");
        pair.cut(0, Direction::Both);
        let used = used_after(&mut pair, from);
        assert!(used <= 300 * MS, "{from:?}: {used:?}");
    }
}

#[test]
fn a_path_whose_interface_the_system_reports_up_again_is_used_at_once_however_often_it_flapped() {
    for from in SIDES {
        let mut pair = sending(from);
        flap(&mut pair, (300 * MS, 300 * MS), 12);
        assert_eq!(count_in(&mut pair, from, PathState::Dead), 1, "{from:?}: it answers, and stays dead");
        pair.set_interface(FLAPPING, LinkState::Down);
        pair.run_for(50 * MS).unwrap();
        pair.set_interface(FLAPPING, LinkState::Up);
        let used = used_after(&mut pair, from);
        assert!(used <= 300 * MS, "{from:?}: {used:?}");
    }
}

/// Number of entries of each list, queue and table of both ends, by the names of their fields.
fn kept(pair: &mut EndpointPair) -> BTreeMap<String, usize> {
    let mut kept = BTreeMap::new();
    for side in SIDES {
        let text = format!("{:#?}", pair.peer(side).unwrap().endpoint());
        let mut names: Vec<String> = Vec::new();
        for line in text.lines() {
            let item = line.trim_start();
            let depth = (line.len() - item.len()) / 4;
            if item.starts_with(['}', ']', ')']) {
                continue;
            }
            names.truncate(depth);
            let holder = format!("{side:?} {}", names.join("."));
            if names.last().is_some_and(|name| name.ends_with('*')) {
                *kept.entry(holder).or_default() += 1;
            }
            let (name, value) = item.split_once(": ").unwrap_or(("", item));
            // Numbers are keys of tables.
            let name = if name.starts_with(|first: char| first.is_ascii_digit()) { "" } else { name };
            let holds_many = value.starts_with(['[', '{']);
            names.push(if holds_many { format!("{name}*") } else { name.to_owned() });
        }
    }
    kept
}

/// Fields with measurements of the last seconds or round trips, which vary in number.
const MEASURED: [&str; 7] = [
    ".silence.",
    ".recovery.controller.",
    ".recovery.large.",
    ".recovery.one_way.",
    ".recovery.rate.",
    ".recovery.rtt.",
    ".recovery.sent.skipped.",
];

/// Lets a connection flap twenty times and fifty times more, with data in both directions, and compares the state of
/// both ends when they are idle again.
fn leaves_nothing_behind(one_flap: impl Fn(&mut EndpointPair)) {
    let mut pair = connected(PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 20 * MS)).unwrap();
    let mut before = None;
    for flaps in 1..=70 {
        one_flap(&mut pair);
        for side in SIDES {
            pair.transfer(side, ByteCount(200_000), MINUTE).unwrap();
        }
        if flaps == 20 || flaps == 70 {
            // Until all paths are back and nothing is in flight.
            pair.run_for(12 * SECOND).unwrap();
            for side in SIDES {
                let figures = path_figures(&mut pair, side);
                assert_eq!(count_in(&mut pair, side, PathState::Active), 2, "{side:?}: {figures:?}");
                assert!(
                    figures.iter().all(|path| path.in_flight == ByteCount::ZERO),
                    "{side:?}: {figures:?}"
                );
            }
            // Of the timers of an idle connection, the keep-alive comes first: 15 s after the last packet.
            let (now, next) = (pair.now(), pair.world_mut().next_event().unwrap());
            assert!(next > now + 2 * SECOND, "something is due after {:?}", next - now);
            let now = kept(&mut pair);
            let before = before.get_or_insert_with(|| now.clone());
            let names: std::collections::BTreeSet<_> = now.keys().chain(before.keys()).collect();
            let changed: Vec<_> = names
                .into_iter()
                .filter(|name| {
                    now.get(*name) != before.get(*name) && !MEASURED.iter().any(|part| name.contains(part))
                })
                .map(|name| format!("{name}: {:?} -> {:?}", before.get(name), now.get(name)))
                .collect();
            assert!(changed.is_empty(), "{}", changed.join("\n"));
        }
    }
}

#[test]
fn fifty_flaps_leave_nothing_behind() {
    leaves_nothing_behind(|pair| {
        pair.set_interface(FLAPPING, LinkState::Down);
        pair.run_for(50 * MS).unwrap();
        pair.set_interface(FLAPPING, LinkState::Up);
    });
    leaves_nothing_behind(|pair| {
        for side in SIDES {
            let host = pair.host(side);
            pair.start(side, Box::new(Exchange::new(host, ByteCount(2_000_000))));
        }
        pair.run_for(200 * MS).unwrap();
        flap(pair, (600 * MS, 600 * MS), 1);
    });
}
