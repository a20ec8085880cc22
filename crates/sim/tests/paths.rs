//! Paths that die silently, return, appear, disappear, and change their addresses, while data flows.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{
    ByteCount, ConnectionConfig, ConnectionError, PathId, PathReason, PathState, Rate, Role,
};
use manyway_sim::link::{LinkConfig, LinkState, LossModel, Probability, QueueConfig, QueueLimit};
use manyway_sim::nightly::{few_or_many, seeds};
use manyway_sim::pair::Direction;
use manyway_sim::rule::{Action, Matching};
use manyway_sim::scenario::{
    MINUTE, MS, SECOND, connected, count_in, mbit, megabytes, path_events, path_figures,
};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Pattern, Side, endpoint_pair};

/// Two paths of 20 Mbit/s and 20 ms, the first cut in one direction or both for a while during a transfer.
#[derive(Debug)]
struct Outage {
    silence: Duration,
    /// From the cut until the other path alone delivers 90 % of its capacity to the application.
    survived_after: Option<Duration>,
    /// From the return of the path until it delivers data again.
    back_after: Option<Duration>,
    /// From then until it delivers 90 % of its rate.
    full_after: Option<Duration>,
    states: Vec<(Duration, PathState, PathReason)>,
}

const STEP: Duration = Duration::from_millis(10);
/// 90 % of 20 Mbit/s in 100 ms, of which 98 % are datagrams; and of their payload, 96 %, in 300 ms.
const FULL: ByteCount = ByteCount(220_000);
const FULL_CONTENT: ByteCount = ByteCount(648_000);

/// Runs on, and reads a count after each step.
fn watch(
    pair: &mut EndpointPair,
    lasts: Duration,
    count: impl Fn(&EndpointPair) -> ByteCount,
) -> Vec<ByteCount> {
    let end = pair.now() + lasts;
    let mut counts = vec![count(pair)];
    while pair.now() < end {
        pair.run_for(STEP.min(end - pair.now())).unwrap();
        counts.push(count(pair));
    }
    counts
}

/// How long it took a count to grow by more than `bytes` in the last steps.
fn grown(counts: &[ByteCount], steps: usize, bytes: ByteCount) -> Option<Duration> {
    let place =
        (1..counts.len()).find(|place| counts[*place] - counts[place.saturating_sub(steps)] > bytes)?;
    Some(STEP * u32::try_from(place).unwrap())
}

fn outage(seed: u64, from: Side, direction: Direction, lasts: Duration) -> Outage {
    let builder = PairBuilder::new().seed(seed).path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
    let mut pair = connected(builder).unwrap();
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, megabytes(30))));
    // A different time for each seed, so that the cut meets another phase of the windows.
    pair.run_for(2 * SECOND + 37 * MS * u32::try_from(seed).unwrap()).unwrap();
    let cut_at = pair.now();
    pair.cut(0, direction);
    let survivor = watch(&mut pair, lasts, |pair| pair.received(from.other()).total());
    pair.restore(0, direction);
    let returned = watch(&mut pair, 2 * SECOND, |pair| pair.delivered(from)[0]);
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    let events = path_events(&mut pair, from);
    Outage {
        silence: pair.received(from.other()).longest_silence(),
        // Longer than the burst that follows the silence.
        survived_after: grown(&survivor, 30, FULL_CONTENT),
        // More than the packets that were in the queue, and more than probes.
        back_after: grown(&returned, returned.len(), ByteCount(100_000)),
        full_after: grown(&returned, 10, FULL),
        states: events
            .into_iter()
            .filter(|(at, event)| *at >= cut_at && event.path.0 == 0)
            .map(|(at, event)| (at - cut_at, event.state, event.reason))
            .collect(),
    }
}

#[test]
fn a_black_hole_silences_the_receiver_briefly_and_its_path_returns() {
    for from in [Side::Client, Side::Server] {
        for seed in seeds(2, 10) {
            let outage = outage(seed, from, Direction::Both, SECOND);
            check(&outage);
            assert!(outage.silence <= 100 * MS, "seed {seed} {from:?}: {outage:?}");
        }
    }
}

#[test]
fn a_path_whose_return_direction_dies_is_left_and_returns() {
    for (from, back) in [(Side::Client, Direction::Down), (Side::Server, Direction::Up)] {
        for seed in seeds(2, 10) {
            let outage = outage(seed, from, back, SECOND);
            check(&outage);
            assert!(outage.silence <= 150 * MS, "seed {seed} {from:?}: {outage:?}");
        }
    }
}

