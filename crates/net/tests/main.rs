//! Endpoints, connections and streams over sockets on loopback.

mod choice;
mod common;
mod connections;
mod examples;
mod field;
mod identity;
mod messages;
mod mmsp1;
mod mmsp1_peer;
mod sizes;
mod streams;
mod tcp;
#[cfg(all(target_os = "linux", not(manyway_portable)))]
mod threads;
