//! One end of a flow of cross traffic.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::congestion::{CongestionController, ControllerConfig, NewReno};
use manyway_proto::{ByteCount, FourTuple, Instant, LocalAddress, Rate};

use crate::link::LinkConfig;
use crate::tcp::{Header, Kind, LinuxCubic, NO_LIMIT, Receiver, Sender, SlowStart};

/// What a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrossKind {
    /// Bulk over TCP with CUBIC (RFC 9438), as Linux has it.
    Cubic,
    /// Bulk over TCP with Reno (RFC 5681).
    Reno,
    /// Datagrams at a constant rate of whole IP packets.
    Udp(Rate),
}

/// A flow of cross traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrossFlow {
    /// What it is.
    pub kind: CrossKind,
    /// Bytes of its full IP packets, from 100.
    pub packet: u16,
    /// When it begins.
    pub start: Instant,
    /// When its sender falls silent, whatever is on the way.
    pub end: Instant,
    /// Bytes of data that a sender over TCP has; `None`: as many as it may send.
    pub bytes: Option<u64>,
}

/// What an end of a flow does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It sends the data.
    Send,
    /// It receives the data.
    Receive,
}

/// The first packet of a client is repeated after this time, then after twice as much, until it is answered.
const FIRST_TRY: Duration = Duration::from_secs(1);

/// One end of a flow.
#[derive(Debug)]
pub(super) struct End {
    flow: CrossFlow,
    local: LocalAddress,
    /// The other end, once it is known.
    remote: Option<SocketAddr>,
    greeting: Option<Greeting>,
    machine: Machine,
}

/// The first packet of the end that connects, until it is answered.
#[derive(Debug)]
struct Greeting {
    due: Instant,
    pause: Duration,
    /// When the first one left, if no other did.
    left: Option<Instant>,
}

#[derive(Debug)]
enum Machine {
    TcpSender(Box<Sender>),
    TcpReceiver(Receiver),
    UdpSender {
        sent: u64,
        /// When the first datagram could leave.
        since: Option<Instant>,
    },
    /// With the bytes that have arrived.
    UdpReceiver(u64),
}

impl End {
    pub(super) fn new(flow: CrossFlow, part: Part, local: LocalAddress, remote: Option<SocketAddr>) -> Self {
        let is_udp = matches!(flow.kind, CrossKind::Udp(_));
        let machine = match part {
            Part::Send if is_udp => Machine::UdpSender { sent: 0, since: None },
            Part::Receive if is_udp => Machine::UdpReceiver(0),
            Part::Send => Machine::TcpSender(Box::new(sender(flow, local))),
            Part::Receive => Machine::TcpReceiver(Receiver::default()),
        };
        let greets = remote.is_some() && !matches!(machine, Machine::UdpSender { .. });
        let greeting = greets.then_some(Greeting { due: flow.start, pause: FIRST_TRY, left: None });
        Self { flow, local, remote, greeting, machine }
    }

    /// Bytes of payload that have arrived, in order over TCP.
    pub(super) fn received(&self) -> u64 {
        match &self.machine {
            Machine::TcpReceiver(receiver) => receiver.received(),
            Machine::UdpReceiver(received) => *received,
            Machine::TcpSender(_) | Machine::UdpSender { .. } => 0,
        }
    }

