//! Datagrams that come before their flow is known.

use std::collections::VecDeque;

/// Keeps the newest one; the oldest make room. A program sends again what it has no answer to, so the newest is worth most.
// egress 8.2, 9.8, 9.10
pub(crate) fn keep<T>(early: &mut VecDeque<T>, newest: T, length: impl Fn(&T) -> usize) {
    early.push_back(newest);
    while early.len() > MOST || (early.len() > 1 && early.iter().map(&length).sum::<usize>() > MOST_BYTES) {
        early.pop_front();
    }
}

/// Most datagrams.
const MOST: usize = 16;
/// Most bytes of all together.
const MOST_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(lengths: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut early = VecDeque::new();
        lengths.into_iter().for_each(|length| keep(&mut early, length, |length| *length));
        early.into()
    }

    #[test]
    fn the_last_sixteen_are_kept() {
        assert_eq!(kept(1..=20), (5..=20).collect::<Vec<_>>());
    }

    #[test]
    fn the_last_ones_of_a_number_of_bytes_are_kept_and_the_newest_always() {
        assert_eq!(kept([20_000, 10_000, 20_000]), [10_000, 20_000]);
        assert_eq!(kept([1, 60_000]), [60_000]);
    }
}
