//! The network interfaces of this host: which exist, which lead to a peer, and when that changes.
//!
//! [`InterfaceWatcher`] keeps a [`Snapshot`] up to date; [`Snapshot::usable`] selects the interfaces for a connection
//! and gives the reason for each other one.
//!
//! ```
//! use manyway::interfaces::{InterfacePolicy, InterfaceWatcher};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let watcher = InterfaceWatcher::new()?;
//! let policy = InterfacePolicy::new().with("wwan0,role=backup".parse()?).with("eth*".parse()?);
//! let selection = watcher.usable(&policy, &["192.0.2.7:4455".parse()?]);
//! for candidate in &selection.candidates {
//!     println!("{} at {} as {}", candidate.name, candidate.local, candidate.role);
//! }
//! for excluded in &selection.excluded {
//!     println!("{} not used: {}", excluded.interface, excluded.reason);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod addresses;
mod change;
mod exclusion;
mod neighbours;
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod netlink;
mod policy;
mod portable;
pub(crate) mod reachable;
mod report;
mod select;
mod snapshot;
mod source;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod tests_in_namespace;
mod unlisted;
mod watcher;

pub use change::Change;
pub use exclusion::{Excluded, Exclusion};
pub(crate) use exclusion::{ExcludedList, capped};
pub use manyway_proto::Role;
pub(crate) use neighbours::NeighbourWatch;
pub use policy::{AddressFamily, InterfacePattern, InterfacePolicy, InterfaceRule, InterfaceRuleError};
pub use portable::PortableSource;
pub use report::AddressReport;
pub use select::{Candidate, Selection};
pub use snapshot::{
    AddressState, Interface, InterfaceAddress, InterfaceKind, LinkState, Prefix, Route, Snapshot,
};
pub use source::{Hint, InterfaceSource};
pub use watcher::InterfaceWatcher;
