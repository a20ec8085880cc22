//! One end of a TCP connection, as far as a carrier of paths notices: bytes arrive in order or not at all, a loss on
//! the link is a delay, the send buffer is bounded. There is no handshake. The receiver always reads at once, so the
//! receive window is what it is set to.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use manyway_proto::congestion::{CongestionController, ControllerConfig, NewReno};
use manyway_proto::{ByteCount, CarrierFigures, FourTuple, Instant, Rate, Records};

use super::cubic::LinuxCubic;
use super::receiver::Receiver;
use super::segment::{Header, Kind, NO_LIMIT};
use super::sender::{Sender, SlowStart};

/// Payload of a full segment, if nothing else is said.
pub(super) const SEGMENT: u16 = 1_400;
/// The send buffer takes no more while so many bytes have not been sent once (`TCP_NOTSENT_LOWAT`).
const MOST_UNSENT: usize = 32 * 1024;
/// The rate is measured over at least this.
const SHORTEST_MEASUREMENT: Duration = Duration::from_millis(200);
/// A segment lives no longer, as Linux assumes.
const LONGEST_LIFE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// The peer is still to be told.
    Resetting,
    /// Since this time.
    Closed(Instant),
}

/// The congestion control of a system's TCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TcpCongestion {
    /// Reno (RFC 5681).
    #[default]
    Reno,
    /// CUBIC (RFC 9438), as Linux has it.
    Cubic,
    /// Reno as of 2002: losses by three repeated acknowledgements (RFC 2581, RFC 2582), no selective ones.
    Reno2002,
}

impl TcpCongestion {
    fn sender(self, segment: u16) -> Sender {
        let slow_start = match self {
            Self::Reno | Self::Reno2002 => SlowStart::UntilLoss,
            Self::Cubic => SlowStart::WatchesDelay,
        };
        let sender = Sender::new(self.controller(segment), slow_start, usize::from(segment));
        if self == Self::Reno2002 { sender.without_selective_acks() } else { sender }
    }

    fn controller(self, segment: u16) -> Box<dyn CongestionController> {
        let config = ControllerConfig::new(segment);
        match self {
            Self::Reno | Self::Reno2002 => Box::new(NewReno::new(&config)),
            Self::Cubic => Box::new(LinuxCubic::new(&config)),
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) tuple: FourTuple,
    /// The bytes that the peer has not acknowledged.
    buffer: VecDeque<u8>,
    sender: Sender,
    receiver: Receiver,
    /// Data beyond the first missing byte, by its first bytes.
    early: BTreeMap<u64, Vec<u8>>,
    pub(super) records: Records,
    /// The receive window here, and its right edge, which never moves left.
    window: u64,
    edge: u64,
    /// The right edge of the peer's receive window.
    peer_edge: u64,
    rate: Rate,
    /// Start of the measurement of the rate, and what was acknowledged then.
    measured_from: (Instant, u64),
    pub(super) is_blocked: bool,
    life: Life,
}

impl Socket {
    pub(super) fn new(now: Instant, tuple: FourTuple, (congestion, segment): (TcpCongestion, u16)) -> Self {
        Self {
            tuple,
            buffer: VecDeque::new(),
            sender: congestion.sender(segment),
            receiver: Receiver::default(),
            early: BTreeMap::new(),
            records: Records::default(),
            window: NO_LIMIT,
            edge: 0,
            peer_edge: NO_LIMIT,
            rate: Rate::ZERO,
            measured_from: (now, 0),
            is_blocked: false,
            life: Life::Open,
        }
    }

    /// Takes bytes of the application.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// Whether the send buffer takes nothing more.
    pub(super) fn is_full(&self) -> bool {
        let sent = usize::try_from(self.sender.next() - self.sender.acknowledged()).unwrap_or(usize::MAX);
        self.buffer.len().saturating_sub(sent) >= MOST_UNSENT
    }

    /// Bounds what the peer has in flight; a larger window is announced at once.
    pub(super) fn set_window(&mut self, now: Instant, window: Option<ByteCount>) {
        let window = window.map_or(NO_LIMIT, ByteCount::get);
        if window > self.window {
            self.receiver.acknowledge(now);
        }
        if window < NO_LIMIT && self.edge == NO_LIMIT {
            self.edge = 0;
        }
        self.window = window;
    }

    /// The fields of a segment that leaves.
    fn header(&mut self, kind: Kind, begin: u64) -> Header {
        let ack = self.receiver.received();
        self.edge = self.edge.max(ack.saturating_add(self.window));
        let window = if self.edge == NO_LIMIT { NO_LIMIT } else { self.edge - ack };
        Header { kind, begin, ack, window }
    }

    /// Ends the connection at once.
    pub(super) fn reset(&mut self) {
        self.life = Life::Resetting;
    }

    /// Whether it has ended, at either end.
    pub(super) fn is_closed(&self) -> bool {
        self.life != Life::Open
    }

