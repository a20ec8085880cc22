//! Neighbours whose link address is not found.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;

use super::super::snapshot::Neighbour;
use super::message::{self, Message, NeighbourMessage};
use super::socket::{self, NetlinkSocket};

/// What one call reads: some dozen messages.
const BUFFER: usize = 8 * 1024;

/// Subscribes to changes of all neighbours.
#[derive(Debug)]
pub(in super::super) struct NeighbourSource {
    news: AsyncFd<NetlinkSocket>,
    buffer: Vec<u8>,
    lost: VecDeque<Neighbour>,
}

impl NeighbourSource {
    /// Subscribes.
    pub(in super::super) fn new() -> io::Result<Self> {
        let news = NetlinkSocket::subscribe(socket::NEIGHBOURS)?;
        Ok(Self { news, buffer: vec![0; BUFFER], lost: VecDeque::new() })
    }

    /// Waits for a neighbour that does not answer any more, or never did.
    pub(in super::super) fn poll_lost(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Neighbour>> {
        loop {
            if let Some(lost) = self.lost.pop_front() {
                return Poll::Ready(Ok(lost));
            }
            let Poll::Ready(received) = socket::poll_receive(&self.news, &mut self.buffer, context) else {
                return Poll::Pending;
            };
            let length = match received {
                Ok(length) => length,
                // Reports came faster than they were read, and some are lost.
                Err(error) if error.raw_os_error() == Some(nix::libc::ENOBUFS) => continue,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let bytes = self.buffer.get(..length).unwrap_or_default();
            self.lost.extend(message::messages(bytes).filter_map(|(_, message)| lost_in(&message)));
        }
    }
}

fn lost_in(message: &Message) -> Option<Neighbour> {
    match message {
        Message::NeighbourSet(NeighbourMessage { interface, address, is_failed: true }) => {
            Some(Neighbour { interface: *interface, address: *address })
        }
        Message::NeighbourSet(_)
        | Message::LinkSet(_)
        | Message::LinkGone
        | Message::AddressSet(_)
        | Message::AddressGone
        | Message::RouteSet(_)
        | Message::RouteGone
        | Message::Other => None,
    }
}