    pub(super) fn on_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let Some((header, rest)) = Header::read(datagram) else { return };
        self.remote = Some(from);
        let answered = self.greeting.take();
        let is_greeting = header.kind == Kind::Open;
        match &mut self.machine {
            Machine::TcpSender(sender) => {
                if let Some(left) = answered.and_then(|greeting| greeting.left) {
                    sender.on_round_trip(now - left);
                }
                sender.on_ack(now, header.ack, header.ranges(rest));
            }
            Machine::TcpReceiver(receiver) if is_greeting => receiver.acknowledge(now),
            Machine::TcpReceiver(receiver) => {
                let end = header.begin.saturating_add(ByteCount::of(rest.len()).get());
                receiver.on_data(now, header.begin..end);
            }
            Machine::UdpReceiver(received) if !is_greeting => {
                *received += ByteCount::of(datagram.len()).get();
            }
            Machine::UdpReceiver(_) | Machine::UdpSender { .. } => {}
        }
    }

    /// Writes the next packet into an empty buffer, if one is due.
    pub(super) fn poll(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<FourTuple> {
        let tuple = FourTuple::udp(self.local, self.remote?);
        let is_on = (self.flow.start..self.flow.end).contains(&now);
        if let Some(greeting) = &mut self.greeting {
            if !is_on || greeting.due > now {
                return None;
            }
            greeting.due = now + greeting.pause;
            greeting.left = (greeting.pause == FIRST_TRY).then_some(now);
            greeting.pause *= 2;
            header(Kind::Open, 0, 0).write(std::iter::empty(), buffer);
            return Some(tuple);
        }
        let payload = payload(self.flow.packet, self.local);
        match &mut self.machine {
            Machine::TcpSender(sender) if is_on => {
                let range = sender.poll(now, self.flow.bytes.unwrap_or(u64::MAX), NO_LIMIT)?;
                let length = usize::try_from(range.end - range.start).unwrap_or(0);
                let header = header(Kind::Data, range.start, 0);
                header.write(std::iter::repeat_n(0, length), buffer);
            }
            Machine::TcpReceiver(receiver) if receiver.due().is_some_and(|due| due <= now) => {
                let header = header(Kind::Ack, 0, receiver.received());
                header.write_ack(receiver.early(), buffer);
                receiver.on_acknowledged();
            }
            Machine::UdpSender { sent, since } if is_on => {
                if self.flow.due(*since.get_or_insert(now), *sent) > now {
                    return None;
                }
                *sent += 1;
                let header = header(Kind::Data, 0, 0);
                header.write(std::iter::repeat_n(0, payload), buffer);
            }
            Machine::TcpSender(_)
            | Machine::TcpReceiver(_)
            | Machine::UdpSender { .. }
            | Machine::UdpReceiver(_) => return None,
        }
        Some(tuple)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.remote?;
        let due = match (&self.greeting, &self.machine) {
            (Some(greeting), _) => Some(greeting.due),
            (None, Machine::TcpSender(sender)) => sender.deadline(),
            (None, Machine::TcpReceiver(receiver)) => return receiver.due(),
            (None, Machine::UdpSender { sent, since }) => {
                Some(since.map_or(self.flow.start, |since| self.flow.due(since, *sent)))
            }
            (None, Machine::UdpReceiver(_)) => None,
        };
        due.filter(|due| *due < self.flow.end)
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        let sends = matches!(self.machine, Machine::TcpSender(_) | Machine::UdpSender { .. });
        if now >= self.flow.end && sends {
            self.remote = None;
        }
        if let Machine::TcpSender(sender) = &mut self.machine {
            sender.on_timeout(now);
        }
    }
}

/// The fields of a segment of a host that reads at once.
fn header(kind: Kind, begin: u64, ack: u64) -> Header {
    Header { kind, begin, ack, window: NO_LIMIT }
}

impl CrossFlow {
    /// When a datagram leaves, by its number, if the first leaves at `since`.
    fn due(&self, since: Instant, number: u64) -> Instant {
        let CrossKind::Udp(rate) = self.kind else { return self.end };
        let nanos = u128::from(number) * u128::from(self.packet) * 1_000_000_000;
        let nanos = nanos / u128::from(rate.bytes_per_second().max(1));
        since + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn sender(flow: CrossFlow, local: LocalAddress) -> Sender {
    let payload = payload(flow.packet, local);
    let config = ControllerConfig::new(u16::try_from(payload).unwrap_or(u16::MAX));
    let (controller, slow_start): (Box<dyn CongestionController>, _) = match flow.kind {
        CrossKind::Cubic => (Box::new(LinuxCubic::new(&config)), SlowStart::WatchesDelay),
        CrossKind::Reno | CrossKind::Udp(_) => (Box::new(NewReno::new(&config)), SlowStart::UntilLoss),
    };
    Sender::new(controller, slow_start, payload)
}

/// Bytes of data in a full packet, beside the headers and the fields of the model.
fn payload(packet: u16, local: LocalAddress) -> usize {
    let headers = if local.address.is_ipv4() { LinkConfig::IPV4_UDP } else { LinkConfig::IPV6_UDP };
    usize::from(packet).saturating_sub(usize::from(headers) + Header::LENGTH).max(1)
}
