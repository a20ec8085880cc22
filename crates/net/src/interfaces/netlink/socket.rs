//! A netlink socket: reads lists and receives changes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::task::{Context, Poll};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;
use tokio::io::unix::AsyncFd;

use super::message::{self, Message, NLM_F_DUMP_INTR};

/// The kernel fills at most this much at once.
pub(super) const BUFFER: usize = 64 * 1024;

/// Changes of links, addresses and routes.
pub(super) const INTERFACES: u32 =
    RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE;
/// Changes of neighbours.
pub(super) const NEIGHBOURS: u32 = 4;
const RTMGRP_LINK: u32 = 1;
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV4_ROUTE: u32 = 0x40;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;
const RTMGRP_IPV6_ROUTE: u32 = 0x400;

/// A socket of the kernel's routing service.
#[derive(Debug)]
pub(super) struct NetlinkSocket(OwnedFd);

impl NetlinkSocket {
    /// Subscribes to groups of changes.
    pub(super) fn subscribe(groups: u32) -> io::Result<AsyncFd<Self>> {
        let socket = Self::open(SockFlag::SOCK_NONBLOCK, groups)?;
        // SAFETY: the socket owns its file descriptor, which stays the same and open until the socket is dropped, and
        // nothing takes it out.
        Ok(unsafe { AsyncFd::register(socket)? })
    }

    fn open(flags: SockFlag, groups: u32) -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            flags | SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Self(socket))
    }

    /// Reads what the kernel sent, at least one whole message.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(self.0.as_raw_fd(), buffer, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }
}

/// Waits for what the kernel sends to a subscriber. Once the runtime is shutting down, or the descriptor cannot be watched,
/// nothing comes any more.
pub(super) fn poll_receive(
    news: &AsyncFd<NetlinkSocket>,
    buffer: &mut [u8],
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    loop {
        let mut ready = match news.poll_read_ready(context) {
            Poll::Ready(Ok(ready)) => ready,
            Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
        };
        if let Ok(received) = ready.try_io(|news| news.get_ref().receive(buffer)) {
            return Poll::Ready(received);
        }
    }
}

impl AsRawFd for NetlinkSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The list to read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Dump {
    Links,
    Addresses,
    Routes,
}

impl Dump {
    /// `nlmsghdr`, the zeroed header of the kind, and for links the request to leave out their counters.
    fn request(self) -> Vec<u8> {
        const NLM_F_REQUEST: u16 = 1;
        const NLM_F_DUMP: u16 = 0x300;
        const IFLA_EXT_MASK: u16 = 29;
        const RTEXT_FILTER_SKIP_STATS: u32 = 8;
        let (kind, body) = match self {
            Self::Links => (message::RTM_NEWLINK + 2, 16),
            Self::Addresses => (message::RTM_NEWADDR + 2, 8),
            Self::Routes => (message::RTM_NEWROUTE + 2, 12),
        };
        let mut request = vec![0; 4];
        request.extend_from_slice(&kind.to_ne_bytes());
        request.extend_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
        request.extend_from_slice(&[0; 8]);
        request.resize(request.len() + body, 0);
        if matches!(self, Self::Links) {
            request.extend_from_slice(&8u16.to_ne_bytes());
            request.extend_from_slice(&IFLA_EXT_MASK.to_ne_bytes());
            request.extend_from_slice(&RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
        }
        let length = u32::try_from(request.len()).unwrap_or_default();
        if let Some(field) = request.first_chunk_mut() {
            *field = length.to_ne_bytes();
        }
        request
    }
}

/// Reads a list and passes its entries on. The kernel answers at once, so this does not wait.
///
/// A list that changed while it was read may lack an entry. That needs no retry: the change itself is among the
/// messages and makes the list be read again.
pub(super) fn dump(what: Dump, buffer: &mut [u8], entry: &mut impl FnMut(Message)) -> io::Result<()> {
    let socket = NetlinkSocket::open(SockFlag::empty(), 0)?;
    // A kernel that does not answer must not block the driver.
    setsockopt(&socket.0, sockopt::ReceiveTimeout, &TimeVal::new(1, 0))?;
    send(socket.as_raw_fd(), &what.request(), MsgFlags::empty())?;
    loop {
        let length = socket.receive(buffer)?;
        let bytes = buffer.get(..length).unwrap_or_default();
        for (header, message) in message::messages(bytes) {
            if header.flags & NLM_F_DUMP_INTR != 0 {
                tracing::trace!(?what, "the list changed while it was read");
            }
            match header.kind {
                message::NLMSG_DONE => return Ok(()),
                message::NLMSG_ERROR => return Err(io::Error::from_raw_os_error(header.error)),
                _ => entry(message),
            }
        }
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_is_answered() {
        let mut buffer = vec![0; BUFFER];
        let mut links = 0;
        dump(Dump::Links, &mut buffer, &mut |m| links += usize::from(matches!(m, Message::LinkSet(_))))
            .unwrap();
        assert!(links >= 1);
        dump(Dump::Addresses, &mut buffer, &mut |m| assert!(matches!(m, Message::AddressSet(_)))).unwrap();
        dump(Dump::Routes, &mut buffer, &mut |m| assert!(matches!(m, Message::RouteSet(_) | Message::Other)))
            .unwrap();
    }
}
