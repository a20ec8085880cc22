//! What may be set, with ranges and defaults.

mod stream;

pub use stream::{StreamConfig, StreamConfigError};
