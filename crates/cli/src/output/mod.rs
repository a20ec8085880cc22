//! What the user sees. Data goes to stdout, progress and messages to stderr.

pub mod book;
pub mod course;
pub mod desk;
pub mod grid;
pub mod json;
pub mod known;
pub mod live;
pub mod path;
pub mod progress;
pub mod rate;
pub mod stderr;
pub mod terminal;
pub mod tint;
pub use manyway_lab::columns as table;
pub use manyway_proto::text as units;
mod words;
mod wrap;

pub use words::{address, cause, note, print_line, without_numbers, without_secrets, wrapped};
