//! Resolves a server's names to all its addresses.

mod direct;
mod files;
mod query;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use manyway_units::text;

use crate::interfaces::InterfacePolicy;
use crate::ticket::{Host, HostPort};
use crate::zone::interface_index;

/// Most addresses that [`resolve`] returns; further ones of a name are dropped.
pub const MAX_ADDRESSES: usize = 32;

/// How long the system's resolver may take beside look-ups by own sockets.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks names up.
///
/// ```
/// use manyway::interfaces::InterfacePolicy;
/// use manyway::resolve::Resolver;
///
/// let of_the_system = Resolver::default();
/// assert_ne!(of_the_system, Resolver::marked(0x4455, InterfacePolicy::default()));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolver {
    /// The mark, and the interfaces that lead to name servers.
    own: Option<(u32, InterfacePolicy)>,
}

impl Resolver {
    /// Looks into `/etc/hosts` and then asks the name servers of this host by sockets of its own: with this mark
    /// (`SO_MARK`), each bound to an interface that the policy allows. The sockets of the system's resolver, which is the
    /// [default](Self::default), have no mark; it is asked for names without a dot, and for those that are not found
    /// otherwise.
    ///
    /// For a process that routes what other programs send, and has to keep itself out of that. It needs Linux with
    /// `CAP_NET_ADMIN`.
    pub fn marked(mark: u32, policy: InterfacePolicy) -> Self {
        Self { own: Some((mark, policy)) }
    }

    /// As [`resolve`].
    ///
    /// # Errors
    /// As [`resolve`].
    pub async fn resolve(&self, hosts: &[HostPort]) -> Result<Vec<SocketAddr>, ResolveError> {
        resolve_by(self, hosts).await
    }

    /// The addresses of a name.
    pub(crate) async fn look_up(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let of_the_system =
            async { Ok(tokio::net::lookup_host((name, port)).await?.map(canonical).collect()) };
        let Some((mark, policy)) = &self.own else { return of_the_system.await };
        if name.contains('.') {
            match direct::look_up(name, *mark, policy).await {
                Ok(found) => return Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()),
                Err(error) => tracing::debug!(%error, "falling back to the system resolver"),
            }
        }
        // The system resolver may wait for a dead name server.
        tokio::time::timeout(PATIENCE, of_the_system).await?
    }
}

/// Resolves all addresses of the given hosts, each once, IPv6 and IPv4 in turn, so that connection attempts to the
/// first few try both (RFC 8305, section 4).
///
/// Within a family the order is that of the hosts, then that of the system's resolver (RFC 6724). IPv4-mapped IPv6
/// addresses become IPv4. All names are resolved at once. Call it within a tokio runtime; cancel it by dropping it, and
/// use a timeout: the system's resolver may take half a minute to fail.
///
/// # Errors
/// [`ResolveError`] if no address was found at all. A name that fails beside one that resolves is only logged.
pub async fn resolve(hosts: &[HostPort]) -> Result<Vec<SocketAddr>, ResolveError> {
    resolve_by(&Resolver::default(), hosts).await
}

async fn resolve_by(resolver: &Resolver, hosts: &[HostPort]) -> Result<Vec<SocketAddr>, ResolveError> {
    let mut lookups = tokio::task::JoinSet::new();
    let mut found: Vec<Vec<SocketAddr>> = vec![Vec::new(); hosts.len()];
    let mut failures = Vec::new();
    for (index, (host, slot)) in hosts.iter().zip(&mut found).enumerate() {
        match host.host() {
            Host::Ip(_) if host.zone().is_some() => match socket_address(host) {
                Ok(address) => slot.push(address),
                Err(error) => failures.push((host.to_string(), error.into())),
            },
            Host::Ip(address) => slot.push(SocketAddr::new(address.to_canonical(), host.port())),
            Host::Name(name) => {
                let (name, port, resolver) = (name.clone(), host.port(), resolver.clone());
                lookups.spawn(async move { (index, resolver.look_up(&name, port).await) });
            }
        }
    }
    while let Some(finished) = lookups.join_next().await {
        let Ok((index, answer)) = finished else { continue };
        match (answer, found.get_mut(index), hosts.get(index)) {
            (Ok(addresses), Some(slot), _) => *slot = addresses,
            (Err(error), _, Some(host)) => {
                failures.push((host.host().to_string(), error.into()));
            }
            (Ok(_) | Err(_), _, _) => {}
        }
    }
    let addresses = interleave(found.into_iter().flatten());
    if addresses.is_empty() {
        return Err(ResolveError { failures });
    }
    for (name, reason) in failures {
        tracing::debug!(%name, "the server has this name");
        tracing::warn!(?reason, "a name of the server was not found");
    }
    Ok(addresses)
}

