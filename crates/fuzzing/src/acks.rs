//! Arbitrary acknowledgements against the recovery of a path: bytes are neither lost nor invented, whatever the peer
//! claims to have received, in whatever order and at whatever time.

use std::collections::BTreeMap;
use std::time::Duration;

use manyway_proto::fuzzing::{Kind, Recovery};
use manyway_proto::{ByteCount, Instant, PathId};
use manyway_wire::Writer;
use manyway_wire::mmsp2::{Block, Blocks, PathAck, encode_path_ack};

use crate::script::Script;

/// Most steps of one input; more find nothing new.
const MOST_STEPS: usize = 400;

/// The model's knowledge of each ack-eliciting packet.
#[derive(Default)]
struct Model {
    in_flight: BTreeMap<u64, (u16, bool)>,
    given_up: BTreeMap<u64, bool>,
    max_datagram: u64,
}

/// Sends, acknowledges and waits as the input says.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let controllers = ["cubic", "new-reno", "fixed", "bbr"];
    let mut path = Recovery::new(controllers[usize::from(script.u8()) % 4]).unwrap();
    let mut model = Model { max_datagram: 1200, ..Model::default() };
    let mut now = Instant::from_nanos(0);
    for _ in 0..MOST_STEPS {
        let Some(step) = script.step() else { break };
        act(step, &mut script, &mut path, &mut model, &mut now);
        model.settle(&mut path);
        model.check(&mut path, now);
    }
}

fn act(step: u8, script: &mut Script<'_>, path: &mut Recovery, model: &mut Model, now: &mut Instant) {
    match step % 16 {
        0..=4 => {
            let (count, size) = (step >> 4, 100 + script.u16() % 1400);
            for _ in 0..=count {
                model.send(path, *now, size, Kind::Ordinary);
            }
        }
        5 => model.send(path, *now, 1452, Kind::MtuProbe),
        6 => model.send(path, *now, 60, if step < 128 { Kind::AckOnly } else { Kind::AckQuery }),
        7 => *now += Duration::from_micros(u64::from(script.u16())),
        8 => *now += Duration::from_millis(u64::from(script.u16() % 4096)),
        9 | 10 => recent(script, path, *now),
        11 => raw(script, path, *now),
        12 => {
            *now = path.deadline().map_or(*now, |deadline| deadline.max(*now));
            path.timeout(*now);
            assert!(path.deadline().is_none_or(|deadline| deadline > *now), "no busy loop");
        }
        13 => {
            for number in path.move_oldest(usize::from(step >> 4)) {
                model.in_flight.get_mut(&number).unwrap().1 = true;
            }
        }
        14 => match step >> 4 {
            0..=3 => path.set_other_path_alive(step >> 4 & 1 == 1),
            4 => path.abandon(*now),
            5 => path.snapshot(*now),
            6 => path.restart(*now, None),
            7 => path.restart(*now, Some(Duration::from_micros(u64::from(script.u32())))),
            8 => {
                let size = 1000 + script.u16() % 8000;
                path.set_max_datagram(size);
                model.max_datagram = u64::from(size);
            }
            9 | 10 => path.set_suspect(step >> 4 == 9),
            _ => path.set_app_limited(),
        },
        _ => path.check_allowance(*now),
    }
}

/// Acknowledges ranges near the newest packets; a number that was never sent is a violation.
fn recent(script: &mut Script<'_>, path: &mut Recovery, now: Instant) {
    let next = path.next_packet_number();
    let delay = Duration::from_micros(u64::from(script.u16()));
    let mut end = (next + u64::from(script.u8() % 4)).checked_sub(1 + u64::from(script.u8()));
    let mut ranges = Vec::new();
    for _ in 0..=script.u8() % 8 {
        let Some(last) = end else { break };
        let first = last.saturating_sub(u64::from(script.u8() % 32));
        ranges.push(first..=last);
        end = first.checked_sub(2 + u64::from(script.u8() % 8));
    }
    if ranges.is_empty() {
        return;
    }
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, 1200);
    encode_path_ack(&mut writer, PathId::FIRST, delay, 0, ranges.into_iter(), None);
    acknowledge(&bytes, path, now);
}

/// Acknowledges arbitrary ranges of the input.
fn raw(script: &mut Script<'_>, path: &mut Recovery, now: Instant) {
    let body = script.bytes();
    let body = body.get(..body.len().min(1200)).unwrap_or_default();
    let mut bytes = vec![PathAck::KIND, script.u8() & 1];
    bytes.extend_from_slice(&u16::try_from(4 + body.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(body);
    acknowledge(&bytes, path, now);
}

fn acknowledge(bytes: &[u8], path: &mut Recovery, now: Instant) {
    let Some(Ok(Block::PathAck(block))) = Blocks::new(bytes).next() else { return };
    let unsent = block.ranges.largest() >= path.next_packet_number();
    let before = (unsent.then(|| path.in_flight()), path.window());
    let result = path.acknowledge(now, &block);
    assert_eq!(result.is_err(), unsent, "{result:?}");
    if let (Some(flight), window) = before {
        assert_eq!((flight, window), (path.in_flight(), path.window()), "a lie changes nothing");
    }
}

impl Model {
    fn send(&mut self, path: &mut Recovery, now: Instant, size: u16, kind: Kind) {
        let number = path.send(now, size, kind);
        let room = match kind {
            Kind::AckOnly => return,
            // It may arrive, and is never reported lost.
            Kind::AckQuery => {
                self.given_up.insert(number, false);
                return;
            }
            // spec 6.34: a probe takes no room
            Kind::MtuProbe => 0,
            Kind::Ordinary => size,
        };
        self.in_flight.insert(number, (room, false));
    }

    /// Each content is reported lost at most once and delivered at most once.
    fn settle(&mut self, path: &mut Recovery) {
        let told = path.told();
        for number in told.lost {
            let (_, moved) = self.in_flight.remove(&number).unwrap();
            assert!(!moved, "{number} was sent again before");
            self.given_up.insert(number, true);
        }
        for number in told.delivered {
            if self.in_flight.remove(&number).is_none() {
                assert!(self.given_up.remove(&number).is_some(), "{number} was delivered twice");
            }
        }
    }

    fn check(&mut self, path: &mut Recovery, _now: Instant) {
        let flight = path.in_flight();
        // Reinjected packets are dropped silently when they are lost.
        let gone: Vec<u64> = self
            .in_flight
            .keys()
            .filter(|number| flight.binary_search_by_key(*number, |(number, _)| *number).is_err())
            .copied()
            .collect();
        for number in gone {
            assert!(self.in_flight.remove(&number).unwrap().1, "{number} vanished");
            self.given_up.insert(number, false);
        }
        let sum: u64 = self.in_flight.values().map(|(room, _)| u64::from(*room)).sum();
        assert_eq!(path.bytes_in_flight(), ByteCount(sum));
        assert_eq!(flight.len(), self.in_flight.len());
        assert!(path.window() >= ByteCount(2 * self.max_datagram));
        assert_eq!(path.deadline().is_some(), !flight.is_empty());
    }
}
