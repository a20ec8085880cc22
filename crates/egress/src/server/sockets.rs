//! The sockets of a flow: one for each family of addresses, of UDP or of ICMP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;

use super::errors::{self, SendError};
use crate::answer::Reason;
use crate::buffer::enlarge_receive_buffer;
use crate::request::FlowKind;

/// The sockets of a flow, made when they are needed.
#[derive(Debug)]
pub(super) struct Sockets {
    kind: FlowKind,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// What a socket has for the client.
#[derive(Debug)]
pub(super) enum Event {
    /// A datagram, or the reply to an echo request.
    Datagram { source: SocketAddr, payload: Bytes },
    /// What was sent to `destination` did not arrive.
    Error { destination: SocketAddr, reason: Reason, quote: Bytes },
    /// Something that is not for the client.
    Nothing,
}

impl Sockets {
    pub(super) fn new(kind: FlowKind) -> Self {
        Self { kind, v4: None, v6: None }
    }

    /// Makes the socket for an address, if there is none.
    pub(super) fn open(&mut self, to: SocketAddr) -> io::Result<&UdpSocket> {
        let place = if to.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        match place {
            Some(socket) => Ok(socket),
            None => Ok(place.insert(open(self.kind, to.is_ipv6())?)),
        }
    }

    /// Sends without waiting. What the system has no room for is lost.
    ///
    /// # Errors
    /// The reason, if the sender can do anything about it.
    pub(super) fn send(&mut self, to: SocketAddr, payload: &[u8]) -> Result<(), Option<Reason>> {
        let kind = self.kind;
        let socket = self.open(to).map_err(|error| errors::reason_of(&error))?;
        let message = match kind {
            FlowKind::Udp => None,
            FlowKind::Echo => Some(echo_request(to, payload).ok_or(None)?),
        };
        let bytes = message.as_deref().unwrap_or(payload);
        // Tokio does not know of a new socket yet that it is writable.
        let send = || SockRef::from(socket).send_to(bytes, &to.into());
        // The first call may fail with an error about an earlier datagram, which the queue has, too.
        let sent = send().or_else(|_| send());
        sent.map(drop).map_err(|error| errors::reason_of(&error))
    }

    /// Waits until one of the sockets has something. Without a socket it waits for ever.
    pub(super) async fn ready(&self) -> io::Result<Family> {
        let one = async |socket: &Option<UdpSocket>, family| match socket {
            Some(socket) => socket.ready(errors::READY).await.map(|_| family),
            None => std::future::pending().await,
        };
        tokio::select! {
            ready = one(&self.v4, Family::V4) => ready,
            ready = one(&self.v6, Family::V6) => ready,
        }
    }

    /// Takes one thing that came, if there is one.
    pub(super) fn take(&self, family: Family) -> Option<Event> {
        let socket = match family {
            Family::V4 => self.v4.as_ref()?,
            Family::V6 => self.v6.as_ref()?,
        };
        if let Some(SendError { destination, reason, quote }) = errors::receive(socket) {
            let Some(reason) = reason else { return Some(Event::Nothing) };
            let quote = match self.kind {
                FlowKind::Udp => Bytes::new(),
                FlowKind::Echo => Bytes::copy_from_slice(quote.get(SEQUENCE..HEADER).unwrap_or_default()),
            };
            return Some(Event::Error { destination, reason, quote });
        }
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(MAX_DATAGRAM, 0);
            let (length, source) = socket.try_recv_from(buffer).ok()?;
            let message = buffer.get(..length)?;
            let payload = match self.kind {
                FlowKind::Udp => Some(message),
                FlowKind::Echo => echo_reply(message),
            };
            Some(payload.map_or(Event::Nothing, |payload| Event::Datagram {
                source,
                payload: Bytes::copy_from_slice(payload),
            }))
        })
    }
}

/// Takes a datagram that has arrived, and where it is from.
///
/// # Errors
/// The system's; [`io::ErrorKind::WouldBlock`] if there is none.
pub(super) fn take(socket: &UdpSocket) -> io::Result<(SocketAddr, Bytes)> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(MAX_DATAGRAM, 0);
        let (length, source) = socket.try_recv_from(buffer)?;
        Ok((source, Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default())))
    })
}

