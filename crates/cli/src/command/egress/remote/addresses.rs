//! Where the service of a rule is. Its name is looked up once for the peers of some seconds.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use manyway_egress::{Destination, Host};
use tokio::net::lookup_host;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The addresses of one destination.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// What a look-up found, and when.
    found: Mutex<Option<(Instant, Vec<SocketAddr>)>>,
    /// The last one that answered. It does not wait for a look-up.
    answers: std::sync::Mutex<Option<SocketAddr>>,
}

impl Addresses {
    /// The addresses of the destination, first the one that answered last. Peers that come during a look-up wait for it.
    ///
    /// # Errors
    /// There is no address, or the look-up failed.
    pub(super) async fn of(&self, destination: &Destination) -> io::Result<Vec<SocketAddr>> {
        let port = destination.port();
        match destination.host() {
            Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, port)]),
            Host::Name(name) => {
                self.kept(async { Ok(lookup_host((name.as_str(), port)).await?.collect()) }).await
            }
            Host::Resolver => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    async fn kept(
        &self,
        look_up: impl Future<Output = io::Result<Vec<SocketAddr>>>,
    ) -> io::Result<Vec<SocketAddr>> {
        let mut found = self.found.lock().await;
        if found.as_ref().is_none_or(|(since, _)| since.elapsed() >= KEPT) {
            *found = Some((Instant::now(), look_up.await?));
        }
        let mut addresses = found.clone().map(|(_, addresses)| addresses).unwrap_or_default();
        if addresses.is_empty() {
            *found = None;
            return Err(io::ErrorKind::NotFound.into());
        }
        let answers = *self.answers();
        addresses.sort_by_key(|address| Some(*address) != answers);
        Ok(addresses)
    }

    /// A service answered at this address.
    pub(super) fn on_answer(&self, address: SocketAddr) {
        *self.answers() = Some(address);
    }

    fn answers(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long the answer of a resolver holds.
const KEPT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::sync::Notify;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_name_is_looked_up_once_for_some_seconds_and_the_address_that_answers_comes_first() {
        let both: [SocketAddr; 2] = ["[::1]:9".parse().unwrap(), "127.0.0.1:9".parse().unwrap()];
        let (addresses, asked) = (Addresses::default(), Cell::new(0));
        let ask = || async {
            asked.set(asked.get() + 1);
            Ok(both.to_vec())
        };
        for _ in 0..3 {
            assert_eq!(addresses.kept(ask()).await.unwrap(), both);
        }
        assert_eq!(asked.get(), 1);
        addresses.on_answer(both[1]);
        for _ in 0..2 {
            assert_eq!(addresses.kept(ask()).await.unwrap(), [both[1], both[0]]);
            tokio::time::advance(KEPT).await;
        }
        assert_eq!(asked.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_does_not_wait_for_a_look_up() {
        let both: [SocketAddr; 2] = ["[::1]:9".parse().unwrap(), "127.0.0.1:9".parse().unwrap()];
        let (addresses, answered) = (Addresses::default(), Notify::new());
        let looking = addresses.kept(async {
            answered.notified().await;
            Ok(both.to_vec())
        });
        let answering = async {
            addresses.on_answer(both[1]);
            answered.notify_one();
        };
        // The look-up begins first, and ends after the answer.
        let done = timeout(KEPT, async { tokio::join!(biased; looking, answering) }).await;
        assert_eq!(done.expect("the answer does not wait").0.unwrap(), [both[1], both[0]]);
    }

    #[tokio::test]
    async fn a_failed_look_up_is_not_kept() {
        let addresses = Addresses::default();
        assert!(addresses.kept(async { Ok(Vec::new()) }).await.is_err());
        assert!(addresses.kept(async { Err(io::ErrorKind::TimedOut.into()) }).await.is_err());
        let address = "127.0.0.1:9".parse().unwrap();
        assert_eq!(addresses.kept(async { Ok(vec![address]) }).await.unwrap(), [address]);
    }
}
