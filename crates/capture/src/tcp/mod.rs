//! TCP connections that end in this process instead of the kernel: their packets come out of a TUN device.
//!
//! ```text
//! packet ── Segment ── Stack: by its ends ── Flow ── Machine ── Receiver ── Connection::poll_read
//!                          └─ Attempt::accept        └───────── Sender ──── Connection::poll_write
//! ```
//!
//! Each connection has its own lock and its own timer task. The reader of the device, the owner of the connection and the
//! timer task each send the pending segments after every change.

mod connection;
mod machine;
mod receiving;
mod segment;
mod sending;
mod sequence;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use self::connection::Connection;
use self::connection::Flow;
use self::machine::{Machine, Output};
use self::segment::{Control, Ends, Segment};
use crate::packet::Unreachable;

/// Ends the TCP connections whose packets it gets. At most 2048 connections are open at the same time: the first 128
/// buffer up to 256 KiB in each direction, others 32 KiB. Packets that open more are dropped, so that programs try again.
/// Dropping it resets all connections.
///
/// # Examples
/// ```no_run
/// use std::sync::Arc;
///
/// use manyway_capture::{Stack, Tun};
///
/// # async fn example(tun: Arc<Tun>) -> std::io::Result<()> {
/// let device = Arc::clone(&tun);
/// let stack = Stack::new(tun.mtu(), move |packet| drop(device.try_send(packet)));
/// let mut buffer = vec![0; tun.mtu().into()];
/// loop {
///     tokio::select! {
///         length = tun.receive(&mut buffer) => stack.receive(&buffer[..length?]),
///         attempt = stack.accept() => println!("a program connects to {}", attempt.destination()),
///     }
/// }
/// # }
/// ```
pub struct Stack {
    shared: Arc<Shared>,
    attempts: Mutex<mpsc::Receiver<Attempt>>,
    queue: mpsc::Sender<Attempt>,
}

struct Shared {
    mtu: u16,
    output: Arc<Output>,
    connections: Mutex<BTreeMap<Ends, Entry>>,
    timers: Mutex<JoinSet<()>>,
}

enum Entry {
    /// The SYN is not answered yet.
    Asked,
    Open(Arc<Flow>),
}

impl Stack {
    /// A stack for packets of at most `mtu` bytes, 1280 or more, which gives its own to `send`. That must not wait; what it
    /// drops is sent again.
    pub fn new(mtu: u16, send: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        let (queue, attempts) = mpsc::channel(BACKLOG);
        let (mtu, output) = (mtu.max(LEAST_MTU), Arc::new(Output::new(send)));
        let shared = Shared { mtu, output, connections: Mutex::default(), timers: Mutex::default() };
        Self { shared: Arc::new(shared), attempts: Mutex::new(attempts), queue }
    }

    /// Takes a packet of a program. What is damaged or no TCP is dropped; what belongs to no connection is answered by a
    /// reset.
    pub fn receive(&self, packet: &[u8]) {
        let Some((ends, segment)) = Segment::parse(packet) else { return };
        let flow = match self.shared.connections().get(&ends) {
            Some(Entry::Asked) => return,
            Some(Entry::Open(flow)) => Some(Arc::clone(flow)),
            None => None,
        };
        let opens = segment.control == Control::Open && segment.acknowledgement.is_none();
        match flow {
            Some(flow) if !flow.is_over() => flow.handle_segment(&segment),
            Some(flow) if !opens && !flow.is_reset() => flow.answer_late(&segment),
            Some(_) | None if segment.control == Control::Reset => {}
            Some(_) | None if opens => self.ask(ends, packet),
            Some(_) | None => self.shared.output.send(&segment.refusal().compose(&ends)),
        }
    }

    /// Waits for a program that opens a connection. One task may wait at a time.
    ///
    /// Cancelling it loses none.
    pub async fn accept(&self) -> Attempt {
        let next = poll_fn(|context| {
            self.attempts.lock().unwrap_or_else(PoisonError::into_inner).poll_recv(context)
        });
        match next.await {
            Some(attempt) => attempt,
            // The queue has a sender here.
            None => std::future::pending().await,
        }
    }