#[test]
fn a_path_whose_forward_direction_dies_is_left_and_returns() {
    for (from, there) in [(Side::Client, Direction::Up), (Side::Server, Direction::Down)] {
        for seed in seeds(2, 10) {
            let outage = outage(seed, from, there, SECOND);
            check(&outage);
            assert!(outage.silence <= 100 * MS, "seed {seed} {from:?}: {outage:?}");
        }
    }
}

// spec 6.21, 6.25
#[test]
fn one_direction_of_a_path_dies_while_both_ends_send() {
    for direction in [Direction::Up, Direction::Down] {
        for seed in seeds(2, 10) {
            let builder = PairBuilder::new().seed(seed).path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
            let mut pair = connected(builder).unwrap();
            for from in [Side::Client, Side::Server] {
                let host = pair.host(from);
                pair.start(from, Box::new(Exchange::new(host, megabytes(15))));
            }
            pair.run_for(2 * SECOND + 37 * MS * u32::try_from(seed).unwrap()).unwrap();
            pair.cut(0, direction);
            pair.run_for(SECOND).unwrap();
            pair.restore(0, direction);
            complete(&mut pair);
            for to in [Side::Client, Side::Server] {
                let silence = pair.received(to).longest_silence();
                assert!(silence <= 200 * MS, "seed {seed} {direction:?} {to:?}: {silence:?}");
            }
        }
    }
}

// spec 6.23, 9.38
#[test]
fn an_outage_of_50_ms_raises_a_suspicion_and_nothing_worse() {
    let (mut doubted, mut outages) = (0, 0);
    for from in [Side::Client, Side::Server] {
        for seed in seeds(2, 20) {
            let outage = outage(seed, from, Direction::Both, 50 * MS);
            let states: Vec<_> = outage.states.iter().map(|(_, state, _)| *state).collect();
            assert!(
                [&[][..], &[PathState::Suspect, PathState::Active]].contains(&&states[..]),
                "seed {seed} {from:?}: {outage:?}"
            );
            outages += 1;
            doubted += u32::from(!states.is_empty());
            let full = outage.full_after.is_some_and(|after| after <= 200 * MS);
            assert!(full, "seed {seed} {from:?}: {outage:?}");
        }
    }
    assert!(doubted * 2 > outages, "{doubted} of {outages}");
}

#[test]
fn the_end_of_a_long_outage_is_noticed_within_two_seconds() {
    for seed in seeds(2, 5) {
        check(&outage(seed, Side::Client, Direction::Both, 4 * SECOND));
    }
}

/// Lets this many minutes pass in which an occasional byte keeps the connection open; returns how many datagrams the
/// client sends on the first path in each.
fn challenges(pair: &mut EndpointPair, minutes: u32) -> Vec<u64> {
    let offered = |pair: &mut EndpointPair| {
        let mut packets = 0;
        pair.with_links(0, Direction::Up, |_, link| packets = link.counters().offered.packets);
        packets
    };
    let mut asked = Vec::new();
    for _ in 0..minutes {
        let before = offered(pair);
        for _ in 0..3 {
            pair.transfer(Side::Client, ByteCount(1), SECOND).unwrap();
            pair.run_for(20 * SECOND).unwrap();
        }
        asked.push(offered(pair) - before);
    }
    asked
}

// spec 6.12, 6.131
#[test]
fn a_dead_path_is_probed_ever_more_rarely_and_at_once_on_news() {
    let silently_dead = || {
        let mut pair = sending(Side::Client, PairBuilder::new());
        pair.cut(0, Direction::Both);
        complete(&mut pair);
        pair
    };
    let mut pair = silently_dead();
    let asked = challenges(&mut pair, 20);
    assert!((60..=130).contains(&asked[0]), "{asked:?}");
    assert!(asked[2..9].iter().all(|asked| (11..=13).contains(asked)), "every 5 s: {asked:?}");
    assert!(asked[12..].iter().all(|asked| (4..=5).contains(asked)), "every 15 s: {asked:?}");
    pair.restore(0, Direction::Both);
    pair.transfer(Side::Client, ByteCount(1), SECOND).unwrap();
    pair.run_for(16 * SECOND).unwrap();
    assert_eq!(path_figures(&mut pair, Side::Client)[0].state, PathState::Active);

    let mut pair = silently_dead();
    challenges(&mut pair, 12);
    pair.restore(0, Direction::Both);
    pair.set_interface(0, LinkState::Down);
    pair.set_interface(0, LinkState::Up);
    pair.run_for(200 * MS).unwrap();
    assert!(path_figures(&mut pair, Side::Client).iter().all(|path| path.state == PathState::Active));
}

