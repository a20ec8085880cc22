//! The receive window of a TCP connection, by which a receiver bounds what the sender has in flight.

use std::io;

use manyway_proto::ByteCount;
use tokio::net::TcpStream;

/// Sets the receive window; `None` lifts the limit. Windows that shrink take effect at once, growing ones over some round
/// trips.
///
/// # Errors
/// The system's.
#[cfg(target_os = "linux")]
pub(super) fn set(stream: &TcpStream, window: Option<ByteCount>) -> io::Result<()> {
    let window = window.unwrap_or(UNLIMITED).min(UNLIMITED);
    // A buffer of a set size ends the system's tuning, which would overwrite the window. The system takes half of it, or
    // more, for its own use.
    let buffer = (window * 4).max(LEAST_BUFFER).to_usize();
    socket2::SockRef::from(stream).set_recv_buffer_size(buffer)?;
    linux::clamp(stream, i32::try_from(window.get()).unwrap_or(i32::MAX))
}

/// Bounds the window of a connection before it begins, and with it the scale in which the system announces windows: it
/// rounds up to that, and a window that it announced once does not shrink by less than a step. The steps are of 512 bytes
/// then, where those of 32 MiB would be of 1 or 2 KiB, more than two small packets.
#[cfg(target_os = "linux")]
pub(super) fn bound_scale(socket: &socket2::Socket) -> io::Result<()> {
    linux::clamp(socket, i32::try_from(UNLIMITED.get()).unwrap_or(i32::MAX))
}

/// More than any system grants by default.
#[cfg(target_os = "linux")]
const UNLIMITED: ByteCount = ByteCount(16 << 20);
#[cfg(target_os = "linux")]
const LEAST_BUFFER: ByteCount = ByteCount(64 << 10);

/// Other systems have no such setting.
#[cfg(not(target_os = "linux"))]
pub(super) fn set(_: &TcpStream, window: Option<ByteCount>) -> io::Result<()> {
    if window.is_some() { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::mem::size_of;
    use std::os::fd::{AsRawFd, RawFd};

    use nix::libc;

    /// Bounds the advertised window, in bytes.
    pub(super) fn clamp(socket: &impl AsRawFd, window: libc::c_int) -> io::Result<()> {
        let descriptor: RawFd = socket.as_raw_fd();
        let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or_default();
        // SAFETY: the system reads `length` bytes of `window`, which has that many. The descriptor is open while `socket`
        // is borrowed.
        let result = unsafe {
            libc::setsockopt(
                descriptor,
                libc::IPPROTO_TCP,
                libc::TCP_WINDOW_CLAMP,
                (&raw const window).cast(),
                length,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
