//! ICMP errors for undelivered packets, from the error queue of a socket.

use std::io;
use std::net::{IpAddr, SocketAddr};

use manyway_proto::Undelivered;

/// Report that a datagram was not delivered. It may be forged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreachable {
    /// The destination of the datagram.
    pub remote: SocketAddr,
    /// The first bytes of its payload, up to the destination ID; perhaps fewer, or none.
    pub quoted: Vec<u8>,
    /// The kind of the report.
    pub undelivered: Undelivered,
    /// The host or router that found no link address for the next hop, if that is the reason.
    pub lacks_neighbour: Option<IpAddr>,
}

impl Unreachable {
    /// Whether both concern the same connection and path.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        // Of the first byte only some bits are in the clear.
        self.remote == other.remote && self.quoted.get(1..9) == other.quoted.get(1..9)
    }
}

/// An entry of the error queue.
#[derive(Debug)]
#[cfg_attr(
    not(all(target_os = "linux", not(manyway_portable))),
    expect(dead_code, reason = "elsewhere there is no such queue")
)]
pub(super) enum Entry {
    /// A datagram was not delivered.
    Unreachable(Unreachable),
    /// Another ICMP error.
    Foreign,
    /// This host did not send a datagram; the call to send it has reported that.
    Own,
}

/// Bytes of the payload that are read: up to the destination ID of a long header.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
const QUOTED: usize = 14;

/// Makes the system queue such errors for the socket.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
pub(super) fn keep(socket: &impl std::os::fd::AsFd, is_ipv4: bool) {
    use nix::sys::socket::{setsockopt, sockopt};
    let kept = if is_ipv4 {
        setsockopt(socket, sockopt::Ipv4RecvErr, &true)
    } else {
        setsockopt(socket, sockopt::Ipv6RecvErr, &true)
    };
    if let Err(error) = kept {
        tracing::debug!(%error, "undelivered datagrams will not be reported");
    }
}

/// Reads the next entry of the error queue, and clears the error of the socket with it.
///
/// # Errors
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if the queue is empty.
#[cfg(all(target_os = "linux", not(manyway_portable)))]
pub(super) fn read(socket: &impl std::os::fd::AsRawFd) -> io::Result<Entry> {
    use std::io::IoSliceMut;

    use nix::libc;
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

    const ICMP_UNREACHABLE: u8 = 3;
    const ICMP_HOST: u8 = 1;
    const ICMP_TOO_LARGE: u8 = 4;
    const ICMP_PORT: u8 = 3;
    const ICMPV6_UNREACHABLE: u8 = 1;
    const ICMPV6_ADDRESS: u8 = 3;
    const ICMPV6_PORT: u8 = 4;

    let mut quoted = vec![0; QUOTED];
    let mut slices = [IoSliceMut::new(&mut quoted)];
    let mut notes =
        nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, libc::in6_pktinfo, [u8; 64]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut notes), flags)?;
    let (mut is_foreign, mut is_undelivered, mut is_closed, mut lacks_neighbour) =
        (false, false, false, None);
    for note in message.cmsgs()? {
        let (error, by) = if let ControlMessageOwned::Ipv4RecvErr(error, by) = note {
            (error, by.map(|by| IpAddr::from(u32::from_be(by.sin_addr.s_addr).to_be_bytes())))
        } else if let ControlMessageOwned::Ipv6RecvErr(error, by) = note {
            (error, by.map(|by| IpAddr::from(by.sin6_addr.s6_addr)))
        } else {
            continue;
        };
        let (kind, code) = (error.ee_type, error.ee_code);
        let is_v4 = error.ee_origin == libc::SO_EE_ORIGIN_ICMP;
        let is_v6 = error.ee_origin == libc::SO_EE_ORIGIN_ICMP6;
        is_foreign |= is_v4 || is_v6;
        is_undelivered |= (is_v4 && kind == ICMP_UNREACHABLE && code != ICMP_TOO_LARGE)
            || (is_v6 && kind == ICMPV6_UNREACHABLE);
        let is_of_neighbour = (is_v4 && kind == ICMP_UNREACHABLE && code == ICMP_HOST)
            || (is_v6 && kind == ICMPV6_UNREACHABLE && code == ICMPV6_ADDRESS);
        lacks_neighbour = lacks_neighbour.or_else(|| by.filter(|_| is_of_neighbour));
        is_closed |= (is_v4 && code == ICMP_PORT) || (is_v6 && code == ICMPV6_PORT);
    }
    let remote = message.address.as_ref().and_then(to_std);
    let length = message.bytes;
    quoted.truncate(length);
    Ok(match remote {
        Some(remote) if is_undelivered => {
            let undelivered = if is_closed { Undelivered::PortClosed } else { Undelivered::Unreachable };
            Entry::Unreachable(Unreachable { remote, quoted, undelivered, lacks_neighbour })
        }
        _ if is_foreign => Entry::Foreign,
        _ => Entry::Own,
    })
}

#[cfg(all(target_os = "linux", not(manyway_portable)))]
fn to_std(address: &nix::sys::socket::SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
}

/// Other systems report nothing.
#[cfg(not(all(target_os = "linux", not(manyway_portable))))]
pub(super) fn keep<S>(_socket: &S, _is_ipv4: bool) {}

/// Other systems report nothing.
#[cfg(not(all(target_os = "linux", not(manyway_portable))))]
pub(super) fn read<S>(_socket: &S) -> io::Result<Entry> {
    Err(io::ErrorKind::WouldBlock.into())
}