/// Suspect, then dead, with reasons, while the other path goes on alone; then it answers, serves its probation and
/// carries data soon.
fn check(outage: &Outage) {
    let states: Vec<_> = outage.states.iter().map(|(_, state, _)| *state).collect();
    let expected = [PathState::Suspect, PathState::Dead, PathState::Probation, PathState::Active];
    assert!(states.starts_with(&expected), "{outage:?}");
    let reasons: Vec<_> = outage.states.iter().map(|(_, _, reason)| *reason).collect();
    assert!(matches!(reasons[0], PathReason::Silence { .. } | PathReason::ProbeTimeout { .. }), "{outage:?}");
    let confirmed = matches!(
        reasons[1],
        PathReason::PeerReceivedNothing | PathReason::ProbeTimeout { .. } | PathReason::NoAnswer
    );
    assert!(confirmed, "{outage:?}");
    // spec 6.28: two to four round trips of at least 20 ms.
    let served = outage.states[3].0 - outage.states[2].0;
    assert!((40 * MS..=400 * MS).contains(&served), "{outage:?}");
    let survived = outage.survived_after.is_some_and(|after| after <= 500 * MS);
    assert!(survived, "{outage:?}");
    // Of the two seconds that were watched.
    assert!(outage.back_after.is_some() && outage.full_after.is_some(), "{outage:?}");
}

/// Two paths of 20 Mbit/s, connected, and 10 MB to send from `from`.
fn sending(from: Side, builder: PairBuilder) -> EndpointPair {
    let mut pair = connected(builder.path(mbit(20), 10 * MS).path(mbit(20), 20 * MS)).unwrap();
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, megabytes(10))));
    pair.run_for(500 * MS).unwrap();
    pair
}

fn complete(pair: &mut EndpointPair) {
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}

#[test]
fn an_interface_that_disappears_is_left_and_one_that_appears_is_used() {
    for from in [Side::Client, Side::Server] {
        let mut pair = sending(from, PairBuilder::new());
        pair.set_interface(1, LinkState::Down);
        pair.run_for(300 * MS).unwrap();
        assert_eq!(path_figures(&mut pair, Side::Client).len(), 1);
        assert_eq!(path_figures(&mut pair, Side::Server).len(), 1, "the server is told");
        let before = pair.delivered(from)[1];
        pair.set_interface(1, LinkState::Up);
        pair.run_for(SECOND).unwrap();
        assert!(pair.delivered(from)[1] > before + ByteCount(500_000), "{from:?} {:?}", pair.delivered(from));
        complete(&mut pair);
        let silence = pair.received(from.other()).longest_silence();
        assert!(silence <= 100 * MS, "{from:?} {silence:?}");
    }
}

#[test]
fn an_interface_that_changes_its_address_continues_at_the_new_one() {
    for from in [Side::Client, Side::Server] {
        let mut pair = sending(from, PairBuilder::new());
        pair.change_address(0);
        pair.change_address(1);
        let before = pair.delivered(from);
        pair.run_for(SECOND).unwrap();
        for (path, before) in before.iter().enumerate() {
            assert!(pair.delivered(from)[path] > *before + ByteCount(500_000), "{from:?} path {path}");
        }
        complete(&mut pair);
        // Both at once, and data in the queues is lost with them.
        let silence = pair.received(from.other()).longest_silence();
        assert!(silence <= 120 * MS, "{from:?} {silence:?}");
    }
}

#[test]
fn a_path_id_is_never_used_twice_however_often_an_interface_comes_and_goes() {
    let mut pair = sending(Side::Client, PairBuilder::new());
    for flap in 0..20 {
        pair.set_interface(1, LinkState::Down);
        pair.run_for(100 * MS).unwrap();
        pair.set_interface(1, LinkState::Up);
        pair.run_for(300 * MS).unwrap();
        assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), 2, "flap {flap}");
        assert_eq!(count_in(&mut pair, Side::Server, PathState::Active), 2, "flap {flap}");
    }
    let opened: Vec<_> = path_events(&mut pair, Side::Client)
        .into_iter()
        .filter(|(_, event)| event.reason == PathReason::Opened)
        .map(|(_, event)| event.path.0)
        .collect();
    assert_eq!(opened, (1..=21).collect::<Vec<_>>());
    complete(&mut pair);
}

