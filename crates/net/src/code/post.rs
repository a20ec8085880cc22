//! The sockets over which a code is exchanged: UDP, and TCP while that brings no answer.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::Poll;
use std::time::Duration;

use manyway_proto::{CodeReceiver, CodeSender, Instant};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use super::over_tcp::ServerConnections;
use crate::Clock;

/// More than any datagram of a mailbox has.
const LONGEST: usize = 1024;
/// Datagrams go over TCP as well if UDP has brought no answer for so long (spec 10.52).
const HEAD_START: Duration = Duration::from_millis(400);

/// What both ends of a code have in common.
pub(super) trait Machine {
    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]);
    fn handle_timeout(&mut self, now: Instant);
    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<SocketAddr>;
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Passes every call on to the method of the same name.
macro_rules! machine {
    ($end:ty) => {
        impl Machine for $end {
            fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
                Self::handle_datagram(self, now, from, datagram);
            }

            fn handle_timeout(&mut self, now: Instant) {
                Self::handle_timeout(self, now);
            }

            fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<SocketAddr> {
                Self::poll_transmit(self, now, buffer)
            }

            fn poll_timeout(&self) -> Option<Instant> {
                Self::poll_timeout(self)
            }
        }
    };
}

machine!(CodeSender);
machine!(CodeReceiver);

/// A socket for each family of the rendezvous servers.
#[derive(Debug)]
pub(super) struct Post {
    sockets: Vec<UdpSocket>,
    connections: ServerConnections,
    /// When the first datagram since the last answer over UDP was sent.
    asked_at: Option<Instant>,
    clock: Clock,
}

impl Post {
    /// Binds the sockets; a family that this host lacks is left out, unless it is the only one.
    pub(super) async fn bind(servers: &[SocketAddr], clock: Clock) -> io::Result<Self> {
        let (mut sockets, mut failure) = (Vec::new(), None);
        for is_ipv4 in [true, false] {
            if servers.iter().any(|server| server.is_ipv4() == is_ipv4) {
                let ip = if is_ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                match UdpSocket::bind(SocketAddr::new(ip, 0)).await {
                    Ok(socket) => sockets.push(socket),
                    Err(error) => failure = Some(error),
                }
            }
        }
        let post = Self { sockets, connections: ServerConnections::new(), asked_at: None, clock };
        failure.filter(|_| post.sockets.is_empty()).map_or(Ok(post), Err)
    }

    /// Sends what is ready, waits for a datagram or a timer, and handles that. Dropping the future loses nothing but a
    /// datagram, as a network may.
    pub(super) async fn turn(&mut self, machine: &mut impl Machine) {
        let mut buffer = Vec::new();
        while let Some(to) = machine.poll_transmit(self.clock.now(), &mut buffer) {
            self.send(to, &buffer).await;
        }
        let deadline = machine.poll_timeout().map(|at| tokio::time::Instant::from_std(self.clock.to_std(at)));
        let timer = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let mut space = [0; LONGEST];
        let Self { sockets, connections, asked_at, clock } = self;
        tokio::select! {
            (from, length) = receive(sockets, &mut space) => {
                *asked_at = None;
                connections.clear();
                let datagram = space.get(..length).unwrap_or_default();
                machine.handle_datagram(clock.now(), from, datagram);
            }
            (from, datagram) = connections.receive() => machine.handle_datagram(clock.now(), from, &datagram),
            () = timer => machine.handle_timeout(clock.now()),
        }
    }

    /// A datagram that cannot be sent counts as lost.
    async fn send(&mut self, to: SocketAddr, datagram: &[u8]) {
        let now = self.clock.now();
        if now - *self.asked_at.get_or_insert(now) >= HEAD_START {
            self.connections.send(to, datagram);
        }
        let of_family =
            |socket: &&UdpSocket| socket.local_addr().is_ok_and(|local| local.is_ipv4() == to.is_ipv4());
        if let Some(socket) = self.sockets.iter().find(of_family)
            && let Err(error) = socket.send_to(datagram, to).await
        {
            tracing::debug!(%to, %error, "send");
        }
    }
}

/// The next datagram; errors, such as ICMP's about earlier ones, are skipped.
async fn receive(sockets: &[UdpSocket], space: &mut [u8]) -> (SocketAddr, usize) {
    poll_fn(|context| {
        for socket in sockets {
            let mut buffer = ReadBuf::new(space);
            // Each error is of one datagram, so this ends.
            while let Poll::Ready(result) = socket.poll_recv_from(context, &mut buffer) {
                match result {
                    Ok(from) => return Poll::Ready((from, buffer.filled().len())),
                    Err(error) => tracing::debug!(%error, "receive"),
                }
            }
        }
        Poll::Pending
    })
    .await
}
