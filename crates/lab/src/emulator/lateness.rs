//! The distribution of delays of the emulator itself, in fixed memory.

use std::time::Duration;

use super::report::Lateness;

/// Counts durations by their power of two and the four bits after the first.
#[derive(Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    worst: Duration,
}

const FINE_BITS: u32 = 4;
const FINE: u64 = 1 << FINE_BITS;

impl Histogram {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; 64 << FINE_BITS], total: 0, worst: Duration::ZERO }
    }

    pub(super) fn record(&mut self, late: Duration) {
        self.total += 1;
        self.worst = self.worst.max(late);
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(class(nanos)) {
            *count += 1;
        }
    }

    pub(super) fn figures(&self) -> Lateness {
        Lateness { count: self.total, median: self.quantile(50), p99: self.quantile(99), worst: self.worst }
    }

    fn quantile(&self, percent: u64) -> Duration {
        let wanted = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(upper(class as u64)).min(self.worst);
            }
        }
        self.worst
    }
}

/// Values below 16 have a class each, larger ones sixteen for each power of two.
fn class(nanos: u64) -> usize {
    let class = match nanos.checked_ilog2() {
        Some(power) if power >= FINE_BITS => {
            let shift = power - FINE_BITS;
            u64::from(shift + 1) * FINE + ((nanos >> shift) - FINE)
        }
        _ => nanos,
    };
    usize::try_from(class).unwrap_or(usize::MAX)
}

/// The largest value of a class.
fn upper(class: u64) -> u64 {
    match (class / FINE).checked_sub(1) {
        None => class,
        Some(shift) => {
            let start = (FINE + class % FINE) << shift;
            start + ((1 << shift) - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_ends_at_most_a_sixteenth_above_its_values() {
        let mut value = 1_u64;
        while value < 1 << 50 {
            let end = upper(class(value) as u64);
            assert!(end >= value && end - value <= value / 16, "{value} {end}");
            assert_ne!(class(end + 1), class(end));
            value += value / 7 + 1;
        }
    }

    #[test]
    fn quantiles_are_those_of_the_recorded_values() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.figures(), Lateness::default());
        for micros in 1..=1_000 {
            histogram.record(Duration::from_micros(micros));
        }
        let figures = histogram.figures();
        assert_eq!((figures.count, figures.worst), (1_000, Duration::from_millis(1)));
        assert!(figures.median >= Duration::from_micros(500) && figures.median < Duration::from_micros(535));
        assert!(figures.p99 >= Duration::from_micros(990) && figures.p99 <= Duration::from_micros(1_000));
    }
}