/// A socket for one family. One of ICMP needs no privilege where `net.ipv4.ping_group_range` has a group of this process
/// (icmp(7)).
fn open(kind: FlowKind, is_v6: bool) -> io::Result<UdpSocket> {
    let (domain, icmp, any) = if is_v6 {
        (Domain::IPV6, Protocol::ICMPV6, IpAddr::from(Ipv6Addr::UNSPECIFIED))
    } else {
        (Domain::IPV4, Protocol::ICMPV4, IpAddr::from(Ipv4Addr::UNSPECIFIED))
    };
    let protocol = match kind {
        FlowKind::Udp => Protocol::UDP,
        FlowKind::Echo => icmp,
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(any, 0).into())?;
    enlarge_receive_buffer(&socket);
    let socket = UdpSocket::from_std(socket.into())?;
    errors::enable(&socket, is_v6);
    Ok(socket)
}

/// Whether this process may send echo requests.
///
/// # Errors
/// Why not, with what its administrator can do about it.
// egress 10.5
pub fn can_send_echo_requests() -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        return Err("only a server on Linux sends echo requests".to_owned());
    }
    let socket = |domain, protocol| Socket::new(domain, Type::DGRAM, Some(protocol)).map(drop);
    // Both families have the same rule; a system may lack one of them.
    let v4 = socket(Domain::IPV4, Protocol::ICMPV4);
    v4.or_else(|error| socket(Domain::IPV6, Protocol::ICMPV6).map_err(|_| error)).map_err(|error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            "the sysctl net.ipv4.ping_group_range does not include a group of the server's process".to_owned()
        } else {
            error.to_string()
        }
    })
}

/// The message of an echo request. The system sets identifier and checksum. `None` without a sequence number.
fn echo_request(to: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    payload.get(..HEADER - SEQUENCE)?;
    let kind = if to.is_ipv4() { ECHO_V4 } else { ECHO_V6 };
    Some([&[kind, 0, 0, 0, 0, 0], payload].concat())
}

/// The sequence number and the data of the reply to an echo request.
fn echo_reply(message: &[u8]) -> Option<&[u8]> {
    let (header, _) = message.split_first_chunk::<HEADER>()?;
    matches!(header, [ECHO_REPLY_V4 | ECHO_REPLY_V6, 0, ..]).then(|| message.get(SEQUENCE..))?
}

thread_local! {
    /// One for all flows of a thread: few of them receive at the same time.
    static BUFFER: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

const MAX_DATAGRAM: usize = 65_535;
const ECHO_V4: u8 = 8;
const ECHO_REPLY_V4: u8 = 0;
const ECHO_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
/// Bytes of the header of an echo request, and where its sequence number is.
const HEADER: usize = 8;
const SEQUENCE: usize = 6;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use nix::sys::socket::{setsockopt, sockopt::Ipv6DontFrag};

    use super::*;

    // What an attacker can cause must not keep one call busy.
    #[tokio::test]
    async fn errors_that_are_not_for_the_client_are_taken_one_at_a_time() {
        let mut sockets = Sockets::new(FlowKind::Udp);
        let receiver = UdpSocket::bind("[::1]:0").await.unwrap();
        let to = receiver.local_addr().unwrap();
        let socket = sockets.open(to).unwrap();
        setsockopt(socket, Ipv6DontFrag, &true).unwrap();
        let own = SocketAddr::new(to.ip(), socket.local_addr().unwrap().port());
        // Larger than the link takes.
        for _ in 0..3 {
            assert!(matches!(sockets.send(to, &[0; 65_520]), Err(None)));
        }
        receiver.send_to(b"datagram", own).await.unwrap();
        let mut ignored = 0;
        loop {
            match sockets.take(sockets.ready().await.unwrap()) {
                Some(Event::Nothing) => ignored += 1,
                Some(Event::Datagram { .. }) => break,
                Some(Event::Error { .. }) | None => {}
            }
        }
        assert!(ignored >= 3, "{ignored}");
    }
}
