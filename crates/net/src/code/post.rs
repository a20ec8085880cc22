//! The sockets over which a code is exchanged: UDP, and TCP while that brings no answer.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use manyway_proto::{CodeReceiver, CodeSender, Instant, LocalAddress};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use super::access::Access;
use super::over_tcp::ServerConnections;
use crate::Clock;
use crate::udp::plain::open;

/// More than any datagram of a mailbox has.
const LONGEST: usize = 1024;
/// Datagrams go over TCP as well if UDP has brought no answer for so long, or for twice the time of the last answer
/// (spec 10.52).
const HEAD_START: Duration = Duration::from_millis(400);
const LONGEST_HEAD_START: Duration = Duration::from_secs(2);

/// What both ends of a code have in common.
pub(super) trait Machine {
    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool;
    fn handle_timeout(&mut self, now: Instant);
    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<SocketAddr>;
    fn poll_timeout(&self) -> Option<Instant>;
}

/// Passes every call on to the method of the same name.
macro_rules! machine {
    ($end:ty) => {
        impl Machine for $end {
            fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
                Self::handle_datagram(self, now, from, datagram)
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

/// A UDP socket on each interface that leads to the server in use, and connections for when these bring no answer
/// (spec 10.57).
#[derive(Debug)]
pub(super) struct Post {
    access: Access,
    sockets: Vec<(LocalAddress, UdpSocket)>,
    /// Where the last datagram went.
    server: Option<SocketAddr>,
    /// The socket that had an answer of that server: the others are of no use while it has.
    answered: Option<LocalAddress>,
    connections: ServerConnections,
    /// When the first datagram since the last answer over UDP was sent.
    asked_at: Option<Instant>,
    head_start: Duration,
    clock: Clock,
}

impl Post {
    pub(super) fn new(access: Access, clock: Clock) -> Self {
        let (sockets, connections) = (Vec::new(), ServerConnections::new());
        Self {
            access,
            sockets,
            server: None,
            answered: None,
            connections,
            asked_at: None,
            head_start: HEAD_START,
            clock,
        }
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
        let Self { sockets, answered, connections, asked_at, head_start, clock, .. } = self;
        tokio::select! {
            (local, from, length) = receive(sockets, &mut space) => {
                let (now, datagram) = (clock.now(), space.get(..length).unwrap_or_default());
                if machine.handle_datagram(now, from, datagram) {
                    let elapsed = asked_at.take().map_or(Duration::ZERO, |at| now - at);
                    *head_start = (elapsed * 2).clamp(HEAD_START, LONGEST_HEAD_START);
                    answered.get_or_insert(local);
                    connections.clear();
                }
            }
            (from, datagram) = connections.receive() => {
                machine.handle_datagram(clock.now(), from, &datagram);
            }
            () = timer => machine.handle_timeout(clock.now()),
        }
    }

    /// A datagram that cannot be sent counts as lost.
    async fn send(&mut self, to: SocketAddr, datagram: &[u8]) {
        let (now, uses_udp) = (self.clock.now(), self.access.choice.uses_udp());
        let is_silent = now - *self.asked_at.get_or_insert(now) >= self.head_start;
        if self.server.replace(to) != Some(to) || is_silent {
            self.answered = None;
        }
        if self.access.choice.uses_tcp() && (is_silent || !uses_udp) {
            self.connections.send(&self.access, to, datagram);
        }
        if uses_udp && self.answered.is_none() {
            self.follow_interfaces(to).await;
        }
        for (local, socket) in &self.sockets {
            if self.answered.is_none_or(|answered| answered == *local)
                && let Err(error) = socket.send_to(datagram, to).await
            {
                tracing::debug!(%to, %error, "send");
            }
        }
    }

    /// Has a socket on each interface that leads to a server now. A socket that stays keeps its port, for which the
    /// server's cookie is.
    async fn follow_interfaces(&mut self, server: SocketAddr) {
        let locals = self.access.locals(server).await.unwrap_or_else(|error| {
            tracing::debug!(%server, %error, "no socket");
            Vec::new()
        });
        self.sockets.retain(|(local, _)| locals.iter().any(|(known, _)| known == local));
        for (local, _) in locals {
            if self.sockets.iter().any(|(known, _)| *known == local) {
                continue;
            }
            match open(local, self.access.settings.mark) {
                Ok(socket) => self.sockets.push((local, socket)),
                Err(error) => tracing::debug!(%local, %error, "no socket"),
            }
        }
    }
}

/// The next datagram, and the addresses at which and from which it came; errors, such as ICMP's about earlier ones, are
/// skipped.
async fn receive(
    sockets: &[(LocalAddress, UdpSocket)],
    space: &mut [u8],
) -> (LocalAddress, SocketAddr, usize) {
    poll_fn(|context| {
        for (local, socket) in sockets {
            let mut buffer = ReadBuf::new(space);
            // Each error is of one datagram, so this ends.
            while let Poll::Ready(result) = socket.poll_recv_from(context, &mut buffer) {
                match result {
                    Ok(from) => return Poll::Ready((*local, from, buffer.filled().len())),
                    Err(error) => tracing::debug!(%error, "receive"),
                }
            }
        }
        Poll::Pending
    })
    .await
}
