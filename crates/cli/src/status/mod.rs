//! What every running command of a user is doing, for `manyway status`.
//!
//! A command that has connections puts them on a [`Board`] and listens on a Unix socket in the runtime directory of its
//! user. Whoever connects, which is this user alone, is told twice a second, each time in one line of JSON. Figures are
//! read only while somebody looks. Nothing secret is told: no ticket, no key, no content.

mod board;
mod document;
mod files;
#[cfg(unix)]
mod listener;
#[cfg(unix)]
pub mod place;
pub mod prometheus;
#[cfg(unix)]
pub mod reader;
pub mod table;

pub use board::{Board, PeerPlace};
pub use document::{Document, FilesDocument, PathDocument, PeerDocument};
pub use files::FileCounts;
