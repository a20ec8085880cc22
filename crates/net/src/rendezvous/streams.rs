//! The TCP connections of a rendezvous server: for ends whose network blocks UDP, the same messages and packets as
//! records (spec 10.48).

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use manyway_proto::{Forwarding, FourTuple, Instant, Prefix, Relay};
use tokio::time::Sleep;

use crate::Clock;
use crate::tcp::{Accepted, Listener, RecordStream, Settings};

/// Most connections, and most from one network: a host may have any number of IPv6 addresses.
const MOST: usize = 512;
const MOST_OF_NETWORK: usize = 32;
/// A connection is not read while so many bytes wait to be written to it. Its peer is no longer read once a byte waits,
/// which stays below this bound, so that the acknowledgements of the other direction are still read.
const MOST_PENDING: u64 = 96 * 1024;
/// A connection is closed if it brings no complete record for so long, and no first one.
const SILENCE: Duration = Duration::from_secs(60);
const FIRST: Duration = Duration::from_secs(3);
/// Connections accepted in one turn at one address, and reads of one connection, each of up to [`READ`] bytes.
const ACCEPTS: usize = 16;
const READS: usize = 4;
/// Time until connections are accepted again after an error.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
const READ: usize = 16 * 1024;

/// All connections.
pub(super) struct Streams {
    listeners: Vec<Listener>,
    ends: BTreeMap<FourTuple, End>,
    /// When connections are accepted again, after an error such as too many open files.
    accept_at: Option<Instant>,
    buffer: Vec<u8>,
    answer: Vec<u8>,
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
struct End {
    io: RecordStream,
    /// Closed then, unless a complete record comes.
    until: Instant,
    /// A record that has to wait until then, since its pair is at its rate.
    held: Option<(Vec<u8>, Instant)>,
    /// Where its records go: it is not read while these wait there.
    peer: Option<FourTuple>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl Streams {
    /// Listens at the addresses, as far as their TCP ports are free.
    pub(super) fn bind(addresses: impl Iterator<Item = SocketAddr>) -> Self {
        let bind = |address| match Listener::bind(address, &Settings::default(), None) {
            Ok(listener) => Some(listener),
            Err(error) => {
                tracing::warn!(%address, %error, "no TCP");
                None
            }
        };
        let listeners = addresses.filter_map(bind).collect();
        Self {
            listeners,
            ends: BTreeMap::new(),
            accept_at: None,
            buffer: vec![0; READ],
            answer: Vec::new(),
            timer: None,
        }
    }

    /// Accepts no connection before that time.
    #[cfg(test)]
    pub(super) fn rest(&mut self, until: Instant) {
        self.accept_at = Some(until);
    }

    /// Where connections are accepted.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().map(Listener::address)
    }

    /// Accepts connections, and reads and answers records.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, clock: &Clock, relay: &mut Relay) {
        let now = clock.now();
        self.accept(now, context);
        for tuple in self.ends.keys().copied().collect::<Vec<_>>() {
            // Outside of the map, so that its records can be given to others.
            let Some(mut end) = self.ends.remove(&tuple) else { continue };
            if self.serve(now, context, relay, &mut end).is_ok() && now < end.until {
                self.ends.insert(tuple, end);
            } else if let Some(other) = relay.on_carrier_closed(tuple) {
                // The other end learns from this that nothing arrives any more.
                self.ends.remove(&other);
            }
        }
        self.set_timer(context, clock);
    }

    fn accept(&mut self, now: Instant, context: &mut Context<'_>) {
        if self.accept_at.is_some_and(|at| now < at) {
            return;
        }
        self.accept_at = None;
        let Self { listeners, ends, accept_at, .. } = self;
        for listener in listeners {
            let mut accepted = 0;
            while accepted < ACCEPTS {
                match listener.poll_accept(context) {
                    Poll::Ready(Ok(Accepted::Plain(io))) => admit(ends, now, io),
                    // Not asked for.
                    Poll::Ready(Ok(Accepted::Tls(..))) => {}
                    Poll::Ready(Err(error)) => {
                        tracing::debug!(%error, "accept");
                        *accept_at = Some(now + ACCEPT_AGAIN);
                        break;
                    }
                    Poll::Pending => break,
                }
                accepted += 1;
            }
            if accepted == ACCEPTS {
                // More may be waiting.
                context.waker().wake_by_ref();
            }
        }
    }

