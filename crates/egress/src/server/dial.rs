//! Connects to the first address that answers (RFC 8305).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::answer::Reason;

/// Delay between two attempts (RFC 8305, section 5), unless one fails before.
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to the first of the addresses that answers: the next attempt begins when one has failed or after 250 ms.
/// All end at `until`.
///
/// # Errors
/// The most informative of the errors.
// egress 5.7
pub(super) async fn dial(
    addresses: Vec<SocketAddr>,
    until: Instant,
) -> Result<(TcpStream, SocketAddr), Reason> {
    let mut waiting = interleave(addresses);
    let mut attempts = JoinSet::new();
    let mut failures = Vec::new();
    loop {
        if let Some(address) = waiting.pop_front() {
            attempts.spawn(async move { (address, TcpStream::connect(address).await) });
        } else if attempts.is_empty() {
            return Err(most_telling(&failures));
        }
        let next = if waiting.is_empty() { until } else { until.min(Instant::now() + STAGGER) };
        match timeout_at(next, attempts.join_next()).await {
            Ok(Some(Ok((address, Ok(socket))))) => return Ok((socket, address)),
            Ok(Some(Ok((_, Err(error))))) => failures.push(reason_of(&error)),
            Ok(Some(Err(_)) | None) => {}
            // The others continue beside the next one.
            Err(_) if Instant::now() < until => {}
            Err(_) => return Err(Reason::TimedOut),
        }
    }
}

/// Orders addresses so that families alternate, beginning with that of the first.
fn interleave(addresses: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let Some(is_v6) = addresses.first().map(SocketAddr::is_ipv6) else { return VecDeque::new() };
    let (first, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|it| it.is_ipv6() == is_v6);
    let mut ordered = VecDeque::new();
    let mut other = other.into_iter();
    for address in first {
        ordered.push_back(address);
        ordered.extend(other.next());
    }
    ordered.extend(other);
    ordered
}

/// An error from a host is more informative than a timeout.
fn most_telling(failures: &[Reason]) -> Reason {
    let order = [
        Reason::Refused,
        Reason::TooMany,
        Reason::Forbidden,
        Reason::TimedOut,
        Reason::HostUnreachable,
        Reason::NetworkUnreachable,
    ];
    order.into_iter().find(|reason| failures.contains(reason)).unwrap_or(Reason::Other)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the system has many more")]
pub(super) fn reason_of(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Reason::Refused,
        io::ErrorKind::HostUnreachable => Reason::HostUnreachable,
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable => Reason::NetworkUnreachable,
        io::ErrorKind::TimedOut => Reason::TimedOut,
        // A firewall, of this host or on the way.
        io::ErrorKind::PermissionDenied => Reason::Forbidden,
        // The system has no addresses of this family.
        _ if error.raw_os_error() == Some(EAFNOSUPPORT) => Reason::NetworkUnreachable,
        // The server has no file descriptors left.
        _ if error.raw_os_error().is_some_and(|code| code == EMFILE || code == ENFILE) => Reason::TooMany,
        _ => Reason::Other,
    }
}

// The same number on all systems with such sockets.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
#[cfg(target_os = "linux")]
const EAFNOSUPPORT: i32 = nix::libc::EAFNOSUPPORT;
#[cfg(not(target_os = "linux"))]
const EAFNOSUPPORT: i32 = if cfg!(windows) { 10047 } else { 47 };

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[tokio::test]
    async fn a_working_address_is_used_after_one_that_refuses() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let (socket, address) = dial(vec![closed, open], soon()).await.unwrap();
        assert_eq!((address, socket.peer_addr().unwrap()), (open, open));
        assert_eq!(dial(vec![closed, closed], soon()).await.unwrap_err(), Reason::Refused);
        assert_eq!(dial(Vec::new(), soon()).await.unwrap_err(), Reason::Other);
    }

    #[test]
    fn families_alternate_beginning_with_the_first() {
        let given = ["[2::1]:1", "[2::2]:1", "[2::3]:1", "9.0.0.1:1"].map(|it| it.parse().unwrap());
        let ordered: Vec<_> = interleave(given.to_vec()).iter().map(ToString::to_string).collect();
        assert_eq!(ordered, ["[2::1]:1", "9.0.0.1:1", "[2::2]:1", "[2::3]:1"]);
    }

    // egress 8.13
    #[test]
    fn a_system_without_a_family_of_addresses_does_not_reach_its_network() {
        assert_eq!(reason_of(&io::Error::from_raw_os_error(EAFNOSUPPORT)), Reason::NetworkUnreachable);
    }

    #[test]
    fn a_refusal_is_more_informative_than_silence() {
        let told = [Reason::NetworkUnreachable, Reason::TimedOut, Reason::Refused];
        assert_eq!(most_telling(&told), Reason::Refused);
        assert_eq!(most_telling(&told[..2]), Reason::TimedOut);
        assert_eq!(most_telling(&[]), Reason::Other);
    }
}
