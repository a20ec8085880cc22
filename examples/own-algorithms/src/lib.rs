//! A scheduler and a congestion control of one's own, to copy from.
//!
//! [`register`] adds both to the settings of a connection. From then on they are chosen by name like those built in:
//!
//! ```
//! use manyway::EndpointOptions;
//!
//! let mut options = EndpointOptions::default();
//! own_algorithms::register(&mut options.connection)?;
//! options.connection.set_scheduler("ration=20")?;
//! options.connection.set_congestion("gentle")?;
//! # Ok::<(), manyway::ConfigError>(())
//! ```
//!
//! The page `docs/write-your-own.md` explains the interface, and `src/main.rs` compares them in the lab.
#![forbid(unsafe_code)]

mod gentle;
mod ration;

pub use gentle::Gentle;
pub use ration::Ration;

use manyway::{ConfigError, ConnectionConfig};

/// Adds `ration` and `gentle` to the settings of a connection.
///
/// # Errors
/// If one of the names is taken.
pub fn register(config: &mut ConnectionConfig) -> Result<(), ConfigError> {
    config.add_scheduler("ration", |settings| Ok(Box::new(Ration::parse(settings)?)))?;
    config.add_congestion("gentle", |config| Box::new(Gentle::new(config)))
}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/write-your-own.md")]
struct Page;
