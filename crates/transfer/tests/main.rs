//! Files and messages over sessions in memory.

mod common;
mod field;
mod messages;
mod observed;
mod parts;
mod resume;
mod verbs;

/// Tests begin in the order of their names.
#[test]
fn zz_tests_that_were_skipped_are_counted() {
    manyway_sim::skipped::tell_skipped();
}
