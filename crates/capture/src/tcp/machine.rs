//! One TCP connection that a program has opened (RFC 9293). It does nothing of its own accord: packets, calls and the clock
//! move it.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::receiving::Receiver;
use super::segment::{Control, Ends, Segment};
use super::sending::{Piece, Sender};
use super::sequence::Numbering;

/// Takes the packets for programs. It must not wait; what cannot be passed on is lost.
pub(super) struct Output(Box<SendPacket>);

type SendPacket = dyn Fn(&[u8]) + Send + Sync;

impl Output {
    pub(super) fn new(send: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self(Box::new(send))
    }

    pub(super) fn send(&self, packet: &[u8]) {
        (self.0)(packet);
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output")
    }
}

/// When a connection needs attention again without a packet or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    At(Instant),
    /// Never: neither end expects a packet.
    Over,
}

/// A connection from the program's first segment on.
#[derive(Debug)]
pub(super) struct Machine {
    ends: Ends,
    /// Numbers of what goes to the program, and of what comes from it.
    outgoing: Numbering,
    incoming: Numbering,
    sender: Sender,
    receiver: Receiver,
    mtu: u16,
    /// By how many bits windows are scaled: the program's, and ours, if the program scales.
    scales: Option<(u8, u8)>,
    /// The edge of the receiver when the program was told of it last.
    announced: u64,
    owes_acknowledgement: bool,
    is_reset: bool,
    /// When the program was heard last, and when it was probed since.
    heard: Instant,
    probed: Instant,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Waits for a reset.
    watcher: Option<Waker>,
}

impl Machine {
    /// Takes a segment that opens a connection; [`Machine::flush`] accepts it. `room` bytes are buffered in each direction.
    pub(super) fn new(ends: Ends, first: &Segment<'_>, mtu: u16, room: usize) -> Self {
        let scales = first.scale.map(|scale| (scale, scale_for(room)));
        let most = mtu - headers(&ends);
        let largest = first.largest.unwrap_or(LARGEST_UNKNOWN).clamp(LEAST, most);
        // It is not to be guessed.
        let initial = u32::try_from(RandomState::new().hash_one(ends) >> 32).unwrap_or_default();
        let now = Instant::now();
        Self {
            ends,
            outgoing: Numbering::new(initial),
            incoming: Numbering::new(first.sequence),
            sender: Sender::new(room, largest.into()),
            receiver: Receiver::new(1, room),
            mtu,
            scales,
            announced: 0,
            owes_acknowledgement: false,
            is_reset: false,
            heard: now,
            probed: now,
            reader: None,
            writer: None,
            watcher: None,
        }
    }

    /// Takes a segment of the program. Has to be followed by [`Machine::flush`].
    // RFC 9293, 3.10.7.4
    pub(super) fn handle_segment(&mut self, segment: &Segment<'_>) {
        let next = self.receiver.acknowledged();
        let Some(position) = self.incoming.position(segment.sequence, next) else { return };
        if self.is_over() {
            return;
        }
        match segment.control {
            Control::None | Control::End => {}
            Control::Open => {
                // Until the answer to it has arrived, the timer repeats that. Later it is no segment of this connection.
                self.owes_acknowledgement = self.sender.is_established();
                return;
            }
            Control::Reset => {
                // RFC 5961, 3.2: one that is not exact may be a guess; the program repeats it with the number of the answer.
                if position == next {
                    self.is_reset = true;
                } else if (next..=self.receiver.edge().max(next)).contains(&position) {
                    self.owes_acknowledgement = true;
                }
                return;
            }
        }
        let Some(number) = segment.acknowledgement else { return };
        let Some(acknowledged) = self.outgoing.position(number, self.sender.acknowledged()) else { return };
        // Before the answer to the SYN is acknowledged, nothing else is expected.
        if acknowledged == 0 {
            return;
        }
        let now = Instant::now();
        let ends = segment.control == Control::End;
        let is_bare = segment.data.is_empty() && !ends;
        let window = u64::from(segment.window) << self.scales.map_or(0, |(theirs, _)| theirs);
        if !self.sender.acknowledge(acknowledged, acknowledged + window, is_bare, now) {
            self.owes_acknowledgement = true;
            return;
        }
        self.heard = now;
        self.receiver.take(position, segment.data, ends);
        self.owes_acknowledgement |= !is_bare || position != next;
    }

