//! All connections of one process.

pub(crate) mod cookie;
pub(crate) mod reset_token;
