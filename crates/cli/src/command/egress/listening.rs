//! Local ports of `forward` and `proxy`.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway::ReceiveStream;
use manyway_egress::{
    ClassedSend, Quota, RelayError, Volume, enlarge_receive_buffer, relay_tcp, reset_when_closed,
};
#[cfg(target_os = "linux")]
use manyway_egress::{LocalConnection, relay_connection};
use manyway_terminal::{CommandError, ExitCode, note};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::super::bond::Bond;
use super::super::port_holder;
use super::super::session::NetSession;
use super::super::signal::interrupted;
use super::bond::Connected;
use crate::args::{GlobalArgs, Protocol};
use crate::output::address as shown;

/// Parallel connections of programs on one port; more wait.
pub(super) const MOST: usize = 1024;
/// How long a program may take to send its request.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of a datagram.
pub(super) const MAX_DATAGRAM: usize = 65_535;
/// Pause after the system refused one, mostly for lack of file descriptors.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Listens at an address, which `option` named.
///
/// # Errors
/// It is taken, or not one of this host; the text says what to do.
pub(in crate::command) async fn listen(
    option: &str,
    address: SocketAddr,
) -> Result<TcpListener, CommandError> {
    TcpListener::bind(address).await.map_err(|error| explain(option, (Protocol::Tcp, address), &error))
}

/// As [`listen`], for datagrams.
///
/// # Errors
/// As [`listen`].
pub(super) async fn listen_udp(option: &str, address: SocketAddr) -> Result<UdpSocket, CommandError> {
    let bound = UdpSocket::bind(address).await;
    let socket = bound.map_err(|error| explain(option, (Protocol::Udp, address), &error))?;
    enlarge_receive_buffer(&socket);
    Ok(socket)
}

fn explain(option: &str, (protocol, address): (Protocol, SocketAddr), error: &io::Error) -> CommandError {
    let why = port_holder::why_not_bound((protocol, address), error, "choose another one");
    CommandError::failed(format!("{option} {}: {why}", shown(address)))
}

/// Passes the datagrams of programs on, for ever.
pub(super) async fn serve_udp<F>(socket: Arc<UdpSocket>, work: F)
where
    F: Fn(SocketAddr, &[u8]),
{
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, program)) => work(program, buffer.get(..length).unwrap_or_default()),
            // An ICMP error for an answer to a program that has gone; another follows at most after the next datagram.
            Err(error) => {
                tracing::debug!(reason = %error, "no datagram was taken");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// Serves every program that connects, for ever.
pub(super) async fn serve<F, W>(listener: TcpListener, work: F)
where
    F: Fn(TcpStream) -> W,
    W: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(MOST));
    let mut programs = JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((socket, _)) => {
                let work = work(socket);
                programs.spawn(async move {
                    work.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(reason = %error, "accept failed");
                tokio::time::sleep(PAUSE).await;
            }
        }
        while programs.try_join_next().is_some() {}
    }
}

/// Serves the ports until the connection to the server is useless, or until Ctrl-C or SIGTERM.
///
/// # Errors
/// Why the connection is useless.
pub(super) async fn run(
    global: &GlobalArgs,
    bond: &Bond,
    mut ports: JoinSet<()>,
) -> Result<ExitCode, CommandError> {
    let result = tokio::select! {
        error = bond.keep() => Err(error),
        name = interrupted() => {
            if !global.quiet {
                note(&format!("{name}: closing"));
            }
            Ok(ExitCode::Ok)
        }
    };
    // Programs see a reset, not an end.
    ports.shutdown().await;
    bond.end("the client is stopping").await;
    result
}

/// Resets a program's connection, so that the program does not take the end for an answer.
pub(super) fn reset(socket: TcpStream) {
    reset_when_closed(&socket);
    drop(socket);
}

/// Carries a program's connection to its end.
pub(super) async fn carry(socket: TcpStream, opened: Connected) {
    carry_stream(socket, (opened.send, opened.receive)).await;
}

/// Carries a connection over a stream to its end.
pub(super) async fn carry_stream(socket: TcpStream, stream: (ClassedSend<NetSession>, ReceiveStream)) {
    log(&relay_tcp(socket, stream, &Quota::unlimited()).await);
}

/// As [`carry`], for a connection that is no socket.
#[cfg(target_os = "linux")]
pub(super) async fn carry_connection(connection: impl LocalConnection, opened: Connected) {
    log(&relay_connection(connection, (opened.send, opened.receive), &Quota::unlimited()).await);
}

fn log(ended: &Result<Volume, RelayError>) {
    match ended {
        Ok(volume) => {
            tracing::debug!(sent = volume.sent, received = volume.received, "a program's connection ended");
        }
        Err(reason) => tracing::debug!(%reason, "a program's connection broke"),
    }
}
