//! Plays films of a Manyway server: a local HTTP/1.1 server whose files are those of the server, for players and
//! browsers.
//!
//! A [`PlayServer`] needs a [`Source`], which gives it a connection to the server, and a listening socket. It knows no
//! transport.
#![forbid(unsafe_code)]

mod answer;
mod body;
mod buffer;
mod content_type;
mod feed;
mod figures;
pub mod fuzzing;
mod media;
mod page;
mod playhead;
mod presentation;
mod range;
mod serve;
mod shared;
mod source;
mod target;
mod viewing;

pub use buffer::Buffer;
pub use figures::Figures;
pub use media::media_length;
pub use page::url_path;
pub use serve::PlayServer;
pub use shared::Config;
pub use source::Source;
pub use target::TargetChoice;
