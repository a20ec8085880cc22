//! Errors of ICMP about what a socket has sent.

use std::io;
use std::net::SocketAddr;

use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::dial;
use crate::answer::Reason;

/// An error about a datagram.
#[derive(Debug)]
pub(super) struct SendError {
    /// Where the datagram was sent.
    pub(super) destination: SocketAddr,
    /// `None` if the sender cannot do anything about it: the system makes larger datagrams fit, for example.
    pub(super) reason: Option<Reason>,
    /// The beginning of what the error quotes: of the payload over UDP, of the message over ICMP.
    pub(super) quote: [u8; QUOTE],
}

/// Up to the sequence number of an echo request.
pub(super) const QUOTE: usize = 8;

/// The reason of an error of the system.
// egress 8.13
pub(super) fn reason_of(error: &io::Error) -> Option<Reason> {
    Some(dial::reason_of(error)).filter(|reason| {
        matches!(
            reason,
            Reason::Refused | Reason::HostUnreachable | Reason::NetworkUnreachable | Reason::Forbidden
        )
    })
}

#[cfg(target_os = "linux")]
pub(super) use queue::{READY, enable, receive};

#[cfg(target_os = "linux")]
mod queue {
    //! The error queue of a socket (`IP_RECVERR`, ip(7)): one socket sends to many destinations, so an error has to name
    //! its own.

    use std::io::IoSliceMut;
    use std::net::Ipv4Addr;
    use std::os::fd::AsRawFd as _;

    use nix::cmsg_space;
    use nix::libc::{sock_extended_err, sockaddr_in6};
    use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv6RecvErr};
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};

    use super::*;

    /// An error in the queue is not readable as a datagram is.
    pub(crate) const READY: Interest = Interest::READABLE.add(Interest::ERROR);

    /// Asks the system to queue errors.
    pub(crate) fn enable(socket: &UdpSocket, is_v6: bool) {
        let enabled = if is_v6 {
            setsockopt(socket, Ipv6RecvErr, &true)
        } else {
            setsockopt(socket, Ipv4RecvErr, &true)
        };
        if let Err(error) = enabled {
            tracing::debug!(%error, "the system does not tell why datagrams do not arrive");
        }
    }

    /// Takes the next error from the queue, if there is one.
    pub(crate) fn receive(socket: &UdpSocket) -> Option<SendError> {
        socket.try_io(Interest::ERROR, || Ok(take(socket)?)).ok()
    }

    fn take(socket: &UdpSocket) -> nix::Result<SendError> {
        let mut quote = [0; QUOTE];
        let mut control = cmsg_space!(sock_extended_err, sockaddr_in6);
        let mut parts = [IoSliceMut::new(&mut quote)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
        let code = message.cmsgs()?.find_map(|control| {
            let (ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)) =
                control
            else {
                return None;
            };
            Some(error.ee_errno)
        });
        let code = code.and_then(|code| i32::try_from(code).ok());
        let destination = message.address.as_ref().and_then(address_of);
        Ok(SendError {
            // Without an address it is one that nothing was sent to.
            destination: destination.unwrap_or_else(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
            reason: code.and_then(|code| reason_of(&io::Error::from_raw_os_error(code))),
            quote,
        })
    }

    fn address_of(address: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = || address.as_sockaddr_in().map(|it| SocketAddr::new(it.ip().into(), it.port()));
        // Scopes mean nothing for destinations.
        let v6 = || address.as_sockaddr_in6().map(|it| SocketAddr::new(it.ip().into(), it.port()));
        v4().or_else(v6)
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{READY, enable, receive};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    //! Other systems have no such queue: only errors of sending itself are known.

    use super::*;

    pub(crate) const READY: Interest = Interest::READABLE;

    pub(crate) fn enable(_: &UdpSocket, _: bool) {}

    pub(crate) fn receive(_: &UdpSocket) -> Option<SendError> {
        None
    }
}
