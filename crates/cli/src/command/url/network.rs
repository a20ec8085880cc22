//! The interfaces of this host for a download, with the user's rules and caps.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use manyway::interfaces::{
    Candidate, Exclusion, InterfacePolicy, InterfaceWatcher, Role, Selection, Snapshot,
};
use manyway::{Allowance, ByteCount, Ledger as _, LocalAddress, connect_tcp};
use manyway_fetch::{Figures, Interface, InterfaceFigures, Network};
use manyway_terminal::CommandError;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::args::GlobalArgs;
use crate::caps::CapLedger;
use crate::command::network::{caps, interface_policy};

/// How often what was carried is counted against caps.
const COUNT_EVERY: Duration = Duration::from_millis(250);
/// Of the bytes in the sockets, the headers of TCP and IP and the acknowledgements are at most this part on top: 72
/// bytes for each 1428, and an acknowledgement of 72 for every other segment.
const HEADERS: u64 = 12;
/// Attempts to count what is left at the end, and the pause between two.
const LAST_TRIES: u32 = 10;
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Bytes to open and close a connection, headers included.
const CONNECTION: u64 = 512;

/// The interfaces of this host.
#[derive(Debug)]
pub(super) struct HostNetwork {
    state: Mutex<State>,
    changed: Notify,
    is_exhausted: Notify,
}

#[derive(Debug)]
struct State {
    snapshot: Snapshot,
    policy: InterfacePolicy,
    /// The local addresses of each interface, as of the last selection.
    locals: BTreeMap<String, Vec<LocalAddress>>,
    exhausted: BTreeMap<String, Allowance>,
}

/// Keeps a [`HostNetwork`] up to date until it is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    task: JoinHandle<()>,
    counting: Option<Counting>,
}

