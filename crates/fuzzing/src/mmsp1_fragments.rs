//! The reassembly of MMSP/1: messages of an honest sender in any order and repeated, with hostile DATA blocks between
//! them. The honest ones arrive as they were sent as long as no forged block came, and memory stays within its bound.

use std::collections::BTreeMap;

use bytes::Bytes;
use manyway_proto::fuzzing::{Arrivals, DataFate};
use manyway_proto::{MessageOutcome, Order, ReadOutcome, StreamConfig, StreamId};
use manyway_wire::Writer;
use manyway_wire::mmsp1::{BYTES, BYTES_END, Block, Blocks, Data, Fragment, Sack, Sseq, StreamEnd, Tseq};

use crate::script::Script;

/// Most steps of one input; more find nothing new.
const MOST_STEPS: usize = 400;
const WINDOW: u64 = 16 << 10;
const STREAMS: u16 = 3;
/// Memory of a block beside its data.
const OVERHEAD: u64 = 128;
/// Bytes that an honest sender has on their way: no block of its is dropped.
const ON_THE_WAY: u64 = WINDOW / 2;

/// Plays the input, and delivers the rest if no block was forged.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut scene = Scene::new(&mut script);
    for _ in 0..MOST_STEPS {
        let Some(step) = script.step() else { break };
        scene.act(step, &mut script);
        if scene.is_broken {
            return;
        }
        scene.check();
    }
    scene.finish();
}

/// A DATA block with its content.
#[derive(Debug, Clone)]
struct Sent {
    tseq: u32,
    stream: u16,
    sseq: u16,
    protocol: u32,
    unordered: bool,
    fragment: Fragment,
    data: Vec<u8>,
}

struct Scene {
    arrivals: Arrivals,
    initial: u32,
    /// Blocks of the honest sender so far.
    given: u32,
    /// Those that have not arrived.
    travelling: Vec<Sent>,
    on_the_way: u64,
    /// Copies of those that have.
    arrived: Vec<Sent>,
    /// By stream: the next SSEQ, and whether the stream carries bytes (then how many), or messages.
    streams: [StreamState; STREAMS as usize],
    /// The protocol of the next message, which names it.
    named: u32,
    /// By protocol: stream, order and content of each message that was not read.
    messages: BTreeMap<u32, (u16, bool, Vec<u8>)>,
    known: Vec<StreamId>,
    read: BTreeMap<StreamId, Vec<u8>>,
    last_ordered: BTreeMap<StreamId, u32>,
    lied: bool,
    is_broken: bool,
    blocks: u64,
}

#[derive(Debug, Clone, Default)]
struct StreamState {
    sseq: u16,
    /// Bytes or messages so far; `None` before the first.
    kind: Option<Kind>,
    bytes: Vec<u8>,
    messages: u64,
    ended: bool,
    stopped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bytes,
    Messages,
}

impl Scene {
    fn new(script: &mut Script<'_>) -> Self {
        let mut config = StreamConfig::default();
        config.connection_receive_window = WINDOW;
        config.stream_receive_window = WINDOW;
        config.max_window = WINDOW;
        let initial = u32::MAX - u32::from(script.u8());
        Self {
            arrivals: Arrivals::new(&config, Tseq(initial), STREAMS),
            initial,
            given: 0,
            travelling: Vec::new(),
            on_the_way: 0,
            arrived: Vec::new(),
            streams: Default::default(),
            named: 0,
            messages: BTreeMap::new(),
            known: Vec::new(),
            read: BTreeMap::new(),
            last_ordered: BTreeMap::new(),
            lied: false,
            is_broken: false,
            blocks: 0,
        }
    }

