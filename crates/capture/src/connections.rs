//! TCP connections of a command or a machine.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::sockopt;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

/// The listeners to which TCP connections are redirected: all those of a command in its namespace, or those of a machine
/// and of hosts behind it.
///
/// The kernel has accepted a connection before its destination is known to anybody. So a destination that refuses looks
/// to the program as one that accepts and then resets the connection: set `SO_LINGER` to 0 and drop the socket.
#[derive(Debug)]
pub struct Connections {
    listeners: Vec<TcpListener>,
    /// Which of them is asked first.
    turn: AtomicUsize,
}

impl Connections {
    /// Takes over listening sockets. Must be called inside a runtime.
    pub(crate) fn new(listeners: impl IntoIterator<Item = OwnedFd>) -> io::Result<Self> {
        let listeners = listeners.into_iter().map(listener).collect::<io::Result<_>>()?;
        Ok(Self { listeners, turn: AtomicUsize::new(0) })
    }

    /// Waits for the next connection, and returns it with the destination to which the program connected. The peer
    /// address of the socket is that of the program.
    ///
    /// Cancelling it loses no connection.
    ///
    /// # Errors
    /// The system has no descriptor or memory left for it. A later call may succeed.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let socket = poll_fn(|context| self.poll_accept(context)).await?;
            match original_destination(&socket) {
                Ok(destination) if socket.local_addr().is_ok_and(|at| at != destination) => {
                    return Ok((socket, destination));
                }
                // A program that connects to the listener itself, or a connection that is gone.
                Ok(_) | Err(_) => reset(socket),
            }
        }
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = self.listeners.iter().cycle().skip(first % self.listeners.len().max(1));
        for listener in in_turn.take(self.listeners.len()) {
            if let Poll::Ready(accepted) = listener.poll_accept(context) {
                return Poll::Ready(accepted.map(|(socket, _)| socket));
            }
        }
        Poll::Pending
    }
}

fn listener(descriptor: OwnedFd) -> io::Result<TcpListener> {
    let listener = StdListener::from(descriptor);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn original_destination(socket: &TcpStream) -> io::Result<SocketAddr> {
    Ok(match socket.local_addr()? {
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
