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

/// One datagram in the receive buffer.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Its source and destination. On a wildcard socket, `local` is the address to which the peer sent.
    pub tuple: FourTuple,
    /// Its ECN mark.
    pub ecn: Ecn,
    /// Index of the interface on which it arrived, if the system reports it.
    pub interface: Option<u32>,
    /// Its content, which may be decrypted in place.
    pub payload: &'a mut [u8],
}

impl UdpSocket {
    /// Receives what has arrived, up to 256 KiB, and does not wait. Call it until it would block, or until other work
    /// is due: then [`readable`](Self::readable) is ready at once.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing has arrived. Other errors concern earlier datagrams or the
    /// system as a whole; receiving may go on.
    pub fn try_receive<'a>(&self, buffer: &'a mut ReceiveBuffer) -> io::Result<Datagrams<'a>> {
        let ReceiveBuffer { slabs, metas } = buffer;
        let filled = {
            let mut parts = slabs.chunks_exact_mut(SLAB);
            let mut slices: [IoSliceMut<'_>; SLABS] =
                std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
            let receive = || self.state.recv(UdpSockRef::from(&self.io), &mut slices, metas);
            self.io.try_io(Interest::READABLE, receive)?
        };
        Ok(Datagrams {
            local: self.local,
            slabs: slabs.chunks_exact_mut(SLAB),
            metas: metas.get(..filled).unwrap_or_default().iter(),
            current: None,
        })
    }
}

/// The datagrams of one call, in the order of their arrival. Those that are not taken are lost.
#[derive(Debug)]
#[must_use = "datagrams that are not taken are lost"]
pub struct Datagrams<'a> {
    local: LocalAddress,
    slabs: ChunksExactMut<'a, u8>,
    metas: Iter<'a, RecvMeta>,
    current: Option<Row<'a>>,
}

/// The rest of a slab: datagrams of equal size and origin.
#[derive(Debug)]
struct Row<'a> {
    tuple: FourTuple,
    ecn: Ecn,
    interface: Option<u32>,
    payloads: ChunksMut<'a, u8>,
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        loop {
            if let Some(row) = &mut self.current
                && let Some(payload) = row.payloads.next()
            {
                let Row { tuple, ecn, interface, .. } = *row;
                return Some(Datagram { tuple, ecn, interface, payload });
            }
            let meta = self.metas.next()?;
            let (contents, _) = self.slabs.next()?.split_at_mut_checked(meta.len)?;
            let tuple = FourTuple { local: local_of(self.local, meta), remote: without_flow(meta.addr) };
            let payloads = contents.chunks_mut(meta.stride.max(1));
            let interface = meta.interface_index;
            self.current = Some(Row { tuple, ecn: ecn_of(meta.ecn), interface, payloads });
        }
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