    /// Sends all pending segments.
    pub(super) fn flush(&mut self, output: &Output) {
        if self.is_reset {
            return;
        }
        let now = Instant::now();
        if self.sender.timer().is_some_and(|at| at <= now) {
            self.sender.on_timeout(now);
        }
        while let Some(piece) = self.sender.next_piece(now) {
            self.send_piece(&piece, output);
        }
        if self.owes_acknowledgement || self.has_larger_window() {
            output.send(&self.bare(self.sender.highest()).compose(&self.ends));
            self.on_announced();
        }
        if self.is_over() {
            return;
        }
        if now >= self.probe_at() {
            self.probed = now;
            // The program answers a number that it has acknowledged already, and takes nothing else from the segment.
            output.send(&self.bare(self.sender.acknowledged().saturating_sub(1)).compose(&self.ends));
        }
        if now >= self.gone_at() {
            self.reset(output);
        }
    }

    pub(super) fn next(&self) -> Next {
        if self.is_over() {
            return Next::Over;
        }
        let probe = self.probe_at().min(self.gone_at());
        Next::At(self.sender.timer().map_or(probe, |timer| timer.min(probe)))
    }

    /// Whether no packet belongs to it any more. Data that the program has sent before may still be read.
    ///
    /// A late segment of one that was not reset is answered ([`Machine::answer_late`]); otherwise TIME-WAIT is left out, and
    /// the program's system may use its port again.
    pub(super) fn is_over(&self) -> bool {
        self.is_reset || (self.sender.is_complete() && self.receiver.is_complete())
    }

    /// Answers a segment of a connection that is over: the acknowledgement of its FIN may have been lost.
    pub(super) fn answer_late(&self, segment: &Segment<'_>, output: &Output) {
        let expects_answer = segment.control == Control::End || !segment.data.is_empty();
        if !self.is_reset && expects_answer {
            output.send(&self.bare(self.sender.highest()).compose(&self.ends));
        }
    }

    pub(super) fn is_reset(&self) -> bool {
        self.is_reset
    }

    /// Whether both directions have ended, though the program may not have everything yet.
    pub(super) fn has_ended(&self) -> bool {
        self.is_reset || (self.sender.is_finished() && self.receiver.is_complete())
    }

    pub(super) fn poll_read(
        &mut self,
        context: &Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.receiver.read(buffer.initialize_unfilled());
        buffer.advance(length);
        if length > 0 || buffer.remaining() == 0 || self.receiver.is_at_end() {
            return Poll::Ready(Ok(()));
        }
        if self.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        self.reader = Some(context.waker().clone());
        Poll::Pending
    }

    pub(super) fn poll_write(&mut self, context: &Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if self.sender.is_finished() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let length = self.sender.write(data);
        if length > 0 || data.is_empty() {
            return Poll::Ready(Ok(length));
        }
        self.writer = Some(context.waker().clone());
        Poll::Pending
    }

    pub(super) fn finish(&mut self) {
        self.sender.finish();
    }

    pub(super) fn poll_reset(&mut self, context: &Context<'_>) -> Poll<io::Error> {
        if self.is_reset {
            return Poll::Ready(io::ErrorKind::ConnectionReset.into());
        }
        self.watcher = Some(context.waker().clone());
        Poll::Pending
    }

