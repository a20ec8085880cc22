//! Opens TCP connections from an address and an interface.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::{FourTuple, LocalAddress};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpSocket, TcpStream};

use super::pipe::Pipe;
use super::{Proxy, RecordStream, tls};
use crate::device::{bind_device, set_mark};
use crate::resolve::Resolver;

/// A peer that does not answer is given up after this time. The system needs 3 s to find out that its next hop is absent.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// A connection whose data is not acknowledged for so long is closed by the system.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(10);
/// An idle connection is probed after this time, so that the system notices a peer that is gone.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Bytes that may wait unsent in the system. What waits there can no longer take another path. A constant, because the
/// bound that follows the rate is the engine's: beyond the window it gives a connection what that sends in 5 ms, from 16 to
/// 128 KiB (spec 6.140). This one holds where the system reports no figures, or none yet.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 128 * 1024;

/// What is set on each TCP connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The system's congestion control, such as `cubic` or `bbr`; `None` for the system's default.
    pub(crate) congestion: Option<String>,
    /// Through which connections that this end opens go.
    pub(crate) via: Option<Proxy>,
    /// The mark of its packets.
    pub(crate) mark: Option<u32>,
    /// Looks up the name of the proxy.
    pub(crate) resolver: Resolver,
}

/// Connects from a local address, of which the system chooses what is not specified, the address by its routes; through
/// a proxy, if one is set, and with TLS, if that is wanted.
///
/// # Errors
/// The system's, such as a refused connection, or the proxy refuses.
pub(crate) async fn connect(
    local: LocalAddress,
    (remote, is_tls): (SocketAddr, bool),
    settings: Settings,
) -> io::Result<RecordStream> {
    let through = match &settings.via {
        Some(proxy) => proxy.resolve(local.address, &settings.resolver).await?,
        None => remote,
    };
    let mut stream = match (open(local, through, &settings).await, &settings.via) {
        (Err(error), Some(proxy)) => return Err(proxy.wrong(&error.to_string())),
        (opened, _) => opened?,
    };
    let mut bound = local;
    let chosen = stream.local_addr()?;
    bound.address.set_port(chosen.port());
    if bound.address.ip().is_unspecified() {
        bound.address.set_ip(chosen.ip());
    }
    let early = match &settings.via {
        Some(proxy) => proxy.pass(&mut stream, remote).await?,
        None => Vec::new(),
    };
    let pipe = if is_tls { tls::wrap(stream).await? } else { Pipe::Plain(stream) };
    Ok(RecordStream::new(pipe, FourTuple::tcp(bound, remote), &early))
}

/// Connects to any server of TCP from a local address and through its interface, as a path over TCP does: for protocols
/// that are not Manyway's. Port 0 lets the system choose one. Where the system does not let a program choose the
/// interface, its routes do.
///
/// # Errors
/// The system's, such as a refused connection.
///
/// # Panics
/// Outside a tokio runtime with I/O enabled.
pub async fn connect_tcp(local: LocalAddress, remote: SocketAddr) -> io::Result<TcpStream> {
    open(local, remote, &Settings::default()).await
}

async fn open(local: LocalAddress, remote: SocketAddr, settings: &Settings) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    set_mark(&socket, settings.mark)?;
    // Without the binding, the address alone chooses the interface, as for UDP.
    let _ = bind_device(&socket, local);
    socket.bind(&local.address.into())?;
    configure(&socket, settings)?;
    TcpSocket::from_std_stream(socket.into()).connect(remote).await
}

/// Sets the options of a connection that it needs before it begins, or those of a listener, which its connections
/// inherit.
pub(super) fn configure(socket: &Socket, settings: &Settings) -> io::Result<()> {
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
    if let Some(name) = &settings.congestion {
        set_congestion(socket, name)?;
    }
    #[cfg(target_os = "linux")]
    super::window::bound_scale(socket)?;
    // Without these a connection works, though it keeps more data to itself, or ends later.
    let reference = SockRef::from(socket);
    if let Err(error) = limit(&reference) {
        tracing::debug!(%error, "TCP options not set");
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn limit(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_notsent_lowat(UNSENT)
}

#[cfg(not(target_os = "linux"))]
fn limit(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)
}

#[cfg(target_os = "linux")]
fn set_congestion(socket: &Socket, name: &str) -> io::Result<()> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
        let reason = format!(
            "TCP congestion control {name}: {error}; `sysctl net.ipv4.tcp_allowed_congestion_control` lists those that \
             this host permits"
        );
        io::Error::new(error.kind(), reason)
    })
}

#[cfg(not(target_os = "linux"))]
fn set_congestion(_: &Socket, name: &str) -> io::Result<()> {
    let reason = format!("TCP congestion control {name}: only Linux lets a program choose it");
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}
