//! Files into frames and frames into files: plain blocking code, without a network in sight.

mod claims;
mod receive;
mod send;
mod sparse;
mod walk;

pub(crate) use claims::Store;
pub(crate) use receive::{Admission, Reception, WINDOW};
pub(crate) use send::{Reply, Steering, send_files};
pub(crate) use walk::{Source, check_distinct, survey};

#[cfg(test)]
mod tests;
