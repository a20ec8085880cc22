//! The applications: the data sent on one stream, and its arrival.

use std::time::Duration;

use bytes::{Buf as _, Bytes};
use manyway_proto::{Instant, MessageOutcome, StreamId, TargetRate};
use manyway_sim::traffic::{Read, Streams};
use manyway_sim::{HostId, Law, Pattern, Reference, TcpPeer};

use crate::outcome::{Arrivals, Flow};
use crate::scenario::{Direction, Scenario, Side, Traffic, message_options};

/// One direction of an entry of the scenario's traffic, on a stream of its own.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) sender: Side,
    load: Load,
    /// Time 0.
    begin: Instant,
    id: Option<StreamId>,
    written: u64,
    /// A piece that was not accepted in full is kept, since generating it is expensive.
    rest: Bytes,
    is_finished: bool,
    read: u64,
    has_ended: bool,
    /// The target rate that its receiver has still to set.
    target: Option<TargetRate>,
    arrivals: Arrivals,
    latencies: Vec<Duration>,
    /// The number after the highest message so far, and how many came after a later one.
    next: u64,
    overtaken: u64,
}

/// The schedule of sending.
#[derive(Debug, Clone, Copy)]
enum Load {
    Bulk {
        /// Total bytes.
        size: u64,
        /// The end even if the size is not reached.
        stop: Duration,
        pace: Option<Pace>,
        /// Bytes of one write.
        chunk: u64,
    },
    Messages {
        size: u64,
        interval: Duration,
        stop: Duration,
        /// Lifetime, if limited.
        lifetime: Option<Duration>,
    },
}

/// Pieces at regular intervals.
#[derive(Debug, Clone, Copy)]
struct Pace {
    piece: u64,
    interval: Duration,
}

/// Most bytes of one read or write.
const CHUNK: u64 = 64 * 1024;
/// With a rate, pieces are small, so that the rate holds over a short time.
const PIECES_A_SECOND: u64 = 100;

/// Bytes of the number of a message.
const NUMBER: u64 = 8;

/// The streams of a scenario, in the order in which outcomes have them.
pub(super) fn streams(scenario: &Scenario, begin: Instant) -> Vec<Stream> {
    let senders = |traffic: &Traffic| -> &[Side] {
        match traffic.direction() {
            Direction::Up => &[Side::Client],
            Direction::Down => &[Side::Server],
            Direction::Both => &[Side::Client, Side::Server],
        }
    };
    let each = |traffic| {
        let load = Load::new(traffic, scenario.duration);
        senders(traffic).iter().map(move |sender| Stream::new(*sender, load, begin))
    };
    scenario.traffic.iter().flat_map(each).collect()
}

impl Load {
    fn new(traffic: &Traffic, duration: Duration) -> Self {
        match traffic {
            Traffic::Bulk { size, rate, chunk, .. } => Self::Bulk {
                size: size.map_or(u64::MAX, |size| size.get()),
                stop: if size.is_some() { Duration::MAX } else { duration },
                chunk: chunk.map_or(CHUNK, |chunk| chunk.get().clamp(1, CHUNK)),
                pace: rate.map(|rate| {
                    let piece = (rate.bytes_per_second() / PIECES_A_SECOND).clamp(512, 2 * CHUNK);
                    let nanos =
                        u128::from(piece) * 1_000_000_000 / u128::from(rate.bytes_per_second().max(1));
                    Pace { piece, interval: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)) }
                }),
            },
            Traffic::Messages { size, interval, lifetime, .. } => Self::Messages {
                size: size.get().max(NUMBER),
                interval: *interval,
                stop: duration,
                lifetime: *lifetime,
            },
        }
    }

    /// How many bytes may have been written at a time, when more may be, and whether that was all.
    fn allowance(&self, at: Duration) -> (u64, Option<Duration>, bool) {
        match *self {
            Self::Bulk { stop, .. } if at >= stop => (0, None, true),
            Self::Bulk { size, stop, pace: None, .. } => {
                (size, (stop < Duration::MAX).then_some(stop), false)
            }
            Self::Bulk { size, stop, pace: Some(pace), .. } => {
                let pieces = due(at, pace.interval);
                let next = pace.interval.saturating_mul(u32::try_from(pieces).unwrap_or(u32::MAX));
                (pieces.saturating_mul(pace.piece).min(size), Some(next.min(stop)), false)
            }
            Self::Messages { size, interval, stop, .. } => {
                // None is due at the stop or later.
                let all = due(stop.saturating_sub(Duration::from_nanos(1)), interval);
                let now = due(at, interval).min(all);
                let next = interval.saturating_mul(u32::try_from(now).unwrap_or(u32::MAX));
                (now * size, (now < all).then_some(next), now == all)
            }
        }
    }
}

