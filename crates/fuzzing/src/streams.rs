//! Two ends with streams of bytes and of messages, a network that loses, copies and reorders, and applications that act
//! arbitrarily: the reader gets what the writer wrote, and credit is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use manyway_proto::fuzzing::{StreamPacket, Streams};
use manyway_proto::{
    Instant, Message, MessageOptions, MessageOutcome, Order, ReadOutcome, Side, StreamConfig, StreamEvent,
    StreamId, WriteError,
};

use crate::script::Script;

const MOST_STEPS: usize = 1_000;
/// Most packets in flight; beyond it the oldest is lost.
const MOST_FLYING: usize = 64;
const SIDES: [Side; 2] = [Side::Client, Side::Server];

/// The state of one direction of a stream.
#[derive(Debug, Default)]
struct Half {
    written: u64,
    /// Its size, once the writer has finished it; also if it was reset afterwards.
    finished: Option<u64>,
    /// The writer reset it, or was asked to.
    reset: bool,
    read: u64,
    reader: Reader,
    /// Size of each message that was sent, and whether it may be abandoned.
    sent: Vec<(usize, bool)>,
    received: BTreeSet<u32>,
    last_ordered: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Reader {
    #[default]
    Reading,
    Ended,
    /// It was stopped.
    Stopped,
}

struct Scene {
    ends: [Streams; 2],
    config: StreamConfig,
    /// By the writer and the stream.
    halves: BTreeMap<(usize, StreamId), Half>,
    known: [Vec<StreamId>; 2],
    flying: [Vec<StreamPacket>; 2],
    now: Instant,
}

/// Plays the input, then lets everything arrive and end.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut scene = Scene::new(&mut script);
    for _ in 0..MOST_STEPS {
        let Some(step) = script.step() else { break };
        scene.act(step, &mut script);
    }
    scene.finish();
}

impl Scene {
    fn new(script: &mut Script<'_>) -> Self {
        let mut config = StreamConfig::default();
        config.stream_receive_window = 16 << 10;
        config.connection_receive_window = 16 << (10 + script.u8() % 3);
        config.max_window = 64 << 10;
        config.peer_streams = 1 + u64::from(script.u8() % 8);
        config.send_buffer = 16 << 10;
        config.max_send_buffer = 64 << 10;
        config.max_message = 8 << 10;
        assert_eq!(config.check(), Ok(()));
        let ends = SIDES.map(|side| Streams::new(side, &config, &config));
        let (known, flying) = (Default::default(), Default::default());
        Self { ends, config, halves: BTreeMap::new(), known, flying, now: Instant::from_nanos(0) }
    }

    fn act(&mut self, step: u8, script: &mut Script<'_>) {
        let side = usize::from(step >> 7);
        match step & 0x7f {
            0..=7 => self.open(side),
            8..=15 => {
                self.accept(side);
            }
            16..=39 => self.write(side, script.u8(), usize::from(script.u16() % 20_000)),
            40..=47 => self.send_message(side, script),
            48..=51 => self.with(side, script.u8(), |scene, stream| scene.end_writing(side, stream)),
            52..=53 => self.with(side, script.u8(), |scene, stream| scene.reset(side, stream)),
            54..=55 => self.with(side, script.u8(), |scene, stream| scene.stop(side, stream)),
            56..=61 => self.with(side, script.u8(), |scene, stream| {
                scene.receive(side, stream);
            }),
            62..=71 => {
                let most = usize::from(script.u16());
                self.with(side, script.u8(), |scene, stream| {
                    scene.read(side, stream, most);
                });
            }
            72..=95 => {
                self.send(side, 60 + usize::from(script.u16() % 1400));
            }
            96..=107 => self.arrive(side, script.u8(), Fate::Arrives),
            108..=111 => self.arrive(side, script.u8(), Fate::Copied),
            112..=115 => self.arrive(side, script.u8(), Fate::Lost),
            116..=117 => self.arrive(side, script.u8(), Fate::Suspected),
            118..=119 => self.arrive(side, script.u8(), Fate::Spurious),
            120..=121 => {
                let priority = script.u8().cast_signed();
                self.with(side, script.u8(), |scene, stream| {
                    let _ = scene.ends[side].set_priority(stream, priority);
                });
            }
            122..=124 => {
                self.now += Duration::from_millis(u64::from(script.u8()));
                self.ends[side].on_rtt(self.now, Duration::from_millis(20));
                self.ends[side].expire(self.now);
            }
            _ => self.events(side),
        }
    }

    fn with(&mut self, side: usize, pick: u8, act: impl FnOnce(&mut Self, StreamId)) {
        let known = &self.known[side];
        if let Some(stream) = known.get(usize::from(pick) % known.len().max(1)).copied() {
            act(self, stream);
        }
    }

