//! Why a code leads nowhere.

use std::fmt;
use std::io;

use manyway_proto::CodeFailure;

use crate::interfaces::{Excluded, ExcludedList};
use crate::ticket::TicketError;

/// Why a code did not lead to a ticket.
#[derive(Debug)]
#[non_exhaustive]
pub enum CodeError {
    /// The code is void, or was never one.
    Failed(CodeFailure),
    /// No interface leads to a rendezvous server; each with its reason.
    NoInterface(Vec<Excluded>),
    /// The system refuses random numbers.
    System(io::Error),
    /// The ticket has more addresses than a code carries.
    TooLong,
    /// The other end sent something else than a ticket.
    Ticket(TicketError),
    /// The endpoint is closed.
    EndpointClosed,
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) => failure.fmt(f),
            Self::NoInterface(excluded) => {
                write!(f, "no interface of this host leads to the rendezvous server")?;
                if excluded.is_empty() { Ok(()) } else { write!(f, ": {}", ExcludedList(excluded)) }
            }
            Self::System(error) => error.fmt(f),
            Self::Ticket(error) => write!(f, "the other side sent no ticket: {error}"),
            Self::TooLong => f.write_str("the ticket has too many addresses for a code"),
            Self::EndpointClosed => f.write_str("the endpoint is closed"),
        }
    }
}

impl std::error::Error for CodeError {}

impl From<CodeFailure> for CodeError {
    fn from(failure: CodeFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<io::Error> for CodeError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
