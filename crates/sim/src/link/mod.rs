//! A one-way link: packets and times in, packets and times out. No socket, no clock, no network.
//!
//! A packet passes, in this order: outage, MTU and [`Drops`] → treatment of its ECN mark ([`EcnTreatment`]) → the queue
//! ([`QueueConfig`]) → the rate ([`RateModel`]) → loss ([`LossModel`]), corruption, duplication → delay and jitter
//! ([`DelayModel`]). So a lost packet has used its share of the rate, as on a radio link.
//!
//! The driver calls [`Link::send`] when a packet arrives, asks [`Link::next_departure`] when to come back, and calls
//! [`Link::poll`] then, until it returns nothing. The simulator does so in virtual time, an emulator in real time.
//!
//! ```
//! use manyway_proto::{Instant, Rate, Rng};
//! use manyway_sim::link::{Link, LinkConfig};
//! use std::time::Duration;
//!
//! let start = Instant::from_nanos(0);
//! let config = LinkConfig::new(Rate::from_bits_per_second(8_000_000), Duration::from_millis(10));
//! let mut link = Link::new(start, config, Rng::from_seed([0; 32]));
//! // 972 bytes and 28 of headers take 1 ms at 8 Mbit/s.
//! link.send(start, 972, vec![0; 972]);
//! let arrival = link.next_departure().unwrap();
//! assert_eq!(arrival - start, Duration::from_millis(11));
//! assert_eq!(link.poll(arrival).map(|packet| packet.len()), Some(972));
//! ```

mod cell;
mod config;
mod counters;
mod delay;
mod drops;
mod ecn;
mod flight;
mod loss;
mod parcel;
mod presets;
mod probability;
mod queue;
mod rate;
#[cfg(test)]
mod tests;

use manyway_proto::{ByteCount, Instant, Rng};

pub use cell::CellModel;
pub use config::LinkConfig;
pub use counters::{Count, DropCause, LinkCounters};
pub use delay::{DelayModel, Jitter, Order};
pub use drops::Drops;
pub use ecn::EcnTreatment;
pub use loss::{GilbertElliott, LossModel};
pub use parcel::Parcel;
pub use presets::Preset;
pub use probability::Probability;
pub use queue::{Codel, Discipline, QueueConfig, QueueLimit, Reaction};
pub use rate::{DeliveryTrace, RateModel, TraceError};

use delay::Delay;
use flight::Flight;
use loss::Loss;
use queue::{Entry, Popped, Queue};
use rate::Server;

/// The fate of a packet at the entrance of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is on the link; it may still be lost there.
    Taken,
    /// It was dropped at once.
    Dropped(DropCause),
}

/// One direction of a link. See the [module](self) for its use.
///
/// Time never goes backwards: a time before the latest one that the link has seen counts as that.
#[derive(Debug)]
pub struct Link<P> {
    now: Instant,
    state: LinkState,
    queue: Queue<P>,
    server: Server,
    in_service: Option<InService<P>>,
    medium: Medium,
    flight: Flight<Entry<P>>,
    config: LinkConfig,
    counters: LinkCounters,
    rng: Rng,
}

/// Whether a link works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It works.
    Up,
    /// It is a black hole: it drops everything silently.
    Down,
}

/// The packet whose bits are being sent.
#[derive(Debug)]
struct InService<P> {
    entry: Entry<P>,
    /// Bytes left of it at `since`.
    left: ByteCount,
    since: Instant,
    /// When it has left; `None` while the link is stopped.
    finish: Option<Instant>,
}

/// What happens after the queue.
#[derive(Debug)]
struct Medium {
    loss: Loss,
    delay: Delay,
}

impl<P: Parcel> Link<P> {
    /// Makes an empty link that works. A trace starts at `now`.
    pub fn new(now: Instant, config: LinkConfig, rng: Rng) -> Self {
        Self {
            now,
            state: LinkState::Up,
            queue: Queue::new(config.queue, config.rate.nominal()),
            server: Server::new(now, config.rate.clone()),
            in_service: None,
            medium: Medium { loss: Loss::new(config.loss.clone()), delay: Delay::new(now, config.delay) },
            flight: Flight::new(),
            config,
            counters: LinkCounters::default(),
            rng,
        }
    }