    fn open(&mut self, side: usize) {
        if let Ok(stream) = self.ends[side].open() {
            self.known[side].push(stream);
            self.halves.insert((side, stream), Half::default());
            self.halves.insert((1 - side, stream), Half::default());
        }
    }

    fn accept(&mut self, side: usize) -> bool {
        let Some(stream) = self.ends[side].accept() else { return false };
        assert!(self.halves.contains_key(&(1 - side, stream)), "{stream} was never opened");
        self.known[side].push(stream);
        true
    }

    fn write(&mut self, side: usize, pick: u8, length: usize) {
        self.with(side, pick, |scene, stream| {
            let half = scene.halves.get_mut(&(side, stream)).unwrap();
            let data: Vec<u8> =
                (half.written..).take(length).map(|offset| pattern(side, stream, offset)).collect();
            match scene.ends[side].write(stream, Bytes::from(data)) {
                Ok(taken) => {
                    assert!(taken <= length && half.finished.is_none() && !half.reset, "{stream} {half:?}");
                    half.written += taken as u64;
                }
                Err(WriteError::Stopped(_)) => half.reset = true,
                Err(_) => {}
            }
        });
    }

    fn send_message(&mut self, side: usize, script: &mut Script<'_>) {
        let (pick, size, how) = (script.u8(), usize::from(script.u16() % 9_000), script.u8());
        self.with(side, pick, |scene, stream| {
            let half = scene.halves.get_mut(&(side, stream)).unwrap();
            let mut options = MessageOptions::default().protocol(u32::try_from(half.sent.len()).unwrap());
            if how & 1 == 1 {
                options = options.order(Order::Unordered);
            }
            if how & 2 == 2 {
                options = options.lifetime(Duration::from_millis(u64::from(how)));
            }
            if how & 4 == 4 {
                options = options.transmissions(1 + u32::from(how >> 6));
            }
            let data: Vec<u8> =
                (0..size as u64).map(|at| pattern(side, stream, half.sent.len() as u64 + at)).collect();
            if scene.ends[side].send_message(scene.now, stream, data.into(), options).is_ok() {
                assert!(size <= 8 << 10 && half.finished.is_none() && !half.reset && half.written == 0);
                half.sent.push((size, how & 6 != 0));
            }
        });
    }

    /// Receives a message; returns false if there is none.
    fn receive(&mut self, side: usize, stream: StreamId) -> bool {
        let half = self.halves.get_mut(&(1 - side, stream)).unwrap();
        match self.ends[side].receive_message(stream) {
            Ok(MessageOutcome::Message(message)) => {
                half.take(1 - side, stream, &message);
                true
            }
            Ok(MessageOutcome::End) => {
                assert!(half.finished.is_some() && half.reader == Reader::Reading, "{stream} {half:?}");
                let missing =
                    (0_u32..).zip(&half.sent).find(|(at, sent)| !sent.1 && !half.received.contains(at));
                assert_eq!(missing, None, "{stream} ended without a message");
                half.reader = Reader::Ended;
                false
            }
            Ok(MessageOutcome::Reset(_)) => {
                assert!(half.reset, "{stream} {half:?}");
                half.reader = Reader::Ended;
                false
            }
            Ok(_) | Err(_) => false,
        }
    }

    fn end_writing(&mut self, side: usize, stream: StreamId) {
        if self.ends[side].finish(stream).is_ok() {
            let half = self.half(side, stream);
            half.finished = Some(half.written);
        }
    }

    fn reset(&mut self, side: usize, stream: StreamId) {
        if self.ends[side].reset(stream, 7).is_ok() {
            self.half(side, stream).reset = true;
        }
    }

    fn stop(&mut self, side: usize, stream: StreamId) {
        if self.ends[side].stop(stream, 8).is_ok() {
            self.half(1 - side, stream).reader = Reader::Stopped;
        }
    }

    fn half(&mut self, writer: usize, stream: StreamId) -> &mut Half {
        self.halves.get_mut(&(writer, stream)).unwrap()
    }

    /// Reads at most this many bytes; returns how many were read.
    fn read(&mut self, side: usize, stream: StreamId, most: usize) -> usize {
        let half = self.halves.get_mut(&(1 - side, stream)).unwrap();
        let outcome = self.ends[side].read(stream, most);
        assert!(half.reader == Reader::Reading || outcome.is_err(), "{stream} {outcome:?} {half:?}");
        match outcome {
            Ok(ReadOutcome::Data(bytes)) => {
                assert!(bytes.len() <= most);
                for (offset, byte) in (half.read..).zip(&bytes) {
                    assert_eq!(*byte, pattern(1 - side, stream, offset), "{stream} at {offset}");
                }
                half.read += bytes.len() as u64;
                assert!(half.read <= half.written, "{stream}: more was read than written");
                bytes.len()
            }
            Ok(ReadOutcome::End) => {
                assert_eq!(half.finished, Some(half.read), "{stream} ended early: {half:?}");
                half.reader = Reader::Ended;
                0
            }
            Ok(ReadOutcome::Reset(_)) => {
                assert!(half.reset, "{stream} {half:?}");
                half.reader = Reader::Ended;
                0
            }
            Ok(_) | Err(_) => 0,
        }
    }

