//! The applications: exchanges of any size, once or at intervals, and a service that answers them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use manyway_proto::{
    ByteCount, Class, Instant, Message, MessageOptions, MessageOutcome, MessageToken, Order, Rng, SendError,
    StreamId,
};

use crate::ids::HostId;
use crate::reference::Pattern;

/// The streams of a connection, as an application uses them.
pub trait Streams {
    /// Opens a stream, if the peer allows one now.
    fn open(&mut self) -> Option<StreamId>;

    /// Takes the next stream that the peer opened.
    fn accept(&mut self) -> Option<StreamId>;

    /// Writes; returns how many bytes were accepted, 0 if the stream is full or ended.
    fn write(&mut self, stream: StreamId, data: Bytes) -> usize;

    /// Ends the writing half.
    fn finish(&mut self, stream: StreamId);

    /// Reads at most `most` bytes, in order.
    fn read(&mut self, stream: StreamId, most: usize) -> Read;

    /// Sends a message. A machine without messages refuses it.
    ///
    /// # Errors
    /// If it was not taken.
    fn send_message(
        &mut self,
        now: Instant,
        stream: StreamId,
        data: Bytes,
        options: MessageOptions,
    ) -> Result<MessageToken, SendError> {
        let _ = (now, stream, data, options);
        Err(SendError::NotAgreed)
    }

    /// Takes the next message; `None` if the peer sends bytes, or nothing yet.
    fn receive_message(&mut self, stream: StreamId) -> Option<MessageOutcome> {
        let _ = stream;
        None
    }

    /// Sets the class of a stream; no effect at a machine without classes.
    fn set_class(&mut self, stream: StreamId, class: Class) {
        let _ = (stream, class);
    }
}

/// A message that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// When the application received it.
    pub at: Instant,
    /// Its stream.
    pub stream: StreamId,
    /// The message.
    pub message: Message,
}

/// The result of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Bytes.
    Data(Bytes),
    /// No data now.
    Blocked,
    /// The end of the stream; nothing follows.
    End,
    /// The peer reset the stream with this code.
    Reset(u64),
}

/// An application at one end of a connection. It acts after every event of its host, again while that has an effect, and
/// when it [wakes](Self::wakes_at); it writes the [`Pattern`] of its host.
pub trait Application: fmt::Debug {
    /// Does what can be done now.
    fn act(&mut self, now: Instant, streams: &mut dyn Streams);

    /// When it acts even if nothing happens.
    fn wakes_at(&self) -> Option<Instant> {
        None
    }

    /// Whether it will never act again.
    fn is_done(&self) -> bool;
}

/// Most bytes handed over in one call.
const CHUNK: usize = 64 * 1024;

/// Writes the pattern to one stream. A piece that was not accepted in full is kept, since generating it is expensive.
#[derive(Debug, Default)]
struct PatternWriter {
    written: u64,
    rest: Bytes,
}

impl PatternWriter {
    /// Writes until the stream is full or `total` bytes are written; returns whether they are.
    fn write(&mut self, writer: HostId, streams: &mut dyn Streams, stream: StreamId, total: u64) -> bool {
        while self.written < total {
            if self.rest.is_empty() {
                let length = usize::try_from(total - self.written).unwrap_or(CHUNK).min(CHUNK);
                self.rest = Pattern::new(writer, stream).bytes(self.written, length);
            }
            let accepted = streams.write(stream, self.rest.clone());
            self.written += accepted as u64;
            self.rest.advance(accepted.min(self.rest.len()));
            if !self.rest.is_empty() {
                return false;
            }
        }
        true
    }
}

/// Opens a stream, writes this many bytes, finishes, and reads the answer to its end.
#[derive(Debug)]
pub struct Exchange {
    host: HostId,
    total: u64,
    class: Class,
    writer: PatternWriter,
    state: ExchangeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangeState {
    Waiting,
    Writing(StreamId),
    Reading(StreamId),
    Done,
}

impl Exchange {
    /// Makes an exchange that `host` begins.
    pub fn new(host: HostId, total: ByteCount) -> Self {
        let (writer, state) = (PatternWriter::default(), ExchangeState::Waiting);
        Self { host, total: total.get(), class: Class::default(), writer, state }
    }

    /// Sets the class of its stream; default [`Class::Bulk`].
    #[must_use]
    pub fn class(self, class: Class) -> Self {
        Self { class, ..self }
    }
}

impl Application for Exchange {
    fn act(&mut self, _now: Instant, streams: &mut dyn Streams) {
        if self.state == ExchangeState::Waiting
            && let Some(stream) = streams.open()
        {
            streams.set_class(stream, self.class);
            self.state = ExchangeState::Writing(stream);
        }
        if let ExchangeState::Writing(stream) = self.state
            && self.writer.write(self.host, streams, stream, self.total)
        {
            streams.finish(stream);
            self.state = ExchangeState::Reading(stream);
        }
        if let ExchangeState::Reading(stream) = self.state
            && read_all(streams, stream)
        {
            self.state = ExchangeState::Done;
        }
    }

