//! Checks and figures of this repository. Each is a function of files, so that its tests need none on the disk.
#![forbid(unsafe_code)]

pub mod check;
pub mod shape;

/// The examples of the README, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