    fn act(&mut self, step: u8, script: &mut Script<'_>) {
        let stream = u16::from(step >> 5) % STREAMS;
        match step & 0x1f {
            0..=4 => self.send(stream, script),
            5 | 6 => self.send_bytes(stream, script),
            7 => self.end(stream),
            8..=15 => {
                if let Some(at) = usize::from(script.u8()).checked_rem(self.travelling.len()) {
                    self.deliver(at);
                }
            }
            16 => (0..self.travelling.len()).for_each(|_| self.deliver(0)),
            17 => {
                if let Some(at) = usize::from(script.u8()).checked_rem(self.arrived.len()) {
                    let again = self.arrived[at].clone();
                    let fate = self.take(&again);
                    assert!(self.lied || fate == DataFate::Duplicate, "{again:?} {fate:?}");
                }
            }
            18..=21 => {
                self.known.extend(std::iter::from_fn(|| self.arrivals.accept()));
                self.events();
            }
            22..=24 => {
                self.accept_and_drain();
                if self.travelling.is_empty() && !self.lied {
                    self.on_the_way = 0;
                }
            }
            25 => {
                self.sack(16 + usize::from(script.u8()));
            }
            26 => {
                if let Some(at) = usize::from(script.u8()).checked_rem(self.known.len()) {
                    let stream = self.known[at];
                    let is_stopped = self.arrivals.stop(stream).is_ok();
                    let at = usize::try_from(stream.0).unwrap();
                    if let Some(state) = self.streams.get_mut(at).filter(|_| is_stopped) {
                        state.stopped = true;
                    }
                }
            }
            27 => {
                for stream in self.known.clone() {
                    self.arrivals.write(stream, Bytes::from_static(b"answer"));
                    self.arrivals.finish(stream);
                }
            }
            28 | 29 => self.change_one(script),
            _ => self.lie(script),
        }
    }

    /// Cuts a message into fragments.
    fn send(&mut self, stream: u16, script: &mut Script<'_>) {
        let (how, fragments) = (script.u8(), 1 + usize::from(script.u8() % 8));
        let unordered = how & 1 == 1;
        let state = &self.streams[usize::from(stream)];
        if state.ended || state.kind == Some(Kind::Bytes) {
            return;
        }
        let sizes: Vec<usize> = (0..fragments).map(|_| 1 + usize::from(script.u8())).collect();
        let protocol = self.named;
        let content: Vec<u8> = (0..sizes.iter().sum()).map(|at| pattern(protocol, at)).collect();
        if !self.fits(content.len(), fragments) {
            return;
        }
        self.named += 1;
        let state = &mut self.streams[usize::from(stream)];
        state.kind = Some(Kind::Messages);
        state.messages += 1;
        let sseq = if unordered { 0 } else { state.sseq };
        state.sseq = state.sseq.wrapping_add(u16::from(!unordered));
        self.cut(stream, (sseq, unordered, protocol), &content, &sizes);
        self.messages.insert(protocol, (stream, unordered, content));
    }

    fn fits(&mut self, length: usize, fragments: usize) -> bool {
        let cost = length as u64 + OVERHEAD * (1 + fragments as u64);
        let fits = self.on_the_way + cost <= ON_THE_WAY;
        self.on_the_way += if fits { cost } else { 0 };
        fits
    }

    fn cut(
        &mut self,
        stream: u16,
        (sseq, unordered, protocol): (u16, bool, u32),
        content: &[u8],
        sizes: &[usize],
    ) {
        let mut rest = content;
        for (at, size) in sizes.iter().enumerate() {
            let (data, left) = rest.split_at(*size);
            rest = left;
            let fragment = match (at == 0, at + 1 == sizes.len()) {
                (true, true) => Fragment::Whole,
                (true, false) => Fragment::First,
                (false, true) => Fragment::Last,
                (false, false) => Fragment::Middle,
            };
            let tseq = self.initial.wrapping_add(self.given);
            self.given += 1;
            self.travelling.push(Sent {
                tseq,
                stream,
                sseq,
                protocol,
                unordered,
                fragment,
                data: data.to_vec(),
            });
        }
    }

