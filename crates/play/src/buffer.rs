//! How much is read ahead of a player.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use std::sync::atomic::{AtomicU64, Ordering};

/// How much of a film waits here for its player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// So much media, but at most 64 MiB; 8 MiB where the length of the media is unknown.
    Time(Duration),
    /// So many bytes.
    Bytes(u64),
}

/// Twenty seconds.
impl Default for Buffer {
    fn default() -> Self {
        Self::Time(Duration::from_secs(20))
    }
}

/// The most bytes of a buffer in time, and those without a rate.
const MOST: u64 = 64 << 20;
const WITHOUT_RATE: u64 = 8 << 20;

impl Buffer {
    /// The least bytes of a buffer; fewer count as these.
    pub const LEAST: u64 = 256 << 10;

    /// Its bytes for media of so many bits a second.
    pub(crate) fn bytes(self, bits_per_second: Option<u64>) -> u64 {
        match (self, bits_per_second) {
            (Self::Bytes(bytes), _) => bytes.max(Self::LEAST),
            (Self::Time(_), None) => WITHOUT_RATE,
            (Self::Time(time), Some(rate)) => {
                let bytes = u128::from(rate / 8) * time.as_millis() / 1000;
                u64::try_from(bytes).unwrap_or(MOST).clamp(Self::LEAST, MOST)
            }
        }
    }
}

/// Small pieces, until they are worth a place in the queue of a player.
#[derive(Debug, Default)]
pub(crate) struct Gathered(BytesMut);

impl Gathered {
    /// Bytes of a whole piece.
    const PIECE: usize = 64 << 10;

    /// Adds bytes; returns the pieces that are whole now.
    pub(crate) fn add(&mut self, mut bytes: Bytes) -> Vec<Bytes> {
        let mut whole = Vec::new();
        while !bytes.is_empty() {
            if self.0.is_empty() {
                self.0 = BytesMut::with_capacity(Self::PIECE);
            }
            let fits = bytes.split_to(bytes.len().min(Self::PIECE - self.0.len()));
            self.0.extend_from_slice(&fits);
            if self.0.len() == Self::PIECE {
                whole.extend(self.take());
            }
        }
        whole
    }

    /// What is there, as a piece.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        (!self.0.is_empty()).then(|| std::mem::take(&mut self.0).freeze())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Bytes that wait for a player.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    bytes: AtomicU64,
    taken: Notify,
}

impl Waiting {
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn take(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.taken.notify_one();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The next time that the player takes bytes.
    pub(crate) fn taken(&self) -> Notified<'_> {
        self.taken.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_in_time_follows_the_rate_within_its_bounds() {
        let buffer = Buffer::default();
        assert_eq!(buffer.bytes(Some(8_000_000)), 20_000_000);
        assert_eq!([buffer.bytes(Some(8)), buffer.bytes(Some(u64::MAX))], [Buffer::LEAST, MOST]);
        assert_eq!(buffer.bytes(None), WITHOUT_RATE);
        assert_eq!(
            [Buffer::Bytes(1).bytes(None), Buffer::Bytes(1 << 40).bytes(Some(8))],
            [Buffer::LEAST, 1 << 40]
        );
    }

    #[test]
    fn small_pieces_are_gathered_to_whole_ones() {
        let mut gathered = Gathered::default();
        let pieces: Vec<_> = (0..100).flat_map(|_| gathered.add(vec![7; 2000].into())).collect();
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [64 << 10; 3]);
        assert_eq!(gathered.take().map(|rest| rest.len()), Some(200_000 - 3 * (64 << 10)));
        assert!(gathered.is_empty() && gathered.take().is_none());
        assert_eq!(gathered.add(vec![7; 200_000].into()).len(), 3);
    }
}