#[test]
fn the_client_opens_paths_to_advertised_addresses_and_leaves_withdrawn_ones() {
    let builder = PairBuilder::new().server_interfaces(2).known_servers(1);
    let mut pair = connected(builder.path(mbit(20), 10 * MS).path(mbit(20), 10 * MS)).unwrap();
    pair.run_for(SECOND).unwrap();
    // The second interface of the client reaches only the second of the server.
    assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), 1);
    let addresses: Vec<_> = pair.servers().iter().map(|local| local.address).collect();
    let announce = |pair: &mut EndpointPair, addresses: &[_]| {
        pair.peer(Side::Server).unwrap().connection().unwrap().set_advertised_addresses(addresses);
    };
    announce(&mut pair, &addresses);
    pair.run_for(3 * SECOND).unwrap();
    assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), 2);
    let report = pair.transfer(Side::Client, megabytes(5), MINUTE).unwrap();
    assert!(report.path_bytes.iter().all(|bytes| *bytes > megabytes(2)), "{:?}", report.path_bytes);
    announce(&mut pair, &addresses[..1]);
    pair.run_for(SECOND).unwrap();
    assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), 1);
    assert!(path_figures(&mut pair, Side::Client).iter().all(|path| path.tuple.remote == addresses[0]));
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
}

#[test]
fn a_connection_survives_the_death_of_all_its_paths_for_a_minute() {
    for (lasts, lives) in [(50 * SECOND, true), (70 * SECOND, false)] {
        let mut pair = sending(Side::Client, PairBuilder::new());
        for path in 0..2 {
            pair.cut(path, Direction::Both);
        }
        pair.run_for(lasts).unwrap();
        for path in 0..2 {
            pair.restore(path, Direction::Both);
        }
        assert_eq!(pair.ended().is_none(), lives, "{lasts:?} {:?}", pair.ended());
        if lives {
            let restored_at = pair.now();
            complete(&mut pair);
            let silent_until = pair.received(Side::Server).first_bin_with_bytes_after(restored_at).unwrap();
            assert!(silent_until - restored_at < 6 * SECOND, "{:?}", silent_until - restored_at);
        } else {
            assert_eq!(pair.ended().map(|(_, error)| error), Some(ConnectionError::NoPath));
        }
    }
}

#[test]
fn addresses_can_change_any_number_of_times_while_no_path_works() {
    let mut pair = sending(Side::Client, PairBuilder::new());
    for path in 0..2 {
        pair.cut(path, Direction::Both);
    }
    for _ in 0..30 {
        pair.run_for(SECOND).unwrap();
        pair.change_address(0);
        pair.set_interface(1, LinkState::Down);
        pair.set_interface(1, LinkState::Up);
    }
    for path in 0..2 {
        pair.restore(path, Direction::Both);
    }
    let restored_at = pair.now();
    complete(&mut pair);
    assert!(pair.now() - restored_at < 10 * SECOND, "{:?}", pair.now() - restored_at);
    // The last packets may have been lost, and their path be suspect.
    pair.run_for(SECOND).unwrap();
    assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), 2);
}

#[test]
fn a_backup_path_carries_data_only_while_no_other_works() {
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
    let mut pair = endpoint_pair(builder, &ConnectionConfig::default());
    let interface = pair.paths()[1].interface.index;
    pair.peer(Side::Client).unwrap().set_role(interface, Role::Backup);
    pair.connect(SECOND).unwrap();
    pair.run_for(500 * MS).unwrap();
    assert_eq!(count_in(&mut pair, Side::Client, PathState::Backup), 1);
    for from in [Side::Client, Side::Server] {
        let report = pair.transfer(from, megabytes(2), MINUTE).unwrap();
        assert!(report.path_bytes[1] < ByteCount(50_000), "{from:?} {:?}", report.path_bytes);
    }
    pair.cut(0, Direction::Both);
    for from in [Side::Client, Side::Server] {
        let report = pair.transfer(from, megabytes(2), MINUTE).unwrap();
        assert!(report.path_bytes[1] > megabytes(2), "{from:?} {:?}", report.path_bytes);
        assert!(report.longest_silence < 500 * MS, "{from:?} {:?}", report.longest_silence);
    }
}