impl HostNetwork {
    /// The interfaces as the options choose them. What `figures` counts goes against the caps.
    ///
    /// # Errors
    /// The system does not tell its interfaces, an option is invalid, or the counts of caps cannot be stored.
    pub(super) fn start(global: &GlobalArgs, figures: Figures) -> Result<(Arc<Self>, Watch), CommandError> {
        let mut watcher = InterfaceWatcher::new().map_err(CommandError::failed)?;
        let counting = caps(global)?.map(|ledger| Counting::new(ledger, figures));
        let snapshot = watcher.snapshot().clone();
        let exhausted = counting.as_ref().map(|counting| counting.exhausted(&snapshot)).unwrap_or_default();
        let mut policy = interface_policy(global)?;
        policy.set_exhausted(exhausted.clone());
        let state = State { snapshot, policy, locals: BTreeMap::new(), exhausted };
        let network =
            Arc::new(Self { state: Mutex::new(state), changed: Notify::new(), is_exhausted: Notify::new() });
        let (own, counter) = (Arc::clone(&network), counting.clone());
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(COUNT_EVERY);
            loop {
                tokio::select! {
                    _ = watcher.changed() => own.set_snapshot(watcher.snapshot().clone()),
                    _ = tick.tick() => if let Some(counter) = &counter {
                        counter.settle();
                        own.set_exhausted(counter);
                    },
                }
            }
        });
        Ok((network, Watch { task, counting }))
    }

    /// Waits until the caps of all interfaces in use are reached.
    pub(super) async fn exhausted(&self) {
        self.is_exhausted.notified().await;
    }

    /// The interfaces whose caps are reached, and how; empty if there are none.
    pub(super) fn caps_reached(&self) -> String {
        let exhausted = self.state().exhausted.clone();
        let words = |(name, allowance): (&String, &Allowance)| {
            let Allowance { cap, renewal, .. } = *allowance;
            format!("{name}: {}", Exclusion::CapReached { cap, renewal })
        };
        exhausted.iter().map(words).collect::<Vec<_>>().join("; ")
    }

    fn set_snapshot(&self, snapshot: Snapshot) {
        self.state().snapshot = snapshot;
        self.changed.notify_one();
    }

    fn set_exhausted(&self, counting: &Counting) {
        let mut state = self.state();
        let exhausted = counting.exhausted(&state.snapshot);
        if exhausted.keys().eq(state.exhausted.keys()) {
            return;
        }
        let is_end = !state.locals.is_empty() && state.locals.keys().all(|name| exhausted.contains_key(name));
        state.policy.set_exhausted(exhausted.clone());
        state.exhausted = exhausted;
        drop(state);
        self.changed.notify_one();
        if is_end {
            self.is_exhausted.notify_one();
        }
    }

    fn select(&self, remotes: &[SocketAddr]) -> Selection {
        let state = self.state();
        state.snapshot.usable(&state.policy, remotes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network for HostNetwork {
    fn interfaces(&self, remotes: &[SocketAddr]) -> Vec<Interface> {
        let mut interfaces: Vec<Interface> = Vec::new();
        let mut locals: BTreeMap<String, Vec<LocalAddress>> = BTreeMap::new();
        for Candidate { local, role, name, .. } in self.select(remotes).candidates {
            let address = local.address.ip();
            locals.entry(name.clone()).or_default().push(local);
            match interfaces.iter_mut().find(|own| own.name == name) {
                Some(own) => own.addresses.push(address),
                None => {
                    let is_backup = role == Role::Backup;
                    interfaces.push(Interface { name, addresses: vec![address], is_backup });
                }
            }
        }
        self.state().locals = locals;
        interfaces
    }

    fn explain(&self, remotes: &[SocketAddr]) -> String {
        let excluded = self.select(remotes).excluded;
        // That the loopback does not lead to another host is no news.
        let worth_saying = excluded.iter().filter(|it| it.reason != Exclusion::Loopback);
        worth_saying.map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    async fn connect(&self, interface: &str, local: IpAddr, remote: SocketAddr) -> io::Result<TcpStream> {
        let known = self.state().locals.get(interface).cloned().unwrap_or_default();
        let local = known.into_iter().find(|own| own.address.ip() == local);
        let local =
            local.ok_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, "its address is gone"))?;
        connect_tcp(local, remote).await
    }
}

/// Counts against the caps.
#[derive(Debug, Clone)]
struct Counting {
    ledger: Arc<CapLedger>,
    figures: Figures,
    /// The bytes that are counted, by interface.
    counted: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Counting {
    fn new(ledger: Arc<CapLedger>, figures: Figures) -> Self {
        Self { ledger, figures, counted: Arc::default() }
    }

    /// Counts what was carried since the last call; returns whether that was possible. What is not counted now is counted
    /// the next time.
    fn settle(&self) -> bool {
        let mut is_done = true;
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for figures in self.figures.read() {
            let before = counted.entry(figures.name.clone()).or_default();
            let bytes = on_the_wire(&figures);
            let new = bytes.saturating_sub(*before);
            match self.ledger.spend(&figures.name, ByteCount(new)) {
                Ok(_) => *before = bytes,
                Err(_) => is_done &= new == 0,
            }
        }
        is_done
    }

    fn exhausted(&self, snapshot: &Snapshot) -> BTreeMap<String, Allowance> {
        self.ledger.exhausted(snapshot.interfaces.iter().map(|interface| interface.name.as_str()))
    }
}

/// The bytes of an interface with the headers that its sockets do not show, rather too many than too few.
fn on_the_wire(figures: &InterfaceFigures) -> u64 {
    let bytes = figures.sent.saturating_add(figures.received);
    bytes.saturating_add(bytes / HEADERS).saturating_add(figures.connections.saturating_mul(CONNECTION))
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
        let Some(counting) = &self.counting else { return };
        // Another process may be writing the counts.
        for _ in 0..LAST_TRIES {
            if counting.settle() {
                return;
            }
            std::thread::sleep(AGAIN_AFTER);
        }
        tracing::warn!("not all that went over interfaces with a cap could be counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_connections_count_against_a_cap() {
        let figures = InterfaceFigures {
            name: "a".to_owned(),
            addresses: None,
            state: manyway_fetch::InterfaceState::Connected,
            rtt: None,
            sent: 200,
            received: 1_000_000,
            connections: 2,
        };
        // 700 segments of 1428 bytes with 72 of headers, 350 acknowledgements.
        let real = 1_000_200 + 700 * 72 + 350 * 72;
        assert!(on_the_wire(&figures) >= real && on_the_wire(&figures) < real + real / 50);
    }
}