    fn ask(&self, ends: Ends, packet: &[u8]) {
        let Ok(place) = self.queue.try_reserve() else { return };
        let mut connections = self.shared.connections();
        if connections.len() < MOST {
            connections.insert(ends, Entry::Asked);
            place.send(Attempt { shared: Arc::clone(&self.shared), ends, packet: packet.to_vec() });
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.shared.timers().abort_all();
        // An attempt that is accepted later finds nothing.
        let connections = std::mem::take(&mut *self.shared.connections());
        for entry in connections.into_values() {
            match entry {
                Entry::Open(flow) => flow.reset(),
                Entry::Asked => {}
            }
        }
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("mtu", &self.shared.mtu).finish_non_exhaustive()
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<Ends, Entry>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn timers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the timers of a connection, and forgets it when it is over.
    fn keep(self: &Arc<Self>, ends: Ends, flow: Arc<Flow>) {
        let shared = Arc::clone(self);
        let mut timers = self.timers();
        while timers.try_join_next().is_some() {}
        timers.spawn(async move {
            flow.drive().await;
            if !flow.is_reset() {
                sleep(LATE).await;
            }
            let mut connections = shared.connections();
            // The program may have a new connection with the same port already.
            if matches!(connections.get(&ends), Some(Entry::Open(found)) if Arc::ptr_eq(found, &flow)) {
                connections.remove(&ends);
            }
        });
    }
}

/// A connection that a program asks for: nothing was answered yet. Dropping it refuses it.
pub struct Attempt {
    shared: Arc<Shared>,
    ends: Ends,
    /// The packet that asks; empty once it is answered.
    packet: Vec<u8>,
}

impl Attempt {
    /// The address of the program.
    pub fn program(&self) -> SocketAddr {
        self.ends.program
    }

    /// Where the program connects to.
    pub fn destination(&self) -> SocketAddr {
        self.ends.destination
    }

    /// Accepts it. Must be called inside a runtime. If the program has gone, or the stack, the connection is reset.
    pub fn accept(mut self) -> Connection {
        let (packet, ends) = (std::mem::take(&mut self.packet), self.ends);
        let first = Segment::parse(&packet).map(|(_, segment)| segment).unwrap_or_default();
        let mut connections = self.shared.connections();
        let room = if connections.len() <= FEW { LARGE } else { SMALL };
        let machine = Machine::new(ends, &first, self.shared.mtu, room);
        let flow = Arc::new(Flow::new(ends, machine, Arc::clone(&self.shared.output)));
        let is_kept =
            connections.get_mut(&ends).map(|entry| *entry = Entry::Open(Arc::clone(&flow))).is_some();
        drop(connections);
        if is_kept {
            flow.flush();
            self.shared.keep(ends, Arc::clone(&flow));
        } else {
            flow.reset();
        }
        Connection::new(flow)
    }

    /// Refuses it: the program hears why at once.
    pub fn refuse(mut self, why: Unreachable) {
        self.answer(why);
    }

    fn answer(&mut self, why: Unreachable) {
        let packet = std::mem::take(&mut self.packet);
        if packet.is_empty() {
            return;
        }
        self.shared.connections().remove(&self.ends);
        let answer = match why {
            Unreachable::Port => {
                Segment::parse(&packet).map(|(ends, segment)| segment.refusal().compose(&ends))
            }
            Unreachable::Network | Unreachable::Host | Unreachable::Prohibited | Unreachable::TooLarge(_) => {
                let mut answer = Vec::new();
                why.compose(&packet, &mut answer).then_some(answer)
            }
        };
        if let Some(answer) = answer {
            self.shared.output.send(&answer);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.answer(Unreachable::Port);
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("ends", &self.ends).finish_non_exhaustive()
    }
}

/// How long the end of a connection is answered again: a system repeats a FIN after some 0.2 s.
const LATE: Duration = Duration::from_secs(1);
/// That of IPv6.
const LEAST_MTU: u16 = 1280;
/// Connections at the same time, and those of them with much room.
const MOST: usize = 2048;
const FEW: usize = 128;
const LARGE: usize = 256 << 10;
const SMALL: usize = 32 << 10;
/// Connections that wait to be accepted.
const BACKLOG: usize = 256;
