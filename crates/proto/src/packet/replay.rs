//! Replay protection: the packet numbers that were seen in a space.

const WORDS: usize = 128;
/// Words at first and after an idle period: until the first word is full, old numbers need none.
const FEW_WORDS: usize = 2;
const WORD_BITS: u64 = 64;

/// Sliding window over the packet numbers of one space: a number is accepted once, and never when it is too old.
///
/// The bits lie on a ring of words. The word of the newest number may hold newer numbers too, so one word of the ring
/// is not available for old ones. The ring is small until packets flow, and may shrink again when idle.
#[derive(Debug, Clone)]
pub(crate) struct ReplayWindow {
    /// One above the highest number seen.
    next: u64,
    words: Box<[u64]>,
}

impl ReplayWindow {
    /// How far below the highest number seen a number may lie to be accepted.
    #[cfg(test)]
    pub(crate) const WIDTH: u64 = (WORDS as u64 - 1) * WORD_BITS;

    /// Starts without any seen number.
    pub(crate) fn new() -> Self {
        Self { next: 0, words: Box::new([0; FEW_WORDS]) }
    }

    /// One above the highest number seen, 0 at first: the number that a receiver expects.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether the number was not seen and is recent enough to know.
    pub(crate) fn is_fresh(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        if self.next - number > self.width() {
            return false;
        }
        self.words.get(self.word(number)).is_some_and(|bits| bits & bit(number) == 0)
    }

    /// Marks a number as seen. Called only for decrypted packets: otherwise forged numbers would move the window.
    pub(crate) fn mark(&mut self, number: u64) {
        if number >= self.next {
            // The word of the highest number is in use, the words between it and the new one hold old numbers.
            let newest = self.next.checked_sub(1).map_or(0, |highest| highest / WORD_BITS);
            let steps = number / WORD_BITS - newest;
            if steps > 0 && self.words.len() < WORDS {
                self.resize(WORDS);
            }
            for step in 1..=steps.min(WORDS as u64) {
                let word = self.word((newest + step) * WORD_BITS);
                if let Some(bits) = self.words.get_mut(word) {
                    *bits = 0;
                }
            }
            self.next = number.saturating_add(1);
        } else if self.next - number > self.width() {
            return;
        }
        let word = self.word(number);
        if let Some(bits) = self.words.get_mut(word) {
            *bits |= bit(number);
        }
    }

    /// Frees memory while no packets come: old missing numbers count as seen from now on.
    pub(crate) fn shrink(&mut self) {
        if self.words.len() > FEW_WORDS {
            self.resize(FEW_WORDS);
        }
    }

    /// Keeps the two newest words; all earlier numbers count as seen.
    fn resize(&mut self, words: usize) {
        let newest = self.next.saturating_sub(1) / WORD_BITS;
        let before = newest.checked_sub(1);
        let kept = [Some(newest), before].map(|index| {
            let number = index? * WORD_BITS;
            Some((number, *self.words.get(self.word(number))?))
        });
        self.words = vec![u64::MAX; words].into();
        for (number, bits) in kept.into_iter().flatten() {
            let word = self.word(number);
            if let Some(to) = self.words.get_mut(word) {
                *to = bits;
            }
        }
    }

    fn width(&self) -> u64 {
        (self.words.len() as u64 - 1) * WORD_BITS
    }

    fn word(&self, number: u64) -> usize {
        ((number / WORD_BITS) % self.words.len() as u64) as usize
    }
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
    fn a_window_that_was_idle_accepts_no_number_twice() {
        let mut window = ReplayWindow::new();
        let missing = [3, 70, 140, 199];
        (0..200).filter(|number| !missing.contains(number)).for_each(|number| window.mark(number));
        assert!(missing.iter().all(|number| window.is_fresh(*number)));
        window.shrink();
        assert!((0..200).all(|number| !window.is_fresh(number) || missing.contains(&number)));
        assert!(window.is_fresh(199) && window.is_fresh(140) && !window.is_fresh(3));
        (200..400).for_each(|number| window.mark(number));
        assert!((0..400).all(|number| !window.is_fresh(number) || missing.contains(&number)));
        assert!(window.is_fresh(199) && window.is_fresh(400));
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
        fn the_window_behaves_as_a_set_with_a_floor(
            steps in proptest::collection::vec((0_u64..3, 0_u64..20_000), 1..400)
        ) {
            let (mut window, mut seen, mut next) = (ReplayWindow::new(), BTreeSet::new(), 0_u64);
            for (kind, by) in steps {
                // Mostly small steps back and forth, sometimes a leap.
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
