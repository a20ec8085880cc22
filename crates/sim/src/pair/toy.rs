//! A minimal protocol to test the harness: datagrams are acknowledged one by one, retransmitted after a fixed time, on
//! the paths in turn.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use manyway_proto::{ConnectionError, Ecn, FourTuple, PathId, StreamId, Transmit};

use super::*;
use crate::traffic::Read;

const PAYLOAD: usize = 1_200;
const WINDOW: usize = 60;
const REPEAT: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct Toy {
    side: Option<Side>,
    connected: bool,
    tuples: Vec<FourTuple>,
    turn: usize,
    out: VecDeque<(FourTuple, Vec<u8>)>,
    streams: BTreeMap<StreamId, ToyStream>,
    opened: VecDeque<StreamId>,
    next_stream: u64,
    /// In flight: by stream and offset.
    flying: BTreeMap<(StreamId, u64), Flight>,
    pub(super) cheat: Option<Cheat>,
}

/// Violations that the harness must find.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cheat {
    /// Delivers bytes without regard to their offset.
    Order,
    /// Requests an immediate call, for ever.
    Deadline,
    /// Ignores the window.
    Window,
}

#[derive(Debug)]
struct Flight {
    data: Vec<u8>,
    at: Instant,
}

#[derive(Debug, Default)]
struct ToyStream {
    unsent: VecDeque<u8>,
    sent: u64,
    finished: bool,
    end_sent: bool,
    received: BTreeMap<u64, (Vec<u8>, bool)>,
    read: u64,
    end: Option<u64>,
}

impl Toy {
    pub(super) fn new(side: Side) -> Self {
        Self { side: Some(side), ..Self::default() }
    }

    fn next_tuple(&mut self) -> Option<FourTuple> {
        self.turn += 1;
        self.tuples.get(self.turn % self.tuples.len().max(1)).copied()
    }

    fn encode(kind: u8, stream: StreamId, offset: u64, end: bool, data: &[u8]) -> Vec<u8> {
        let mut out = vec![kind];
        out.extend(stream.0.to_be_bytes());
        out.extend(offset.to_be_bytes());
        out.push(end.into());
        out.extend(data);
        // A checksum, since corrupted packets must not count.
        let sum = out.iter().fold(7_u32, |sum, byte| sum.rotate_left(5).wrapping_add(u32::from(*byte)));
        out.extend(sum.to_be_bytes());
        out
    }
}

impl Node for Toy {
    fn handle_datagram(&mut self, _now: Instant, tuple: FourTuple, _ecn: Ecn, datagram: &mut [u8]) {
        let (content, sum) = datagram.split_at(datagram.len() - 4);
        let stream = StreamId(u64::from_be_bytes(content[1..9].try_into().unwrap()));
        let offset = u64::from_be_bytes(content[9..17].try_into().unwrap());
        let (end, data) = (content[17] == 1, &content[18..]);
        if Self::encode(content[0], stream, offset, end, data)[content.len()..] != *sum {
            return;
        }
        if self.side == Some(Side::Server) && !self.tuples.contains(&tuple) {
            self.tuples.push(tuple);
        }
        self.connected = true;
        match content[0] {
            0 => self.out.push_back((tuple, Self::encode(1, stream, 0, false, &[]))),
            2 => {
                self.out.push_back((tuple, Self::encode(3, stream, offset, false, &[])));
                if !self.streams.contains_key(&stream) {
                    self.opened.push_back(stream);
                }
                let stream = self.streams.entry(stream).or_default();
                if offset >= stream.read {
                    stream.received.insert(offset, (data.to_vec(), end));
                }
            }
            3 => drop(self.flying.remove(&(stream, offset))),
            _ => {}
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let window = if self.cheat == Some(Cheat::Window) { usize::MAX } else { WINDOW * self.tuples.len() };
        while self.out.is_empty() && self.connected && self.flying.len() < window {
            let Some((id, stream)) = self
                .streams
                .iter_mut()
                .find(|(_, stream)| !stream.unsent.is_empty() || (stream.finished && !stream.end_sent))
            else {
                break;
            };
            let length = stream.unsent.len().min(PAYLOAD);
            let data: Vec<u8> = stream.unsent.drain(..length).collect();
            let end = stream.finished && stream.unsent.is_empty();
            stream.end_sent = end;
            let (id, offset) = (*id, stream.sent);
            stream.sent += length as u64;
            let data = Self::encode(2, id, offset, end, &data);
            let tuple = self.next_tuple()?;
            // The offset of an end without bytes is not shared: it is after the last byte.
            self.flying.insert((id, offset), Flight { data: data.clone(), at: now });
            self.out.push_back((tuple, data));
        }
        let (tuple, data) = self.out.pop_front()?;
        buffer.extend(&data);
        Some(Transmit { tuple, length: data.len(), segment: data.len(), ecn: Ecn::NotEct })
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        if self.cheat == Some(Cheat::Deadline) {
            return Some(crate::Clock::START);
        }
        self.flying.values().map(|flight| flight.at + REPEAT).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        let mut late = Vec::new();
        for flight in self.flying.values_mut().filter(|flight| flight.at + REPEAT <= now) {
            flight.at = now;
            late.push(flight.data.clone());
        }
        for data in late {
            if let Some(tuple) = self.next_tuple() {
                self.out.push_back((tuple, data));
            }
        }
    }

    fn handle_send_error(&mut self, _now: Instant, local: LocalAddress) {
        self.tuples.retain(|tuple| tuple.local != local);
    }
}

impl Peer for Toy {
    fn connect(
        &mut self,
        now: Instant,
        locals: &[LocalAddress],
        remotes: &[SocketAddr],
    ) -> Result<(), String> {
        let remote = *remotes.first().ok_or("no remote")?;
        self.tuples = locals.iter().map(|local| FourTuple::udp(*local, remote)).collect();
        let hello = Self::encode(0, StreamId(u64::MAX), 0, false, &[]);
        self.out.extend(self.tuples.iter().map(|tuple| (*tuple, hello.clone())));
        // Retransmitted until an answer arrives.
        self.flying.insert((StreamId(u64::MAX), 0), Flight { data: hello, at: now });
        Ok(())
    }

