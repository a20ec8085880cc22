//! Links in user space between the interfaces of two [hosts](crate::hosts): the same links as in virtual time, but with
//! real packets and the system's clock.
//!
//! One thread reads each IP packet that a host sends from the TUN device of the interface, finds its route by interface
//! and destination, translates its addresses if there is a NAT, passes it through the
//! [`Link`](manyway_sim::link::Link)s of the route, and writes it to the device at the other end. Any protocol passes:
//! TCP, MPTCP, UDP, ICMP, over IPv4 and IPv6.
//!
//! * `engine`: the thread: devices, clock, requests;
//! * `switch`: routes, links and NATs as a state machine without input and output, with `agenda` for the next due link;
//! * `packet`, `header`, `translate`, `pool`: a packet, its fields, its translation, its memory;
//! * `control`, `report`, `lateness`: changes from outside, and figures.
//!
//! [`validation`](crate::validation) shows that it does what its settings say.

mod agenda;
mod clock;
mod control;
mod engine;
mod header;
mod lateness;
mod packet;
mod pool;
mod priority;
mod report;
mod switch;
#[cfg(test)]
mod tests;
mod translate;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

pub(crate) use clock::processor_time;
pub use control::Control;
pub(crate) use priority::raise as raise_priority;
pub use report::{Count, EmulatorReport, InterfaceReport, Lateness, LinkCounters, LinkReport, Snapshot};

use crate::hosts::Hosts;
use crate::scenario::Change;
use crate::{LabError, Scenario};
use control::{Line, Request};
use engine::{Engine, Waiter};
use switch::Switch;

/// Running links. Dropping it stops them; the hosts stay.
#[derive(Debug)]
pub struct Emulator {
    control: Control,
    line: Arc<Line>,
    links: Option<JoinHandle<Result<(), LabError>>>,
    hosts: Option<JoinHandle<Result<(), LabError>>>,
}

impl Emulator {
    /// Connects the hosts by the links of the scenario. Packets pass from now on, events wait for [`Self::begin`].
    ///
    /// Everything random follows from the seed, apart from arrival times.
    ///
    /// # Errors
    /// [`LabError::Io`] if the threads cannot be set up, [`LabError::Scenario`] if the scenario contradicts itself.
    pub fn start(scenario: &Scenario, hosts: &Hosts, seed: u64) -> Result<Self, LabError> {
        let failed = |error| LabError::Io { doing: "starting the links".into(), error };
        let (line, requests, wake) = Line::new().map_err(failed)?;
        let line = Arc::new(line);
        let control = Control::new(Arc::clone(&line), hosts.operator());
        let devices =
            hosts.devices().iter().map(OwnedFd::try_clone).collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let waiter = Waiter::new(&devices, wake).map_err(failed)?;
        let (orders, carried_out) = channel();
        let (ready, is_ready) = channel();
        let (scenario, addresses) = (scenario.clone(), hosts.all_addresses());
        let links = move || {
            priority::raise();
            let switch = match Switch::new(clock::now(), &scenario, &addresses, seed) {
                Ok(switch) => switch,
                Err(error) => {
                    drop(ready.send(Err(error)));
                    return Ok(());
                }
            };
            drop(ready.send(Ok(())));
            let mut engine = Engine::new(waiter, devices, switch, requests, orders);
            engine.set_events(scenario.events.into());
            engine.run()
        };
        let links = thread::Builder::new().name("lab-links".into()).spawn(links).map_err(failed)?;
        is_ready.recv().unwrap_or_else(|_| Err(LabError::System("the emulator did not start".into())))?;
        let operator = control.clone();
        let change_hosts = move || carry_out(&operator, &carried_out);
        let hosts = thread::Builder::new().name("lab-hosts".into()).spawn(change_hosts).map_err(failed)?;
        Ok(Self { control, line, links: Some(links), hosts: Some(hosts) })
    }

    /// Starts time 0 of events and series, and returns it. A second call changes nothing.
    pub fn begin(&self) -> Instant {
        // If the emulator has failed, `finish` reports it.
        self.line.ask(Request::Begin).unwrap_or_else(|_| Instant::now())
    }

    /// A handle for changes and figures.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Stops the links and returns their figures.
    ///
    /// # Errors
    /// [`LabError::System`] if the emulator failed, or the error of an event that could not be executed.
    pub fn finish(mut self) -> Result<EmulatorReport, LabError> {
        let report = self.line.ask(Request::Finish);
        self.join()?;
        let mut report = report?;
        self.control.add_overruns(&mut report.totals);
        Ok(report)
    }

    /// Waits for both threads and returns the first error.
    fn join(&mut self) -> Result<(), LabError> {
        let mut result = Ok(());
        for thread in [self.links.take(), self.hosts.take()].into_iter().flatten() {
            let end = thread.join();
            let end = end.unwrap_or_else(|_| Err(LabError::System("the emulator broke down".into())));
            result = result.and(end);
        }
        result
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        if self.links.is_some() {
            drop(self.line.ask(Request::Finish));
            drop(self.join());
        }
    }
}

/// Executes events that run a system program, until the links end; returns the first error.
fn carry_out(control: &Control, changes: &Receiver<Change>) -> Result<(), LabError> {
    let mut result = Ok(());
    while let Ok(change) = changes.recv() {
        let done = control.apply(&change);
        result = result.and(done);
    }
    result
}
