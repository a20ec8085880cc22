//! Which numbers of a space were seen.

const WORDS: usize = 128;
const WORD_BITS: u64 = 64;

/// Sliding window over the packet numbers of one space: a number is taken once, and never when it is too old.
///
/// The bits lie on a ring of words. The word of the newest number may hold newer numbers too, so one word of the
/// ring is not available for old ones.
#[derive(Debug, Clone)]
pub(crate) struct ReplayWindow {
    /// One above the highest number seen.
    next: u64,
    words: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    /// How far below the highest number seen a number may lie to be taken.
    pub(crate) const WIDTH: u64 = (WORDS as u64 - 1) * WORD_BITS;

    /// Has seen nothing.
    pub(crate) fn new() -> Self {
        Self { next: 0, words: Box::new([0; WORDS]) }
    }

    /// One above the highest number seen, 0 at first: what [`Incoming::expected`](super::Incoming) asks for.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether the number was not seen and is young enough to tell.
    pub(crate) fn is_fresh(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        if self.next - number > Self::WIDTH {
            return false;
        }
        self.words.get(word(number)).is_some_and(|bits| bits & bit(number) == 0)
    }

    /// Notes a number as seen. To be called only for packets that were opened, or forged numbers would move it.
    pub(crate) fn mark(&mut self, number: u64) {
        if number >= self.next {
            // The word of the highest number is in use, those between it and the new one hold old numbers.
            let newest = self.next.checked_sub(1).map_or(0, |highest| highest / WORD_BITS);
            let steps = number / WORD_BITS - newest;
            for step in 1..=steps.min(WORDS as u64) {
                if let Some(bits) = self.words.get_mut(word((newest + step) * WORD_BITS)) {
                    *bits = 0;
                }
            }
            self.next = number.saturating_add(1);
        } else if self.next - number > Self::WIDTH {
            return;
        }
        if let Some(bits) = self.words.get_mut(word(number)) {
            *bits |= bit(number);
        }
    }
}

fn word(number: u64) -> usize {
    ((number / WORD_BITS) % WORDS as u64) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_fresh_until_it_is_marked() {
        let mut window = ReplayWindow::new();
        assert!(window.is_fresh(0) && window.is_fresh(u64::MAX >> 2));
        window.mark(0);
        assert!(!window.is_fresh(0) && window.is_fresh(1));
        assert_eq!(window.next(), 1);
    }

    #[test]
    fn numbers_below_the_window_are_refused_though_never_seen() {
        let mut window = ReplayWindow::new();
        window.mark(100_000);
        assert!(window.is_fresh(100_001 - ReplayWindow::WIDTH));
        assert!(!window.is_fresh(100_000 - ReplayWindow::WIDTH));
        const { assert!(ReplayWindow::WIDTH >= 4096) };
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(2), ..ProptestConfig::default()
        })]

        #[test]
        fn the_window_answers_as_a_set_with_a_floor_would(
            steps in proptest::collection::vec((0_u64..3, 0_u64..20_000), 1..400)
        ) {
            let (mut window, mut seen, mut next) = (ReplayWindow::new(), BTreeSet::new(), 0_u64);
            for (kind, by) in steps {
                // Mostly small steps back and forth, at times a leap.
                let number = match kind {
                    0 => next + by % 70,
                    1 => next.saturating_sub(by % 200),
                    _ if by % 7 == 0 => next + by,
                    _ => next.saturating_sub(by),
                };
                let expected = number >= next || (next - number <= ReplayWindow::WIDTH && !seen.contains(&number));
                prop_assert_eq!(window.is_fresh(number), expected);
                if expected {
                    window.mark(number);
                    seen.insert(number);
                    next = next.max(number + 1);
                    prop_assert!(!window.is_fresh(number));
                }
            }
        }
    }
}
