//! A rendezvous server on UDP sockets, and on TCP for ends whose network blocks UDP.

mod streams;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use manyway_proto::{
    Ecn, Forwarding, FourTuple, LocalAddress, Relay, RelayCounters, RelayLimits, Rng, Transmit,
};

use streams::Streams;

use crate::driver::is_missing;
use crate::error::BindFailure;
use crate::udp::{BindError, BindOptions, BufferSizes, ReceiveBuffer, UdpSocket};
use crate::{Clock, DEFAULT_PORT};

/// Buffer sizes that a socket requests: answers are small, and a burst is soon read.
const BUFFERS: BufferSizes = BufferSizes { receive: 1 << 20, send: 1 << 20 };
/// Receive calls on one socket before the others have their turn.
const RECEIVES: usize = 4;

/// A meeting point for peers whose addresses both change.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use manyway::{RelayLimits, RendezvousServer};
///
/// let mut server = RendezvousServer::bind(&["127.0.0.1:0".parse()?], RelayLimits::default())?;
/// println!("listening on {:?}", server.local_addresses());
/// // It works until the future is dropped.
/// let _ = tokio::time::timeout(std::time::Duration::from_millis(1), server.run()).await;
/// assert_eq!(server.counters().answered, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RendezvousServer {
    sockets: Vec<UdpSocket>,
    streams: Streams,
    relay: Relay,
    clock: Clock,
    buffer: ReceiveBuffer,
    answer: Vec<u8>,
}

impl RendezvousServer {
    /// Listens on `addresses`; if empty, on port 4455 of every address of both families, or of the only one that this
    /// host supports. It listens there for TCP, too, as far as these ports are free.
    ///
    /// # Errors
    /// If an address cannot be bound for UDP, or another system call fails.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn bind(addresses: &[SocketAddr], limits: RelayLimits) -> Result<Self, BindFailure> {
        let mut seed = [0; 32];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut seed)
            .map_err(|_| BindFailure::System(io::Error::other("the system gives no random numbers")))?;
        let relay = Relay::new(limits, &mut Rng::from_seed(seed));
        let sockets = if addresses.is_empty() { bind_all() } else { bind_each(addresses) };
        let sockets = sockets.map_err(BindFailure::Socket)?;
        let streams = Streams::bind(sockets.iter().map(|socket| socket.local().address));
        Ok(Self {
            sockets,
            streams,
            relay,
            clock: Clock::new(),
            buffer: ReceiveBuffer::new(),
            answer: Vec::with_capacity(512),
        })
    }

    /// Its addresses, with the ports that the system chose.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|socket| socket.local().address).collect()
    }

    /// Its addresses for TCP: fewer where the ports are taken.
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.streams.addresses().collect()
    }

    /// Its counters.
    pub fn counters(&self) -> RelayCounters {
        self.relay.counters()
    }

    /// Number of pairs of ends between which it relays.
    pub fn pairs(&self) -> usize {
        self.relay.pairs()
    }

    /// Number of registered connections.
    pub fn tokens(&self) -> usize {
        self.relay.tokens()
    }

    /// Serves until the future is dropped, which loses nothing.
    ///
    /// # Errors
    /// If the runtime is shutting down.
    pub async fn run(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { sockets, streams, relay, clock, buffer, answer } = self;
        streams.poll(context, clock, relay);
        for at in 0..sockets.len() {
            let mut calls = 0;
            while let Some(Poll::Ready(ready)) = sockets.get(at).map(|socket| socket.poll_readable(context)) {
                if let Err(error) = ready {
                    return Poll::Ready(Err(error));
                }
                calls += 1;
                if calls > RECEIVES {
                    context.waker().wake_by_ref();
                    break;
                }
                serve(sockets, at, (relay, clock), (buffer, answer));
            }
        }
        Poll::Pending
    }
}

/// Answers the requests of one receive call on a socket, and forwards packets. What cannot be sent counts as lost; the
/// ends repeat it.
fn serve(
    sockets: &[UdpSocket],
    at: usize,
    (relay, clock): (&mut Relay, &Clock),
    (buffer, answer): (&mut ReceiveBuffer, &mut Vec<u8>),
) {
    let now = clock.now();
    let rows = match sockets.get(at).map(|socket| socket.try_receive(buffer)) {
        Some(Ok(rows)) => rows,
        Some(Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
            return tracing::debug!(%error, "receive");
        }
        Some(Err(_)) | None => return,
    };
    for mut row in rows {
        let tuple = row.tuple;
        for datagram in row.datagrams() {
            match relay.forward(now, tuple, datagram) {
                Forwarding::To(to) => {
                    // The other end may be at a socket of the other family.
                    let fits = |socket: &&UdpSocket| is_at(&socket.local(), &to.local);
                    if let Some(socket) = sockets.iter().find(fits) {
                        send(socket, to, datagram);
                    }
                }
                // spec 10.28: it is dropped.
                Forwarding::Later(_) => {}
                Forwarding::Nowhere | _ => {
                    if relay.handle_datagram(now, tuple, datagram, answer)
                        && let Some(socket) = sockets.get(at)
                    {
                        send(socket, tuple, answer);
                    }
                }
            }
        }
    }
}

/// Whether a socket that is bound to an address has packets with that local address.
fn is_at(bound: &LocalAddress, local: &LocalAddress) -> bool {
    let (bound, local) = (bound.address, local.address);
    bound == local
        || (bound.ip().is_unspecified() && bound.port() == local.port() && bound.is_ipv4() == local.is_ipv4())
}

fn send(socket: &UdpSocket, tuple: FourTuple, datagram: &[u8]) {
    let length = datagram.len();
    let transmit = Transmit { tuple, length, segment: length, ecn: Ecn::NotEct };
    if let Err(error) = socket.try_send(&transmit, datagram) {
        tracing::debug!(%error, "send");
    }
}

fn bind(address: SocketAddr) -> Result<UdpSocket, BindError> {
    let mut options = BindOptions::new(LocalAddress { interface: 0, address });
    options.buffers = BUFFERS;
    UdpSocket::bind(&options)
}

fn bind_each(addresses: &[SocketAddr]) -> Result<Vec<UdpSocket>, BindError> {
    addresses.iter().map(|address| bind(*address)).collect()
}

/// Both families, as far as this host supports them.
fn bind_all() -> Result<Vec<UdpSocket>, BindError> {
    let both = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let (mut sockets, mut missing) = (Vec::new(), None);
    for ip in both {
        match bind(SocketAddr::new(ip, DEFAULT_PORT)) {
            Ok(socket) => sockets.push(socket),
            Err(error) if is_missing(&error.source) => missing = Some(error),
            Err(error) => return Err(error),
        }
    }
    missing.filter(|_| sockets.is_empty()).map_or(Ok(sockets), Err)
}
