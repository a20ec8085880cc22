//! Settings, with one validation whose errors name the field and the range.

mod connection;
mod stream;

pub use connection::{ConfigError, ConnectionConfig};
pub use stream::{StreamConfig, StreamConfigError};
