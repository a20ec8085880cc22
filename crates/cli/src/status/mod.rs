//! The state of every running command of a user, for `manyway status`.
//!
//! A command with connections puts them on a [`Board`] and listens on a Unix socket in the runtime directory of its
//! user. A reader, which only this user can be, gets one line of JSON twice a second. Figures are read only while there
//! is a reader. No secret is published: no ticket, no key, no content. The reader may also send a [`Request`] in a line.

mod board;
mod control;
mod document;
mod files;
#[cfg(unix)]
mod listener;
#[cfg(unix)]
pub mod place;
pub mod prometheus;
#[cfg(unix)]
pub mod reader;
mod state;
pub mod table;

pub use board::{Board, PeerPlace};
pub use control::{Answer, Outcome, Request, path_over};
pub use document::{Document, FilesDocument, PathDocument, PeerDocument};
pub use files::FileCounts;