/// A message that begins with its number.
fn numbered(number: u64, size: u64) -> Bytes {
    let mut data = number.to_be_bytes().to_vec();
    data.resize(usize::try_from(size).unwrap_or(data.len()), 0);
    data.into()
}

fn number_of(message: &[u8]) -> u64 {
    message.first_chunk().map_or(u64::MAX, |first| u64::from_be_bytes(*first))
}

/// How many of the times 0, 1, 2 … intervals have passed.
fn due(at: Duration, interval: Duration) -> u64 {
    u64::try_from(at.as_nanos() / interval.as_nanos().max(1)).unwrap_or(u64::MAX).saturating_add(1)
}

impl Stream {
    fn new(sender: Side, load: Load, begin: Instant) -> Self {
        Self {
            sender,
            load,
            begin,
            id: None,
            written: 0,
            rest: Bytes::new(),
            is_finished: false,
            read: 0,
            has_ended: false,
            target: None,
            arrivals: Arrivals::default(),
            latencies: Vec::new(),
            next: 0,
            overtaken: 0,
        }
    }

    /// Sends what is due.
    pub(super) fn send(
        &mut self,
        now: Instant,
        host: HostId,
        streams: &mut dyn Streams,
        model: &mut Reference,
    ) {
        if self.is_finished {
            return;
        }
        if self.id.is_none() {
            self.id = streams.open();
        }
        let Some(id) = self.id else { return };
        let (size, chunk) = match self.load {
            Load::Bulk { size, chunk, .. } => (size, chunk),
            Load::Messages { size, lifetime, .. } => {
                return self.send_messages(now, (id, size), lifetime, streams);
            }
        };
        let (allowed, _, is_all) = self.load.allowance(now - self.begin);
        while self.written < allowed {
            if self.rest.is_empty() {
                let length = usize::try_from((allowed - self.written).min(chunk)).unwrap_or(0);
                self.rest = Pattern::new(host, id).bytes(self.written, length);
            }
            let accepted = streams.write(id, self.rest.clone());
            model.on_write(host, id, accepted);
            self.written += accepted as u64;
            self.rest.advance(accepted.min(self.rest.len()));
            if !self.rest.is_empty() {
                return;
            }
        }
        if is_all || self.written >= size {
            streams.finish(id);
            model.on_finish(host, id);
            self.is_finished = true;
        }
    }

    /// Sends the messages that are due.
    fn send_messages(
        &mut self,
        now: Instant,
        (id, size): (StreamId, u64),
        lifetime: Option<Duration>,
        streams: &mut dyn Streams,
    ) {
        let (allowed, _, is_all) = self.load.allowance(now - self.begin);
        while self.written < allowed {
            let message = numbered(self.written / size, size);
            if streams.send_message(now, id, message, message_options(lifetime)).is_err() {
                return;
            }
            self.written += size;
        }
        if is_all {
            streams.finish(id);
            self.is_finished = true;
        }
    }

