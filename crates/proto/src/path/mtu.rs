//! The largest datagram that a path carries, found by trying from the top (RFC 8899).

use std::time::Duration;

use crate::Instant;

/// What every path must carry (spec 6.33).
pub(crate) const BASE: u16 = 1200;
/// Payloads worth trying: Ethernet with IPv4 and IPv6, then common tunnels.
const LADDER: [u16; 5] = [1472, 1452, 1420, 1372, 1280];
const TRIES: u8 = 2;
/// So many large packets lost in a row, while small ones arrive, are no chance.
const BLACK_HOLE: u32 = 6;
const RAISE_AFTER: Duration = Duration::from_secs(600);
const RAISE_AFTER_BLACK_HOLE: Duration = Duration::from_secs(60);

/// Searches the size of datagrams on one path.
#[derive(Debug, Clone)]
pub(crate) struct MtuSearch {
    current: u16,
    limit: u16,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Nothing is known of the peer's limit yet, or the path died in mid search.
    Off,
    /// `rung` is to be tried; `waiting` while a probe is on its way.
    Searching {
        rung: usize,
        tries: u8,
        waiting: bool,
    },
    Done {
        again_at: Instant,
    },
}

impl MtuSearch {
    pub(crate) fn new() -> Self {
        Self { current: BASE, limit: BASE, phase: Phase::Off }
    }

    /// Tells whether no search was started yet, or the last one was interrupted.
    pub(crate) fn is_off(&self) -> bool {
        matches!(self.phase, Phase::Off)
    }

    /// Payload of a datagram that is known to fit.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// Starts the search below `limit`, the smaller of what both ends accept.
    pub(crate) fn start(&mut self, now: Instant, limit: u16) {
        self.limit = limit;
        self.search(now, 0);
    }

    fn search(&mut self, now: Instant, from: usize) {
        let next = LADDER.iter().enumerate().skip(from).find(|(_, size)| **size <= self.limit);
        self.phase = match next {
            Some((rung, size)) if *size > self.current => Phase::Searching { rung, tries: 0, waiting: false },
            Some(_) | None => Phase::Done { again_at: now + RAISE_AFTER },
        };
    }

    /// The size to try now, if one should be.
    pub(crate) fn wanted(&self) -> Option<u16> {
        match self.phase {
            Phase::Searching { rung, waiting: false, .. } => LADDER.get(rung).copied(),
            Phase::Searching { waiting: true, .. } | Phase::Off | Phase::Done { .. } => None,
        }
    }

    pub(crate) fn on_probe_sent(&mut self) {
        if let Phase::Searching { waiting, tries, .. } = &mut self.phase {
            *waiting = true;
            *tries += 1;
        }
    }

    /// The path died: what became of a probe says nothing of its size. The search starts anew when the path is back; a
    /// finished one stays finished.
    pub(crate) fn interrupt(&mut self) {
        if matches!(self.phase, Phase::Searching { .. }) {
            self.phase = Phase::Off;
        }
    }

    /// A datagram of `size` arrived; true if the size in use grew.
    pub(crate) fn on_acked(&mut self, now: Instant, size: u16) -> bool {
        let grew = size > self.current && size <= self.limit;
        if grew {
            self.current = size;
        }
        if matches!(self.phase, Phase::Searching { .. }) {
            self.phase = Phase::Done { again_at: now + RAISE_AFTER };
        }
        grew
    }

    pub(crate) fn on_lost(&mut self, now: Instant) {
        let Phase::Searching { rung, tries, waiting } = &mut self.phase else { return };
        *waiting = false;
        if *tries >= TRIES {
            let next = *rung + 1;
            self.search(now, next);
        }
    }

    /// So many packets larger than [`BASE`] were lost in a row, while smaller ones arrived; true if the size in use
    /// shrinks for it.
    pub(crate) fn on_large_lost(&mut self, now: Instant, in_a_row: u32) -> bool {
        in_a_row >= BLACK_HOLE && self.on_black_hole(now)
    }

    /// Large packets vanish while the path may be alive (spec 6.34): back to what always fits; true if that is smaller.
    pub(crate) fn on_black_hole(&mut self, now: Instant) -> bool {
        let shrinks = self.current > BASE;
        if shrinks {
            self.current = BASE;
            self.phase = Phase::Done { again_at: now + RAISE_AFTER_BLACK_HOLE };
        }
        shrinks
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Done { again_at } if self.current < self.limit => Some(again_at),
            Phase::Done { .. } | Phase::Off | Phase::Searching { .. } => None,
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.search(now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BASE, BLACK_HOLE, MtuSearch};
    use crate::Instant;

    #[test]
    fn the_search_walks_down_until_a_size_fits() {
        let now = Instant::from_nanos(0);
        let mut search = MtuSearch::new();
        assert_eq!(search.wanted(), None);
        search.start(now, 1472);
        let mut tried = Vec::new();
        while let Some(size) = search.wanted() {
            tried.push(size);
            search.on_probe_sent();
            assert_eq!(search.wanted(), None);
            if size <= 1420 {
                assert!(search.on_acked(now, size));
            } else {
                search.on_lost(now);
            }
        }
        assert_eq!(tried, [1472, 1472, 1452, 1452, 1420]);
        assert_eq!(search.current(), 1420);
        assert!(!search.on_large_lost(now, BLACK_HOLE - 1));
        assert!(search.on_large_lost(now, BLACK_HOLE));
        assert_eq!(search.current(), BASE);
        search.on_timeout(search.deadline().unwrap());
        assert_eq!(search.wanted(), Some(1472));
    }

    #[test]
    fn a_search_that_was_interrupted_starts_anew_and_a_finished_one_stays_finished() {
        let now = Instant::from_nanos(0);
        let mut search = MtuSearch::new();
        search.start(now, 1472);
        search.on_probe_sent();
        search.interrupt();
        search.on_lost(now);
        assert!(search.is_off());
        search.start(now, 1472);
        assert_eq!(search.wanted(), Some(1472));
        search.on_probe_sent();
        assert!(search.on_acked(now, 1472));
        search.interrupt();
        assert!(!search.is_off());
        assert_eq!((search.wanted(), search.current()), (None, 1472));
    }
}
