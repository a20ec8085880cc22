//! Keeps to a time budget, with a sentence for each thing that is left out.

use std::time::Duration;

use manyway_units::text;

/// How many repetitions of this length fit, at least one.
pub(super) fn repetitions(wanted: u32, once: Duration, budget: Duration, sentences: &mut Vec<String>) -> u32 {
    let fitting = budget.as_nanos().checked_div(once.as_nanos()).unwrap_or(u128::MAX);
    let fitting = u32::try_from(fitting).unwrap_or(u32::MAX).clamp(1, wanted.max(1));
    if fitting < wanted {
        sentences.push(format!("repetitions: {fitting} instead of {wanted}, to fit"));
    }
    fitting
}

/// Reports if the budget is exceeded all the same.
pub(super) fn check(takes: Duration, budget: Duration, sentences: &mut Vec<String>) {
    if takes > budget {
        sentences.push(format!("even so it takes longer than {}", text::duration(budget)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_that_do_not_fit_are_dropped_except_one() {
        let mut sentences = Vec::new();
        let second = Duration::from_secs(1);
        let mut fit = |budget| repetitions(3, second, budget, &mut sentences);
        assert_eq!([4, 3, 2, 1].map(|times| fit(times * second)), [3, 3, 2, 1]);
        assert_eq!((fit(second / 2), repetitions(3, Duration::ZERO, second, &mut Vec::new())), (1, 3));
        assert_eq!(sentences.len(), 3);
        assert_eq!(sentences[0], "repetitions: 2 instead of 3, to fit");
        check(second, second, &mut sentences);
        assert_eq!(sentences.len(), 3);
        check(second, second / 2, &mut sentences);
        assert_eq!(sentences[3], "even so it takes longer than 500 ms");
    }
}
