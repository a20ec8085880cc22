//! What the system knows of a TCP connection.

use manyway_proto::{ByteCount, CarrierFigures};
use tokio::net::TcpStream;

/// Reads the figures of a connection to which `written` bytes were given (`None` if that is not known), and how large its
/// receive window may become. Costs a system call, or two.
#[cfg(target_os = "linux")]
pub(super) fn read(stream: &TcpStream, written: Option<u64>) -> Option<(CarrierFigures, ByteCount)> {
    use std::time::Duration;

    use manyway_proto::Rate;

    let info = linux::tcp_info(stream).ok()?;
    let micros = |value: u32| Duration::from_micros(u64::from(value));
    let congestion = u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss);
    // The acknowledgement of a client's SYN counts as a byte.
    let unacknowledged = match written {
        Some(written) => written.saturating_sub(info.tcpi_bytes_acked),
        None => linux::send_queue(stream).ok()?,
    };
    // Before Linux 5.4 the system does not report the peer's receive window, and before 4.6 not the unsent bytes either.
    let (window, early) = match info.tcpi_snd_wnd {
        0 => (congestion, 0),
        receiver => {
            let early = early(&info, unacknowledged);
            (congestion.min(u64::from(receiver).saturating_sub(early)), early)
        }
    };
    let mut figures = CarrierFigures::new(micros(info.tcpi_rtt), ByteCount(window));
    figures.rtt_variation = micros(info.tcpi_rttvar);
    // Before the first measurement it is the largest number.
    figures.minimum_rtt = micros(info.tcpi_min_rtt.min(info.tcpi_rtt));
    figures.delivery_rate = Rate::from_bytes_per_second(info.tcpi_delivery_rate);
    figures.receive_rtt = micros(info.tcpi_rcv_rtt);
    figures.receive_segment = ByteCount(u64::from(info.tcpi_rcv_mss));
    figures.outstanding = ByteCount(unacknowledged.saturating_sub(early));
    Some((figures, ByteCount(u64::from(info.tcpi_rcv_ssthresh))))
}

/// The bytes that have arrived behind a gap, estimated: segments behind the gap times the mean size of those on their way.
#[cfg(target_os = "linux")]
fn early(info: &nix::libc::tcp_info, unacknowledged: u64) -> u64 {
    let sent = unacknowledged.saturating_sub(u64::from(info.tcpi_notsent_bytes));
    let segments = u64::from(info.tcpi_unacked).max(1);
    sent * u64::from(info.tcpi_sacked).min(segments) / segments
}

/// The step in which the system announces the receive window, in bits.
#[cfg(all(test, target_os = "linux"))]
pub(super) fn receive_scale(stream: &TcpStream) -> Option<u8> {
    let scales = linux::tcp_info(stream).ok()?.tcpi_snd_rcv_wscale;
    Some(if cfg!(target_endian = "little") { scales >> 4 } else { scales & 0xf })
}

/// Other systems do not say enough: only a full send buffer holds the sender back.
#[cfg(not(target_os = "linux"))]
pub(super) fn read(_: &TcpStream, _: Option<u64>) -> Option<(CarrierFigures, ByteCount)> {
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::mem::{MaybeUninit, size_of};
    use std::os::fd::{AsRawFd, RawFd};

    use nix::libc;

    /// The system's report of a connection. What an older system does not know is zero.
    pub(super) fn tcp_info(socket: &impl AsRawFd) -> io::Result<libc::tcp_info> {
        let descriptor: RawFd = socket.as_raw_fd();
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).unwrap_or_default();
        // SAFETY: the system writes at most `length` bytes to `info`, which has that many, and `length` itself. The
        // descriptor is open while `socket` is borrowed.
        let result = unsafe {
            libc::getsockopt(
                descriptor,
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was zeroed, and every pattern of bits is a valid value of its fields, which are integers.
        Ok(unsafe { info.assume_init() })
    }

    /// Bytes in the send buffer, sent or not, that the peer has not acknowledged.
    pub(super) fn send_queue(socket: &impl AsRawFd) -> io::Result<u64> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the system writes one `int` to `bytes`. The descriptor is open while `socket` is borrowed.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(u64::try_from(bytes).unwrap_or_default())
    }
}
