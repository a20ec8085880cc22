//! Files into frames and frames into files: plain blocking code, without a network in sight.

mod receive;
mod send;
mod walk;

pub(crate) use receive::{Admission, Receiver};
pub(crate) use send::{Steering, send_files};
pub(crate) use walk::{Source, survey};

#[cfg(test)]
mod tests;
