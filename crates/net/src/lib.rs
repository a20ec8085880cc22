//! Manyway.

mod identity;

pub use identity::{ALPN, AuthorisedKeys, Authoriser, Identity, PublicKey, client_config, server_config};
