//! Codes that people can say, on sockets: one end offers a ticket, the other redeems the code for it.

mod offer;
mod post;
mod redeem;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use manyway_proto::{CodeFailure, Rng};
use tokio::sync::mpsc;

use crate::link::Command;
use crate::ticket::TicketError;

pub use offer::OfferedCode;
pub use redeem::{RedeemedCode, redeem_code};

/// Answers of rendezvous servers that wait.
const MOST_ANSWERS: usize = 32;

/// Why a code did not lead to a ticket.
#[derive(Debug)]
#[non_exhaustive]
pub enum CodeError {
    /// The code is void, or was never one.
    Failed(CodeFailure),
    /// The system refuses a socket or random numbers.
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

fn random() -> io::Result<Rng> {
    let mut seed = [0; 32];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut seed)
        .map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(Rng::from_seed(seed))
}

/// Learns at which addresses rendezvous servers see the sockets of an endpoint.
#[derive(Debug)]
struct Observer {
    commands: mpsc::WeakUnboundedSender<Command>,
    servers: Vec<SocketAddr>,
    answers: mpsc::Sender<SocketAddr>,
    heard: mpsc::Receiver<SocketAddr>,
    seen: Vec<SocketAddr>,
}

/// More addresses of one host are of no use to its peer.
const MOST_SEEN: usize = 8;

impl Observer {
    fn new(commands: mpsc::WeakUnboundedSender<Command>, servers: &[SocketAddr]) -> Self {
        let (answers, heard) = mpsc::channel(MOST_ANSWERS);
        Self { commands, servers: servers.to_vec(), answers, heard, seen: Vec::new() }
    }

    /// Asks all servers from all sockets.
    fn ask(&self) {
        let (servers, answers) = (self.servers.clone(), self.answers.clone());
        self.send(Command::Observe { servers, answers });
    }

    /// An endpoint that has ended needs nothing.
    fn send(&self, command: Command) {
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(command);
        }
    }

    /// Waits for an address that was not known. Dropping the future loses nothing.
    async fn changed(&mut self) -> &[SocketAddr] {
        while let Some(address) = self.heard.recv().await {
            if !self.seen.contains(&address) && self.seen.len() < MOST_SEEN {
                self.seen.push(address);
                return &self.seen;
            }
        }
        // `answers` keeps the channel open.
        std::future::pending().await
    }
}
