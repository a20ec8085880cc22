//! Sizes, rates and days as types, and [text] in the notation of users.
#![forbid(unsafe_code)]

mod date;
mod quantities;
pub mod text;

pub use date::Date;
pub use quantities::{ByteCount, Rate};
