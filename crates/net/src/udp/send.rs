//! Sends a batch of datagrams with one call, and classifies the errors.

use std::fmt;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use manyway_proto::{Ecn, Transmit};
use quinn_udp::{EcnCodepoint, UdpSockRef};
use tokio::io::Interest;

use super::socket::{UdpSocket, offload_state};

/// Largest UDP payload of IPv4: 65535 less both headers. Segmentation offload has the same limit.
const MAX_BATCH: usize = 65_535 - 20 - 8;

/// Calls to send one batch; if errors of earlier datagrams fail all of them, it counts as lost on the way.
const ATTEMPTS: usize = 4;

impl UdpSocket {
    /// Most datagrams of one size that a single system call sends; at least 1.
    ///
    /// Batches of this size are best; larger ones are split.
    pub fn max_segments(&self, segment: usize) -> usize {
        self.send_segments().min(MAX_BATCH / segment.max(1)).max(1)
    }

    pub(super) fn send_segments(&self) -> usize {
        if self.segments.load(Ordering::Relaxed) { self.state().max_gso_segments() } else { 1 }
    }

    /// Sends the datagrams in the first `transmit.length` bytes of `buffer` and does not wait.
    ///
    /// From a wildcard socket they leave from `transmit.tuple.local`, unless that is a wildcard, too.
    ///
    /// # Errors
    /// [`SendError`] with the number of bytes whose datagrams the system accepted before. After
    /// [`SendFailure::WouldBlock`], keep the rest, wait for [`writable`](Self::writable) and send
    /// [`rest`](SendError::rest) of it.
    pub fn try_send(&self, transmit: &Transmit, buffer: &[u8]) -> Result<(), SendError> {
        let mut rest = buffer.get(..transmit.length).unwrap_or(buffer);
        let whole = rest.len();
        let segment = transmit.segment.max(1);
        while !rest.is_empty() {
            let batch = segment.saturating_mul(self.max_segments(segment)).min(rest.len());
            let (now, later) = rest.split_at(batch);
            if let Err(source) = self.send_batch(transmit, now, segment) {
                let before = whole - rest.len();
                if !is_offload_failure(&source) {
                    return Err(self.error(transmit, before, source));
                }
                self.forget_failure();
                if batch <= segment {
                    return Err(self.error(transmit, before, source));
                }
                return self
                    .send_singly(transmit, rest, segment)
                    .map_err(|(sent, source)| self.error(transmit, before + sent, source));
            }
            rest = later;
        }
        Ok(())
    }

    /// Sends what the system accepts with one call. The ICMP error of an earlier datagram is returned as the failure of
    /// this one, whose path is not concerned: it is stored, and this one sent again.
    fn send_batch(&self, transmit: &Transmit, contents: &[u8], segment: usize) -> io::Result<()> {
        for attempt in 0..ATTEMPTS {
            let error = match self.send_call(transmit, contents, segment) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => error,
                result => return result,
            };
            // The error queue may have had no room for the error.
            if !self.read_errors() && attempt > 0 {
                return Err(error);
            }
        }
        Err(io::ErrorKind::OutOfMemory.into())
    }

    /// One system call; if the socket is full, once more through the runtime, which then wakes the task.
    fn send_call(&self, transmit: &Transmit, contents: &[u8], segment: usize) -> io::Result<()> {
        let source = transmit.tuple.local.address.ip();
        let message = quinn_udp::Transmit {
            destination: transmit.tuple.remote,
            ecn: codepoint(transmit.ecn),
            contents,
            segment_size: (contents.len() > segment).then_some(segment),
            src_ip: (self.is_wildcard() && !source.is_unspecified()).then_some(source),
        };
        let attempt = || self.state().try_send(UdpSockRef::from(&self.io), &message);
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.io.try_io(Interest::WRITABLE, attempt)
            }
            result => result,
        }
    }

    /// Sends the datagrams one by one after a batch failed, and finds out whether offload was the cause.
    ///
    /// A device without checksum offload refuses each batch: offload stays off. A batch of datagrams above the MTU, or
    /// from an address that is gone, fails with the same error, but then so do single ones.
    fn send_singly(
        &self,
        transmit: &Transmit,
        contents: &[u8],
        segment: usize,
    ) -> Result<(), (usize, io::Error)> {
        let mut sent = 0;
        for datagram in contents.chunks(segment) {
            if let Err(error) = self.send_batch(transmit, datagram, segment) {
                if is_offload_failure(&error) {
                    self.forget_failure();
                }
                return Err((sent, error));
            }
            if sent == 0 {
                self.segments.store(false, Ordering::Relaxed);
                tracing::info!(
                    interface = self.local.interface,
                    "segmentation offload does not work here, going on without"
                );
            }
            sent += datagram.len();
        }
        Ok(())
    }

    /// quinn-udp takes such a failure as a sign of an old kernel and stops using offload and ECN marks. A new state
    /// starts afresh.
    fn forget_failure(&self) {
        if let Ok(state) = offload_state(&self.io) {
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        }
    }

    fn error(&self, transmit: &Transmit, sent: usize, source: io::Error) -> SendError {
        let has_source = self.is_wildcard() && !transmit.tuple.local.address.ip().is_unspecified();
        SendError { failure: SendFailure::of(&source, has_source), sent, source }
    }
}