    fn send(&mut self, side: usize, size: usize) -> bool {
        let Some(packet) = self.ends[side].packet(size) else { return false };
        assert!(packet.payload().len() <= size);
        self.flying[side].push(packet);
        if self.flying[side].len() > MOST_FLYING {
            self.arrive(side, 0, Fate::Lost);
        }
        true
    }

    fn arrive(&mut self, side: usize, pick: u8, fate: Fate) {
        let flying = &mut self.flying[side];
        if flying.is_empty() {
            return;
        }
        let at = usize::from(pick) % flying.len();
        let packet = if fate == Fate::Copied { flying[at].clone() } else { flying.remove(at) };
        let (near, far) = (side, 1 - side);
        match fate {
            Fate::Arrives => {
                assert_eq!(self.ends[far].take(packet.payload()), Ok(()));
                self.ends[near].on_delivered(&packet);
            }
            Fate::Copied => assert_eq!(self.ends[far].take(packet.payload()), Ok(())),
            Fate::Lost => self.ends[near].on_lost(&packet),
            Fate::Suspected => {
                self.ends[near].on_lost(&packet);
                self.flying[side].push(packet);
            }
            Fate::Spurious => {
                self.ends[near].on_lost(&packet);
                assert_eq!(self.ends[far].take(packet.payload()), Ok(()));
                self.ends[near].on_delivered(&packet);
            }
        }
    }

    fn events(&mut self, side: usize) {
        let mut told = 0;
        while let Some(event) = self.ends[side].poll_event() {
            told += 1;
            assert!(told < 100_000, "events without end");
            if let StreamEvent::Finished(stream) = event {
                assert!(self.halves[&(side, stream)].finished.is_some(), "{stream} was never finished");
            }
        }
    }

    /// A perfect network and applications that read and finish everything: all streams end.
    fn finish(&mut self) {
        for round in 0.. {
            assert!(round < 20_000, "the streams do not come to an end");
            let mut quiet = true;
            for side in [0, 1] {
                while !self.flying[side].is_empty() {
                    self.arrive(side, 0, Fate::Arrives);
                    quiet = false;
                }
                quiet &= !self.send(side, 1200);
                self.events(side);
                while self.accept(side) {}
                for stream in self.known[side].clone() {
                    quiet &= self.drain(side, stream) == 0;
                    self.end_writing(side, stream);
                }
            }
            if quiet && self.ends.iter().all(Streams::is_idle) && self.flying.iter().all(Vec::is_empty) {
                break;
            }
        }
        for (near, far) in [(0, 1), (1, 0)] {
            let ((used, _), (_, counted)) =
                (self.ends[near].connection_credit(), self.ends[far].connection_credit());
            assert_eq!(used, counted, "both ends count the same credit");
        }
        for ((writer, stream), half) in &self.halves {
            let accepted = self.known[1 - writer].contains(stream);
            assert!(half.reader != Reader::Reading || !accepted, "{stream} has no end: {half:?}");
        }
    }

    fn drain(&mut self, side: usize, stream: StreamId) -> usize {
        let mut total = 0;
        while self.receive(side, stream) {
            total += 1;
        }
        loop {
            let read = self.read(side, stream, 1 << 20);
            total += read;
            assert!(total as u64 <= self.config.max_window, "more was kept than the window allows");
            if read == 0 {
                return total;
            }
        }
    }
}

impl Half {
    /// Checks an arrived message: it is the one that was sent, complete, once and in order.
    fn take(&mut self, writer: usize, stream: StreamId, message: &Message) {
        let name = message.protocol;
        let (size, _) = self.sent[name as usize];
        assert_eq!(message.data.len(), size, "{stream} message {name}");
        for (at, byte) in (u64::from(name)..).zip(&message.data) {
            assert_eq!(*byte, pattern(writer, stream, at), "{stream} message {name}");
        }
        assert!(self.received.insert(name), "{stream} message {name} came twice");
        if message.order == Order::Ordered {
            assert!(self.last_ordered.is_none_or(|last| last < name), "{stream} message {name} is late");
            self.last_ordered = Some(name);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    /// It arrives, and may arrive again.
    Copied,
    Lost,
    /// Its content is reinjected, and it may still arrive.
    Suspected,
    /// It was reported lost and arrives.
    Spurious,
}

/// Bytes that differ from stream to stream and from offset to offset.
fn pattern(writer: usize, stream: StreamId, offset: u64) -> u8 {
    let mixed = (offset * 7 + offset / 256) ^ (stream.0 * 31) ^ (writer as u64 * 97);
    mixed.to_le_bytes()[0]
}
