//! The display of connections and transfers. Data goes to stdout, progress and messages to stderr.

pub mod book;
#[cfg(unix)]
mod canvas;
pub mod course;
pub mod desk;
pub mod facts;
#[cfg(test)]
pub(crate) mod fits;
pub mod grid;
pub mod known;
pub mod live;
pub mod names;
pub mod opening;
pub mod path;
pub mod progress;
pub mod rate;
pub mod tint;
pub use manyway_units::text as units;
mod words;

pub use words::{address, cause, count, entries};