/// The errors with which Linux refuses a batch that the device cannot segment: EIO, or EINVAL.
fn is_offload_failure(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    const EINVAL: i32 = 22;
    cfg!(target_os = "linux") && matches!(error.raw_os_error(), Some(EIO | EINVAL))
}

fn codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

/// Why a datagram was not sent, by the reaction that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendFailure {
    /// The socket's buffer is full: wait and send the same again.
    WouldBlock,
    /// The local address, the interface or the route is gone: leave the path.
    Unreachable,
    /// Larger than the interface's MTU: send smaller datagrams.
    TooLarge,
    /// An earlier datagram was answered with port unreachable.
    Refused,
    /// A firewall of this host blocks it.
    Denied,
    /// A queue of this host is full and the datagram is lost: treat it as lost on the way.
    Dropped,
    /// Any other error.
    Other,
}

impl SendFailure {
    fn of(error: &io::Error, has_source: bool) -> Self {
        #[cfg(not(target_os = "linux"))]
        let _ = has_source;
        #[cfg(target_os = "linux")]
        {
            use nix::errno::Errno;
            match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ENODEV | Errno::ENXIO) => return Self::Unreachable,
                Some(Errno::ENOBUFS) => return Self::Dropped,
                // The error of Linux for a source address that is gone (ip(7), IP_PKTINFO).
                Some(Errno::EINVAL) if has_source => return Self::Unreachable,
                _ => {}
            }
        }
        if quinn_udp::is_msg_size_err(error) {
            return Self::TooLarge;
        }
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the list of the standard library is long and open"
        )]
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::WouldBlock,
            io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::AddrNotAvailable => Self::Unreachable,
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::PermissionDenied => Self::Denied,
            io::ErrorKind::OutOfMemory => Self::Dropped,
            _ => Self::Other,
        }
    }
}

/// Not everything was sent.
#[derive(Debug)]
pub struct SendError {
    /// The reaction that it needs.
    pub failure: SendFailure,
    /// Bytes of the buffer that were sent before.
    pub sent: usize,
    /// The system's reason.
    pub source: io::Error,
}

impl SendError {
    /// What is left to send: it begins at [`sent`](Self::sent) in the same buffer.
    pub fn rest(&self, transmit: &Transmit) -> Transmit {
        let length = transmit.length.saturating_sub(self.sent);
        Transmit { length, segment: transmit.segment.min(length), ..*transmit }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self.failure {
            SendFailure::WouldBlock => "the socket is full",
            SendFailure::Unreachable => "address or route is gone",
            SendFailure::TooLarge => "the datagram is larger than the interface carries",
            SendFailure::Refused => "port unreachable",
            SendFailure::Denied => "a firewall of this host forbids it",
            SendFailure::Dropped => "a queue of this host is full",
            SendFailure::Other => "sending failed",
        };
        write!(f, "{meaning}: {}", self.source)
    }
}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn system_errors_are_classified_by_the_reaction_they_need() {
        use nix::errno::Errno;
        let class = |errno: Errno| SendFailure::of(&errno.into(), false);
        for errno in [
            Errno::ENETUNREACH,
            Errno::ENETDOWN,
            Errno::EADDRNOTAVAIL,
            Errno::EHOSTUNREACH,
            Errno::ENODEV,
            Errno::ENXIO,
        ] {
            assert_eq!(class(errno), SendFailure::Unreachable, "{errno}");
        }
        assert_eq!(class(Errno::EAGAIN), SendFailure::WouldBlock);
        assert_eq!(class(Errno::EMSGSIZE), SendFailure::TooLarge);
        assert_eq!(class(Errno::ECONNREFUSED), SendFailure::Refused);
        assert_eq!(class(Errno::EPERM), SendFailure::Denied);
        assert_eq!(class(Errno::EACCES), SendFailure::Denied);
        assert_eq!(class(Errno::ENOBUFS), SendFailure::Dropped);
        assert_eq!(class(Errno::EINVAL), SendFailure::Other);
        assert_eq!(SendFailure::of(&Errno::EINVAL.into(), true), SendFailure::Unreachable);
    }

    #[test]
    fn the_rest_of_a_batch_starts_where_it_stopped() {
        let address = "127.0.0.1:1".parse().unwrap();
        let tuple =
            manyway_proto::FourTuple::udp(manyway_proto::LocalAddress { interface: 0, address }, address);
        let transmit = Transmit { tuple, length: 2500, segment: 1000, ecn: Ecn::Ect0 };
        let error =
            |sent| SendError { failure: SendFailure::WouldBlock, sent, source: io::Error::other("full") };
        assert_eq!(error(1000).rest(&transmit), Transmit { length: 1500, ..transmit });
        assert_eq!(error(2000).rest(&transmit), Transmit { length: 500, segment: 500, ..transmit });
    }
}