#[test]
fn a_server_learns_that_the_path_of_the_handshake_is_a_backup() {
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
    let mut pair = endpoint_pair(builder, &ConnectionConfig::default());
    let interface = pair.paths()[0].interface.index;
    pair.peer(Side::Client).unwrap().set_role(interface, Role::Backup);
    pair.cut(1, Direction::Both);
    pair.connect(5 * SECOND).unwrap();
    pair.restore(1, Direction::Both);
    pair.run_for(3 * SECOND).unwrap();
    assert_eq!(count_in(&mut pair, Side::Client, PathState::Active), 1);
    let report = pair.transfer(Side::Server, megabytes(2), MINUTE).unwrap();
    assert!(report.path_bytes[0] < ByteCount(50_000), "{:?}", report.path_bytes);
}

#[test]
fn a_path_that_the_application_closes_is_not_used_again_before_its_interface_changes() {
    let mut pair = sending(Side::Client, PairBuilder::new());
    let now = pair.now();
    pair.peer(Side::Client).unwrap().connection().unwrap().close_path(now, PathId(1)).unwrap();
    pair.run_for(300 * MS).unwrap();
    let before = pair.delivered(Side::Client)[1];
    pair.run_for(300 * MS).unwrap();
    assert_eq!(pair.delivered(Side::Client)[1], before);
    complete(&mut pair);
}

#[test]
fn the_largest_datagram_is_found_on_every_path() {
    let (narrow, wide) =
        (LinkConfig::new(mbit(20), 10 * MS).with_mtu(1400), LinkConfig::new(mbit(20), 10 * MS));
    let builder = PairBuilder::new().path(mbit(20), 10 * MS).path_with(narrow, wide);
    let mut pair = connected(builder).unwrap();
    pair.transfer(Side::Client, megabytes(3), MINUTE).unwrap();
    pair.transfer(Side::Server, megabytes(3), MINUTE).unwrap();
    let sizes = |pair: &mut EndpointPair, side| -> Vec<_> {
        path_figures(pair, side).iter().map(|path| path.datagram).collect()
    };
    assert_eq!(sizes(&mut pair, Side::Client), [1472, 1372]);
    assert_eq!(sizes(&mut pair, Side::Server), [1472, 1472]);
}

#[test]
fn a_search_for_the_largest_datagram_that_an_outage_interrupts_is_repeated() {
    for side in [Side::Client, Side::Server] {
        let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
        let mut pair = connected(builder).unwrap();
        let host = pair.host(side);
        pair.start(side, Box::new(Exchange::new(host, megabytes(40))));
        // The probe of the first path is in flight.
        pair.cut(0, Direction::Both);
        pair.run_for(800 * MS).unwrap();
        assert_eq!(path_figures(&mut pair, side)[0].datagram, 1200);
        pair.restore(0, Direction::Both);
        pair.run_for(5 * SECOND).unwrap();
        assert_eq!(path_figures(&mut pair, side)[0].datagram, 1472);
    }
}

#[test]
fn one_of_two_paths_that_carries_smaller_datagrams_than_before_is_soon_used_with_those() {
    for side in [Side::Client, Side::Server] {
        let builder = PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS);
        let mut pair = connected(builder).unwrap();
        let host = pair.host(side);
        pair.start(side, Box::new(Exchange::new(host, megabytes(60))));
        pair.run_for(2 * SECOND).unwrap();
        let rule = Matching::all().at(pair.paths()[0].interface).sized(1400..=2000);
        pair.world_mut().network_mut().add_rule(rule, Action::Drop);
        pair.run_for(SECOND).unwrap();
        let figures = path_figures(&mut pair, side);
        let sizes: Vec<_> = figures.iter().map(|path| path.datagram).collect();
        assert!((1384..1400).contains(&sizes[0]) && sizes[1] == 1472, "{sizes:?}");
        let before = pair.delivered(side)[0];
        pair.run_for(5 * SECOND).unwrap();
        let delivered = pair.delivered(side)[0] - before;
        assert!(delivered > megabytes(9), "{side:?} {delivered:?}");
    }
}

