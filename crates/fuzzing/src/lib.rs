//! The bodies of the fuzz targets: each takes any bytes, and panics if a law is violated.
//!
//! They are here and not in `fuzz/`, so that the stable compiler builds them with everything else, and the test of this
//! crate replays the inputs in `fuzz/corpus` and `fuzz/regressions`. How to run them: `fuzz/README.md`.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a target fails as a test does"
)]

pub mod acks;
pub mod blocks;
pub mod cookies;
pub mod datagram_opened;
pub mod datagram_sealed;
pub mod decode;
pub mod egress;
pub mod headers;
pub mod mmsp1;
pub mod mmsp1_fragments;
pub mod mmsp1_sack;
pub mod mmsp1_setup;
pub mod packets;
pub mod parameters;
pub mod play;
pub mod rendezvous;
pub mod script;
pub mod seeds;
pub mod setup;
pub mod streams;
pub mod ticket;
pub mod transfer;

mod lab;
mod material;

/// A target: its name in `fuzz/fuzz_targets`, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 20] = [
    ("acks", acks::run),
    ("blocks", blocks::run),
    ("cookies", cookies::run),
    ("datagram_opened", datagram_opened::run),
    ("datagram_sealed", datagram_sealed::run),
    ("decode", decode::run),
    ("egress", egress::run),
    ("headers", headers::run),
    ("mmsp1", mmsp1::run),
    ("mmsp1_fragments", mmsp1_fragments::run),
    ("mmsp1_sack", mmsp1_sack::run),
    ("mmsp1_setup", mmsp1_setup::run),
    ("packets", packets::run),
    ("parameters", parameters::run),
    ("play", play::run),
    ("rendezvous", rendezvous::run),
    ("setup", setup::run),
    ("streams", streams::run),
    ("ticket", ticket::run),
    ("transfer", transfer::run),
];