    fn is_done(&self) -> bool {
        self.state == ExchangeState::Done
    }
}

/// Reads available data; returns whether the stream has ended.
fn read_all(streams: &mut dyn Streams, stream: StreamId) -> bool {
    loop {
        match streams.receive_message(stream) {
            Some(MessageOutcome::Message(_)) => continue,
            Some(MessageOutcome::Blocked) => return false,
            Some(_) => return true,
            None => {}
        }
        match streams.read(stream, CHUNK) {
            Read::Data(_) => {}
            Read::Blocked => return false,
            Read::End | Read::Reset(_) => return true,
        }
    }
}

/// Begins an exchange at each interval, whether or not those before have ended, and measures how long each takes.
#[derive(Debug)]
pub struct Requests {
    host: HostId,
    size: ByteCount,
    interval: Duration,
    left: u32,
    next: Instant,
    running: Vec<(Instant, Exchange)>,
    latencies: Vec<Duration>,
}

impl Requests {
    /// Makes `count` requests of `size` bytes, the first at `start`.
    pub fn new(host: HostId, size: ByteCount, start: Instant, interval: Duration, count: u32) -> Self {
        Self { host, size, interval, left: count, next: start, running: Vec::new(), latencies: Vec::new() }
    }

    /// Time from each request to the end of its answer, in the order of the answers.
    pub fn latencies(&self) -> &[Duration] {
        &self.latencies
    }
}

impl Application for Requests {
    fn act(&mut self, now: Instant, streams: &mut dyn Streams) {
        while self.left > 0 && self.next <= now {
            self.running.push((self.next, Exchange::new(self.host, self.size)));
            self.next += self.interval;
            self.left -= 1;
        }
        for (_, exchange) in &mut self.running {
            exchange.act(now, streams);
        }
        let latencies = &mut self.latencies;
        self.running.retain(|(start, exchange)| {
            if exchange.is_done() {
                latencies.push(now - *start);
            }
            !exchange.is_done()
        });
    }

    fn wakes_at(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.running.is_empty()
    }
}

/// Opens streams at random and writes to them at random, a piece at a time, until a number of bytes is written; then
/// finishes all and reads the answers.
#[derive(Debug)]
pub struct Scribbler {
    host: HostId,
    rng: Rng,
    left: u64,
    writing: BTreeMap<StreamId, PatternWriter>,
    reading: Vec<StreamId>,
    next: Instant,
}

impl Scribbler {
    /// Makes a writer of `total` bytes.
    pub fn new(host: HostId, total: ByteCount, start: Instant, rng: Rng) -> Self {
        Self { host, rng, left: total.get(), writing: BTreeMap::new(), reading: Vec::new(), next: start }
    }

    fn below(&mut self, end: u64) -> u64 {
        u64::try_from((u128::from(self.rng.next_u64()) * u128::from(end)) >> 64).unwrap_or(0)
    }

    fn scribble(&mut self, streams: &mut dyn Streams) {
        if self.writing.len() < 8
            && self.below(4) == 0
            && let Some(stream) = streams.open()
        {
            self.writing.insert(stream, PatternWriter::default());
        }
        let count = self.writing.len() as u64;
        let place = usize::try_from(self.below(count.max(1))).unwrap_or(0);
        // Small pieces are frequent, large ones occur.
        let bound = 1 << self.below(17);
        let length = self.below(bound).min(self.left);
        let ends = self.left == length || self.below(16) == 0;
        let Some((stream, writer)) = self.writing.iter_mut().nth(place) else { return };
        let (stream, before) = (*stream, writer.written);
        writer.write(self.host, streams, stream, before + length);
        // A refused piece is dropped: the next one has its own length.
        writer.rest = Bytes::new();
        self.left -= writer.written - before;
        if ends && self.left > 0 {
            self.writing.remove(&stream);
            streams.finish(stream);
            self.reading.push(stream);
        }
    }
}

impl Application for Scribbler {
    fn act(&mut self, now: Instant, streams: &mut dyn Streams) {
        if self.left > 0 && self.next <= now {
            self.scribble(streams);
            self.next = now + Duration::from_micros(self.below(5_000));
        }
        if self.left == 0 {
            for stream in std::mem::take(&mut self.writing).into_keys() {
                streams.finish(stream);
                self.reading.push(stream);
            }
        }
        self.reading.retain(|stream| !read_all(streams, *stream));
    }

    fn wakes_at(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.writing.is_empty() && self.reading.is_empty()
    }
}

/// Sends messages of random sizes with random options at random times, on streams of its own, finishes them, and reads
/// the answers.
///
/// Each message begins with its number, and has its size as payload protocol.
#[derive(Debug)]
pub struct Messenger {
    rng: Rng,
    left: u32,
    sent: u32,
    next: Instant,
    streams: Vec<StreamId>,
    /// Those whose answers are not read to their end.
    reading: Vec<StreamId>,
    reliable: Arc<Mutex<Vec<u32>>>,
}

/// Streams that a [`Messenger`] uses.
const MESSENGER_STREAMS: usize = 3;

impl Messenger {
    /// Makes a sender of `count` messages.
    pub fn new(count: u32, start: Instant, rng: Rng) -> Self {
        let reliable = Arc::default();
        Self { rng, left: count, sent: 0, next: start, streams: Vec::new(), reading: Vec::new(), reliable }
    }

