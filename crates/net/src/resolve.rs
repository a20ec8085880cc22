//! From a server's names to all its addresses.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::{Host, HostPort};

/// The most addresses that [`resolve`] returns; what a name has beyond them is left out.
pub const MAX_ADDRESSES: usize = 32;

/// Finds all addresses of the given hosts, each once, IPv6 and IPv4 in turn, so that a race among the first few
/// tries both (RFC 8305, section 4).
///
/// Within a family the order is that of the hosts, then that of the system's resolver (RFC 6724). IPv4 addresses
/// written as IPv6 become IPv4. All names are asked for at once. Call it within a tokio runtime; cancel it by
/// dropping it, and give it a deadline: the system's resolver may take half a minute to give up.
///
/// # Errors
/// [`ResolveError`] if nothing was found at all. A name that fails beside one that answers is only logged.
pub async fn resolve(hosts: &[HostPort]) -> Result<Vec<SocketAddr>, ResolveError> {
    let mut lookups = tokio::task::JoinSet::new();
    let mut found: Vec<Vec<SocketAddr>> = vec![Vec::new(); hosts.len()];
    for (index, (host, slot)) in hosts.iter().zip(&mut found).enumerate() {
        match host.host() {
            Host::Ip(address) => slot.push(SocketAddr::new(address.to_canonical(), host.port())),
            Host::Name(name) => {
                let (name, port) = (name.clone(), host.port());
                lookups.spawn(async move { (index, look_up(&name, port).await) });
            }
        }
    }
    let mut failures = Vec::new();
    while let Some(finished) = lookups.join_next().await {
        let Ok((index, answer)) = finished else { continue };
        match (answer, found.get_mut(index), hosts.get(index)) {
            (Ok(addresses), Some(slot), _) => *slot = addresses,
            (Err(error), _, Some(host)) => {
                tracing::warn!(reason = %error, "a name of the server was not found");
                failures.push((host.host().to_string(), error));
            }
            (Ok(_) | Err(_), _, _) => {}
        }
    }
    let addresses = interleave(found.into_iter().flatten());
    if addresses.is_empty() {
        return Err(ResolveError { failures });
    }
    Ok(addresses)
}

async fn look_up(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addresses = tokio::net::lookup_host((name, port)).await?;
    Ok(addresses.map(canonical).collect())
}

/// An IPv4 address in the clothes of IPv6 needs an IPv4 socket.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(IpAddr::V4(v4), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Orders addresses so that families alternate, IPv6 first if the first one is, each address once.
fn interleave(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut seen = BTreeSet::new();
    let (mut next, mut other): (VecDeque<_>, VecDeque<_>) = (VecDeque::new(), VecDeque::new());
    let mut first_is_v6 = None;
    for address in addresses {
        if !seen.insert(address) {
            continue;
        }
        let of_first_family = *first_is_v6.get_or_insert_with(|| address.is_ipv6()) == address.is_ipv6();
        if of_first_family { next.push_back(address) } else { other.push_back(address) }
    }
    let mut ordered = Vec::new();
    while ordered.len() < MAX_ADDRESSES {
        let Some(address) = next.pop_front().or_else(|| other.pop_front()) else { break };
        ordered.push(address);
        if !other.is_empty() {
            std::mem::swap(&mut next, &mut other);
        }
    }
    ordered
}

/// No address of the server was found.
#[derive(Debug)]
pub struct ResolveError {
    failures: Vec<(String, io::Error)>,
}

impl ResolveError {
    /// Nobody answered in time.
    pub(crate) fn late(hosts: &[HostPort]) -> Self {
        let late = |host: &HostPort| (host.host().to_string(), io::ErrorKind::TimedOut.into());
        let names = hosts.iter().filter(|host| matches!(host.host(), Host::Name(_)));
        Self { failures: names.map(late).collect() }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(((name, error), rest)) = self.failures.split_first() else {
            return write!(f, "there is no address to connect to; the server's names have none");
        };
        write!(f, "the name {name:?} was not found: {error}")?;
        for (name, error) in rest {
            write!(f, "; nor was {name:?}: {error}")?;
        }
        write!(f, "; check the name and the DNS server of this host")
    }
}

impl std::error::Error for ResolveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failures.first().map(|(_, error)| error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(addresses: &[&str]) -> Vec<String> {
        let addresses = addresses.iter().map(|a| a.parse().unwrap());
        interleave(addresses).iter().map(|a: &SocketAddr| a.ip().to_string()).collect()
    }

    #[test]
    fn families_alternate_and_doubles_vanish() {
        let given = ["[::1]:1", "[::2]:1", "[::1]:1", "10.0.0.1:1", "[::3]:1", "10.0.0.2:1", "10.0.0.1:1"];
        assert_eq!(ordered(&given), ["::1", "10.0.0.1", "::2", "10.0.0.2", "::3"]);
    }

    #[test]
    fn one_family_alone_keeps_its_order() {
        assert_eq!(
            ordered(&["10.0.0.2:1", "10.0.0.1:1", "10.0.0.3:1"]),
            ["10.0.0.2", "10.0.0.1", "10.0.0.3"]
        );
        assert!(ordered(&[]).is_empty());
    }

    #[test]
    fn the_rest_of_the_longer_family_follows_at_the_end() {
        let given = ["10.0.0.1:1", "[::1]:1", "[::2]:1", "[::3]:1"];
        assert_eq!(ordered(&given), ["10.0.0.1", "::1", "::2", "::3"]);
    }

    #[tokio::test]
    async fn addresses_need_no_resolver_and_get_the_default_port() {
        let hosts = ["192.0.2.1", "::ffff:192.0.2.2", "[2001:db8::1]:7"].map(|h| h.parse().unwrap());
        let addresses = resolve(&hosts).await.unwrap();
        let printed: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(printed, ["192.0.2.1:4455", "[2001:db8::1]:7", "192.0.2.2:4455"]);
    }

    #[tokio::test]
    async fn localhost_is_found_by_name() {
        let addresses = resolve(&["localhost:9".parse().unwrap()]).await.unwrap();
        assert!(addresses.iter().all(|a| a.ip().is_loopback() && a.port() == 9), "{addresses:?}");
    }

    #[tokio::test]
    async fn an_unknown_name_is_reported_with_its_name() {
        // RFC 6761, section 6.4: such names never exist.
        let error = resolve(&["does-not-exist.invalid".parse().unwrap()]).await.unwrap_err();
        assert!(error.to_string().contains("does-not-exist.invalid"), "{error}");
    }
}
