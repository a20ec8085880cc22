//! A deterministic network in virtual time.
//!
//! [`link`] is one direction of a link, usable alone.
#![forbid(unsafe_code)]

pub mod link;

mod clock;

pub use clock::Clock;
