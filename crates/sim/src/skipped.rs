//! Counts tests that need network namespaces or a program, and are skipped where there is none.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// The names of the tests of this program that were skipped: each runs on a thread of its name.
static SKIPPED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Counts the test that calls it as skipped.
///
/// # Panics
/// If `MANYWAY_REQUIRE_NAMESPACES` is set: then no test may be skipped.
#[track_caller]
pub fn skip(reason: impl Display) {
    assert!(std::env::var_os("MANYWAY_REQUIRE_NAMESPACES").is_none(), "{reason}");
    skip_optional(reason);
}

/// As [`skip`], but never fails: for what even a machine with namespaces may lack, such as a part of its kernel.
#[expect(clippy::print_stdout, reason = "the test program shows it with what the test says")]
pub fn skip_optional(reason: impl Display) {
    println!("skipped: {reason}");
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default().to_owned();
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
}

/// Prints how many tests of this program were skipped until now, if any, past the output capture of the test program.
///
/// The last test of a program calls it. Tests begin in the order of their names, so it is called `zz_…`.
pub fn tell_skipped() {
    let count = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).len();
    if count > 0 {
        // The printing macros are captured, the stream itself is not. An error cannot be reported.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {count} tests needed namespaces (root), or what is missing here"
        );
    }
}
