//! Codes that people can say: two ends that share one agree on a key in a mailbox of a rendezvous server, and the
//! offering end sends its content under that key (spec 10.18 to 10.23).
//! - A [`ShortCode`] is a number, which names the mailbox, and two words.
//! - [`CodeSender`] and [`CodeReceiver`] are the two ends, each a [`MailboxEnd`](mailbox_end::MailboxEnd) and a key
//!   exchange ([`pake`]).

mod mailbox_end;
mod pake;
mod receiver;
mod relay_request;
mod sender;
mod short_code;
#[cfg(test)]
mod tests;

use std::fmt;

use manyway_wire::rendezvous::Token;

pub use receiver::{CodeReceiver, CodeReceiverEvent};
pub use relay_request::{RelayAnswer, RelayRequest};
pub use sender::{CodeSender, CodeSenderEvent};
pub use short_code::{ShortCode, ShortCodeError};

/// The most bytes that a code carries.
pub const MAX_CONTENT: usize = pake::MAX_CONTENT;

/// What an end of a code shows a rendezvous server, so that it relays for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RelayKey {
    pub(crate) token: Token,
    pub(crate) number: u32,
}

/// Without the token, which is a secret of the end and the server.
impl fmt::Debug for RelayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayKey").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Why a code ended without its content being delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeFailure {
    /// No rendezvous server answers, or those that do know no codes.
    NoAnswer,
    /// The rendezvous server has no room for another code.
    Full,
    /// The rendezvous server lost the code, and gave its number to another one.
    Lost,
    /// The rendezvous server knows no code of that number.
    Unknown,
    /// Another end used the code before.
    Used,
    /// The other end has another code, so this one is void.
    Wrong,
    /// The code was not used within an hour.
    Expired,
    /// The other end stopped in the middle of the exchange, so the code is void.
    Abandoned,
}

impl fmt::Display for CodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAnswer => "no rendezvous server answers, or it is of a version without codes",
            Self::Full => "the rendezvous server has no room for another code",
            Self::Lost => "the rendezvous server was restarted and gave the number of the code away",
            Self::Unknown => "the rendezvous server knows no code of that number",
            Self::Used => "the code was used before",
            Self::Wrong => "the other side has another code",
            Self::Expired => "the code was not used within an hour",
            Self::Abandoned => "the other side stopped in the middle of the exchange",
        })
    }
}

impl std::error::Error for CodeFailure {}
