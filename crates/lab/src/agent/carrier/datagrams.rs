//! Plain UDP from client to server, in batches: the upper bound for a protocol over UDP.
//!
//! Received data is not reordered and losses are not repaired: only the number of bytes counts.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, empty, sink};
use tokio::net::UdpSocket;

use crate::agent::document::End;
use crate::agent::lane::Lane;

/// A socket with the system's features for batches.
#[derive(Debug, Clone)]
struct Batched {
    socket: Arc<UdpSocket>,
    state: Arc<UdpSocketState>,
}

/// One end of the stream of datagrams.
pub(in crate::agent) struct Datagrams {
    end: End,
    batched: Batched,
    remote: IpAddr,
    segment: u16,
}

impl Datagrams {
    pub(super) fn listen(end: End, remote: IpAddr, segment: u16) -> Result<(Self, u16), String> {
        let failed = |error: io::Error| format!("a UDP socket: {error}");
        let any: IpAddr = if remote.is_ipv4() {
            std::net::Ipv4Addr::UNSPECIFIED.into()
        } else {
            std::net::Ipv6Addr::UNSPECIFIED.into()
        };
        let address = if end.is_client() { any } else { remote };
        let socket = std::net::UdpSocket::bind(SocketAddr::new(address, 0)).map_err(failed)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).map_err(failed)?;
        state.set_recv_buffer_size(UdpSockRef::from(&socket), BUFFER).map_err(failed)?;
        state.set_send_buffer_size(UdpSockRef::from(&socket), BUFFER).map_err(failed)?;
        let port = socket.local_addr().map_err(failed)?.port();
        let socket = Arc::new(UdpSocket::from_std(socket).map_err(failed)?);
        let batched = Batched { socket, state: Arc::new(state) };
        Ok((Self { end, batched, remote, segment }, port))
    }

    pub(super) fn connect(&self, port: u16) -> Vec<Vec<Lane>> {
        let batched = self.batched.clone();
        let lane = if self.end.is_client() {
            let remote = SocketAddr::new(self.remote, port);
            let segment = usize::from(self.segment.max(2));
            Lane::of_bytes(empty(), Sender { batched, remote, segment, marks: MARKS })
        } else {
            Lane::of_bytes(Receiver(batched), sink())
        };
        vec![vec![lane]]
    }
}

/// Splits the written data into datagrams.
struct Sender {
    batched: Batched,
    remote: SocketAddr,
    segment: usize,
    /// How many end marks are still to be sent.
    marks: u8,
}

impl Sender {
    fn poll_send(&self, context: &mut Context<'_>, contents: &[u8]) -> Poll<io::Result<()>> {
        let segment_size = (contents.len() > self.segment).then_some(self.segment);
        let transmit = Transmit { destination: self.remote, ecn: None, contents, segment_size, src_ip: None };
        loop {
            ready!(self.batched.socket.poll_send_ready(context))?;
            let attempt = || self.batched.state.try_send(UdpSockRef::from(&*self.batched.socket), &transmit);
            match self.batched.socket.try_io(Interest::WRITABLE, attempt) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

impl AsyncWrite for Sender {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let segments = self.batched.state.max_gso_segments().min(MOST / self.segment).max(1);
        let length = data.len().min(segments * self.segment);
        ready!(self.poll_send(context, data.get(..length).unwrap_or_default()))?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.marks > 0 {
            ready!(self.poll_send(context, &[0]))?;
            self.marks -= 1;
        }
        Poll::Ready(Ok(()))
    }
}

/// Receives datagrams, until one marks the end.
struct Receiver(Batched);

impl AsyncRead for Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Batched { socket, state } = &self.0;
        loop {
            ready!(socket.poll_recv_ready(context))?;
            let mut metas = [RecvMeta::default(); BATCH_SIZE];
            let mut slices: Vec<_> = buffer
                .initialize_unfilled()
                .chunks_mut(LARGEST)
                .take(BATCH_SIZE)
                .map(IoSliceMut::new)
                .collect();
            let attempt = || state.recv(UdpSockRef::from(&**socket), &mut slices, &mut metas);
            match socket.try_io(Interest::READABLE, attempt) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    // A batch of marks of one byte alone ends the stream.
                    let filled = metas.iter().take(count).filter(|meta| meta.stride > 1);
                    let bytes: usize = filled.map(|meta| meta.len).sum();
                    buffer.advance(bytes.min(buffer.remaining()));
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

/// Bytes of the socket buffers.
const BUFFER: usize = 8 << 20;
/// The largest batch of one call.
const MOST: usize = 65_535 - 40 - 8;
/// The largest batch that is received as one.
const LARGEST: usize = 64 << 10;
/// How often the end is marked: some marks may be lost.
const MARKS: u8 = 32;
