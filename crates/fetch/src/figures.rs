//! The traffic and the state of each interface, for progress displays.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The figures of all interfaces of a download; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Figures(Arc<Mutex<Vec<Entry>>>);

/// The state of an interface in a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceState {
    /// It is being connected.
    Connecting,
    /// It has a connection.
    Connected,
    /// Its connection has delivered nothing for a second, although a piece was asked for.
    Silent,
    /// It failed and is tried again.
    Failed,
    /// It is gone.
    Gone,
}

/// The figures of one interface at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceFigures {
    /// Its name.
    pub name: String,
    /// The addresses of its last connection attempt, if there was one.
    pub addresses: Option<(IpAddr, SocketAddr)>,
    /// What it does.
    pub state: InterfaceState,
    /// How long its last connection took to be accepted, about a round-trip time.
    pub rtt: Option<Duration>,
    /// Bytes sent over its connections, without the headers of TCP and IP.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Connections that were opened.
    pub connections: u64,
}

/// Bytes that pass through the sockets of an interface.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    figures: InterfaceFigures,
    counter: Arc<Counter>,
}

impl Figures {
    /// The present figures, in the order in which interfaces appeared.
    pub fn read(&self) -> Vec<InterfaceFigures> {
        let shown = |entry: &Entry| InterfaceFigures {
            sent: entry.counter.sent.load(Ordering::Relaxed),
            received: entry.counter.received.load(Ordering::Relaxed),
            ..entry.figures.clone()
        };
        self.entries().iter().map(shown).collect()
    }

    /// The counter for the sockets of an interface.
    pub(crate) fn counter(&self, name: &str) -> Arc<Counter> {
        Arc::clone(&entry(&mut self.entries(), name).counter)
    }

    /// Sets what an interface does; connecting does not hide that it failed.
    pub(crate) fn set_state(&self, name: &str, state: InterfaceState) {
        let mut entries = self.entries();
        let own = &mut entry(&mut entries, name).figures;
        if !(state == InterfaceState::Connecting && own.state == InterfaceState::Failed) {
            own.state = state;
        }
    }

    /// A connection was accepted.
    pub(crate) fn connected(&self, name: &str, addresses: (IpAddr, SocketAddr), rtt: Duration) {
        let mut entries = self.entries();
        let own = &mut entry(&mut entries, name).figures;
        (own.addresses, own.rtt) = (Some(addresses), Some(rtt));
        own.connections += 1;
    }

    /// A connection is attempted.
    pub(crate) fn attempts(&self, name: &str, addresses: (IpAddr, SocketAddr)) {
        entry(&mut self.entries(), name).figures.addresses.get_or_insert(addresses);
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry<'a>(entries: &'a mut Vec<Entry>, name: &str) -> &'a mut Entry {
    let place = entries.iter().position(|entry| entry.figures.name == name).unwrap_or_else(|| {
        entries.push(Entry::new(name));
        entries.len() - 1
    });
    // The place was found or made.
    #[expect(clippy::indexing_slicing, reason = "the place was found or made just now")]
    &mut entries[place]
}

impl Entry {
    fn new(name: &str) -> Self {
        let figures = InterfaceFigures {
            name: name.to_owned(),
            addresses: None,
            state: InterfaceState::Connecting,
            rtt: None,
            sent: 0,
            received: 0,
            connections: 0,
        };
        Self { figures, counter: Arc::default() }
    }
}
