//! Plain UDP sockets, for a few datagrams.

use std::io;

use manyway_proto::LocalAddress;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

use crate::device::{bind_device, set_mark};

/// Opens a socket at a local address and its interface, with a port that the system chooses.
///
/// # Errors
/// The system's: the address may be gone, or the mark not permitted.
pub(crate) fn open(mut local: LocalAddress, mark: Option<u32>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local.address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    set_mark(&socket, mark)?;
    // Without the binding, the address alone chooses the interface.
    let _ = bind_device(&socket, local);
    local.address.set_port(0);
    socket.bind(&local.address.into())?;
    UdpSocket::from_std(socket.into())
}
