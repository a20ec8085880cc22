//! Fetches one file from an ordinary HTTP server over several interfaces at once.
//!
//! [`fetch`] asks for pieces of the file over one connection for each interface of a [`Network`], and puts them together.
//! That is possible only if the server serves parts of the file and names its version by a strong entity tag (RFC 9110,
//! section 8.8.3); otherwise the file comes over one connection, and the caller is told why. A download that was
//! interrupted goes on where it stopped, if the server still has the same version.
//!
//! Nothing here knows of Manyway's own protocol, nor how interfaces are found: a [`Network`] tells them and connects.
//!
//! Memory is bounded: for each interface 128 KiB for the head of a response or one read, and 16 reads that wait for the
//! disk. An [`Outlet`] takes bytes in order, so up to 64 MiB wait in memory for those before them.
#![forbid(unsafe_code)]

mod content_range;
mod counted;
mod error;
mod event;
mod figures;
mod finish;
mod http;
mod job;
mod locate;
mod meter;
mod name;
mod network;
mod outlet;
mod part;
mod pieces;
mod plan;
mod ranges;
mod record;
mod schedule;
mod sum;
mod tag;
mod target;
mod tls;
mod whole;
mod worker;

pub use error::FetchError;
pub use event::{Event, Observer};
pub use figures::{Figures, InterfaceFigures, InterfaceState};
pub use finish::Present;
pub use network::{Interface, Limit, Network};
pub use outlet::Outlet;
pub use plan::{Destination, Fetched, Plan, fetch};
pub use sum::Sha256;
pub use target::{WebAddress, is_web_address};
pub use tls::{RootCertStore, authorities, client_config};
