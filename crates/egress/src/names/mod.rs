//! Names that programs ask for by DNS.

mod cache;
mod message;

pub use cache::NameCache;
pub(crate) use message::{AAAA, empty_answer, question};
