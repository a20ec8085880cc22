//! Why a port cannot be bound, and which program has it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use crate::args::Protocol;
use crate::output::cause;

/// Why a port cannot be bound, followed by `remedy` if another address or port may do. A port that is taken has the name
/// of the program as far as the system tells this user.
pub(super) fn why_not_bound(
    (protocol, address): (Protocol, SocketAddr),
    error: &io::Error,
    remedy: &str,
) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the system has many more")]
    let why = match error.kind() {
        ErrorKind::AddrInUse => {
            let holder = holder(protocol, address).unwrap_or_else(|| "another program".to_owned());
            format!("the port is taken: {holder} has it")
        }
        ErrorKind::AddrNotAvailable => "no interface of this host has this address".to_owned(),
        ErrorKind::PermissionDenied => "ports below 1024 require root or CAP_NET_BIND_SERVICE".to_owned(),
        _ => return cause(error),
    };
    format!("{why}; {remedy}")
}

#[cfg(target_os = "linux")]
fn holder(protocol: Protocol, address: SocketAddr) -> Option<String> {
    let sockets: Vec<_> =
        sockets(protocol).into_iter().filter(|socket| collides(socket.local, address)).collect();
    let inodes: Vec<_> = sockets.iter().map(|socket| socket.inode).collect();
    if let Some(process) = process_with(&inodes) {
        return Some(process);
    }
    let own = rustix::process::geteuid().as_raw();
    sockets.iter().any(|socket| socket.user != own).then(|| "a program of another user".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn holder(_protocol: Protocol, _address: SocketAddr) -> Option<String> {
    None
}

/// A socket that has a port.
#[cfg(target_os = "linux")]
struct Holding {
    local: SocketAddr,
    user: u32,
    inode: u64,
}

#[cfg(target_os = "linux")]
fn sockets(protocol: Protocol) -> Vec<Holding> {
    use procfs::net::{TcpState, tcp, tcp6, udp, udp6};
    match protocol {
        Protocol::Tcp => {
            let both = [tcp(), tcp6()].into_iter().flatten().flatten();
            let listening = both.filter(|entry| entry.state == TcpState::Listen);
            listening
                .map(|entry| Holding { local: entry.local_address, user: entry.uid, inode: entry.inode })
                .collect()
        }
        Protocol::Udp => {
            let both = [udp(), udp6()].into_iter().flatten().flatten();
            both.map(|entry| Holding { local: entry.local_address, user: entry.uid, inode: entry.inode })
                .collect()
        }
    }
}

/// Whether two sockets cannot have these addresses at the same time.
#[cfg(target_os = "linux")]
fn collides(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    // All addresses of IPv6 are those of IPv4, too, unless a program asks otherwise.
    let covers = |all: IpAddr, it: IpAddr| all.is_unspecified() && (all.is_ipv6() || it.is_ipv4());
    one.port() == other.port() && (a == b || covers(a, b) || covers(b, a))
}

/// The first process of this user that has one of these sockets.
#[cfg(target_os = "linux")]
fn process_with(inodes: &[u64]) -> Option<String> {
    use procfs::process::{FDTarget, Process, all_processes};
    let has_it = |process: &Process| {
        let mut files = process.fd().into_iter().flatten().flatten();
        files.any(|file| matches!(file.target, FDTarget::Socket(inode) if inodes.contains(&inode)))
    };
    let process = all_processes().ok()?.flatten().find(has_it)?;
    let name: String = process.stat().ok()?.comm.chars().filter(|c| !c.is_control()).collect();
    Some(format!("{name} (process {})", process.pid))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    fn taken(protocol: Protocol, address: SocketAddr) -> String {
        why_not_bound((protocol, address), &ErrorKind::AddrInUse.into(), "")
    }

    #[test]
    fn a_port_of_this_process_is_found_by_protocol_and_address() {
        let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("[::1]:0").unwrap());
        let (udp, tcp) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
        let own = format!("(process {}) has it", std::process::id());
        assert!(taken(Protocol::Udp, udp).contains(&own), "{}", taken(Protocol::Udp, udp));
        let everywhere = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 0], tcp.port()));
        assert!(taken(Protocol::Tcp, everywhere).contains(&own));
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], udp.port()));
        assert!(!taken(Protocol::Udp, elsewhere).contains(&own), "another address");
    }
}
