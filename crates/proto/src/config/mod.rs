//! Settings, with one validation whose errors name the field and the range.

mod connection;
mod detection;
mod key_limits;
mod stream;

pub use connection::{ConfigError, ConnectionConfig};
pub use detection::Detection;
pub use key_limits::KeyLimits;
pub use stream::{StreamConfig, StreamConfigError};
