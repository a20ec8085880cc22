//! Films by HTTP over loopback, from a server in memory.

mod common;
mod http;
mod streams;
