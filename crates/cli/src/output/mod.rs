//! What the user sees. Data goes to stdout, progress and messages to stderr.

pub mod json;
pub mod path;
pub mod progress;
pub mod screen;
pub mod table;
pub mod units;
mod words;

pub use words::{note, print_line};