    /// Whether it has ended, and the peer was told.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.life, Life::Closed(_))
    }

    /// Whether no segment of it can be on its way any more.
    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        matches!(self.life, Life::Closed(since) if now >= since + LONGEST_LIFE)
    }

    /// What a system would report.
    pub(super) fn figures(&self) -> Option<CarrierFigures> {
        let [smoothed, variation, minimum] = self.sender.round_trip()?;
        let mut figures = CarrierFigures::new(smoothed, self.sender.window());
        figures.rtt_variation = variation;
        figures.minimum_rtt = minimum;
        figures.outstanding = ByteCount::of(self.buffer.len()) - ByteCount(self.sender.early());
        figures.delivery_rate = self.rate;
        Some(figures)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let due = self.sender.deadline().into_iter().chain(self.receiver.due()).min();
        due.filter(|_| self.life == Life::Open)
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.life == Life::Open {
            self.sender.on_timeout(now);
        }
    }

    /// Writes the next segment; false if there is none now.
    pub(super) fn poll_segment(&mut self, now: Instant, segment: &mut Vec<u8>) -> bool {
        match self.life {
            Life::Closed(_) => return false,
            Life::Resetting => {
                let header = self.header(Kind::Reset, self.sender.acknowledged());
                header.write(std::iter::empty(), segment);
                self.life = Life::Closed(now);
                return true;
            }
            Life::Open => {}
        }
        let written = self.sender.acknowledged() + ByteCount::of(self.buffer.len()).get();
        if let Some(range) = self.sender.poll(now, written, self.peer_edge) {
            let place = |at: u64| usize::try_from(at - self.sender.acknowledged()).unwrap_or(usize::MAX);
            let (begin, end) = (place(range.start), place(range.end));
            let header = self.header(Kind::Data, range.start);
            header.write(self.buffer.iter().skip(begin).take(end - begin).copied(), segment);
            // Only an acknowledgement tells which data is missing.
            if !self.receiver.has_gap() {
                self.receiver.on_acknowledged();
            }
            return true;
        }
        let is_due = self.receiver.due().is_some_and(|due| due <= now);
        if is_due {
            let header = self.header(Kind::Ack, self.sender.next());
            header.write_ack(self.receiver.early(), segment);
            self.receiver.on_acknowledged();
        }
        is_due
    }

    /// Takes a segment; complete records are in [`Self::records`] afterwards. Malformed ones are ignored.
    pub(super) fn on_segment(&mut self, now: Instant, segment: &[u8]) {
        let Some((header, rest)) = Header::read(segment) else { return };
        match header.kind {
            Kind::Reset => self.life = Life::Closed(now),
            Kind::Open => {}
            Kind::Ack => {
                let is_repeated = header.ack == self.sender.acknowledged();
                self.on_ack(now, header, rest);
                if is_repeated {
                    self.sender.on_repeated_ack(now);
                }
            }
            Kind::Data => {
                self.on_ack(now, header, &[]);
                let before = self.receiver.received();
                let end = header.begin.saturating_add(ByteCount::of(rest.len()).get());
                self.receiver.on_data(now, header.begin..end);
                self.early.insert(header.begin, rest.to_vec());
                self.hand_over(before);
            }
        }
    }

    /// Passes on the data that is complete up to where it has arrived; `before` was passed on.
    fn hand_over(&mut self, mut before: u64) {
        while let Some(entry) =
            self.early.first_entry().filter(|entry| *entry.key() < self.receiver.received())
        {
            let (begin, bytes) = entry.remove_entry();
            let known = usize::try_from(before.saturating_sub(begin)).unwrap_or(usize::MAX);
            let fresh = bytes.get(known..).unwrap_or_default();
            self.records.push(fresh);
            before += ByteCount::of(fresh.len()).get();
        }
    }

    fn on_ack(&mut self, now: Instant, header: Header, rest: &[u8]) {
        let before = self.sender.acknowledged();
        let edge = header.ack.saturating_add(header.window);
        // A receiver never takes back what it has granted, but for a limit where there was none.
        self.peer_edge = if self.peer_edge == NO_LIMIT { edge } else { self.peer_edge.max(edge) };
        self.sender.on_ack(now, header.ack, header.ranges(rest));
        let fresh = usize::try_from(self.sender.acknowledged() - before).unwrap_or(usize::MAX);
        drop(self.buffer.drain(..fresh.min(self.buffer.len())));
        let (from, before) = self.measured_from;
        let least = self.sender.round_trip().map_or(SHORTEST_MEASUREMENT, |[smoothed, ..]| smoothed);
        if fresh > 0 && now - from >= least {
            let bytes = ByteCount(self.sender.acknowledged() - before);
            self.rate = bytes.per(now - from);
            self.measured_from = (now, self.sender.acknowledged());
        }
    }
}
