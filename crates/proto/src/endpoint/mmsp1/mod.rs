//! What an endpoint of MMSP/1 knows beside its connections.

mod info;
mod tombstones;
