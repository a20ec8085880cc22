//! The real program: its output, its files and its exit status.

mod command_line;
mod common;
mod experiments;
mod lab;
mod lab_agents;
mod lab_cross;
mod lab_flows;
mod lab_links;

/// Tests begin in the order of their names.
#[test]
fn zz_tests_that_were_skipped_are_counted() {
    manyway_sim::skipped::tell_skipped();
}
