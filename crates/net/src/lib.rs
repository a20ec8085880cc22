//! Manyway.

mod identity;

pub use identity::{AuthorisedKeys, Authoriser, Identity, PublicKey, client_config, server_config};
