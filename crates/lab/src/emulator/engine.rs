//! The thread that moves packets between the devices and the links.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use manyway_proto::Instant;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;

use super::clock::{self, Timer};
use super::control::Request;
use super::report::{EmulatorReport, Snapshot};
use super::switch::{Exit, Switch};
use crate::LabError;
use crate::scenario::{Change, Event};

/// The events for which the thread waits.
#[derive(Debug)]
pub(super) struct Waiter {
    epoll: OwnedFd,
    timer: Timer,
    wake: OwnedFd,
    /// The last two wake-ups, the later one first.
    woken: [Instant; 2],
}

/// The thread's state.
pub(super) struct Engine {
    waiter: Waiter,
    ready: Vec<epoll::Event>,
    devices: Vec<OwnedFd>,
    switch: Switch,
    requests: Receiver<Request>,
    events: VecDeque<Event>,
    begun: Option<(Instant, std::time::Instant)>,
    /// For changes that run a system program, see [`Change`].
    orders: Sender<Change>,
    packet: Vec<u8>,
}

/// Whether the thread continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    On,
    Ended,
}

/// Packets read from a device before others get their turn.
const BATCH: usize = 32;
/// While the thread is woken more often than this, it sleeps this long in between and then handles everything that has
/// arrived: a wake-up per packet would cost more than moving it, on the cores that the contenders need. So at high
/// rates a packet may be delayed by this much.
const GRAIN: Duration = Duration::from_micros(50);
/// A shorter time is not worth sleeping for.
const NEAR: Duration = Duration::from_micros(5);
const WAKE: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

impl Waiter {
    pub(super) fn new(devices: &[OwnedFd], wake: OwnedFd) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = Timer::new()?;
        for (number, device) in (0..).zip(devices) {
            epoll::add(&epoll, device, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
        }
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        epoll::add(&epoll, timer.descriptor(), epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        Ok(Self { epoll, timer, wake, woken: [Instant::from_nanos(0); 2] })
    }

    /// Stops waiting for a device.
    fn forget(&self, device: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, device);
    }

    /// Waits until something can be read or `until` is reached.
    fn wait(
        &mut self,
        now: Instant,
        until: Option<Instant>,
        ready: &mut Vec<epoll::Event>,
    ) -> io::Result<()> {
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        self.rest(now);
        let timeout = if until.is_some_and(|until| until <= now + NEAR) {
            Some(&none)
        } else {
            self.timer.set(until)?;
            None
        };
        ready.clear();
        let result = epoll::wait(&self.epoll, spare_capacity(ready), timeout);
        let [last, _] = self.woken;
        self.woken = [clock::now(), last];
        match result {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sleeps for the rest of a [`GRAIN`] if the thread was woken twice within one.
    fn rest(&self, now: Instant) {
        let [last, before] = self.woken;
        if last - before < GRAIN && now < last + GRAIN {
            std::thread::sleep((last + GRAIN) - now);
        }
    }
}

impl Engine {
    pub(super) fn new(
        waiter: Waiter,
        devices: Vec<OwnedFd>,
        switch: Switch,
        requests: Receiver<Request>,
        orders: Sender<Change>,
    ) -> Self {
        let (packet, ready) = (vec![0; 1 << 16], Vec::with_capacity(devices.len() + 2));
        Self {
            waiter,
            ready,
            devices,
            switch,
            requests,
            events: VecDeque::new(),
            begun: None,
            orders,
            packet,
        }
    }

    /// Sets the events after the start, in order of time.
    pub(super) fn set_events(&mut self, events: VecDeque<Event>) {
        self.events = events;
    }

    /// Moves packets until it is asked to finish.
    pub(super) fn run(mut self) -> Result<(), LabError> {
        loop {
            let now = clock::now();
            self.carry_out(now)?;
            self.switch.advance(now, &mut Devices(&self.devices));
            let until = earliest(self.switch.next(), self.next_event());
            let failed = |error| LabError::Io { doing: "waiting for packets".into(), error };
            self.waiter.wait(now, until, &mut self.ready).map_err(failed)?;
            if self.take() == Course::Ended {
                return Ok(());
            }
        }
    }

    /// Handles what has arrived.
    fn take(&mut self) -> Course {
        for place in 0..self.ready.len() {
            let Some(event) = self.ready.get(place) else { break };
            match event.data.u64() {
                TIMER => {}
                WAKE => {
                    if self.answer() == Course::Ended {
                        return Course::Ended;
                    }
                }
                device => self.read(usize::try_from(device).unwrap_or(usize::MAX)),
            }
        }
        Course::On
    }

    fn read(&mut self, interface: usize) {
        let Some(device) = self.devices.get(interface) else { return };
        for _ in 0..BATCH {
            let length = match rustix::io::read(device, self.packet.as_mut_slice()) {
                Ok(length) => length,
                Err(Errno::AGAIN | Errno::INTR) => return,
                // Its host was removed: it would be reported ready for ever.
                Err(_) => return self.waiter.forget(device),
            };
            let packet = self.packet.get(..length).unwrap_or_default();
            self.switch.enter(clock::now(), interface, packet, &mut Devices(&self.devices));
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let (begun, _) = self.begun?;
        self.events.front().map(|event| begun + event.at)
    }

    /// Executes the events that are due.
    fn carry_out(&mut self, now: Instant) -> Result<(), LabError> {
        while let Some(at) = self.next_event().filter(|at| *at <= now)
            && let Some(event) = self.events.pop_front()
        {
            self.switch.record_late(now - at);
            // Packets due before the event leave before it.
            self.switch.advance(at, &mut Devices(&self.devices));
            match event.change {
                Change::InterfaceDown { .. } | Change::InterfaceUp { .. } | Change::Readdress { .. } => {
                    // The thread that executes orders lives as long as this one.
                    drop(self.orders.send(event.change));
                }
                Change::Cut { .. } | Change::Restore { .. } | Change::Set { .. } | Change::Rebind { .. } => {
                    self.switch.apply(at, &event.change)?;
                }
            }
        }
        Ok(())
    }

    /// Answers requests. The requester may have gone.
    fn answer(&mut self) -> Course {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.waiter.wake, &mut count);
        while let Ok(request) = self.requests.try_recv() {
            let now = clock::now();
            match request {
                Request::Begin(answer) => {
                    let begun = *self.begun.get_or_insert_with(|| {
                        self.switch.begin(now);
                        (now, std::time::Instant::now())
                    });
                    let _ = answer.send(begun.1);
                }
                Request::Apply(change, answer) => {
                    self.switch.advance(now, &mut Devices(&self.devices));
                    drop(answer.send(self.switch.apply(now, &change)));
                }
                Request::Readdressed { side, interface, addresses, answer } => {
                    drop(answer.send(self.switch.readdress(side, interface, &addresses)));
                }
                Request::Snapshot(answer) => drop(answer.send(self.figures(now))),
                Request::Finish(answer) => {
                    self.switch.advance(now, &mut Devices(&self.devices));
                    let totals = self.figures(now);
                    drop(answer.send(EmulatorReport { routes: self.switch.routes(), totals }));
                    return Course::Ended;
                }
            }
        }
        Course::On
    }

    fn figures(&self, now: Instant) -> Snapshot {
        Snapshot { busy: clock::processor_time(), ..self.switch.snapshot(now) }
    }
}

/// Delivers packets to the hosts.
struct Devices<'a>(&'a [OwnedFd]);

impl Exit for Devices<'_> {
    fn give(&mut self, interface: usize, packet: &[u8]) -> bool {
        self.0.get(interface).is_some_and(|device| rustix::io::write(device, packet).is_ok())
    }
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
