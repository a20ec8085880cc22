//! Keeps a snapshot up to date.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::change::{Change, between};
use super::policy::InterfacePolicy;
use super::portable::PortableSource;
use super::select::Selection;
use super::snapshot::Snapshot;
use super::source::{Hint, InterfaceSource};
use super::unlisted::UnlistedSource;

/// Watches the interfaces of this host.
///
/// Additions are reported 50 ms after the first message, since messages come in bursts; removals are reported at once.
/// Every 5 s everything is read again, in case a message was lost.
#[derive(Debug)]
pub struct InterfaceWatcher {
    source: Box<dyn InterfaceSource>,
    snapshot: Snapshot,
    refreshed_at: Instant,
    due_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl InterfaceWatcher {
    /// Time from the first message about an addition until it is reported.
    pub const DEBOUNCE: Duration = Duration::from_millis(50);
    /// Interval of polling; where the system sends no messages, this is the delay of reports.
    pub const POLL: Duration = Duration::from_secs(if cfg!(target_os = "linux") { 5 } else { 1 });
    /// Removals that follow each other closer than this are reported together.
    const BREATH: Duration = Duration::from_millis(10);

    /// Starts to watch, by netlink on Linux, elsewhere by polling. On a system that lists nothing, only the address
    /// that its own routes choose is known ([`Snapshot::unlisted`]).
    ///
    /// # Errors
    /// None so far.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time enabled.
    pub fn new() -> io::Result<Self> {
        #[cfg(all(target_os = "linux", not(manyway_portable)))]
        match super::netlink::NetlinkSource::new().and_then(|source| Self::with_source(Box::new(source))) {
            Ok(watcher) => return Ok(watcher),
            // Some containers and Android forbid netlink.
            Err(error) => {
                tracing::info!(reason = %error, "netlink is not available, asking every few seconds");
            }
        }
        Self::portable().or_else(|error| {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                tracing::warn!(
                    reason = %error,
                    "the system does not tell its interfaces: one path, by the system's own route"
                );
            });
            Self::with_source(Box::new(UnlistedSource))
        })
    }

    /// Starts to watch with what every system offers: no routes, no kinds, no messages.
    ///
    /// # Errors
    /// If the system does not tell its interfaces.
    pub fn portable() -> io::Result<Self> {
        Self::with_source(Box::new(PortableSource::new()))
    }

    /// Starts to watch through a source of one's own.
    ///
    /// # Errors
    /// If its first snapshot fails.
    pub fn with_source(mut source: Box<dyn InterfaceSource>) -> io::Result<Self> {
        let snapshot = source.snapshot()?;
        let now = Instant::now();
        let due_at = now + Self::POLL;
        let timer = Box::pin(tokio::time::sleep_until(due_at));
        Ok(Self { source, snapshot, refreshed_at: now, due_at, timer })
    }

    /// The last snapshot.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Shorthand for [`Snapshot::usable`] of the last snapshot.
    pub fn usable(&self, policy: &InterfacePolicy, peers: &[SocketAddr]) -> Selection {
        self.snapshot.usable(policy, peers)
    }

    /// Waits for a change and returns it; the [`snapshot`](Self::snapshot) is up to date then. Never empty.
    ///
    /// The future may be dropped and the call repeated at any time without missing anything.
    pub async fn changed(&mut self) -> Vec<Change> {
        poll_fn(|context| self.poll_changed(context)).await
    }

    /// As [`changed`](Self::changed), for a task that polls many things. Cheap without messages.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Vec<Change>> {
        loop {
            while let Poll::Ready(hint) = self.source.poll_hint(context) {
                self.schedule(hint);
            }
            if self.timer.deadline() != self.due_at {
                self.timer.as_mut().reset(self.due_at);
            }
            ready!(self.timer.as_mut().poll(context));
            let changes = self.refresh();
            if !changes.is_empty() {
                return Poll::Ready(changes);
            }
        }
    }

    /// Reads all interfaces now, for example after a suspend, and returns the differences. A failure is logged, and the
    /// old snapshot is kept.
    pub fn refresh(&mut self) -> Vec<Change> {
        self.refreshed_at = Instant::now();
        self.due_at = self.refreshed_at + Self::POLL;
        match self.source.snapshot() {
            Ok(snapshot) => {
                let old = std::mem::replace(&mut self.snapshot, snapshot);
                let changes = between(&old, &self.snapshot);
                if !changes.is_empty() {
                    tracing::debug!(?changes, "interfaces changed");
                }
                changes
            }
            Err(error) => {
                tracing::warn!(reason = %error, "the interfaces could not be read");
                Vec::new()
            }
        }
    }

    fn schedule(&mut self, hint: Hint) {
        let due_at = match hint {
            Hint::Gained => Instant::now() + Self::DEBOUNCE,
            Hint::Lost => self.refreshed_at + Self::BREATH,
        };
        self.due_at = self.due_at.min(due_at);
    }
}
