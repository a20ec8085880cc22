//! The handle of a link, and what it shares with the link's thread.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::link_spec::LinkSpec;
use super::figures::{Direction, Figures};

/// One link: its addresses, its switch, its counters.
#[derive(Debug, Clone)]
pub struct LinkHandle {
    client: IpAddr,
    front: SocketAddr,
    spec: LinkSpec,
    control: Arc<Control>,
}

impl LinkHandle {
    pub(super) fn new(client: IpAddr, front: SocketAddr, spec: LinkSpec) -> Self {
        Self { client, front, spec, control: Arc::new(Control::default()) }
    }

    pub(super) fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Ends the thread of the link.
    pub(super) fn stop(&self) {
        self.control.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The only source address that the link carries to the server.
    pub fn client(&self) -> IpAddr {
        self.client
    }

    /// The address of the server over this link, for the client.
    pub fn front(&self) -> SocketAddr {
        self.front
    }

    /// The specification of the link.
    pub fn spec(&self) -> LinkSpec {
        self.spec
    }

    /// Cuts the link: within 5 ms it silently drops everything, including packets in flight.
    pub fn cut(&self) {
        self.control.is_cut.store(true, Ordering::Relaxed);
    }

    /// Restores the link within 5 ms.
    pub fn restore(&self) {
        self.control.is_cut.store(false, Ordering::Relaxed);
    }

    /// Whether the link is cut.
    pub fn is_cut(&self) -> bool {
        self.control.is_cut.load(Ordering::Relaxed)
    }

    /// The counters of one direction, at most 5 ms old.
    pub fn figures(&self, direction: Direction) -> Figures {
        self.control.figures(direction).lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a link's thread shares with its handles.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) is_cut: AtomicBool,
    pub(super) is_stopped: AtomicBool,
    up: Mutex<Figures>,
    down: Mutex<Figures>,
}

impl Control {
    pub(super) fn figures(&self, direction: Direction) -> &Mutex<Figures> {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}
