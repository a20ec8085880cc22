//! Loss recovery of one path.

use std::time::Duration;

use manyway_wire::mmsp2::PathAck;

use crate::congestion::{self, ControllerConfig};
use crate::packet::content::{Contents, SentContent};
use crate::recovery::{Outcome, PacketKind, PathRecovery, ReceivedAck, SentPacket};
use crate::{ByteCount, Instant, RecoveryConfig, Violation};

/// Initial datagram size.
const DATAGRAM: u16 = 1200;

/// The recovery of a path, with packets that carry their own number as content.
#[derive(Debug)]
pub struct Recovery {
    path: PathRecovery,
    out: Outcome,
}

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Not ack-eliciting.
    AckOnly,
    /// An ACK query: ack-eliciting, not in flight.
    AckQuery,
    /// Ack-eliciting.
    Ordinary,
    /// A PMTU probe.
    MtuProbe,
}

/// The fate of packets, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// Content that arrived.
    pub delivered: Vec<u64>,
    /// Content that was lost.
    pub lost: Vec<u64>,
    /// How many packets arrived that had been declared lost.
    pub spurious: u32,
}

impl Recovery {
    /// Starts; `None` if there is no controller of that name.
    pub fn new(controller: &str) -> Option<Self> {
        let factory = congestion::by_name(controller)?;
        let controller = factory(&ControllerConfig::new(DATAGRAM));
        Some(Self {
            path: PathRecovery::new(controller, &RecoveryConfig::default()),
            out: Outcome::default(),
        })
    }

    /// Sends a packet; returns its number.
    pub fn send(&mut self, now: Instant, size: u16, kind: Kind) -> u64 {
        let number = self.path.take_packet_number();
        let mut contents = Contents::new();
        contents.push(SentContent::RemoveAddress { id: number });
        let kind = match kind {
            Kind::AckOnly => PacketKind::AckOnly,
            Kind::AckQuery => PacketKind::AckQuery,
            Kind::Ordinary => PacketKind::Ordinary,
            Kind::MtuProbe => PacketKind::MtuProbe,
        };
        self.path.on_sent(now, SentPacket::new(number, size, kind, contents));
        number
    }

    /// Handles an acknowledgement.
    ///
    /// # Errors
    /// If it acknowledges a packet that was never sent.
    pub fn acknowledge(&mut self, now: Instant, block: &PathAck<'_>) -> Result<(), Violation> {
        let ack = ReceivedAck::new(block.path, block.ranges.iter(), block.delay, block.receive_time_micros);
        self.path.on_ack(now, ack, &[], &mut self.out)
    }

    /// Lets the timer fire.
    pub fn timeout(&mut self, now: Instant) {
        self.path.on_timeout(now, &mut self.out);
    }

    /// Marks the content of the oldest `count` packets as reinjected; returns their numbers.
    pub fn move_oldest(&mut self, count: usize) -> Vec<u64> {
        let moved = self.path.in_flight().take(count);
        moved
            .map(|packet| {
                packet.reinjected = true;
                packet.packet_number
            })
            .collect()
    }

    /// Gives up everything in flight.
    pub fn abandon(&mut self, now: Instant) {
        self.path.abandon(now, &mut self.out);
    }

    /// The path works again.
    pub fn restart(&mut self, now: Instant, round_trip: Option<Duration>) {
        self.path.restart(now, round_trip);
    }

    /// A suspect period begins.
    pub fn snapshot(&mut self, now: Instant) {
        self.path.snapshot(now);
    }

    /// The path is suspect, or no longer.
    pub fn set_suspect(&mut self, is_suspect: bool) {
        self.path.set_suspect(is_suspect);
    }

    /// Changes the datagram size.
    pub fn set_max_datagram(&mut self, size: u16) {
        self.path.set_max_datagram(size);
    }

    /// Whether another path carries data.
    pub fn set_other_path_alive(&mut self, alive: bool) {
        self.path.set_other_path_alive(alive);
    }

    /// There is nothing to send.
    pub fn set_app_limited(&mut self) {
        self.path.set_app_limited();
    }

    /// The outcome since the last call.
    pub fn told(&mut self) -> Told {
        let numbers = |all: &[Contents]| {
            let number = |content: &SentContent| {
                if let SentContent::RemoveAddress { id } = content { Some(*id) } else { None }
            };
            all.iter().flatten().filter_map(number).collect()
        };
        let told = Told {
            delivered: numbers(&self.out.delivered),
            lost: numbers(&self.out.lost),
            spurious: self.out.spurious,
        };
        self.out.clear();
        told
    }

    /// When [`Self::timeout`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.path.deadline()
    }

    /// Number and size of every packet in flight, oldest first.
    pub fn in_flight(&mut self) -> Vec<(u64, ByteCount)> {
        self.path.in_flight().map(|packet| (packet.packet_number, packet.bytes())).collect()
    }

    /// Bytes in flight, as recovery counts them.
    pub fn bytes_in_flight(&self) -> ByteCount {
        self.path.bytes_in_flight()
    }

    /// The congestion window.
    pub fn window(&self) -> ByteCount {
        self.path.window()
    }

    /// The number of the next packet.
    pub fn next_packet_number(&self) -> u64 {
        self.path.next_packet_number()
    }

    /// Queries the allowance, and ignores the result.
    pub fn check_allowance(&mut self, now: Instant) {
        self.path.allowance(now);
    }
}