#[test]
fn a_path_that_merely_loses_packets_keeps_its_large_datagrams() {
    let cases = [(5.0, 1), (1.0, 40), (1.0, 1), (5.0, 40)];
    for (percent, pieces) in cases.into_iter().take(few_or_many(2, 4)) {
        let loss = LossModel::Random(Probability::from_percent(percent));
        let lossy = LinkConfig::new(mbit(20), 10 * MS).with_loss(loss);
        let builder = PairBuilder::new().path_with(lossy.clone(), lossy).path(mbit(5), 30 * MS);
        let mut pair = connected(builder).unwrap();
        // In one piece, and in many with probe timeouts at their ends.
        for piece in 0..pieces * 2 {
            let side = if piece % 2 == 0 { Side::Client } else { Side::Server };
            pair.transfer(side, ByteCount(20_000_000 / pieces), MINUTE).unwrap();
            pair.run_for(200 * MS).unwrap();
        }
        for side in [Side::Client, Side::Server] {
            let datagram = path_figures(&mut pair, side)[0].datagram;
            assert_eq!(datagram, 1472, "{percent} % in {pieces} {side:?}");
        }
    }
}

#[test]
fn a_path_that_carries_smaller_datagrams_than_before_is_used_with_those() {
    let mut pair = connected(PairBuilder::new().path(mbit(20), 10 * MS)).unwrap();
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    pair.with_links(0, Direction::Both, |now, link| link.set_mtu(now, 1300));
    let report = pair.transfer(Side::Client, megabytes(5), MINUTE).unwrap();
    assert!(report.longest_silence < 3 * SECOND, "{:?}", report.longest_silence);
}

// spec 9.17
#[test]
fn a_sender_of_little_data_detects_the_death_of_its_only_path() {
    let mut pair = connected(PairBuilder::new().path(mbit(20), 25 * MS)).unwrap();
    pair.transfer(Side::Client, megabytes(5), MINUTE).unwrap();
    let stream = pair.peer(Side::Client).unwrap().connection().unwrap().open_stream().unwrap();
    let host = pair.host(Side::Client);
    let mut written = 0;
    let mut write = |pair: &mut EndpointPair| {
        let data = Pattern::new(host, stream).bytes(written, 100);
        let length = pair.peer(Side::Client).unwrap().connection().unwrap().write(stream, data).unwrap();
        pair.reference_mut().on_write(host, stream, length);
        written += length as u64;
        pair.run_for(40 * MS).unwrap();
    };
    (0..25).for_each(|_| write(&mut pair));
    pair.cut(0, Direction::Both);
    (0..75).for_each(|_| write(&mut pair));
    let state = path_figures(&mut pair, Side::Client)[0].state;
    assert_eq!(state, PathState::Dead, "after 3 s");
    // A connection lives a minute without a path, and half a minute in silence.
    (0..1_000).for_each(|_| write(&mut pair));
    pair.restore(0, Direction::Both);
    pair.run_for(15 * SECOND).unwrap();
    assert_eq!(pair.ended(), None);
    assert!(path_figures(&mut pair, Side::Client)[0].state.carries_data());
}

#[test]
fn a_slow_link_that_returned_is_not_given_up_by_the_receiving_end() {
    // Each large packet takes 107 ms, and the receiver's queries wait behind as many as 50 of them.
    let slow = LinkConfig::new(Rate::from_bytes_per_second(14_000), MS)
        .with_queue(QueueConfig::drop_tail(QueueLimit::Bytes(ByteCount(75_000))));
    for seed in 0..12 {
        let builder = PairBuilder::new()
            .seed(seed)
            .path_with(slow.clone(), slow.clone())
            .path_with(slow.clone(), slow.clone());
        let mut pair = connected(builder).unwrap();
        let host = pair.host(Side::Client);
        pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(10))));
        pair.run_for(13 * SECOND + 37 * MS * u32::try_from(seed).unwrap()).unwrap();
        pair.set_interface(1, LinkState::Down);
        pair.run_for(7 * SECOND).unwrap();
        pair.set_interface(1, LinkState::Up);
        pair.run_for(3 * SECOND).unwrap();
        let (since, before) = (pair.now(), pair.received(Side::Server).total());
        pair.run_for(10 * SECOND).unwrap();
        let deaths = path_events(&mut pair, Side::Server);
        let deaths =
            deaths.iter().filter(|(at, event)| *at > since && event.state == PathState::Dead).count();
        let brought = pair.received(Side::Server).total() - before;
        assert!(deaths == 0 && brought >= ByteCount(250_000), "seed {seed}: {deaths}, {brought}");
    }
}
