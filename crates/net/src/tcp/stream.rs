//! One TCP connection that carries records.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use manyway_proto::{ByteCount, CarrierFigures, FourTuple, Records};

use super::pipe::Pipe;
use super::{figures, window};

/// A connected stream of records.
#[derive(Debug)]
pub(crate) struct RecordStream {
    io: Pipe,
    tuple: FourTuple,
    records: Records,
    /// What the system has not taken of the last record, and how much of that it has meanwhile.
    rest: Vec<u8>,
    taken: usize,
    /// Bytes that the system has taken.
    written: u64,
    /// Something waits within TLS.
    is_unflushed: bool,
    /// The receive window that is set.
    window: Option<ByteCount>,
}

impl RecordStream {
    /// A stream over a connection between these addresses, from which `early` was read already.
    pub(super) fn new(io: Pipe, tuple: FourTuple, early: &[u8]) -> Self {
        let mut records = Records::default();
        records.push(early);
        Self { io, tuple, records, rest: Vec::new(), taken: 0, written: 0, is_unflushed: false, window: None }
    }

    /// The addresses of both ends.
    pub(crate) fn tuple(&self) -> FourTuple {
        self.tuple
    }

    /// Reads what has arrived, as far as it fits into `buffer`. Returns the number of bytes; 0 means that the peer ended
    /// the stream.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let length = ready!(self.io.poll_read(context, buffer))?;
        self.records.push(buffer.get(..length).unwrap_or_default());
        Poll::Ready(Ok(length))
    }

    /// The next complete record of what was read.
    pub(crate) fn next_record(&mut self) -> Option<&mut [u8]> {
        self.records.next_record()
    }

    /// The same, which stays.
    pub(crate) fn peek_record(&self) -> Option<&[u8]> {
        self.records.peek_record()
    }

    /// Writes a record. The stream keeps what the system does not take now, for [`poll_flush`](Self::poll_flush);
    /// records written meanwhile follow it.
    ///
    /// # Errors
    /// The connection is broken, or the record has more than 65 535 bytes.
    pub(crate) fn write(&mut self, record: &[u8]) -> io::Result<()> {
        let prefix = Records::prefix(record.len()).ok_or(io::ErrorKind::InvalidInput)?;
        let mut taken = 0;
        if self.pending() == 0 {
            taken = self.io.try_write(&[IoSlice::new(&prefix), IoSlice::new(record)])?;
            self.is_unflushed = !self.io.is_flushed()?;
            self.written += taken as u64;
        }
        // While something always waits, what was taken must not gather.
        if self.taken * 2 > self.rest.len() {
            self.rest.drain(..self.taken);
            self.taken = 0;
        }
        let of_record = taken.saturating_sub(prefix.len());
        self.rest.extend_from_slice(prefix.get(taken..).unwrap_or_default());
        self.rest.extend_from_slice(record.get(of_record..).unwrap_or_default());
        Ok(())
    }

    /// Bytes that wait here until the system takes them.
    pub(crate) fn pending(&self) -> u64 {
        (self.rest.len() - self.taken) as u64 + u64::from(self.is_unflushed)
    }

    /// Gives the system what waits here; ready once nothing does, and the system takes more.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.io.poll_writable(context))?;
            self.is_unflushed = false;
            let rest = self.rest.get(self.taken..).unwrap_or_default();
            if rest.is_empty() {
                self.rest.clear();
                self.taken = 0;
                return Poll::Ready(Ok(()));
            }
            // Nothing is taken if the readiness was stale.
            let taken = self.io.try_write(&[IoSlice::new(rest)])?;
            self.taken += taken;
            self.written += taken as u64;
        }
    }

    /// What the system knows of the connection; `None` where it does not say. If the system has lifted the receive window,
    /// this sets it again.
    pub(crate) fn figures(&self) -> Option<CarrierFigures> {
        // Within TLS more bytes are sent than were written.
        let written = (!self.io.is_tls()).then_some(self.written);
        let (mut figures, limit) = figures::read(self.io.socket(), written)?;
        figures.outstanding.0 += self.pending();
        // Linux replaces a window that was set by that of the whole buffer, once larger packets arrive than before.
        if self.window.is_some_and(|window| limit > window) {
            self.apply_receive_window();
        }
        Some(figures)
    }

    /// Sets the receive window, and so what the peer may have in flight; `None` lifts the limit. Without effect where the
    /// system cannot do that.
    pub(crate) fn set_receive_window(&mut self, window: Option<ByteCount>) {
        self.window = window;
        self.apply_receive_window();
    }

    fn apply_receive_window(&self) {
        if let Err(error) = window::set(self.io.socket(), self.window) {
            tracing::debug!(%error, "TCP receive window not set");
        }
    }

    /// The receive window that is set.
    pub(crate) fn receive_window(&self) -> Option<ByteCount> {
        self.window
    }

    /// How large the receive window may become.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn receive_limit(&self) -> Option<ByteCount> {
        figures::read(self.io.socket(), None).map(|(_, limit)| limit)
    }

    /// The step of the receive window, in bits.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn receive_scale(&self) -> Option<u8> {
        figures::receive_scale(self.io.socket())
    }

    /// The options of the system's socket.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn options(&self) -> socket2::SockRef<'_> {
        self.io.socket().into()
    }

    /// Ends the connection by a reset instead of an orderly end, so that nothing of it stays in the system.
    pub(crate) fn reset(self) {
        let _ = socket2::SockRef::from(self.io.socket()).set_linger(Some(std::time::Duration::ZERO));
    }
}