    fn send_bytes(&mut self, stream: u16, script: &mut Script<'_>) {
        let sizes: Vec<usize> = (0..=script.u8() % 4).map(|_| 1 + usize::from(script.u8())).collect();
        let state = &self.streams[usize::from(stream)];
        if state.ended || state.kind == Some(Kind::Messages) || !self.fits(sizes.iter().sum(), sizes.len()) {
            return;
        }
        let state = &mut self.streams[usize::from(stream)];
        state.kind = Some(Kind::Bytes);
        let begin = state.bytes.len();
        let content: Vec<u8> =
            (0..sizes.iter().sum()).map(|at| pattern(u32::from(stream), begin + at)).collect();
        state.bytes.extend(&content);
        let sseq = state.sseq;
        state.sseq = state.sseq.wrapping_add(1);
        self.cut(stream, (sseq, false, BYTES), &content, &sizes);
    }

    /// Ends a stream, of bytes or of messages.
    fn end(&mut self, stream: u16) {
        if self.streams[usize::from(stream)].ended || !self.fits(16, 1) {
            return;
        }
        let state = &mut self.streams[usize::from(stream)];
        state.ended = true;
        let total = match state.kind {
            Some(Kind::Messages) => state.messages,
            Some(Kind::Bytes) | None => state.bytes.len() as u64,
        };
        let sseq = state.sseq;
        state.sseq = state.sseq.wrapping_add(1);
        let mut content = Vec::new();
        StreamEnd { code: 0, total }.encode(&mut Writer::new(&mut content, StreamEnd::LEN));
        self.cut(stream, (sseq, false, BYTES_END), &content, &[content.len()]);
    }

    fn deliver(&mut self, at: usize) {
        let sent = self.travelling.remove(at);
        let fate = self.take(&sent);
        match fate {
            DataFate::Dropped => {
                assert!(self.lied, "{sent:?} was dropped");
                self.travelling.push(sent);
            }
            DataFate::Duplicate | DataFate::Reported | DataFate::Broken => {
                assert!(self.lied, "{sent:?} {fate:?}");
            }
            DataFate::Taken => self.arrived.push(sent),
        }
    }

    fn take(&mut self, sent: &Sent) -> DataFate {
        self.blocks += 1;
        let Sent { tseq, stream, sseq, protocol, unordered, fragment, .. } = *sent;
        let (tseq, sseq, data) = (Tseq(tseq), Sseq(sseq), &sent.data[..]);
        let fate = self.arrivals.on_data(&Data { tseq, stream, sseq, protocol, unordered, fragment, data });
        if fate == DataFate::Broken {
            assert!(self.lied, "{sent:?} ended the connection");
            self.is_broken = true;
        }
        fate
    }

    /// A block of the honest sender with one field changed.
    fn change_one(&mut self, script: &mut Script<'_>) {
        let Some(at) = usize::from(script.u8()).checked_rem(self.travelling.len()) else { return };
        let mut sent = self.travelling[at].clone();
        match script.u8() % 8 {
            0 => sent.tseq = sent.tseq.wrapping_add(u32::from(script.u8())),
            1 => sent.tseq = sent.tseq.wrapping_sub(u32::from(script.u8())),
            2 => sent.stream = script.u16() % 8,
            3 => sent.sseq = script.u16(),
            4 => sent.unordered ^= true,
            5 => sent.fragment = fragment(script.u8()),
            6 => sent.protocol = protocol(script),
            _ => sent.data = script.bytes().to_vec(),
        }
        self.lied = true;
        self.take(&sent);
    }

    /// A block of anything.
    fn lie(&mut self, script: &mut Script<'_>) {
        self.lied = true;
        let near = self.initial.wrapping_add(self.given);
        let tseq = match script.u8() {
            0 => script.u32(),
            ahead @ 1..=127 => near.wrapping_add(ahead.into()),
            behind => near.wrapping_sub(u32::from(behind) - 128),
        };
        let (flags, sseq) = (script.u8(), script.u16());
        let stream = u16::from(flags >> 5);
        let data =
            if flags & 8 == 8 { vec![7; usize::from(script.u16() % 2048)] } else { script.bytes().to_vec() };
        let (unordered, fragment) = (flags & 4 == 4, fragment(flags));
        self.take(&Sent { tseq, stream, sseq, protocol: protocol(script), unordered, fragment, data });
    }

    /// However hostile the peer, what waits for earlier data takes at most four times the window.
    fn check(&self) {
        assert!(self.arrivals.ahead() <= 4 * WINDOW, "{}", self.arrivals.ahead());
    }

