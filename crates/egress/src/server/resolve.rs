//! Name resolution at the server's side.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::answer::{Reason, Refusal};
use crate::destination::{Destination, Host, Name};
use crate::quota::Quota;

/// Most addresses of a name that are used.
const MOST_ADDRESSES: usize = 16;

/// Resolves names.
pub trait Resolve: std::fmt::Debug + Send + Sync {
    /// All addresses of a name, best first. An error of the kind [`io::ErrorKind::NotFound`] means that it has none.
    /// The work may go on when the future is dropped, as long as it keeps its turn; it ends by itself then.
    fn resolve<'a>(
        &'a self,
        name: &'a Name,
        turn: Turn,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

    /// The name servers that it asks. They may be at addresses that are forbidden otherwise. Default: those of the system
    /// (resolv.conf(5)), at most three.
    fn name_servers(&self) -> Pin<Box<dyn Future<Output = Vec<SocketAddr>> + Send + '_>> {
        Box::pin(async {
            let text = tokio::fs::read_to_string(RESOLV_CONF).await.unwrap_or_default();
            parse_name_servers(&text).into_iter().map(|address| SocketAddr::new(address, DNS)).collect()
        })
    }
}

/// One of the look-ups that a client may have at a time, until it is dropped.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "dropping it has the effect")] OwnedSemaphorePermit);

/// The system's resolver, which also sorts addresses (RFC 6724).
#[derive(Debug)]
pub struct SystemResolver {
    running: Arc<Semaphore>,
    look_up: fn(&str) -> io::Result<Vec<IpAddr>>,
}

impl SystemResolver {
    /// A resolver with this many parallel look-ups; each takes a thread.
    pub fn new(parallel: usize) -> Self {
        Self { running: Arc::new(Semaphore::new(parallel.min(Semaphore::MAX_PERMITS))), look_up }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(
        &'a self,
        name: &'a Name,
        turn: Turn,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async move {
            let permit = Arc::clone(&self.running).acquire_owned().await.map_err(io::Error::other)?;
            let (name, look_up) = (name.as_str().to_owned(), self.look_up);
            let found = tokio::task::spawn_blocking(move || {
                let found = look_up(&name);
                // The cost is the thread, so it keeps both permits even after its caller has gone.
                drop((permit, turn));
                found
            });
            found.await.map_err(io::Error::other)?
        })
    }
}

fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|found| found.ip()).collect())
}

/// The addresses of a destination: resolved once, so that the checked addresses are the ones that are connected to.
// egress 5.6
pub(super) async fn addresses(
    resolver: &dyn Resolve,
    destination: &Destination,
    quota: &Quota,
    until: Instant,
) -> Result<Vec<IpAddr>, Refusal> {
    let name = match destination.host() {
        Host::Ip(address) => return Ok(vec![address.to_canonical()]),
        Host::Name(name) => name,
        Host::Resolver => return Err(Refusal::new(Reason::Unsupported)),
    };
    let looking = async {
        let turn = Arc::clone(&quota.lookups).acquire_owned().await.map_err(io::Error::other)?;
        // It became free by the time-out of others, and with theirs this one's time is up.
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        resolver.resolve(name, Turn(turn)).await
    };
    let found = match timeout_at(until, looking).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return Err(Refusal::new(reason_of(&error))),
        Err(_) => return Err(Refusal::new(Reason::LookupFailed)),
    };
    let mut addresses = Vec::new();
    for address in found.into_iter().map(|address| address.to_canonical()) {
        if addresses.len() < MOST_ADDRESSES && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(Refusal::new(Reason::NameNotFound)) } else { Ok(addresses) }
}

/// The name servers, for a destination that is the resolver.
// egress 5.9
pub(super) async fn name_servers(resolver: &dyn Resolve, port: u16) -> Result<Vec<SocketAddr>, Refusal> {
    if port != DNS {
        return Err(Refusal::with_text(Reason::Forbidden, "the resolver is reached on port 53 alone"));
    }
    let servers = resolver.name_servers().await;
    if servers.is_empty() {
        let text = format!("{RESOLV_CONF} of the server names no name server");
        return Err(Refusal::with_text(Reason::LookupFailed, text));
    }
    Ok(servers)
}

