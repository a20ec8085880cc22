//! Requests to the emulator's thread from other threads.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use super::report::{EmulatorReport, Snapshot};
use crate::LabError;
use crate::hosts::Operator;
use crate::scenario::{Change, Side};

/// A handle of running links, usable from any thread.
#[derive(Debug, Clone)]
pub struct Control {
    line: Arc<Line>,
    operator: Operator,
}

/// A request, and the channel for the answer.
#[derive(Debug)]
pub(super) enum Request {
    Begin(Sender<Instant>),
    Apply(Change, Sender<Result<(), LabError>>),
    /// The addresses of an interface of a host have changed.
    Readdressed {
        side: Side,
        interface: usize,
        addresses: Vec<std::net::IpAddr>,
        answer: Sender<Result<(), LabError>>,
    },
    Snapshot(Sender<Snapshot>),
    Finish(Sender<EmulatorReport>),
}

/// The channel to the emulator's thread.
#[derive(Debug)]
pub(super) struct Line {
    requests: Sender<Request>,
    wake: OwnedFd,
}

impl Line {
    /// Makes a channel; its other end receives the requests, and reads them when the descriptor is readable.
    pub(super) fn new() -> std::io::Result<(Self, Receiver<Request>, OwnedFd)> {
        let (requests, receiver) = channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let other = wake.try_clone()?;
        Ok((Self { requests, wake }, receiver, other))
    }

    /// Sends a request and waits for the answer.
    pub(super) fn ask<T>(&self, request: impl FnOnce(Sender<T>) -> Request) -> Result<T, LabError> {
        let ended = || LabError::System("the emulator has ended".into());
        let (sender, answer) = channel();
        self.requests.send(request(sender)).map_err(|_| ended())?;
        // A full counter wakes the thread as well.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        answer.recv().map_err(|_| ended())
    }
}

impl Control {
    pub(super) fn new(line: Arc<Line>, operator: Operator) -> Self {
        Self { line, operator }
    }

    /// Applies a change now, and returns when it is in force.
    ///
    /// # Errors
    /// [`LabError::Scenario`] if there is no such link or interface, [`LabError::System`] if the system refuses or the
    /// emulator has ended.
    pub fn apply(&self, change: &Change) -> Result<(), LabError> {
        match change {
            Change::InterfaceDown { side, interface } => self.operator.take_down(*side, *interface),
            Change::InterfaceUp { side, interface } => self.operator.bring_up(*side, *interface),
            Change::Readdress { side, interface, address } => {
                let (side, interface) = (*side, *interface);
                let addresses = self.operator.readdress(side, interface, *address)?;
                self.line.ask(|answer| Request::Readdressed { side, interface, addresses, answer })?
            }
            Change::Cut { .. } | Change::Restore { .. } | Change::Set { .. } | Change::Rebind { .. } => {
                self.line.ask(|answer| Request::Apply(change.clone(), answer))?
            }
        }
    }

    /// The current figures.
    ///
    /// # Errors
    /// [`LabError::System`] if the emulator has ended.
    pub fn snapshot(&self) -> Result<Snapshot, LabError> {
        let mut snapshot = self.line.ask(Request::Snapshot)?;
        self.add_overruns(&mut snapshot);
        Ok(snapshot)
    }

    /// Adds the figures that only the hosts have.
    pub(super) fn add_overruns(&self, snapshot: &mut Snapshot) {
        let overruns = [Side::Client, Side::Server].map(|side| self.operator.overruns(side)).concat();
        for (interface, overrun) in snapshot.interfaces.iter_mut().zip(overruns) {
            interface.overrun = overrun;
        }
    }
}
