//! What all libraries are told about the link, and their sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

use crate::flow::Failure;

/// A socket with buffers of the size that Manyway requests. What only root gets others get up to the system's limit.
pub fn socket(address: SocketAddr) -> Result<UdpSocket, Failure> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).is_err() {
        socket.set_recv_buffer_size(BUFFER)?;
    }
    if setsockopt(&socket, sockopt::SndBufForce, &BUFFER).is_err() {
        socket.set_send_buffer_size(BUFFER)?;
    }
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A socket for a sender.
pub fn any_socket(remote: SocketAddr) -> Result<UdpSocket, Failure> {
    socket(match remote {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0)),
    })
}

/// Largest UDP payload on the link.
pub fn payload(address: SocketAddr) -> u16 {
    MTU - if address.is_ipv4() { 28 } else { 48 }
}

/// Largest IP packet on the link: all libraries use it from the first packet on, or search up to it.
pub const MTU: u16 = 1500;
/// Flow-control windows of stream and connection, and what a sender may queue, in bytes: those that took the least
/// processor time of 0.6, 1.25, 2.5, 4, 8 and 16 MB.
pub const WINDOW: u32 = 2 << 20;
/// The same for a download over links, in bytes: 380 Mbit/s for 0.3 s.
pub const LARGE_WINDOW: u32 = 16 << 20;
/// Time without a packet after which a connection has failed.
pub const IDLE: Duration = Duration::from_secs(5);
const BUFFER: usize = 4 << 20;