/// The address of a host that is no name, with the interface index of its zone.
///
/// # Errors
/// If it is a name, or this host has no such interface.
pub fn socket_address(host: &HostPort) -> io::Result<SocketAddr> {
    let Host::Ip(ip) = host.host() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an address is needed, not a name"));
    };
    let (IpAddr::V6(v6), Some(zone)) = (ip, host.zone()) else {
        return Ok(SocketAddr::new(*ip, host.port()));
    };
    let index = zone.parse().ok().or_else(|| interface_index(zone)).filter(|index| *index != 0);
    let index = index.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("this host has no interface {zone:?}"))
    })?;
    Ok(SocketAddrV6::new(*v6, host.port(), 0, index).into())
}

/// An IPv4-mapped IPv6 address needs an IPv4 socket.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(IpAddr::V4(v4), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Orders addresses so that families alternate, beginning with the family of the first one, each address once.
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
    failures: Vec<(String, LookUpFailure)>,
}

/// Why a name resolved to no address.
#[derive(Debug)]
enum LookUpFailure {
    /// There is no such name, or it has no address.
    NotFound,
    /// No name server answered within this time.
    Late(Duration),
    /// Another error.
    Other(io::Error),
}

impl From<io::Error> for LookUpFailure {
    fn from(error: io::Error) -> Self {
        // The system's error number is not passed on, but its text is: glibc (two), musl, and BSD with macOS.
        const NOT_FOUND: [&str; 4] = [
            "not known",
            "No address associated with hostname",
            "Name does not resolve",
            "nodename nor servname",
        ];
        let text = error.to_string();
        let is_not_found = NOT_FOUND.iter().any(|known| text.contains(known));
        if is_not_found { Self::NotFound } else { Self::Other(error) }
    }
}

impl ResolveError {
    /// No name server answered within this time.
    pub(crate) fn late(hosts: &[HostPort], waited: Duration) -> Self {
        let late = |host: &HostPort| (host.host().to_string(), LookUpFailure::Late(waited));
        let names = hosts.iter().filter(|host| matches!(host.host(), Host::Name(_)));
        Self { failures: names.map(late).collect() }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failures.is_empty() {
            return write!(f, "there is no address to connect to; the server's names have none");
        }
        for (index, (name, failure)) in self.failures.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let name = as_typed(name);
            write!(f, "{separator}")?;
            match failure {
                LookUpFailure::NotFound => {
                    write!(f, "{name:?} was not found: there is no host of that name")?;
                }
                LookUpFailure::Late(waited) => {
                    let waited = text::duration(*waited);
                    write!(f, "the look-up of {name:?} timed out: no name server answered within {waited}")?;
                }
                LookUpFailure::Other(error) => write!(f, "{name:?} could not be looked up: {error}")?,
            }
        }
        Ok(())
    }
}

/// A name as users write it: an internationalised one (`xn--…`) in its own letters.
fn as_typed(name: &str) -> String {
    let (unicode, result) = idna::domain_to_unicode(name);
    if result.is_ok() { unicode } else { name.to_owned() }
}

impl std::error::Error for ResolveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failures.iter().find_map(|(_, failure)| match failure {
            LookUpFailure::Other(error) => Some(error as _),
            LookUpFailure::NotFound | LookUpFailure::Late(_) => None,
        })
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
    fn families_alternate_and_duplicates_are_dropped() {
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

    #[test]
    fn a_name_that_does_not_exist_is_told_from_a_name_server_that_does_not_answer() {
        let host: HostPort = "nosuchhost.example".parse().unwrap();
        let late = ResolveError::late(std::slice::from_ref(&host), Duration::from_secs(10));
        let expected =
            "the look-up of \"nosuchhost.example\" timed out: no name server answered within 10.00 s";
        assert_eq!(late.to_string(), expected);
        let of = |text: &str| {
            let error = io::Error::other(format!("failed to lookup address information: {text}"));
            ResolveError { failures: vec![("nosuchhost.example".to_owned(), error.into())] }.to_string()
        };
        for text in
            ["Name or service not known", "No address associated with hostname", "Name does not resolve"]
        {
            assert_eq!(of(text), "\"nosuchhost.example\" was not found: there is no host of that name");
        }
        assert!(of("Temporary failure in name resolution").contains("could not be looked up"));
        let books: HostPort = "bücher.example".parse().unwrap();
        let told = ResolveError::late(&[books], Duration::from_secs(10)).to_string();
        assert!(told.starts_with("the look-up of \"bücher.example\" timed out"), "{told}");
    }

    #[tokio::test]
    async fn a_zone_is_an_interface_of_this_host_by_name_or_number() {
        let addresses = resolve(&["[fe80::1%7]:1".parse().unwrap()]).await.unwrap();
        assert_eq!(addresses[0].to_string(), "[fe80::1%7]:1");
        let error = resolve(&["fe80::1%nope0".parse().unwrap()]).await.unwrap_err();
        assert!(error.to_string().contains("no interface \"nope0\""), "{error}");
    }
}