    fn absorb_events(&mut self, _now: Instant) {
        if self.connected {
            self.flying.remove(&(StreamId(u64::MAX), 0));
        }
    }

    fn streams(&mut self) -> Option<&mut dyn Streams> {
        if self.connected { Some(self) } else { None }
    }

    fn ended(&self) -> Option<&ConnectionError> {
        None
    }

    fn figures(&self, _now: Instant, out: &mut Vec<PathFigures>) {
        out.push(PathFigures {
            path: PathId(0),
            sent: ByteCount::ZERO,
            received: ByteCount::ZERO,
            in_flight: ByteCount::of(self.flying.len() * PAYLOAD),
            window: ByteCount::of(self.tuples.len() * WINDOW * PAYLOAD),
            datagram: ByteCount::of(PAYLOAD),
        });
    }

    fn set_addresses(&mut self, _now: Instant, locals: &[LocalAddress]) {
        let Some(remote) = self.tuples.first().map(|tuple| tuple.remote) else { return };
        self.tuples = locals.iter().map(|local| FourTuple::udp(*local, remote)).collect();
    }
}

impl Streams for Toy {
    fn open(&mut self) -> Option<StreamId> {
        let side = if self.side == Some(Side::Client) { 0 } else { 1 };
        let id = StreamId(self.next_stream * 2 + side);
        self.next_stream += 1;
        self.streams.insert(id, ToyStream::default());
        Some(id)
    }

    fn accept(&mut self) -> Option<StreamId> {
        self.opened.pop_front()
    }

    fn write(&mut self, stream: StreamId, data: Bytes) -> usize {
        let stream = self.streams.get_mut(&stream).unwrap();
        let length = data.len().min(200_000_usize.saturating_sub(stream.unsent.len()));
        stream.unsent.extend(&data[..length]);
        length
    }

    fn finish(&mut self, stream: StreamId) {
        self.streams.get_mut(&stream).unwrap().finished = true;
    }

    fn read(&mut self, stream: StreamId, _most: usize) -> Read {
        let cheats = self.cheat == Some(Cheat::Order);
        let stream = self.streams.get_mut(&stream).unwrap();
        if let Some(end) = stream.end.filter(|end| *end == stream.read) {
            assert_eq!(end, stream.read);
            return Read::End;
        }
        let next = stream.received.keys().next().copied().filter(|offset| *offset == stream.read || cheats);
        let Some((data, end)) = next.and_then(|offset| stream.received.remove(&offset)) else {
            return Read::Blocked;
        };
        stream.read += data.len() as u64;
        if end {
            stream.end = Some(stream.read);
        }
        if data.is_empty() { Read::End } else { Read::Data(Bytes::from(data)) }
    }
}
