//! Whole packets between sites: `manyway tunnel --site` at one end, `manyway serve --tun` at the other.

pub(super) mod client;
pub(super) mod networks;
pub(in crate::command) mod server;

pub(super) use self::networks::PRIVATE;
