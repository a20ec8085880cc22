//! Converts files into frames and frames into files: blocking code without any network.

mod claims;
mod receive;
mod send;
mod source;
mod sparse;
mod walk;

pub(crate) use claims::Store;
pub use receive::Existing;
pub(crate) use receive::{Admission, Naming, Reception, TOGETHER, WINDOW, Wanted};
pub(crate) use send::{Ending, Reply, Sent, Steering, send_files, watch};
pub use source::{Feed, PutItem, PutPlan};
pub(crate) use source::{Source, Tree, check_distinct};
pub(crate) use walk::{Origin, Step, Walk, survey};

#[cfg(test)]
mod tests;