    fn sack(&mut self, room: usize) {
        let bytes = self.arrivals.sack(room);
        assert!(bytes.len() <= room);
        let Some(block) = Blocks::new(&bytes).next() else { return };
        let Ok(Block::Sack(sack)) = block else { unreachable!("{block:?}") };
        assert!(sack.ranges.offsets().len() <= Sack::MAX_RANGES);
        let mut end = 0;
        for range in sack.ranges.offsets() {
            assert!(u32::from(*range.start()) > end + 1, "ranges ascend, with gaps between: {sack:?}");
            end = u32::from(*range.end());
        }
        if !self.lied {
            let in_sequence = sack.ack.since(Tseq(self.initial).minus(1));
            let missing = self.travelling.iter().map(|sent| sent.tseq.wrapping_sub(self.initial)).min();
            assert_eq!(in_sequence, missing.unwrap_or(self.given), "{sack:?}");
        }
    }

    fn events(&mut self) {
        let mut count = 0_u64;
        while self.arrivals.poll_event().is_some() {
            count += 1;
            assert!(count <= 4 * (self.blocks + 16), "events without end");
        }
    }

    fn accept_and_drain(&mut self) {
        self.known.extend(std::iter::from_fn(|| self.arrivals.accept()));
        for stream in self.known.clone() {
            self.drain(stream);
        }
    }

    fn drain(&mut self, stream: StreamId) {
        let mut count = 0_u64;
        while let Ok(MessageOutcome::Message(message)) = self.arrivals.receive_message(stream) {
            count += 1;
            assert!(count <= self.blocks && !message.data.is_empty());
            if self.lied {
                continue;
            }
            let (number, unordered, content) = self.messages.remove(&message.protocol).unwrap();
            assert_eq!((u64::from(number), &content[..]), (stream.0, &message.data[..]));
            assert_eq!(message.order == Order::Unordered, unordered);
            if !unordered {
                let last = self.last_ordered.insert(stream, message.protocol);
                assert!(last.is_none_or(|last| last < message.protocol), "out of order");
            }
        }
        while let Ok(ReadOutcome::Data(bytes)) = self.arrivals.read(stream, 100) {
            assert!(!bytes.is_empty() && bytes.len() <= 100);
            let read = self.read.entry(stream).or_default();
            read.extend_from_slice(&bytes);
            if !self.lied {
                let all = &self.streams[usize::try_from(stream.0).unwrap()].bytes;
                assert_eq!(all.get(..read.len()), Some(&read[..]), "{stream}");
            }
        }
    }

    /// Everything arrives, and is read.
    fn finish(mut self) {
        for _ in 0..4 {
            (0..self.travelling.len()).for_each(|_| {
                if !self.is_broken {
                    self.deliver(0);
                }
            });
            if self.is_broken {
                return;
            }
            self.accept_and_drain();
            self.events();
            self.check();
        }
        if self.lied {
            return;
        }
        assert!(self.travelling.is_empty() && self.arrivals.ahead() == 0);
        let is_read = |stream: u16| !self.streams[usize::from(stream)].stopped;
        let left: Vec<_> = self.messages.values().filter(|(stream, ..)| is_read(*stream)).collect();
        assert!(left.is_empty(), "messages were lost: {left:?}");
        for (number, state) in (0_u16..).zip(&self.streams) {
            let read = self.read.get(&StreamId(number.into())).map_or(0, Vec::len);
            assert!(state.stopped || read == state.bytes.len(), "stream {number}: {read}");
        }
    }
}

fn fragment(flags: u8) -> Fragment {
    [Fragment::Whole, Fragment::First, Fragment::Middle, Fragment::Last][usize::from(flags % 4)]
}

fn protocol(script: &mut Script<'_>) -> u32 {
    match script.u8() % 4 {
        0 => BYTES,
        1 => BYTES_END,
        _ => script.u32(),
    }
}

fn pattern(name: u32, at: usize) -> u8 {
    (name as usize * 7 + at).to_le_bytes()[0]
}
