//! An application's control over the choice of paths, and the events about it, over two addresses of this host.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use crate::common::{Pair, client_from, server, soon};
use manyway::scheduler::Purpose;
use manyway::{Connection, ConnectionConfig, Event, Path, PathId, PathState, Unused, Used, Why};
use tokio::sync::broadcast::Receiver;

/// A client at two addresses, with two working paths.
async fn two_paths(scheduler: &str) -> (Pair, [Path; 2]) {
    let mut config = ConnectionConfig::default();
    config.set_scheduler(scheduler).unwrap();
    let client = client_from(config, &[[127, 0, 0, 1], [127, 0, 0, 2]]);
    let pair = Pair::of(server(ConnectionConfig::default()), client).await;
    let paths = soon(async {
        loop {
            let info = pair.connected.info().await.unwrap();
            if info.paths.iter().filter(|path| path.statistics.state == PathState::Active).count() == 2 {
                return [0, 1].map(|at: usize| pair.connected.path(info.paths[at].statistics.id));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let paths = paths.await;
    (pair, paths)
}

/// Sends a little every few milliseconds until it is dropped.
struct Drip(tokio::task::JoinHandle<()>);

impl Drip {
    async fn start(pair: &Pair) -> Self {
        let ((mut send, _), (_, mut receive)) = pair.stream().await;
        Self(tokio::spawn(async move {
            while send.write_chunk(vec![7; 5000].into()).await.is_ok() {
                receive.read_chunk(usize::MAX).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }))
    }
}

impl Drop for Drip {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn next_primary(events: &mut Receiver<Event>) -> PathId {
    loop {
        if let Event::PrimaryPath(path) = soon(events.recv()).await.unwrap() {
            return path;
        }
    }
}

/// Waits until both paths have the expected reasons.
async fn until_told(connection: &Connection, is_it: impl Fn(&[Why; 2]) -> bool) {
    let told = async {
        loop {
            let report = connection.report().await.unwrap();
            let mut paths = report.into_iter().filter(|row| row.path.is_some()).map(|row| row.why);
            let both = [paths.next().unwrap(), paths.next().unwrap()];
            if is_it(&both) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(told).await;
}

const PRIMARY: Why = Why::Used(Used::For(Purpose::Primary));

fn only_repeats(why: &Why) -> bool {
    matches!(why, Why::Unused(Unused::NotNeeded { purpose: Purpose::Retransmissions, .. }))
}

#[tokio::test]
async fn the_application_chooses_the_primary_path_and_returns_the_choice() {
    let (pair, [oldest, other]) = two_paths("primary").await;
    let mut events = pair.connected.events();
    let _drip = Drip::start(&pair).await;
    assert_eq!(next_primary(&mut events).await, oldest.id());
    until_told(&pair.connected, |why| why[0] == PRIMARY && only_repeats(&why[1])).await;
    other.make_primary();
    assert_eq!(next_primary(&mut events).await, other.id());
    until_told(&pair.connected, |why| only_repeats(&why[0]) && why[1] == PRIMARY).await;
    pair.connected.leave_primary();
    assert_eq!(next_primary(&mut events).await, oldest.id());
    until_told(&pair.connected, |why| why[0] == PRIMARY).await;
    // The peer sends nothing and has another scheduler: it reports what it sees.
    until_told(&pair.accepted, |why| {
        why[0] == Why::Used(Used::ByPeer)
            && matches!(why[1], Why::Unused(Unused::PeerSendsElsewhere { idle: Some(_) }))
    })
    .await;
}

#[tokio::test]
async fn the_only_path_left_reports_that_it_is_alone() {
    let (pair, [first, second]) = two_paths("primary").await;
    let mut events = pair.connected.events();
    let _drip = Drip::start(&pair).await;
    assert_eq!(next_primary(&mut events).await, first.id());
    first.close();
    assert_eq!(next_primary(&mut events).await, second.id());
    let why = soon(async {
        loop {
            let report = pair.connected.report().await.unwrap();
            let mut paths = report.into_iter().filter(|row| row.path.is_some());
            match (paths.next(), paths.next()) {
                (Some(only), None) => return only.why,
                (Some(_) | None, _) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    assert_eq!(why.await, Why::Used(Used::Alone));
}
