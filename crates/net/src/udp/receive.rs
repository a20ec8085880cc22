//! Receiving many datagrams with one call, without copying them.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::slice::{ChunksExactMut, ChunksMut, Iter};

use manyway_proto::{Ecn, FourTuple, LocalAddress};
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSockRef};
use tokio::io::Interest;

use super::socket::UdpSocket;

/// Bytes of a slab: the largest datagram, or the largest row of datagrams that the kernel coalesces.
const SLAB: usize = 64 * 1024;
/// Slabs filled by one call. With receive offload one is nearly enough; the others serve small packets from many peers.
const SLABS: usize = 4;

/// A call that fills fewer slabs has emptied the socket. Elsewhere a call receives one datagram.
const LEAVES_NOTHING: usize = if cfg!(target_os = "linux") { SLABS } else { 0 };

/// Memory that [`UdpSocket::try_receive`] fills, 256 KiB, reusable; one is enough for all sockets of a thread.
#[derive(Debug)]
pub struct ReceiveBuffer {
    slabs: Box<[u8]>,
    metas: [RecvMeta; SLABS],
}

impl ReceiveBuffer {
    /// Allocates the memory.
    pub fn new() -> Self {
        Self { slabs: vec![0; SLAB * SLABS].into(), metas: [RecvMeta::default(); SLABS] }
    }
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// A row of datagrams in the receive buffer, of equal size and origin: one, or what receive offload coalesced.
#[derive(Debug)]
pub struct Row<'a> {
    /// Their source and destination. On a wildcard socket, `local` is the address to which the peer sent.
    pub tuple: FourTuple,
    /// Their ECN mark.
    pub ecn: Ecn,
    /// Index of the interface on which they arrived, if the system reports it.
    pub interface: Option<u32>,
    /// Their contents, one behind the other, which may be decrypted in place.
    pub payload: &'a mut [u8],
    /// Size of each datagram in bytes; the last one may be shorter.
    pub size: usize,
}

impl Row<'_> {
    /// The content of each datagram.
    pub fn datagrams(&mut self) -> ChunksMut<'_, u8> {
        let size = if self.size == 0 { self.payload.len() } else { self.size };
        self.payload.chunks_mut(size.max(1))
    }
}

impl UdpSocket {
    /// Receives what has arrived, up to 256 KiB, and does not wait. Call it until it would block, or until other work
    /// is due: then [`readable`](Self::readable) is ready at once.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has arrived. Other errors concern earlier datagrams or the
    /// system as a whole; receiving may go on.
    pub fn try_receive<'a>(&self, buffer: &'a mut ReceiveBuffer) -> io::Result<Rows<'a>> {
        let ReceiveBuffer { slabs, metas } = buffer;
        let mut filled = 0;
        let result = {
            let mut parts = slabs.chunks_exact_mut(SLAB);
            let mut slices: [IoSliceMut<'_>; SLABS] =
                std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
            self.io.try_io(Interest::READABLE, || {
                filled = self.state().recv(UdpSockRef::from(&self.io), &mut slices, metas)?;
                // What comes later makes the socket readable again, so no call has to find out that nothing is left.
                if filled < LEAVES_NOTHING { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            })
        };
        if filled == 0 {
            result?;
        }
        Ok(Rows {
            local: self.local,
            slabs: slabs.chunks_exact_mut(SLAB),
            metas: metas.get(..filled).unwrap_or_default().iter(),
        })
    }
}

/// The datagrams of one call, in the order of their arrival. Rows that are not taken are lost.
#[derive(Debug)]
#[must_use = "datagrams that are not taken are lost"]
pub struct Rows<'a> {
    local: LocalAddress,
    slabs: ChunksExactMut<'a, u8>,
    metas: Iter<'a, RecvMeta>,
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        let meta = self.metas.next()?;
        let (payload, _) = self.slabs.next()?.split_at_mut_checked(meta.len)?;
        let tuple = FourTuple::udp(local_of(self.local, meta), without_flow(meta.addr));
        let interface = meta.interface_index;
        Some(Row { tuple, ecn: ecn_of(meta.ecn), interface, payload, size: meta.stride })
    }
}

/// The address to which the peer sent: on a wildcard socket the datagram has it.
fn local_of(socket: LocalAddress, meta: &RecvMeta) -> LocalAddress {
    if !socket.address.ip().is_unspecified() {
        return socket;
    }
    let Some(ip) = meta.dst_ip else { return socket };
    let mut address = SocketAddr::new(ip, socket.address.port());
    if let (SocketAddr::V6(v6), Some(interface)) = (&mut address, meta.interface_index)
        && is_link_local(ip)
    {
        v6.set_scope_id(interface);
    }
    LocalAddress { interface: socket.interface, address }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// The flow label is no part of the address, but would make two addresses of one.
fn without_flow(mut address: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut address {
        v6.set_flowinfo(0);
    }
    address
}

fn ecn_of(codepoint: Option<EcnCodepoint>) -> Ecn {
    match codepoint {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}