    /// Adds a packet of `size` bytes (UDP payload, unless the overhead is set to 0) to the link.
    pub fn send(&mut self, now: Instant, size: usize, payload: P) -> Fate {
        self.advance(now);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let wire = size.saturating_add(u32::from(self.config.overhead));
        self.counters.offered.add(size);
        if self.state == LinkState::Down {
            return self.refuse(DropCause::Outage, size);
        }
        if wire > u32::from(self.config.mtu) {
            return self.refuse(DropCause::TooLarge, size);
        }
        if self.config.drops.has(&payload) {
            return self.refuse(DropCause::Kind, size);
        }
        let Some(payload) = self.config.ecn.treat(payload) else {
            return self.refuse(DropCause::Marked, size);
        };
        let entry = Entry { payload, size, wire, offered_at: self.now };
        self.counters.held.add(size);
        if self.in_service.is_none() && self.queue.len() == 0 {
            self.serve(self.now, entry);
            self.advance(self.now);
        } else if self.queue.push(entry).is_err() {
            self.counters.release(size);
            return self.refuse(DropCause::QueueFull, size);
        }
        Fate::Taken
    }

    /// When to call [`poll`](Self::poll) next; `None` while the link holds no packet that moves.
    ///
    /// The time is never later than the next arrival. With jitter it may be earlier, since the variation is drawn only
    /// when the packet leaves the queue; [`poll`](Self::poll) then returns nothing and the next time is later.
    pub fn next_departure(&self) -> Option<Instant> {
        let leaving = self
            .in_service
            .as_ref()
            .and_then(|service| service.finish)
            .map(|finish| finish + self.medium.delay.least());
        match (leaving, self.flight.next()) {
            (Some(leaving), Some(arriving)) => Some(leaving.min(arriving)),
            (leaving, arriving) => leaving.or(arriving),
        }
    }

    /// Takes the next packet that has arrived by `now`. Call it until it returns nothing.
    pub fn poll(&mut self, now: Instant) -> Option<P> {
        self.advance(now);
        let entry = self.flight.pop(self.now)?;
        self.counters.release(entry.size);
        self.counters.delivered.add(entry.size);
        Some(entry.payload)
    }

    /// The properties now in force.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// The counters.
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Whether the link works.
    pub fn state(&self) -> LinkState {
        self.state
    }

    /// Queued bytes, headers included, without the packet that is being sent.
    pub fn waiting(&self) -> ByteCount {
        self.queue.bytes()
    }

    /// Changes the rate. The rest of the packet being sent continues at the new rate.
    pub fn set_rate(&mut self, now: Instant, rate: RateModel) {
        self.advance(now);
        self.config.rate = rate.clone();
        self.queue.set_rate(rate.nominal());
        self.server = Server::new(self.now, rate);
        if let Some(service) = &mut self.in_service {
            if let Some(finish) = service.finish {
                service.left =
                    share(service.left, (finish - self.now).as_nanos(), (finish - service.since).as_nanos());
            }
            service.since = self.now;
            service.finish = self.server.finish(self.now, service.left);
        }
        self.advance(self.now);
    }

    /// Changes the queue. Queued packets stay, even if they exceed the new limit.
    pub fn set_queue(&mut self, now: Instant, queue: QueueConfig) {
        self.advance(now);
        self.config.queue = queue;
        self.queue.set(queue, self.config.rate.nominal());
    }

    /// Changes the delay for packets that are not in flight yet.
    pub fn set_delay(&mut self, now: Instant, delay: DelayModel) {
        self.advance(now);
        self.config.delay = delay;
        self.medium.delay.set(self.now, delay);
    }

    /// Changes the loss for packets that are not in flight yet.
    pub fn set_loss(&mut self, now: Instant, loss: LossModel) {
        self.advance(now);
        self.config.loss = loss.clone();
        self.medium.loss.set(loss);
    }

