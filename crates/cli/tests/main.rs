//! The real program: its screens, files and exit statuses.

mod bench;
mod codes;
mod command_line;
mod common;
mod demo;
mod egress;
mod files;
mod keys;
mod loopback;
mod memory;
mod mmsp1;
mod mmsp1_peer;
mod namespaces;
mod observe;
mod play;
mod resume;
mod sandbox;
mod screens;
mod status;
mod statuses;
mod stderr;

#[test]
fn zz_tests_that_were_skipped_are_counted() {
    manyway_sim::skipped::tell_skipped();
}
