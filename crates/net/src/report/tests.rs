//! The reasons that a report gives in each situation.

use super::*;
use crate::{Endpoint, EndpointOptions, Identity, LocalAddress, Locals, ServerOptions, Ticket};

const MS: Duration = Duration::from_millis(1);
const NOW: Instant = Instant::from_nanos(100_000_000_000);

/// Two working paths of a connection that never carried anything, to be modified.
async fn two_paths() -> [PathStatistics; 2] {
    let identity = Identity::from_seed(&[1; 32]);
    let mut server = ServerOptions::new(identity.clone(), &[2; 16]);
    server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    let server =
        Endpoint::bind(EndpointOptions { server: Some(server), ..EndpointOptions::default() }).unwrap();
    let local = LocalAddress { interface: 0, address: "127.0.0.1:0".parse().unwrap() };
    let locals = Locals::Fixed(vec![(local, Role::Primary)]);
    let client = Endpoint::bind(EndpointOptions { locals, ..EndpointOptions::default() }).unwrap();
    let host = server.local_addresses()[0].address.to_string().parse().unwrap();
    let ticket = Ticket::new(identity.public_key().hash(), [2; 16], vec![host]).unwrap();
    let (connection, _accepted) = tokio::join!(client.connect(&ticket), server.accept());
    let mut path = connection.unwrap().info().await.unwrap().paths[0].statistics;
    (path.since, path.heard_at) = (NOW - 50_000 * MS, NOW - 10 * MS);
    (path.data_at, path.data_sent_at) = (None, None);
    let mut other = path;
    other.id = PathId(1);
    [path, other]
}

/// The reasons for paths with these purposes; `None` is a path not in use.
fn why(paths: &[PathStatistics; 2], purposes: [impl Into<Option<Purpose>>; 2]) -> [String; 2] {
    let in_use = |(id, purpose): (u32, Option<Purpose>)| Some((PathId(id), purpose?));
    let purposes: Vec<_> = (0..).zip(purposes.map(Into::into)).filter_map(in_use).collect();
    let facts =
        Facts { now: NOW, paths, pairs: &[], purposes: &purposes, addresses: Vec::new(), name: &|_| None };
    let rows = facts.report();
    [0, 1].map(|at: usize| {
        let why = &rows[at].why;
        format!("{} {}: {why}", if why.is_used() { "used" } else { "unused" }, why.word())
    })
}

/// Marks that data was sent on the path this long ago.
fn sent(path: &mut PathStatistics, ago: Duration) {
    path.data_sent_at = Some(NOW - ago);
    path.data_at = path.data_at.max(path.data_sent_at);
}

fn received(path: &mut PathStatistics, ago: Duration) {
    path.data_at = path.data_at.max(Some(NOW - ago));
}

const ANY: [Purpose; 2] = [Purpose::Any; 2];
/// The second path is in reserve.
const FIRST: [Option<Purpose>; 2] = [Some(Purpose::Any), None];

#[tokio::test]
async fn a_working_path_has_the_reason_of_the_scheduler() {
    let mut paths = two_paths().await;
    let purposes = [Purpose::LowestRtt, Purpose::MoreCostly];
    // Without load both would carry data.
    let idle = why(&paths, purposes);
    assert_eq!(idle[0], "used lowest-rtt: has the lowest RTT");
    assert_eq!(idle[1], "used more-costly: costs more: carries what cheaper paths cannot");
    // The second path would not.
    let idle = why(&paths, [Purpose::Primary, Purpose::Retransmissions]);
    assert_eq!(
        idle[1],
        "unused retransmissions: not the primary path: only for retransmissions; no data yet"
    );
    sent(&mut paths[0], 10 * MS);
    sent(&mut paths[1], 3200 * MS);
    let busy = why(&paths, purposes);
    assert_eq!(busy[0], idle_words(Purpose::LowestRtt));
    assert_eq!(busy[1], "unused more-costly: costs more: cheaper paths suffice; no data for 3 s");
    sent(&mut paths[1], 20 * MS);
    assert_eq!(why(&paths, purposes)[1], idle_words(Purpose::MoreCostly));
}

fn idle_words(purpose: Purpose) -> String {
    format!("used {}: {}", purpose.word(), purpose.why_used())
}

#[tokio::test]
async fn decisions_of_the_peer_are_not_attributed_to_the_scheduler_of_this_end() {
    let mut paths = two_paths().await;
    received(&mut paths[0], 10 * MS);
    received(&mut paths[1], 4000 * MS);
    let purposes = [Purpose::Retransmissions, Purpose::Primary];
    let download = why(&paths, purposes);
    assert_eq!(download[0], "used by-peer: the peer sends on it");
    assert_eq!(download[1], "unused peer-sends-elsewhere: the peer sends elsewhere; no data for 4 s");
    sent(&mut paths[1], 10 * MS);
    let both = why(&paths, purposes);
    assert_eq!(both, ["used by-peer: the peer sends on it", "used primary: is the primary path"]);
}