    /// Changes the probability of a flipped bit.
    pub fn set_corruption(&mut self, now: Instant, corruption: Probability) {
        self.advance(now);
        self.config.corruption = corruption;
    }

    /// Changes the probability of a duplicate.
    pub fn set_duplication(&mut self, now: Instant, duplication: Probability) {
        self.advance(now);
        self.config.duplication = duplication;
    }

    /// Changes the largest packet, overhead included.
    pub fn set_mtu(&mut self, now: Instant, mtu: u16) {
        self.advance(now);
        self.config.mtu = mtu;
    }

    /// Changes the treatment of packets with a mark.
    pub fn set_ecn(&mut self, now: Instant, ecn: EcnTreatment) {
        self.advance(now);
        self.config.ecn = ecn;
    }

    /// Changes what it drops by its kind. What is queued or in flight still arrives.
    pub fn set_drops(&mut self, now: Instant, drops: Drops) {
        self.advance(now);
        self.config.drops = drops;
    }

    /// Cuts the link or restores it. A cut silently drops everything that is queued or in flight; to hold packets
    /// instead, set the rate to zero.
    pub fn set_state(&mut self, now: Instant, state: LinkState) {
        self.advance(now);
        self.state = state;
        if state == LinkState::Up {
            return;
        }
        let service = self.in_service.take().map(|service| service.entry);
        for entry in self.queue.drain().chain(service).chain(self.flight.drain()) {
            self.counters.drop(DropCause::Outage, entry.size);
            self.counters.release(entry.size);
        }
        self.medium.delay.forget_flight(self.now);
    }

    fn refuse(&mut self, cause: DropCause, size: u32) -> Fate {
        self.counters.drop(cause, size);
        Fate::Dropped(cause)
    }

    /// Removes everything from the queue that has left it by `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(finish) = self.in_service.as_ref().and_then(|service| service.finish)
            && finish <= self.now
            && let Some(service) = self.in_service.take()
        {
            self.depart(finish, service.entry);
            self.serve_next(finish);
        }
    }

    /// Starts the next packet that the queue lets through.
    fn serve_next(&mut self, at: Instant) {
        while let Some(popped) = self.queue.pop(at) {
            match popped {
                Popped::Send(entry) => return self.serve(at, entry),
                Popped::SendMarked(mut entry) => {
                    entry.payload.mark_congestion();
                    self.counters.marked.add(entry.size);
                    return self.serve(at, entry);
                }
                Popped::Drop(entry) => {
                    self.counters.drop(DropCause::QueueLaw, entry.size);
                    self.counters.release(entry.size);
                }
            }
        }
    }

    fn serve(&mut self, at: Instant, entry: Entry<P>) {
        let left = ByteCount(u64::from(entry.wire));
        let finish = self.server.finish(at, left);
        self.in_service = Some(InService { entry, left, since: at, finish });
    }

    /// The last bit has left: the medium decides.
    fn depart(&mut self, departure: Instant, mut entry: Entry<P>) {
        if self.medium.loss.loses(&mut self.rng, entry.size) {
            self.counters.drop(DropCause::Loss, entry.size);
            self.counters.release(entry.size);
            return;
        }
        if self.config.corruption.happens(&mut self.rng) {
            entry.payload.flip_bit(self.rng.next_u64());
            self.counters.corrupted.add(entry.size);
        }
        if self.config.duplication.happens(&mut self.rng) {
            self.counters.duplicated.add(entry.size);
            self.counters.held.add(entry.size);
            let copy = Entry { payload: entry.payload.clone(), ..entry };
            let arrival = self.medium.delay.arrival(departure, &mut self.rng);
            self.flight.insert(arrival, copy);
        }
        let arrival = self.medium.delay.arrival(departure, &mut self.rng);
        self.flight.insert(arrival, entry);
    }
}

/// `whole × part / total`, rounded up; all of it if there is no total.
fn share(whole: ByteCount, part: u128, total: u128) -> ByteCount {
    let product = u128::from(whole.get()).saturating_mul(part);
    let share = if total == 0 { u128::from(whole.get()) } else { product.div_ceil(total) };
    ByteCount(u64::try_from(share).unwrap_or(u64::MAX))
}
