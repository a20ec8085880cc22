//! Re-resolves the names of a client's server while no path works, since the server may have moved.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_proto::ConnectionHandle;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::resolve::Resolver;
use crate::{Host, HostPort};

/// Waits from the loss of the last path, or from the last result, to the next look-up; then the last value repeats.
const WAITS: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

type Lookup = Pin<Box<dyn Future<Output = Vec<SocketAddr>> + Send>>;

/// The connections without a working path, and the look-ups in progress.
pub(super) struct Reresolver {
    retries: BTreeMap<ConnectionHandle, Retry>,
    lookups: JoinSet<(ConnectionHandle, Vec<SocketAddr>)>,
    resolve: Box<dyn Fn(Vec<HostPort>) -> Lookup + Send>,
}

struct Retry {
    tries: usize,
    /// `None` while a look-up is in progress.
    next_at: Option<Instant>,
}

impl Reresolver {
    pub(super) fn new(resolver: Resolver) -> Self {
        Self::with(move |hosts| {
            let resolver = resolver.clone();
            Box::pin(async move { resolver.resolve(&hosts).await.unwrap_or_default() })
        })
    }

    fn with(resolve: impl Fn(Vec<HostPort>) -> Lookup + Send + 'static) -> Self {
        Self { retries: BTreeMap::new(), lookups: JoinSet::new(), resolve: Box::new(resolve) }
    }

    /// Records whether the connection has a working path.
    pub(super) fn update(&mut self, handle: ConnectionHandle, pathless: bool) {
        if pathless {
            let next_at = || Some(Instant::now() + WAITS[0]);
            self.retries.entry(handle).or_insert_with(|| Retry { tries: 0, next_at: next_at() });
        } else {
            self.retries.remove(&handle);
        }
    }

    /// When [`Self::poll`] is due at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.retries.values().filter_map(|retry| retry.next_at).min()
    }

    /// Starts the look-ups that are due, and returns the next result. `hosts_of` returns the names of a connection's
    /// server, `None` once the connection has ended.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        mut hosts_of: impl FnMut(ConnectionHandle) -> Option<Vec<HostPort>>,
    ) -> Option<(ConnectionHandle, Vec<SocketAddr>)> {
        if self.retries.is_empty() {
            // Late results are of no use to any connection.
            self.lookups.abort_all();
            while let Poll::Ready(Some(_)) = self.lookups.poll_join_next(context) {}
            return None;
        }
        let now = Instant::now();
        let due = |retry: &Retry| retry.next_at.is_some_and(|at| at <= now);
        let handles: Vec<_> = self.retries.iter().filter(|(_, p)| due(p)).map(|(h, _)| *h).collect();
        for handle in handles {
            // A literal address does not change.
            let hosts = hosts_of(handle).filter(|h| h.iter().any(|h| matches!(h.host(), Host::Name(_))));
            let Some(hosts) = hosts else {
                self.retries.remove(&handle);
                continue;
            };
            if let Some(retry) = self.retries.get_mut(&handle) {
                retry.next_at = None;
                retry.tries += 1;
                let lookup = (self.resolve)(hosts);
                self.lookups.spawn(async move { (handle, lookup.await) });
            }
        }
        while let Poll::Ready(Some(finished)) = self.lookups.poll_join_next(context) {
            let Ok((handle, addresses)) = finished else { continue };
            if let Some(retry) = self.retries.get_mut(&handle) {
                let wait = WAITS.get(retry.tries).or(WAITS.last()).copied().unwrap_or_default();
                retry.next_at = Some(Instant::now() + wait);
                return Some((handle, addresses));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use manyway_proto::identity::{Identity, client_config};
    use manyway_proto::{ClientConfig, ConnectionConfig, EndpointConfig, LocalAddress, LocalCandidate, Role};

    use super::*;

    fn handle() -> ConnectionHandle {
        let mut endpoint =
            manyway_proto::Endpoint::new(EndpointConfig::default(), manyway_proto::Rng::from_seed([1; 32]));
        let client = ClientConfig {
            tls: client_config([0; 16], &Identity::from_seed(&[2; 32])),
            server_name: rustls::pki_types::ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into()),
            connection: Arc::new(ConnectionConfig::default()),
        };
        let local = LocalAddress { interface: 0, address: "127.0.0.1:1".parse().unwrap() };
        let locals = [LocalCandidate { address: local, role: Role::Primary }];
        let now = crate::Clock::new().now();
        endpoint.connect(now, &client, &locals, &["127.0.0.1:2".parse().unwrap()]).unwrap()
    }

    async fn answer(reresolver: &mut Reresolver, host: &str) -> Option<Vec<SocketAddr>> {
        let hosts: Vec<HostPort> = vec![host.parse().unwrap()];
        poll_fn(|context| match reresolver.poll(context, |_| Some(hosts.clone())) {
            Some((_, addresses)) => Poll::Ready(Some(addresses)),
            None if reresolver.retries.is_empty() => Poll::Ready(None),
            None => Poll::Pending,
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_resolved_again_with_growing_waits() {
        let mut reresolver = Reresolver::with(|_| Box::pin(async { vec!["192.0.2.1:1".parse().unwrap()] }));
        let handle = handle();
        reresolver.update(handle, true);
        reresolver.update(handle, true);
        let mut waits = Vec::new();
        for _ in 0..7 {
            let since = Instant::now();
            tokio::time::sleep_until(reresolver.deadline().unwrap()).await;
            assert_eq!(answer(&mut reresolver, "server.example").await.unwrap().len(), 1);
            waits.push(since.elapsed().as_millis() / 100 * 100);
        }
        assert_eq!(waits, [500, 1000, 2000, 5000, 10_000, 10_000, 10_000]);
        reresolver.update(handle, false);
        assert!(reresolver.deadline().is_none());
        assert_eq!(answer(&mut reresolver, "server.example").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_not_resolved() {
        let mut reresolver = Reresolver::with(|_| Box::pin(async { vec!["192.0.2.1:1".parse().unwrap()] }));
        reresolver.update(handle(), true);
        tokio::time::sleep_until(reresolver.deadline().unwrap()).await;
        assert_eq!(answer(&mut reresolver, "192.0.2.7").await, None);
        assert!(reresolver.deadline().is_none());
    }
}
