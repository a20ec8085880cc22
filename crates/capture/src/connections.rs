//! TCP connections of the command.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

/// The listeners in the namespace, to which all its TCP connections are redirected.
///
/// The kernel has accepted a connection before its destination is known to anybody. So a destination that refuses looks
/// to the command as one that accepts and then resets the connection: set `SO_LINGER` to 0 and drop the socket.
#[derive(Debug)]
pub struct Connections {
    v4: TcpListener,
    /// Absent where the kernel has no IPv6.
    v6: Option<TcpListener>,
}

impl Connections {
    /// Takes over listening sockets. Must be called inside a runtime.
    pub(crate) fn new(v4: OwnedFd, v6: Option<OwnedFd>) -> io::Result<Self> {
        Ok(Self { v4: listener(v4)?, v6: v6.map(listener).transpose()? })
    }

    /// Waits for the next connection, and returns it with the destination to which the command connected. The peer
    /// address of the socket is that of the command.
    ///
    /// Cancelling it loses no connection.
    ///
    /// # Errors
    /// The system has no descriptor or memory left for it. A later call may succeed.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let (socket, at) = tokio::select! {
                accepted = self.v4.accept() => (accepted?.0, self.v4.local_addr()?),
                accepted = accept(self.v6.as_ref()) => accepted?,
            };
            match original_destination(&socket, at) {
                Ok(destination) if destination != at => return Ok((socket, destination)),
                // A program that connects to the listener itself, or a connection that is gone.
                Ok(_) | Err(_) => reset(socket),
            }
        }
    }
}

fn listener(descriptor: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdListener::from(descriptor);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => Ok((listener.accept().await?.0, listener.local_addr()?)),
        None => std::future::pending().await,
    }
}

fn original_destination(socket: &TcpStream, at: SocketAddr) -> io::Result<SocketAddr> {
    Ok(match at {
        SocketAddr::V4(_) => sockopt::ip_original_dst(socket)?.into(),
        SocketAddr::V6(_) => {
            let destination = sockopt::ipv6_original_dst(socket)?;
            SocketAddr::new((*destination.ip()).into(), destination.port())
        }
    })
}

fn reset(socket: TcpStream) {
    // A socket that cannot be reset any more is closed already.
    let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
    drop(socket);
}
