//! Checks of this repository. Each is a function from files to findings, so that its tests need no files.
#![forbid(unsafe_code)]

pub mod check;

/// The examples of the README, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
