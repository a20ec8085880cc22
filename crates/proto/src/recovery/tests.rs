//! Laws of loss recovery as a whole.

mod behaviour;
mod bottleneck;
mod conservation;
mod resume;

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_wire::PathId;

use super::*;
use crate::Violation;
use crate::congestion;
use crate::packet::content::{Contents, SentContent};

const SIZE: u16 = 1200;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn path(controller: &str) -> PathRecovery {
    let factory = congestion::by_name(controller).unwrap();
    PathRecovery::new(factory(&ControllerConfig::new(SIZE)), &RecoveryConfig::default())
}

/// Content that differs from that of other packets.
fn content(packet_number: u64) -> Contents {
    let mut contents = Contents::new();
    contents.push(SentContent::PathAck { path: PathId(0), largest: packet_number });
    contents
}

fn number(contents: &Contents) -> u64 {
    match contents.first() {
        Some(SentContent::PathAck { largest, .. }) => *largest,
        other => panic!("{other:?}"),
    }
}

fn numbers(all: &[Contents]) -> Vec<u64> {
    all.iter().map(number).collect()
}

fn send_kind(path: &mut PathRecovery, now: Instant, size: u16, kind: PacketKind) -> u64 {
    let packet_number = path.take_packet_number();
    path.on_sent(now, SentPacket::new(packet_number, size, kind, content(packet_number)));
    packet_number
}

fn send(path: &mut PathRecovery, now: Instant, count: usize) {
    for _ in 0..count {
        send_kind(path, now, SIZE, PacketKind::Ordinary);
    }
}

fn acked(
    path: &mut PathRecovery,
    now: Instant,
    ranges: &[RangeInclusive<u64>],
    out: &mut Outcome,
) -> Result<(), Violation> {
    // Acknowledgements take no time.
    let received = u32::try_from(now.as_nanos() / 1000 % (1 << 32)).unwrap_or_default();
    path.on_ack(now, ReceivedAck::new(PathId(0), ranges.iter().cloned(), Duration::ZERO, received), &[], out)
}

/// Acknowledges without a delay, and returns the outcome.
fn ack(path: &mut PathRecovery, now: Instant, ranges: &[RangeInclusive<u64>]) -> Outcome {
    let mut out = Outcome::default();
    acked(path, now, ranges, &mut out).unwrap();
    out
}

/// A path with a round trip of 40 ms and a window grown in slow start.
fn grown(controller: &str) -> PathRecovery {
    let mut path = path(controller);
    for round in 0..4 {
        let first = path.next_packet_number();
        let count = path.window() / u64::from(SIZE);
        send(&mut path, at(round * 40), count.to_usize());
        let last = path.next_packet_number() - 1;
        ack(&mut path, at(round * 40 + 40), &[first..=last]);
    }
    path
}