    /// Reads arrived data of what `writer` wrote.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        writer: HostId,
        streams: &mut dyn Streams,
        model: &mut Reference,
    ) -> Result<(), Law> {
        let Some(id) = self.id.filter(|_| !self.has_ended) else { return Ok(()) };
        if let Load::Messages { interval, .. } = self.load {
            self.receive_messages(now - self.begin, interval, id, streams);
            return Ok(());
        }
        loop {
            match streams.read(id, usize::try_from(CHUNK).unwrap_or(usize::MAX)) {
                Read::Data(data) => {
                    model.on_read(writer, id, &data)?;
                    self.arrivals.record(now - self.begin, data.len() as u64);
                    self.read += data.len() as u64;
                }
                Read::Blocked => return Ok(()),
                Read::End => {
                    self.has_ended = true;
                    return model.on_end(writer, id);
                }
                Read::Reset(_) => {
                    self.has_ended = true;
                    return model.on_reset_seen(writer, id);
                }
            }
        }
    }

    /// Sets the target rate of bulk at its receiver, as soon as that knows the stream.
    pub(super) fn hold(&mut self, now: Instant, receiver: &mut TcpPeer) {
        let (Some(id), Some(target)) = (self.id, self.target) else { return };
        let Some(connection) = receiver.connection() else { return };
        if connection.set_target_rate(now, id, Some(target)).is_ok() {
            self.target = None;
            receiver.set_windows(now);
        }
    }

    /// The same, with a target rate if it is bulk.
    pub(super) fn wanted(mut self, target: Option<TargetRate>) -> Self {
        self.target = target.filter(|_| matches!(self.load, Load::Bulk { .. }));
        self
    }

    /// Receives arrived messages.
    fn receive_messages(
        &mut self,
        at: Duration,
        interval: Duration,
        id: StreamId,
        streams: &mut dyn Streams,
    ) {
        loop {
            match streams.receive_message(id) {
                Some(MessageOutcome::Message(message)) => {
                    let number = number_of(&message.data);
                    self.overtaken += u64::from(number < self.next);
                    self.next = self.next.max(number.saturating_add(1));
                    let number = u32::try_from(number).unwrap_or(u32::MAX);
                    self.latencies.push(at.saturating_sub(interval.saturating_mul(number)));
                    self.arrivals.record(at, message.data.len() as u64);
                    self.read += message.data.len() as u64;
                }
                Some(MessageOutcome::Blocked) | None => return,
                Some(_) => return self.has_ended = true,
            }
        }
    }

    /// When it acts even if nothing happens.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        if self.is_finished {
            return None;
        }
        let (_, next, _) = self.load.allowance(now - self.begin);
        next.map(|next| self.begin + next).filter(|next| *next > now)
    }

    /// Whether everything has arrived, including the end.
    pub(super) const fn is_over(&self) -> bool {
        self.has_ended
    }

    /// Data that should have arrived by the end of the run and did not.
    /// `must_arrive`: all of a given size.
    pub(super) fn shortage(&self, must_arrive: bool) -> Option<String> {
        let who = match self.sender {
            Side::Client => "server",
            Side::Server => "client",
        };
        match self.load {
            _ if self.read == 0 => Some(format!("nothing arrived at the {who}")),
            Load::Bulk { size, stop: Duration::MAX, .. } if must_arrive && self.read < size => {
                Some(format!("only {} of {size} bytes arrived at the {who} in time", self.read))
            }
            Load::Bulk { .. } | Load::Messages { .. } => None,
        }
    }

    /// What arrived.
    pub(super) fn into_flow(self, end: Instant) -> Flow {
        let latencies = match self.load {
            Load::Bulk { .. } => None,
            Load::Messages { .. } => Some(self.latencies),
        };
        let missing = match (self.load, &latencies) {
            (Load::Messages { size, .. }, Some(latencies)) => {
                let (due, ..) = self.load.allowance(end - self.begin);
                (due / size).saturating_sub(latencies.len() as u64)
            }
            (Load::Messages { .. } | Load::Bulk { .. }, _) => 0,
        };
        Flow {
            receiver: self.sender.other(),
            arrivals: self.arrivals,
            latencies,
            missing,
            overtaken: self.overtaken,
        }
    }
}
