//! Windows, numbers and buffers of streams.

use std::fmt;

use crate::message::OVERHEAD;

/// Limits of the streams of a connection.
///
/// ```
/// let mut streams = manyway_proto::StreamConfig::default();
/// streams.peer_streams = 16;
/// assert!(streams.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamConfig {
    /// Initial flow-control window of a stream: bytes that the peer may send before the application has read any.
    /// Default 1 MiB, from 16 KiB to [`max_window`](Self::max_window). It grows with the bytes that the application
    /// reads.
    pub stream_receive_window: u64,
    /// The same for all streams together. Default 1.5 MiB, from 16 KiB to [`max_window`](Self::max_window).
    pub connection_receive_window: u64,
    /// Upper bound of the windows, in bytes: the connection's window grows to this, a stream's to three quarters of
    /// it, so that an unread stream does not stop the others. It bounds the memory that a peer can fill. Default 64
    /// MiB, from 16 KiB to 4 GiB.
    pub max_window: u64,
    /// How many streams the peer may have open at a time. Default 320, at most 65 536.
    pub peer_streams: u64,
    /// Initial send buffer of a stream: bytes that it accepts from the application before they are acknowledged.
    /// Default 4 MiB, at least 16 KiB. It grows to twice the bytes in flight plus the bytes that arrived behind a
    /// gap. Over MMSP/2 it also doubles when more bytes than its size are acknowledged in order within two round trips of
    /// the slowest live path.
    pub send_buffer: u64,
    /// The least send buffer of a stream that carries messages, in bytes, over MMSP/2, as far as
    /// [`max_send_buffer`](Self::max_send_buffer) permits. Default 4 MiB, at least 16 KiB.
    pub message_buffer: u64,
    /// Upper bound of a stream's send buffer, in bytes. Default 64 MiB, at least [`send_buffer`](Self::send_buffer).
    pub max_send_buffer: u64,
    /// Upper bound of all send buffers together, in bytes; but each may always hold a 24th of it, at most 64 KiB and
    /// its own buffer, so that no stream stops another. Default 128 MiB, from 48 KiB to 4 GiB.
    pub send_memory: u64,
    /// Largest message that this end accepts, in bytes; smaller windows lower the limit, because a message must fit
    /// into each of them with 128 bytes to spare. 0: this end neither accepts nor sends messages. Default 256 KiB, at
    /// most 1 GiB.
    pub max_message: u64,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            stream_receive_window: MIB,
            connection_receive_window: MIB * 3 / 2,
            max_window: 64 * MIB,
            peer_streams: 320,
            send_buffer: 4 * MIB,
            message_buffer: 4 * MIB,
            max_send_buffer: 64 * MIB,
            send_memory: 128 * MIB,
            max_message: MIB / 4,
        }
    }
}

impl StreamConfig {
    /// Small windows and buffers, of 48 KiB at most; for [`ConnectionConfig::small`](crate::ConnectionConfig::small).
    pub fn small() -> Self {
        Self {
            stream_receive_window: SMALL * 2 / 3,
            connection_receive_window: SMALL,
            max_window: SMALL,
            peer_streams: 16,
            send_buffer: SMALL,
            message_buffer: SMALL,
            max_send_buffer: SMALL,
            send_memory: SMALL,
            max_message: SMALL / 3,
        }
    }

    /// Checks each field against its range.
    ///
    /// # Errors
    /// Names the first field that is out of range.
    pub fn check(&self) -> Result<(), StreamConfigError> {
        let ranges = [
            ("max_window", self.max_window, LEAST_WINDOW, MOST_WINDOW),
            ("stream_receive_window", self.stream_receive_window, LEAST_WINDOW, self.max_window),
            ("connection_receive_window", self.connection_receive_window, LEAST_WINDOW, self.max_window),
            ("peer_streams", self.peer_streams, 0, MOST_STREAMS),
            ("send_buffer", self.send_buffer, LEAST_WINDOW, MOST_WINDOW),
            ("message_buffer", self.message_buffer, LEAST_WINDOW, MOST_WINDOW),
            ("max_send_buffer", self.max_send_buffer, self.send_buffer, MOST_WINDOW),
            ("send_memory", self.send_memory, SMALL, MOST_WINDOW),
            ("max_message", self.max_message, 0, MOST_MESSAGE),
        ];
        let wrong = ranges.into_iter().find(|(_, given, least, most)| given < least || given > most);
        wrong.map_or(Ok(()), |(field, given, least, most)| {
            Err(StreamConfigError { field, given, least, most })
        })
    }

    /// Capacity that each send buffer has in any case (spec 8.25).
    pub(crate) fn least_send_buffer(&self) -> u64 {
        (self.send_memory / 24).min(64 << 10)
    }

    /// The largest message that this end accepts (spec 8.31).
    pub(crate) fn message_limit(&self) -> u64 {
        self.max_message
            .min(self.stream_receive_window.min(self.connection_receive_window).saturating_sub(OVERHEAD))
    }
}

/// A field of [`StreamConfig`] is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamConfigError {
    /// Name of the field.
    pub field: &'static str,
    /// Its value.
    pub given: u64,
    /// The lower bound.
    pub least: u64,
    /// The upper bound.
    pub most: u64,
}

impl fmt::Display for StreamConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, it must be from {} to {}", self.field, self.given, self.least, self.most)
    }
}

impl std::error::Error for StreamConfigError {}

const MIB: u64 = 1 << 20;
const LEAST_WINDOW: u64 = 16 << 10;
/// Buffer of a small connection in each direction.
const SMALL: u64 = 48 << 10;
const MOST_WINDOW: u64 = 4 << 30;
const MOST_STREAMS: u64 = 1 << 16;
const MOST_MESSAGE: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_their_own_check() {
        assert_eq!(StreamConfig::default().check(), Ok(()));
        assert_eq!(StreamConfig::small().check(), Ok(()));
    }

    #[test]
    fn an_error_names_the_field_that_is_out_of_range() {
        let config = StreamConfig { stream_receive_window: 1, ..StreamConfig::default() };
        assert_eq!(config.check().unwrap_err().field, "stream_receive_window");
    }
}
