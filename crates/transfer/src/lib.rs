//! The protocols of `manyway`'s verbs over a connection: sending, fetching and listing files, and measuring throughput.
//!
//! The crate knows no transport: it needs a [`Session`] whose streams both sides may open. One side runs a [`Server`],
//! the other calls [`put`], [`get`], [`list`], [`read_part`], [`bench()`] and [`hello`]. Each call is one stream (a bench
//! run is one for each of its parallel streams), and each stream begins with a request that has the version of this
//! protocol.
//! `docs/specification/transfer.md` specifies the bytes; comments cite its rules as `transfer 4.2`.
//!
//! A received file gets its name only once it is complete, verified against its BLAKE3 hash and synced, and no name
//! leads out of the directory that receives it.
#![forbid(unsafe_code)]

mod answer;
mod bench;
mod client;
mod codec;
mod directory;
mod entry;
mod error;
mod failure;
mod files;
mod flow;
mod frame;
mod link;
mod name;
mod pipe;
mod progress;
mod request;
mod rules;
mod server;
mod wire;

pub use bench::{
    BenchAccount, BenchDirection, BenchFailure, BenchFlow, BenchLimit, BenchOutcome, BenchPlan,
    IntervalMerger, MessageFailure, MessageOutcome, MessagePlan, Playback, RunFailure, StreamInterval, bench,
    bench_messages, bench_until,
};
pub use client::{
    GetPlan, Hello, MAX_LISTED, Outlet, Part, fetch, get, get_with, hello, list, put, read_part,
};
pub use codec::CodecError;
pub use entry::{Entry, EntryKind, Timestamp};
pub use error::TransferError;
pub use failure::{Failure, Reason};
pub use files::{Existing, Feed, PutItem, PutPlan};
pub use frame::{BenchSummary, Interval};
pub use link::{LinkError, LinkTarget};
pub use manyway_session::{
    Delivery, Message, MessageHalves, MessageReceiver, MessageSender, Session, Transport, TransportFacts,
    Urgency,
};
pub use name::{NameError, RelativePath};
pub use progress::{FailedFile, NoProgress, Party, Progress, ProgressEvent, Report};
pub use request::{Totals, VERSION};
pub use rules::{Excludes, Links, Rules};
pub use server::{Access, Server, ServerConfig};
