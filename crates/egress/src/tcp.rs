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

/// A TCP connection of a program that the kernel or this process terminates.
pub trait LocalConnection: Send + Sync {
    /// Reads what the program has sent; nothing at the end.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;

    /// Sends to the program.
    fn poll_write(&self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>>;

    /// Ends the direction to the program; the other may go on.
    ///
    /// # Errors
    /// The connection broke.
    fn finish(&self) -> io::Result<()>;

    /// Waits for a reset of a connection whose data has been read to the end: no read or write would report it.
    fn until_reset(&self) -> impl Future<Output = io::Error> + Send;

    /// Resets the connection, at the latest when it is dropped.
    fn reset(&self);
}

/// As [`relay`], with a TCP connection as the local stream. It is reset if the other side breaks or the future is
/// dropped, so that its program never takes a truncated stream for a complete one. If it is reset itself, even after it
/// has sent everything, the other side is told.
///
/// # Errors
/// As [`relay`].
// egress 4.3, 4.4
pub async fn relay_connection<C, W, R>(
    connection: C,
    stream: (W, R),
    quota: &Quota,
) -> Result<Volume, RelayError>
where
    C: LocalConnection,
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    let mut local = Local { connection, has_ended: false };
    let connection = &local.connection;
    let at_end = Notify::new();
    let reader = Reader { connection, at_end: &at_end };
    let reset = async {
        at_end.notified().await;
        connection.until_reset().await
    };
    let result = tokio::select! {
        result = relay((reader, Writer(connection)), stream, quota) => result,
        error = reset => Err(RelayError::Local(error)),
    };
    local.has_ended = result.is_ok();
    result
}

/// As [`relay_connection`], for a socket.
///
/// # Errors
/// As [`relay`].
pub async fn relay_tcp<W, R>(socket: TcpStream, stream: (W, R), quota: &Quota) -> Result<Volume, RelayError>
where
    W: AsyncWrite + Unpin,
    R: AsyncRead + Unpin,
{
    prepare(&socket);
    relay_connection(socket, stream, quota).await
}

/// A connection that is reset when it is dropped before its end.
struct Local<C: LocalConnection> {
    connection: C,
    has_ended: bool,
}

impl<C: LocalConnection> Drop for Local<C> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.connection.reset();
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

impl LocalConnection for TcpStream {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_read_ready(context))?;
            match self.try_read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_write(&self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_write_ready(context))?;
            match self.try_write(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn finish(&self) -> io::Result<()> {
        match SockRef::from(self).shutdown(Shutdown::Write) {
            // The other end has closed as well, and everything arrived.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }

    async fn until_reset(&self) -> io::Error {
        if let Err(error) = self.ready(Interest::ERROR).await {
            return error;
        }
        match self.take_error() {
            Ok(Some(error)) | Err(error) => error,
            // Its writer has seen the error already.
            Ok(None) => std::future::pending().await,
        }
    }

    fn reset(&self) {
        reset_when_closed(self);
    }
}

struct Reader<'a, C> {
    connection: &'a C,
    at_end: &'a Notify,
}

impl<C: LocalConnection> AsyncRead for Reader<'_, C> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(self.connection.poll_read(context, buffer))?;
        if buffer.filled().len() == before {
            self.at_end.notify_one();
        }
        Poll::Ready(Ok(()))
    }
}

struct Writer<'a, C>(&'a C);

impl<C: LocalConnection> AsyncWrite for Writer<'_, C> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.finish())
    }
}

/// Idle time before a silent program is probed.
const KEEPALIVE: Duration = Duration::from_secs(60);
