//! Accepts TCP connections.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use manyway_proto::{FourTuple, LocalAddress};
use socket2::{Domain, Protocol, Socket, Type};
use tokio_rustls::TlsAcceptor;

use super::connect::configure;
use super::pipe::Pipe;
use super::{RecordStream, Settings};

/// Connections that the system keeps until they are accepted.
const BACKLOG: i32 = 256;

/// A listening TCP socket.
pub(crate) struct Listener {
    io: tokio::net::TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Listens on an address and port, perhaps for TLS; port 0 lets the system choose one.
    ///
    /// # Errors
    /// The system's: the port may be taken.
    pub(crate) fn bind(
        address: SocketAddr,
        settings: &Settings,
        tls: Option<TlsAcceptor>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // A server that starts again gets its port although connections from before have not quite ended.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        configure(&socket, settings)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let io = tokio::net::TcpListener::from_std(socket.into())?;
        let address = io.local_addr()?;
        Ok(Self { io, address, tls })
    }

    /// Whether connections are TLS there.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The address with its port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts a connection.
    ///
    /// # Errors
    /// The system's, such as too many open files, or a connection that ended before it was accepted.
    pub(crate) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        self.io.poll_accept(context).map(|accepted| {
            let (stream, remote) = accepted?;
            let local = LocalAddress { interface: 0, address: stream.local_addr()? };
            let tuple = FourTuple::tcp(local, remote);
            Ok(match &self.tls {
                None => Accepted::Plain(RecordStream::new(Pipe::Plain(stream), tuple, &[])),
                Some(tls) => Accepted::Tls(Box::new(tls.accept(stream)), tuple),
            })
        })
    }
}

/// A connection that was accepted.
pub(crate) enum Accepted {
    /// It carries records.
    Plain(RecordStream),
    /// Its TLS handshake is to come.
    Tls(Box<tokio_rustls::Accept<tokio::net::TcpStream>>, FourTuple),
}
