//! One receiving half: complete messages in order, as bytes or as messages, and the end (spec 3.90 to 3.94, 3.144).

use std::collections::VecDeque;

use manyway_wire::StreamId;
use manyway_wire::mmsp1::{BYTES, BYTES_END, StreamEnd};

use crate::mmsp1::reassembly::Whole;
use crate::mmsp1::window::Freed;
use crate::{Carries, Message, MessageOutcome, Misuse, Order, ReadOutcome};

/// What the application may do with the half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It reads, up to the end if there is one.
    Open,
    /// The peer abandoned the half; the application does not know yet.
    Reset(u64),
    /// It was told the end.
    Told,
    /// It reads no more: what comes is dropped.
    Stopped,
}

/// One receiving half.
#[derive(Debug)]
pub(super) struct Incoming {
    carries: Carries,
    /// Never empty messages.
    ready: VecDeque<Whole>,
    /// Bytes, or messages, that came.
    total: u64,
    end: Option<StreamEnd>,
    state: State,
    /// Whether the application waits for an event before it reads again.
    wants_event: bool,
    /// Whether an event about a reset is due.
    resets: bool,
}

impl Incoming {
    /// Starts; a half on which the peer cannot send has ended.
    pub(super) fn new(exists: bool) -> Self {
        let end = (!exists).then_some(StreamEnd { code: 0, total: 0 });
        let (ready, carries) = (VecDeque::new(), Carries::Nothing);
        Self { carries, ready, total: 0, end, state: State::Open, wants_event: true, resets: false }
    }

    pub(super) fn carries(&self) -> Carries {
        self.carries
    }

