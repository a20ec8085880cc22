//! A TCP connection as the local end of a stream.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::quota::Quota;
use crate::relay::{RelayError, Volume, relay};

/// As [`relay`], with a TCP connection as the local stream. It is reset if the other side breaks or the future is
/// dropped, so that its program never takes a truncated stream for a complete one. If it is reset itself, even after it
/// has sent everything, the other side is told.
///
/// # Errors
/// As [`relay`].
// egress 4.3, 4.4
pub async fn relay_tcp<W, R>(socket: TcpStream, stream: (W, R), quota: &Quota) -> Result<Volume, RelayError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let mut local = Local { socket, has_ended: false };
    prepare(&local.socket);
    let at_end = Notify::new();
    let reader = Reader { socket: &local.socket, at_end: &at_end };
    let result = tokio::select! {
        result = relay((reader, Writer(&local.socket)), stream, quota) => result,
        error = reset_after(&at_end, &local.socket) => Err(RelayError::Local(error)),
    };
    local.has_ended = result.is_ok();
    result
}

/// A socket that is reset when it is dropped before its end.
struct Local {
    socket: TcpStream,
    has_ended: bool,
}

impl Drop for Local {
    fn drop(&mut self) {
        if !self.has_ended {
            reset_when_closed(&self.socket);
        }
    }
}

/// Makes closing a connection a reset, so that its program never takes a truncated stream for a complete one.
pub fn reset_when_closed(socket: &TcpStream) {
    // A socket that cannot be reset any more is closed already.
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}

/// Small writes are sent at once, and a vanished program is detected.
fn prepare(socket: &TcpStream) {
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4);
    // The options are not essential.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&keepalive);
}

/// Waits for a reset of a socket whose data has been read to the end: no read or write would report it. Before that its
/// reader does, after the data before the reset.
async fn reset_after(at_end: &Notify, socket: &TcpStream) -> io::Error {
    at_end.notified().await;
    if let Err(error) = socket.ready(Interest::ERROR).await {
        return error;
    }
    match socket.take_error() {
        Ok(Some(error)) | Err(error) => error,
        // Its writer has seen the error already.
        Ok(None) => std::future::pending().await,
    }
}

struct Reader<'a> {
    socket: &'a TcpStream,
    at_end: &'a Notify,
}

impl AsyncRead for Reader<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.socket.poll_read_ready(context))?;
            match self.socket.try_read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    if length == 0 {
                        self.at_end.notify_one();
                    }
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

struct Writer<'a>(&'a TcpStream);

impl AsyncWrite for Writer<'_> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match SockRef::from(self.0).shutdown(Shutdown::Write) {
            // The other end has closed as well, and everything arrived.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}

/// Idle time before a silent program is probed.
const KEEPALIVE: Duration = Duration::from_secs(60);