#[tokio::test]
async fn a_path_that_carries_data_because_others_fail_says_so() {
    let mut paths = two_paths().await;
    sent(&mut paths[1], 10 * MS);
    paths[0].state = PathState::Dead;
    assert_eq!(why(&paths, ANY)[1], "used alone: the only path that works");
    let as_what = |mut paths: [PathStatistics; 2], (state, role, reason)| {
        (paths[1].state, paths[1].role, paths[1].reason) = (state, role, reason);
        let failed = why(&paths, ANY)[1].clone();
        paths[0].state = PathState::Active;
        (failed, why(&paths, FIRST)[1].clone())
    };
    let (failed, works) = as_what(paths, (PathState::Backup, Role::Backup, PathReason::Validated));
    assert_eq!(failed, "used backup: role backup: none of the others works");
    assert_eq!(works, "unused backup: role backup: only when none of the others works");
    let (failed, works) = as_what(paths, (PathState::Parked, Role::Primary, PathReason::TriedWithout));
    assert_eq!(failed, "used parked: parked, but none of the others works");
    assert_eq!(
        works,
        "unused parked: parked: the paths together are slower than the best one: tried without it"
    );
    paths[1].role = Role::Secondary;
    paths[0].state = PathState::Active;
    assert_eq!(why(&paths, ANY)[1], "used any: the scheduler gives it data");
    // The other path is on probation: it counts, but it is no working primary.
    paths[0].state = PathState::Probation;
    assert_eq!(why(&paths, ANY)[1], "used secondary: role secondary: none of the primaries works");
    assert_eq!(why(&paths, ANY)[0], "unused probation: answers again, on probation");
    sent(&mut paths[0], 10 * MS);
    assert_eq!(why(&paths, ANY)[0], "used probation: answers again, on probation");
}

#[tokio::test]
async fn two_backups_stand_in_for_each_other_while_nothing_better_works() {
    let mut paths = two_paths().await;
    (paths[0].state, paths[0].role) = (PathState::Backup, Role::Backup);
    paths[1].peer_says = PathAvailability::Backup;
    let both = why(&paths, ANY);
    assert_eq!(both[0], "used backup: role backup: none of the others works");
    assert_eq!(both[1], "used peer-wants-backup: backup at the peer: none of the others works");
    (paths[0].state, paths[0].role) = (PathState::Active, Role::Primary);
    assert_eq!(
        why(&paths, FIRST)[1],
        "unused peer-wants-backup: backup at the peer: only when none of the others works"
    );
}

#[tokio::test]
async fn a_reserve_that_stands_in_for_a_path_without_permission_is_used() {
    let mut paths = two_paths().await;
    let purposes = [Purpose::NeedsConsent, Purpose::Fallback];
    let fallback = idle_words(Purpose::Fallback);
    for (state, role, peer_says) in [
        (PathState::Backup, Role::Backup, PathAvailability::Available),
        (PathState::Active, Role::Primary, PathAvailability::Backup),
        (PathState::Parked, Role::Primary, PathAvailability::Available),
    ] {
        (paths[1].state, paths[1].role, paths[1].peer_says) = (state, role, peer_says);
        let idle = why(&paths, purposes);
        assert_eq!(
            idle[0],
            "unused needs-consent: costs more: needs permission of the application; no data yet"
        );
        assert_eq!(idle[1], fallback);
        let mut busy = paths;
        sent(&mut busy[1], 10 * MS);
        assert_eq!(why(&busy, purposes)[1], fallback);
    }
    // The peer does not know what its packets cost here.
    let mut other = paths;
    received(&mut other[0], 10 * MS);
    assert_eq!(why(&other, purposes)[0], "used by-peer: the peer sends on it");
    // The path answers again, and no better path may be used.
    (paths[1].state, paths[1].role) = (PathState::Probation, Role::Backup);
    assert_eq!(why(&paths, purposes)[1], "used probation: answers again, on probation");
}

#[tokio::test]
async fn a_reserve_on_which_the_peer_sends_is_used() {
    let mut paths = two_paths().await;
    (paths[1].state, paths[1].role) = (PathState::Backup, Role::Backup);
    received(&mut paths[1], 10 * MS);
    assert_eq!(why(&paths, FIRST)[1], "used by-peer: the peer sends on it");
    // This end has just stopped using it.
    sent(&mut paths[1], 10 * MS);
    assert_eq!(why(&paths, FIRST)[1], "unused backup: role backup: only when none of the others works");
}

#[tokio::test]
async fn the_reason_parked_has_both_rates_of_the_guard() {
    let mut paths = two_paths().await;
    sent(&mut paths[0], 10 * MS);
    let mbit = |rate: u64| manyway_proto::Rate::from_bits_per_second(rate * 1_000_000);
    paths[1].state = PathState::Parked;
    paths[1].reason = PathReason::DoesNotPay { with: mbit(21), without: mbit(38) };
    assert_eq!(
        why(&paths, FIRST)[1],
        "unused parked: parked: slows the connection (38.0 Mbit/s without it, 21.0 Mbit/s with it)"
    );
}

#[tokio::test]
async fn a_dead_path_has_the_reason_of_its_death() {
    let mut paths = two_paths().await;
    paths[1].state = PathState::Dead;
    let mut of = |reason| {
        paths[1].reason = reason;
        why(&paths, ANY)[1].clone()
    };
    assert_eq!(of(PathReason::SendDenied), "unused denied: a firewall of this host forbids sending");
    assert_eq!(of(PathReason::SendRefused), "unused no-route: no route (address removed?)");
    assert_eq!(
        of(PathReason::PeerReceivedNothing),
        "unused peer-receives-nothing: the peer receives nothing on it"
    );
    assert_eq!(of(PathReason::ProbeTimeout { count: 2 }), "unused no-answer: no answer on UDP for 10 ms");
}
