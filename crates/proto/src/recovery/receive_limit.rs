//! How much the peer wants in flight on a path, and how fast (spec 6.83).

use crate::{ByteCount, Rate};

/// The newest RECEIVE-LIMIT about a path; most paths never get one.
#[derive(Debug, Clone, Default)]
pub(super) struct ReceiveLimit(Option<Box<Stated>>);

#[derive(Debug, Clone, Copy)]
struct Stated {
    sequence: u64,
    window: Option<ByteCount>,
    rate: Option<Rate>,
}

impl ReceiveLimit {
    /// The peer states a window and a rate; `None` does not limit. An older statement changes nothing.
    pub(super) fn on_stated(&mut self, sequence: u64, window: Option<ByteCount>, rate: Option<Rate>) {
        if self.0.as_ref().is_none_or(|newest| sequence > newest.sequence) {
            self.0 = Some(Box::new(Stated { sequence, window, rate }));
        }
    }

    /// The largest rate, if there is a limit.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.0.as_ref()?.rate
    }

    /// A window under this limit, which lets one packet through in any case: a limit of nothing would silence the path
    /// for good if the block that lifts it got lost with its sender's interest.
    pub(super) fn bound(&self, window: ByteCount, packet: ByteCount) -> ByteCount {
        let limit = self.0.as_ref().and_then(|stated| stated.window);
        limit.map_or(window, |limit| window.min(limit.max(packet)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_statement_bounds_the_window_and_a_packet_is_always_allowed() {
        let (mut limit, packet, window) = (ReceiveLimit::default(), ByteCount(1200), ByteCount(50_000));
        assert_eq!(limit.bound(window, packet), window);
        limit.on_stated(2, Some(ByteCount(8000)), None);
        limit.on_stated(1, Some(ByteCount(90)), None);
        limit.on_stated(2, Some(ByteCount(91)), None);
        assert_eq!(limit.bound(window, packet), ByteCount(8000));
        assert_eq!(limit.bound(ByteCount(5000), packet), ByteCount(5000));
        limit.on_stated(3, Some(ByteCount::ZERO), Some(Rate::ZERO));
        assert_eq!(limit.bound(window, packet), packet);
        assert_eq!(limit.rate(), Some(Rate::ZERO));
        limit.on_stated(4, None, None);
        assert_eq!(limit.rate(), None);
        assert_eq!(limit.bound(window, packet), window);
    }
}
