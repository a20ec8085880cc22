//! What the user sees. Data goes to stdout, progress and messages to stderr.

pub mod desk;
pub mod json;
pub mod path;
pub mod progress;
pub mod screen;
pub mod stderr;
pub use manyway_lab::columns as table;
pub use manyway_proto::text as units;
mod words;

pub use words::{note, print_line};
