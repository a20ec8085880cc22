//! What the tasks of a download in pieces share.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::error::Fault;
use crate::event::{Event, Observer};
use crate::figures::InterfaceState;
use crate::http::Dialler;
use crate::network::{Interface, Limit};
use crate::part::Block;
use crate::schedule::{Grant, Piece, Schedule};
use crate::tag::StrongTag;
use crate::target::WebAddress;

/// A file that is fetched in pieces.
pub(crate) struct Job<N> {
    pub(crate) dialler: Arc<Dialler<N>>,
    pub(crate) address: WebAddress,
    pub(crate) remotes: Vec<SocketAddr>,
    pub(crate) tag: StrongTag,
    pub(crate) length: u64,
    pub(crate) limit: Option<Arc<dyn Limit>>,
    pub(crate) observer: Observer,
    /// Wakes the tasks that wait for work or for the end.
    pub(crate) changed: Notify,
    state: Mutex<State>,
    /// The server answers a condition with the whole file although it has the same version.
    ignores_condition: AtomicBool,
}

#[derive(Debug)]
struct State {
    schedule: Schedule,
    /// Interfaces that failed and have delivered nothing since.
    faults: BTreeMap<String, Fault>,
    delivered_at: Instant,
}

/// What is known of the progress at a moment.
#[derive(Debug)]
pub(crate) struct Outlook {
    pub(crate) is_complete: bool,
    /// Whether any interface has a piece.
    pub(crate) is_busy: bool,
    pub(crate) faults: BTreeMap<String, Fault>,
    pub(crate) delivered_at: Instant,
}

impl<N> fmt::Debug for Job<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("address", &self.address)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Facts about the file and its server.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) address: WebAddress,
    pub(crate) remotes: Vec<SocketAddr>,
    pub(crate) tag: StrongTag,
    pub(crate) length: u64,
}

impl<N> Job<N> {
    pub(crate) fn new(
        dialler: Arc<Dialler<N>>,
        facts: Facts,
        schedule: Schedule,
        observer: Observer,
        limit: Option<Arc<dyn Limit>>,
    ) -> Self {
        let Facts { address, remotes, tag, length } = facts;
        let state = State { schedule, faults: BTreeMap::new(), delivered_at: Instant::now() };
        Self {
            dialler,
            address,
            remotes,
            tag,
            length,
            limit,
            observer,
            changed: Notify::new(),
            state: Mutex::new(state),
            ignores_condition: AtomicBool::new(false),
        }
    }

    /// The next piece for an interface.
    pub(crate) fn take(&self, interface: &Interface) -> Option<Piece> {
        self.state().schedule.take(&interface.name, interface.is_backup, Instant::now())
    }

    /// Whether the piece is still the interface's.
    pub(crate) fn holds(&self, interface: &Interface, piece: &Piece) -> bool {
        self.state().schedule.holds(&interface.name, piece.number)
    }

    /// The interface stops; others fetch what is left of its piece.
    pub(crate) fn give_back(&self, name: &str) {
        self.state().schedule.give_back(name, Instant::now());
        self.changed.notify_waiters();
    }

    /// Passes on bytes that arrived. There is no await between the two steps: bytes that count are written.
    pub(crate) fn deliver(
        &self,
        interface: &Interface,
        piece: &Piece,
        data: Bytes,
        place: mpsc::Permit<'_, Block>,
    ) -> Grant {
        let now = Instant::now();
        let (grant, has_recovered, is_complete) = {
            let mut state = self.state();
            let name = (interface.name.as_str(), interface.is_backup);
            let grant = state.schedule.advance(name, piece.number, data.len(), now);
            let has_recovered = grant.wanted > 0 && state.faults.remove(&interface.name).is_some();
            if grant.wanted > 0 {
                state.delivered_at = now;
            }
            (grant, has_recovered, state.schedule.is_complete())
        };
        if grant.wanted > 0 {
            place.send(Block { offset: grant.offset, data: data.slice(..grant.wanted) });
            (self.observer)(Event::Advanced { bytes: u64::try_from(grant.wanted).unwrap_or(u64::MAX) });
        }
        if has_recovered {
            (self.observer)(Event::Interface { text: &format!("{} works again", interface.name) });
        }
        if is_complete {
            self.changed.notify_waiters();
        }
        grant
    }

    /// An interface failed; the first failure after a success is worth a message.
    pub(crate) fn fail(&self, interface: &Interface, fault: Fault) {
        let is_news = {
            let mut state = self.state();
            state.schedule.give_back(&interface.name, Instant::now());
            state.faults.insert(interface.name.clone(), fault.clone()).is_none()
        };
        tracing::debug!(interface = interface.name, %fault, "failed");
        self.dialler.figures.set_state(&interface.name, InterfaceState::Failed);
        if is_news {
            let text = format!("{}: {fault}; trying again", interface.name);
            (self.observer)(Event::Interface { text: &text });
        }
        self.changed.notify_waiters();
    }

    /// An interface is gone.
    pub(crate) fn forget(&self, name: &str) {
        let mut state = self.state();
        state.schedule.give_back(name, Instant::now());
        state.faults.remove(name);
        drop(state);
        self.dialler.figures.set_state(name, InterfaceState::Gone);
        self.changed.notify_waiters();
    }

    /// That nothing is delivered is not the network's fault.
    pub(crate) fn wait_for_output(&self) {
        self.state().delivered_at = Instant::now();
    }

    /// Whether the condition of the version goes with each request.
    pub(crate) fn asks_for_version(&self) -> bool {
        !self.ignores_condition.load(Ordering::Relaxed)
    }

    /// From now on the version is only compared.
    pub(crate) fn ask_without_version(&self) {
        self.ignores_condition.store(true, Ordering::Relaxed);
    }

    pub(crate) fn outlook(&self) -> Outlook {
        let state = self.state();
        Outlook {
            is_complete: state.schedule.is_complete(),
            is_busy: state.schedule.is_busy(),
            faults: state.faults.clone(),
            delivered_at: state.delivered_at,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