    /// Resets the connection, if it is not over.
    pub(super) fn reset(&mut self, output: &Output) {
        if !self.is_over() {
            self.is_reset = true;
            let segment = Segment { control: Control::Reset, ..self.bare(self.sender.highest()) };
            output.send(&segment.compose(&self.ends));
        }
    }

    /// Those who wait for what has happened by now. To be woken once nothing of the connection is locked.
    pub(super) fn take_woken(&mut self) -> [Option<Waker>; 3] {
        let can_read = self.is_reset || self.receiver.is_complete() || self.receiver.has_data();
        let can_write = self.is_reset || self.sender.room() > 0;
        let reader = self.reader.take_if(|_| can_read);
        let writer = self.writer.take_if(|_| can_write);
        [reader, writer, self.watcher.take_if(|_| self.is_reset)]
    }

    fn send_piece(&mut self, piece: &Piece, output: &Output) {
        let data = self.sender.data(piece);
        let control = piece.control;
        let mut segment = Segment { control, data: &data, ..self.bare(piece.position) };
        if control == Control::Open {
            // The window of a SYN is not scaled (RFC 7323, 2.2).
            let window = self.receiver.edge().saturating_sub(self.receiver.acknowledged());
            segment.window = u16::try_from(window).unwrap_or(u16::MAX);
            segment.largest = Some(self.mtu - headers(&self.ends));
            segment.scale = self.scales.map(|(_, ours)| ours);
        }
        output.send(&segment.compose(&self.ends));
        self.on_announced();
    }

    /// A segment without data. A window in units of more than a byte may end before the one that was told of last. The receiver
    /// goes on accepting what fits that (RFC 7323, 2.4).
    fn bare(&self, position: u64) -> Segment<'static> {
        let next = self.receiver.acknowledged();
        let window = self.receiver.edge().saturating_sub(next) >> self.scales.map_or(0, |(_, ours)| ours);
        Segment {
            sequence: self.outgoing.number(position),
            acknowledgement: Some(self.incoming.number(next)),
            window: u16::try_from(window).unwrap_or(u16::MAX),
            ..Segment::default()
        }
    }

    fn on_announced(&mut self) {
        self.announced = self.receiver.edge();
        self.owes_acknowledgement = false;
    }

    /// Whether the reader has made so much room that the program should know.
    fn has_larger_window(&self) -> bool {
        let news = self.receiver.edge().saturating_sub(self.announced);
        self.sender.is_established() && !self.receiver.is_complete() && news >= self.receiver.half()
    }

    /// When the program is asked whether it is there, and for its window.
    fn probe_at(&self) -> Instant {
        let pause = match (self.sender.is_established(), self.sender.is_blocked()) {
            (true, true) => BLOCKED,
            (true, false) => KEEPALIVE,
            (false, _) => SILENCE,
        };
        self.heard.max(self.probed) + pause
    }

    /// When a silent program counts as gone.
    fn gone_at(&self) -> Instant {
        self.heard + if self.sender.is_established() { SILENCE } else { OPENING }
    }
}

/// By how many bits windows of so many bytes are scaled: as few as possible, since each makes them coarser.
fn scale_for(room: usize) -> u8 {
    (room >> u16::BITS).checked_ilog2().and_then(|bits| u8::try_from(bits).ok()).unwrap_or(0)
}

/// Bytes of the headers of a segment.
fn headers(ends: &Ends) -> u16 {
    if ends.destination.is_ipv4() { 40 } else { 60 }
}

/// RFC 9293, 3.7.1
const LARGEST_UNKNOWN: u16 = 536;
/// As Linux has it: no header costs more than the data.
const LEAST: u16 = 48;
/// How often a silent program is probed.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// The same while it accepts nothing: the packet that says more may be lost.
const BLOCKED: Duration = Duration::from_secs(1);
/// After so long without any packet the program is gone.
const SILENCE: Duration = Duration::from_secs(180);
/// The same for a program that does not acknowledge that its connection is open.
const OPENING: Duration = Duration::from_secs(60);
