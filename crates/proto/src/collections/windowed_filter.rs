//! Running minimum or maximum over a time window, in constant space.

use std::time::Duration;

use crate::Instant;

/// The maximum of a time window, from the three best candidates (Nichols' filter, as in BBR).
///
/// It is exact for the maximum itself and forgets it within one window; its successor is the best of the values in
/// the later quarters of the window. A running minimum is the filter over [`std::cmp::Reverse`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowedMax<T> {
    /// Best, second best and third best; each newer than the one before it.
    best: Option<[(Instant, T); 3]>,
}

impl<T: Copy + Ord> WindowedMax<T> {
    pub(crate) const fn new() -> Self {
        Self { best: None }
    }

    /// The largest value as of the last update.
    pub(crate) fn value(&self) -> Option<T> {
        self.best.map(|[(_, value), _, _]| value)
    }

    /// Adds a value and forgets those older than `window`.
    pub(crate) fn update(&mut self, now: Instant, value: T, window: Duration) {
        let new = (now, value);
        let Some([first, mut second, mut third]) = self.best else {
            self.best = Some([new; 3]);
            return;
        };
        if value >= first.1 || now - third.0 > window {
            self.best = Some([new; 3]);
            return;
        }
        if value >= second.1 {
            second = new;
            third = new;
        } else if value >= third.1 {
            third = new;
        }
        self.best = Some(Self::aged([first, second, third], new, window));
    }

    /// Moves the candidates up when the best one leaves the window, or when all of them are from its start.
    fn aged(best: [(Instant, T); 3], new: (Instant, T), window: Duration) -> [(Instant, T); 3] {
        let [first, second, third] = best;
        let age = new.0 - first.0;
        if age > window {
            return if new.0 - second.0 > window { [third, new, new] } else { [second, third, new] };
        }
        if second.0 == first.0 && age > window / 4 {
            return [first, new, new];
        }
        if third.0 == second.0 && age > window / 2 {
            return [first, second, new];
        }
        [first, second, third]
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.best = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_maximum_is_forgotten_after_one_window() {
        let mut filter = WindowedMax::new();
        filter.update(at(0), 9, WINDOW);
        filter.update(at(60), 5, WINDOW);
        filter.update(at(90), 3, WINDOW);
        assert_eq!(filter.value(), Some(9));
        filter.update(at(101), 1, WINDOW);
        assert_eq!(filter.value(), Some(5));
        filter.clear();
        assert_eq!(filter.value(), None);
    }

    proptest! {
        #[test]
        fn the_value_is_in_the_window_and_not_below_the_newest(
            steps in proptest::collection::vec((0u64..40, 0u32..1000), 1..100)
        ) {
            let mut filter = WindowedMax::new();
            let mut all = Vec::new();
            let mut now = 0;
            for (step, value) in steps {
                now += step;
                all.push((now, value));
                filter.update(at(now), value, WINDOW);
                let found = filter.value().unwrap();
                let exact = all.iter().filter(|(t, _)| now - t <= 100).map(|(_, v)| *v).max().unwrap();
                prop_assert!(found >= value && found <= exact, "{value} <= {found} <= {exact}");
            }
        }
    }
}
