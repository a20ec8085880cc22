//! Both ends migrated at once: they find each other at a rendezvous server (spec chapter 10).
//! - [`Secrets`] come from the TLS session: a token for both ends, and a key for the addresses of each.
//! - A [`RendezvousClient`] is an end: it registers its addresses at the server, and learns those of the peer.
//! - A [`Relay`] is the server: it keeps the newest sealed addresses of each end, which it cannot read.
//! - Two ends that have no connection yet meet there by a [code](ShortCode) that people say.

mod client;
mod code;
mod relay;
mod secrets;
#[cfg(test)]
mod tests;

pub(crate) use client::{Learnt, RendezvousClient};
pub use code::{
    CodeFailure, CodeReceiver, CodeReceiverEvent, CodeSender, CodeSenderEvent, MAX_CONTENT, RelayAnswer,
    RelayKey, RelayRequest, ShortCode, ShortCodeError,
};
pub use relay::{ForwardLimits, Forwarding, Relay, RelayCounters, RelayLimits};
pub(crate) use secrets::{LABEL, Secrets};
