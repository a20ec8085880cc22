//! How thoroughly tests search: a few fixed seeds in each run; many, and others each day, with `MANYWAY_NIGHTLY`.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Whether tests run thoroughly: `MANYWAY_NIGHTLY` is set, to any value.
pub fn is_nightly() -> bool {
    std::env::var_os("MANYWAY_NIGHTLY").is_some()
}

/// `few` in an ordinary run, `many` in a nightly one.
pub fn few_or_many<T>(few: T, many: T) -> T {
    if is_nightly() { many } else { few }
}

/// The seeds from 0 on: for figures whose limits were measured with these seeds.
pub fn seeds(few: u64, many: u64) -> Range<u64> {
    0..few_or_many(few, many)
}

/// Seeds for a law that must hold with any seed: a nightly run takes others each day, and prints the first one.
///
/// `MANYWAY_FIRST_SEED` and `MANYWAY_SEEDS` choose the first seed and how many there are.
pub fn rotating_seeds(few: u64, many: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = number("MANYWAY_SEEDS").unwrap_or_else(|| few_or_many(few, many));
    let rotated = || if is_nightly() { days_since_1970().saturating_mul(count) } else { 0 };
    let first = number("MANYWAY_FIRST_SEED").unwrap_or_else(rotated);
    print_first(first, count);
    first..first.saturating_add(count)
}

/// Runs a test with each of the seeds, on two threads.
///
/// # Panics
/// As the test does, with the seed before its message.
pub fn for_each_seed(seeds: Range<u64>, test: impl Fn(u64) + Sync) {
    const THREADS: u64 = 2;
    std::thread::scope(|scope| {
        let spawn = |thread| {
            let (mine, test) = (seeds.clone().filter(move |seed| seed % THREADS == thread), &test);
            scope.spawn(move || mine.for_each(|seed| run_named(seed, test)))
        };
        let threads = [0, 1].map(spawn);
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    });
}

#[expect(clippy::panic, reason = "it fails as the test did")]
fn run_named(seed: u64, test: impl Fn(u64)) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
        panic!("seed {seed}: {}", message(panic.as_ref()));
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the test failed")
}

#[expect(clippy::print_stderr, reason = "whoever reads of a failure repeats it by this number")]
fn print_first(first: u64, count: u64) {
    eprintln!("{count} seeds from {first} on");
}

#[expect(
    clippy::disallowed_methods,
    reason = "the only thing that depends on the day is what a nightly run searches"
)]
fn days_since_1970() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / 86_400)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_seed_runs_once() {
        let seen = Mutex::new(Vec::new());
        for_each_seed(5..12, |seed| seen.lock().unwrap().push(seed));
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (5..12).collect::<Vec<_>>());
    }

    #[test]
    fn a_failing_seed_is_named() {
        let run = |fails: fn()| {
            let panic = catch_unwind(|| run_named(1295, |_| fails())).unwrap_err();
            message(panic.as_ref()).to_owned()
        };
        assert_eq!(run(|| panic!("{} is missing", "byte 7")), "seed 1295: byte 7 is missing");
        assert_eq!(run(|| panic!("lost")), "seed 1295: lost");
    }
}
