//! Paths over an interface whose quota is used up.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use manyway_proto::scheduler::PathTerms;
use manyway_proto::{
    ByteCount, ConnectionConfig, Date, LocalAddress, LocalCandidate, PathId, PathReason, PathState, Role,
};
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected_with, mbit, megabytes, path_events, path_figures};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side};

const RENEWAL: Date = Date { year: 2026, month: 12, day: 1 };

/// Two paths of 10 Mbit/s and 20 ms.
fn connected(scheduler: &str) -> EndpointPair {
    let mut config = ConnectionConfig::default();
    config.set_scheduler(scheduler).unwrap();
    let builder = PairBuilder::new().path(mbit(10), 10 * MS).path(mbit(10), 10 * MS);
    let mut pair = connected_with(builder, &config).unwrap();
    pair.run_for(SECOND).unwrap();
    pair
}

fn locals(pair: &mut EndpointPair, side: Side) -> Vec<LocalAddress> {
    path_figures(pair, side).iter().map(|path| path.tuple.local).collect()
}

/// Sets the remaining quota of an interface, as a ledger does.
fn leave(pair: &mut EndpointPair, side: Side, all: &[LocalAddress], which: LocalAddress, left: u64) {
    let now = pair.now();
    let mut terms = PathTerms::default();
    (terms.quota_left, terms.renewal) = (Some(ByteCount(left)), Some(RENEWAL));
    let locals: Vec<_> =
        all.iter().map(|address| LocalCandidate { address: *address, role: Role::Primary }).collect();
    let connection = pair.peer(side).unwrap().connection().unwrap();
    connection.set_terms(which, terms);
    connection.set_local_addresses(now, &locals);
    // The events are reported in the next turn.
    pair.run_for(MS).unwrap();
}

fn start(pair: &mut EndpointPair, from: Side, bytes: ByteCount) {
    let host = pair.host(from);
    pair.start(from, Box::new(Exchange::new(host, bytes)));
}

fn states(pair: &mut EndpointPair, side: Side) -> Vec<(PathId, PathState, PathReason)> {
    let events = path_events(pair, side).into_iter();
    events.map(|(_, event)| (event.path, event.state, event.reason)).collect()
}

#[test]
fn a_path_without_quota_closes_with_its_reason_and_opens_again_when_there_is_more() {
    for from in [Side::Client, Side::Server] {
        let mut pair = connected("earliest");
        let all = locals(&mut pair, Side::Client);
        start(&mut pair, from, megabytes(6));
        pair.run_for(SECOND).unwrap();
        leave(&mut pair, Side::Client, &all, all[1], 0);
        let reason = PathReason::CapReached { renewal: Some(RENEWAL) };
        assert!(states(&mut pair, Side::Client).contains(&(PathId(1), PathState::Closed, reason)));
        assert_eq!(reason.to_string(), "cap reached, again from 2026-12-01");
        // Data in flight still arrives, and then nothing.
        pair.run_for(500 * MS).unwrap();
        let before = pair.delivered(from);
        pair.run_for(SECOND).unwrap();
        let after = pair.delivered(from);
        assert_eq!(after[1], before[1], "{from:?}");
        assert!((after[0] - before[0]).get() > 1_000_000, "{from:?} {before:?} {after:?}");
        // The transfer is not delayed.
        assert!(pair.received(from.other()).longest_silence() < 200 * MS);

        leave(&mut pair, Side::Client, &all, all[1], 1 << 30);
        pair.run_for(SECOND).unwrap();
        assert_eq!(path_figures(&mut pair, Side::Client).len(), 2);
        assert!(pair.delivered(from)[1] > after[1] + ByteCount(100_000), "{from:?}");
        pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
    }
}

#[test]
fn the_last_path_is_silent_without_quota_and_goes_on_with_it() {
    let mut pair = connected("earliest");
    let all = locals(&mut pair, Side::Client);
    start(&mut pair, Side::Client, megabytes(6));
    leave(&mut pair, Side::Client, &all, all[0], 0);
    pair.run_for(SECOND).unwrap();
    leave(&mut pair, Side::Client, &all, all[1], 0);
    pair.run_for(100 * MS).unwrap();
    let before = pair.delivered(Side::Client);
    pair.run_for(5 * SECOND).unwrap();
    // The peer probes from time to time whether it answers again.
    let after = pair.delivered(Side::Client);
    assert!(after[0] == before[0] && after[1] < before[1] + ByteCount(1000), "{before:?} {after:?}");
    let figures = path_figures(&mut pair, Side::Client);
    assert_eq!(
        (figures.len(), figures[0].state, figures[0].reason),
        (1, PathState::Dead, PathReason::CapReached { renewal: Some(RENEWAL) })
    );
    leave(&mut pair, Side::Client, &all, all[1], 1 << 30);
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}

/// The ledger reports the quota every 10 ms; the scheduler may not exceed it in between.
#[test]
fn the_cheapest_set_of_paths_does_not_exceed_the_quota() {
    const QUOTA: u64 = 500_000;
    let mut pair = connected("cost=100ms");
    let all = locals(&mut pair, Side::Client);
    let moved = |pair: &mut EndpointPair| {
        let figures = path_figures(pair, Side::Client);
        let of =
            |figures: &manyway_proto::PathStatistics| figures.bytes_sent.get() + figures.bytes_received.get();
        figures.iter().find(|path| path.tuple.local == all[1]).map(of)
    };
    let before = moved(&mut pair).unwrap();
    let mut terms = PathTerms::default();
    terms.cost = 1;
    start(&mut pair, Side::Client, megabytes(4));
    let mut spent = 0;
    for _ in 0..1000 {
        terms.quota_left = Some(ByteCount(QUOTA.saturating_sub(spent).max(1)));
        pair.peer(Side::Client).unwrap().connection().unwrap().set_terms(all[1], terms);
        pair.run_for(10 * MS).unwrap();
        spent = moved(&mut pair).unwrap() - before;
    }
    // A last datagram, and the acknowledgements of the peer, which need no quota of this end.
    assert!((QUOTA - 20_000..QUOTA + 20_000).contains(&spent), "{spent}");
    pair.run_until(MINUTE, "transferred", |pair| pair.is_quiet()).unwrap();
}