    /// Reads and handles the records of an end; an error if its connection is to be closed.
    fn serve(
        &mut self,
        now: Instant,
        context: &mut Context<'_>,
        relay: &mut Relay,
        end: &mut End,
    ) -> Result<(), Closed> {
        if end.io.pending() > 0
            && let Poll::Ready(flushed) = end.io.poll_flush(context)
        {
            flushed.map_err(|_| Closed)?;
            // Its peer may not have been read meanwhile.
            context.waker().wake_by_ref();
        }
        if let Some((record, at)) = end.held.take() {
            if now < at {
                end.held = Some((record, at));
                return Ok(());
            }
            self.handle(now, context, relay, end, &record)?;
        }
        for _ in 0..READS {
            while end.held.is_none() {
                let Some(record) = end.io.next_record().map(|record| record.to_vec()) else { break };
                end.until = now + SILENCE;
                self.handle(now, context, relay, end, &record)?;
            }
            let waits = |peer: &FourTuple| self.ends.get(peer).is_some_and(|peer| peer.io.pending() > 0);
            let is_full = end.io.pending() >= MOST_PENDING;
            if end.held.is_some() || is_full || end.peer.as_ref().is_some_and(waits) {
                return Ok(());
            }
            match end.io.poll_read(context, &mut self.buffer) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0) | Err(_)) => return Err(Closed),
                Poll::Pending => return Ok(()),
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    /// Gives a record to the other end of its pair, or answers it.
    fn handle(
        &mut self,
        now: Instant,
        context: &mut Context<'_>,
        relay: &mut Relay,
        end: &mut End,
        record: &[u8],
    ) -> Result<(), Closed> {
        let tuple = end.io.tuple();
        match relay.forward(now, tuple, record) {
            Forwarding::To(to) => {
                end.peer = Some(to);
                let peer = self.ends.get_mut(&to).ok_or(Closed)?;
                // If it is broken, its own turn tells.
                let _ = peer.io.write(record);
                flush(&mut peer.io, context);
            }
            Forwarding::Later(at) => end.held = Some((record.to_vec(), at)),
            Forwarding::Nowhere | _ => {
                if relay.handle_datagram(now, tuple, record, &mut self.answer) {
                    end.io.write(&self.answer).map_err(|_| Closed)?;
                    flush(&mut end.io, context);
                } else if end.peer.is_some() {
                    // The pair is beyond its limits: a record that is left out is lost for good.
                    return Err(Closed);
                }
            }
        }
        Ok(())
    }

    /// Wakes the server when a record may go on, a connection is to be closed, or connections are accepted again.
    fn set_timer(&mut self, context: &mut Context<'_>, clock: &Clock) {
        let deadlines = self.ends.values().map(|end| end.held.as_ref().map_or(end.until, |(_, at)| *at));
        self.timer = deadlines
            .chain(self.accept_at)
            .min()
            .map(|at| Box::pin(tokio::time::sleep_until(tokio::time::Instant::from_std(clock.to_std(at)))));
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(context).is_ready()
        {
            context.waker().wake_by_ref();
        }
    }
}

/// The connection is to be closed.
#[derive(Debug)]
struct Closed;

/// Takes a connection, unless there are too many.
fn admit(ends: &mut BTreeMap<FourTuple, End>, now: Instant, io: RecordStream) {
    let network = Prefix::of(io.tuple().remote);
    let of_network = ends.keys().filter(|tuple| Prefix::of(tuple.remote) == network).count();
    if ends.len() < MOST && of_network < MOST_OF_NETWORK {
        ends.insert(io.tuple(), End { io, until: now + FIRST, held: None, peer: None });
    } else {
        io.reset();
    }
}

/// Registers for what the system does not take now. If it takes that or refuses it at last, the next turn goes on.
fn flush(io: &mut RecordStream, context: &mut Context<'_>) {
    if io.pending() > 0 && io.poll_flush(context).is_ready() {
        context.waker().wake_by_ref();
    }
}