    /// The numbers of the messages that must arrive, as far as they were sent.
    pub fn reliable(&self) -> Arc<Mutex<Vec<u32>>> {
        Arc::clone(&self.reliable)
    }

    /// The number of a message, if it is complete and unchanged.
    pub fn number_of(message: &Message) -> Option<u32> {
        let (head, rest) = message.data.split_first_chunk()?;
        let as_sent =
            message.protocol as usize == message.data.len() && rest.iter().all(|byte| *byte == head[3]);
        as_sent.then(|| u32::from_be_bytes(*head))
    }

    fn below(&mut self, end: u64) -> u64 {
        u64::try_from((u128::from(self.rng.next_u64()) * u128::from(end)) >> 64).unwrap_or(0)
    }

    fn options(&mut self) -> (MessageOptions, bool) {
        let mut options = MessageOptions::default();
        if self.below(2) == 0 {
            options = options.order(Order::Unordered);
        }
        let is_reliable = self.below(3) > 0;
        if !is_reliable {
            options = options.lifetime(Duration::from_millis(self.below(400)));
            options = options.transmissions(1 + u32::try_from(self.below(3)).unwrap_or(0));
        }
        let class = usize::try_from(self.below(Class::ALL.len() as u64)).unwrap_or(0);
        if let Some(class) = Class::ALL.get(class) {
            options = options.class(*class);
        }
        (options, is_reliable)
    }

    fn send(&mut self, now: Instant, streams: &mut dyn Streams) {
        // Small ones are frequent, large ones occur.
        let bound = 1 << self.below(17);
        let size = 4 + usize::try_from(self.below(bound)).unwrap_or(0);
        let (options, is_reliable) = self.options();
        let place = usize::try_from(self.below(MESSENGER_STREAMS as u64)).unwrap_or(0);
        let Some(stream) = self.streams.get(place).copied() else { return };
        let head = self.sent.to_be_bytes();
        let mut data = head.to_vec();
        data.resize(size, head[3]);
        let options = options.protocol(u32::try_from(size).unwrap_or(u32::MAX));
        self.left -= 1;
        if streams.send_message(now, stream, data.into(), options).is_ok() {
            if is_reliable {
                self.reliable.lock().unwrap_or_else(PoisonError::into_inner).push(self.sent);
            }
            self.sent += 1;
        }
    }
}

impl Application for Messenger {
    fn act(&mut self, now: Instant, streams: &mut dyn Streams) {
        while self.left > 0 && self.streams.len() < MESSENGER_STREAMS {
            let Some(stream) = streams.open() else { return };
            self.streams.push(stream);
        }
        while self.left > 0 && self.next <= now {
            self.send(now, streams);
            let pause = Duration::from_micros(self.below(20_000));
            self.next += pause;
        }
        if self.left == 0 {
            for stream in std::mem::take(&mut self.streams) {
                streams.finish(stream);
                self.reading.push(stream);
            }
        }
        self.reading.retain(|stream| !read_all(streams, *stream));
    }

    fn wakes_at(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.streams.is_empty() && self.reading.is_empty()
    }
}

/// Accepts every stream, reads bytes or messages to their end, answers with this many bytes, and finishes it.
#[derive(Debug)]
pub struct Service {
    host: HostId,
    answer: u64,
    streams: BTreeMap<StreamId, Served>,
    served: u64,
}

#[derive(Debug)]
enum Served {
    Reading,
    Answering(PatternWriter),
    Answered,
}

impl Service {
    /// Makes a service of `host`.
    pub fn new(host: HostId, answer: ByteCount) -> Self {
        Self { host, answer: answer.get(), streams: BTreeMap::new(), served: 0 }
    }

    /// Streams answered in full.
    pub fn served(&self) -> u64 {
        self.served
    }
}

impl Application for Service {
    fn act(&mut self, _now: Instant, streams: &mut dyn Streams) {
        while let Some(stream) = streams.accept() {
            self.streams.insert(stream, Served::Reading);
        }
        for (stream, state) in &mut self.streams {
            if let Served::Reading = state
                && read_all(streams, *stream)
            {
                *state = Served::Answering(PatternWriter::default());
            }
            if let Served::Answering(writer) = state
                && writer.write(self.host, streams, *stream, self.answer)
            {
                streams.finish(*stream);
                *state = Served::Answered;
            }
        }
        let before = self.streams.len();
        self.streams.retain(|_, state| !matches!(state, Served::Answered));
        self.served += (before - self.streams.len()) as u64;
    }

    /// A service is never done.
    fn is_done(&self) -> bool {
        false
    }
}