fn parse_name_servers(text: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next()?.parse().ok())?
        })
        .take(3)
        .collect()
}

/// Port of DNS.
pub(super) const DNS: u16 = 53;
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The system reports only by a text whether a name does not exist or the resolver failed; only the latter may change
/// soon.
fn reason_of(error: &io::Error) -> Reason {
    let is_temporary = error.to_string().to_ascii_lowercase().contains("temporary")
        || matches!(error.kind(), io::ErrorKind::TimedOut);
    if is_temporary { Reason::LookupFailed } else { Reason::NameNotFound }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::super::LOOKUPS;
    use super::*;

    fn turn() -> Turn {
        Turn(Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap())
    }

    #[tokio::test]
    async fn the_system_resolves_its_own_name_and_not_one_that_never_exists() {
        let resolver = SystemResolver::new(2);
        let find = async |name: &str| resolver.resolve(&Name::new(name).unwrap(), turn()).await;
        let found = find("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
        // RFC 6761, section 6.4; without a name server it is unknown whether it exists.
        assert!(find("does-not-exist.invalid").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn thirty_two_look_ups_run_at_a_time_and_others_wait() {
        let resolver = SystemResolver::new(LOOKUPS);
        let name = Name::new("localhost").unwrap();
        let mut running = Arc::clone(&resolver.running).acquire_many_owned(32).await.unwrap();
        let waits = tokio::time::timeout(Duration::from_secs(1), resolver.resolve(&name, turn())).await;
        assert!(waits.is_err(), "{waits:?}");
        drop(running.split(1));
        assert!(resolver.resolve(&name, turn()).await.is_ok());
    }

    static NAME_SERVER_IS_MUTE: AtomicBool = AtomicBool::new(true);

    fn wait_for_name_server(_: &str) -> io::Result<Vec<IpAddr>> {
        while NAME_SERVER_IS_MUTE.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    #[tokio::test]
    async fn a_look_up_whose_caller_has_gone_keeps_its_turn_until_the_system_ends_it() {
        let resolver = SystemResolver { look_up: wait_for_name_server, ..SystemResolver::new(1) };
        let (name, turns) = (Name::new("slow.test").unwrap(), Arc::new(Semaphore::new(1)));
        let turn = Turn(Arc::clone(&turns).try_acquire_owned().unwrap());
        let waits = tokio::time::timeout(Duration::from_millis(50), resolver.resolve(&name, turn)).await;
        let free = (turns.available_permits(), resolver.running.available_permits());
        // The runtime waits for the thread, also if the test fails.
        NAME_SERVER_IS_MUTE.store(false, Ordering::SeqCst);
        assert!(waits.is_err() && free == (0, 0), "{waits:?} {free:?}");
        let both = async { (turns.acquire().await.is_ok(), resolver.running.acquire().await.is_ok()) };
        assert_eq!(tokio::time::timeout(Duration::from_secs(20), both).await, Ok((true, true)));
    }

    #[test]
    fn the_first_three_name_servers_are_read() {
        let text = "# nameserver 192.0.2.9\nsearch example.org\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\n\
                    nameserver\t2001:db8::1 # near\nnameserver 192.0.2.1\nnameserver 192.0.2.2\n";
        let found: Vec<_> = parse_name_servers(text).iter().map(IpAddr::to_string).collect();
        assert_eq!(found, ["127.0.0.53", "2001:db8::1", "192.0.2.1"]);
    }

    #[test]
    fn a_silent_name_server_is_not_reported_as_a_missing_name() {
        let text = |text: &str| reason_of(&io::Error::other(text));
        assert_eq!(
            text("failed to lookup address information: Temporary failure in name resolution"),
            Reason::LookupFailed
        );
        assert_eq!(
            text("failed to lookup address information: Name or service not known"),
            Reason::NameNotFound
        );
    }
}