    /// Whether all that the peer sends on the half has come: what follows belongs to the next use of the stream.
    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| self.total >= end.total || self.carries == Carries::Bytes)
    }

    /// Whether the end came. Unordered messages before it may still be missing.
    pub(super) fn has_end(&self) -> bool {
        self.end.is_some()
    }

    /// Whether the application gets this as a message.
    pub(super) fn is_message(&self, whole: &Whole) -> bool {
        self.state == State::Open && !matches!(whole.protocol, BYTES | BYTES_END) && !whole.data.is_empty()
    }

    /// Whether the application reads no more and the peer sends no more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Told | State::Stopped) && self.is_complete()
    }

    /// The code with which the peer abandoned the half. Once.
    pub(super) fn take_reset(&mut self) -> Option<u64> {
        match self.state {
            State::Reset(code) => std::mem::take(&mut self.resets).then_some(code),
            State::Open | State::Told | State::Stopped => None,
        }
    }

    /// Takes a message in its order. Returns what is free again because the application reads the stream no more.
    pub(super) fn take(&mut self, whole: Whole) -> Freed {
        let cost = Freed { bytes: whole.data.len() as u64, memory: whole.cost() };
        if whole.data.is_empty() {
            return cost;
        }
        let is_ordered = whole.sseq.is_some();
        match whole.protocol {
            BYTES_END if is_ordered => cost + self.take_end(StreamEnd::decode(&whole.data).ok()),
            BYTES | BYTES_END if !is_ordered || self.carries == Carries::Messages => {
                cost + self.abandon(StreamEnd { code: 1, total: 0 })
            }
            BYTES => self.put(whole, Carries::Bytes, cost),
            _ if self.carries == Carries::Bytes => cost + self.abandon(StreamEnd { code: 1, total: 0 }),
            _ => self.put(whole, Carries::Messages, cost),
        }
    }

    fn put(&mut self, whole: Whole, carries: Carries, cost: Freed) -> Freed {
        self.carries = carries;
        self.total += if carries == Carries::Bytes { cost.bytes } else { 1 };
        if self.state != State::Open {
            return cost;
        }
        self.ready.push_back(whole);
        Freed::default()
    }

    /// The end came, in order. Unordered messages before it may still be missing.
    fn take_end(&mut self, end: Option<StreamEnd>) -> Freed {
        // spec 3.93: an end that contradicts what came counts as abandoned.
        let contradicts = |end: &StreamEnd| match self.carries {
            Carries::Bytes => end.total != self.total,
            Carries::Nothing | Carries::Messages => end.total < self.total,
        };
        match end {
            Some(end) if end.code == 0 && !contradicts(&end) => {
                self.end = Some(end);
                Freed::default()
            }
            Some(end) => self.abandon(StreamEnd { code: end.code.max(1), ..end }),
            None => self.abandon(StreamEnd { code: 1, total: self.total }),
        }
    }

    fn abandon(&mut self, end: StreamEnd) -> Freed {
        self.end = self.end.or(Some(end));
        if self.state == State::Open {
            self.state = State::Reset(end.code - 1);
            self.resets = true;
        }
        self.drop_ready()
    }

    /// The application reads no more.
    pub(super) fn stop(&mut self, stream: StreamId) -> Result<Freed, Misuse> {
        match self.state {
            State::Open | State::Reset(_) => self.state = State::Stopped,
            State::Told | State::Stopped => return Err(Misuse::ReceivingEnded { stream }),
        }
        Ok(self.drop_ready())
    }

    fn drop_ready(&mut self) -> Freed {
        let freed = |whole: Whole| Freed { bytes: whole.data.len() as u64, memory: whole.cost() };
        self.ready.drain(..).map(freed).fold(Freed::default(), |sum, freed| sum + freed)
    }

    /// Reads the next bytes, at most `max`.
    pub(super) fn read(&mut self, stream: StreamId, max: usize) -> Result<(ReadOutcome, Freed), Misuse> {
        if self.carries == Carries::Messages {
            return Err(Misuse::CarriesMessages { stream });
        }
        match self.next(stream)? {
            Ready::Data => Ok(self.read_bytes(max)),
            Ready::Blocked => Ok((ReadOutcome::Blocked, Freed::default())),
            Ready::End => Ok((ReadOutcome::End, Freed::default())),
            Ready::Reset(code) => Ok((ReadOutcome::Reset(code), Freed::default())),
        }
    }

    fn read_bytes(&mut self, max: usize) -> (ReadOutcome, Freed) {
        let Some(first) = self.ready.front_mut() else { return (ReadOutcome::Blocked, Freed::default()) };
        let cost = first.cost();
        let data = first.data.split_to(first.data.len().min(max));
        let mut freed = Freed { bytes: data.len() as u64, memory: data.len() as u64 };
        if first.data.is_empty() {
            freed.memory = cost;
            self.ready.pop_front();
        }
        (ReadOutcome::Data(data), freed)
    }

    /// Reads the next message.
    pub(super) fn receive(&mut self, stream: StreamId) -> Result<(MessageOutcome, Freed), Misuse> {
        if self.carries == Carries::Bytes {
            return Err(Misuse::CarriesBytes { stream });
        }
        let outcome = match self.next(stream)? {
            Ready::Data => match self.ready.pop_front() {
                Some(whole) => {
                    let freed = Freed { bytes: whole.data.len() as u64, memory: whole.cost() };
                    return Ok((MessageOutcome::Message(message(whole)), freed));
                }
                None => MessageOutcome::Blocked,
            },
            Ready::Blocked => MessageOutcome::Blocked,
            Ready::End => MessageOutcome::End,
            Ready::Reset(code) => MessageOutcome::Reset(code),
        };
        Ok((outcome, Freed::default()))
    }

    /// The size of the next message, if one waits.
    pub(super) fn next_message(&self) -> Option<usize> {
        let first = self.ready.front().filter(|_| self.carries == Carries::Messages);
        first.map(|whole| whole.data.len())
    }

    fn next(&mut self, stream: StreamId) -> Result<Ready, Misuse> {
        match self.state {
            State::Told | State::Stopped => Err(Misuse::ReceivingEnded { stream }),
            State::Reset(code) => {
                self.state = State::Told;
                Ok(Ready::Reset(code))
            }
            State::Open if !self.ready.is_empty() => Ok(Ready::Data),
            State::Open if self.is_complete() => {
                self.state = State::Told;
                Ok(Ready::End)
            }
            State::Open => {
                self.wants_event = true;
                Ok(Ready::Blocked)
            }
        }
    }

    /// Whether something became readable after a read that found nothing. True once.
    pub(super) fn take_readable(&mut self) -> bool {
        let is_readable = match self.state {
            State::Open => !self.ready.is_empty() || self.is_complete(),
            State::Reset(_) => true,
            State::Told | State::Stopped => false,
        };
        is_readable && std::mem::take(&mut self.wants_event)
    }

    /// Whether bytes are expected before the end.
    pub(super) fn expects_more(&self) -> bool {
        self.state == State::Open && self.carries != Carries::Messages && !self.is_complete()
    }
}

enum Ready {
    Data,
    Blocked,
    End,
    Reset(u64),
}

fn message(whole: Whole) -> Message {
    let order = if whole.sseq.is_some() { Order::Ordered } else { Order::Unordered };
    Message { data: whole.data, protocol: whole.protocol, order }
}
