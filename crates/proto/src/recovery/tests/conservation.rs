//! Bytes are neither lost nor invented under any order of events.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Send {
        size: u16,
        kind: u8,
    },
    /// Acknowledges this many numbers from this far back, in up to two ranges.
    Ack {
        back: u64,
        count: u64,
        skip: u64,
    },
    Timeout,
    Move,
    AppLimited,
    CheckAppLimited,
    SuspectPeriod(bool),
    OtherPath(bool),
    Abandon,
    Restart,
    MaxDatagram(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..30_000_000).prop_map(Step::Wait),
        12 => (100u16..1500, 0u8..10).prop_map(|(size, kind)| Step::Send { size, kind }),
        6 => (1u64..60, 1u64..20, 0u64..20).prop_map(|(back, count, skip)| Step::Ack { back, count, skip }),
        3 => Just(Step::Timeout),
        1 => Just(Step::Move),
        1 => Just(Step::AppLimited),
        1 => Just(Step::CheckAppLimited),
        1 => any::<bool>().prop_map(Step::SuspectPeriod),
        1 => any::<bool>().prop_map(Step::OtherPath),
        1 => Just(Step::Abandon),
        1 => Just(Step::Restart),
        1 => (1000u16..9000).prop_map(Step::MaxDatagram),
    ]
}

/// The test's record of each ack-eliciting packet.
#[derive(Default)]
struct Model {
    in_flight: BTreeMap<u64, (u16, bool)>,
    given_up: BTreeMap<u64, bool>,
    max_datagram: u16,
}

impl Model {
    /// Settles the outcome; each content is reported lost at most once and delivered at most once.
    fn settle(&mut self, out: &mut Outcome) {
        for number in numbers(&out.lost) {
            let (_, moved) = self.in_flight.remove(&number).expect("lost packets were in flight");
            assert!(!moved);
            self.given_up.insert(number, true);
        }
        let mut spurious = 0;
        for number in numbers(&out.delivered) {
            if self.in_flight.remove(&number).is_none() {
                spurious += 1;
                assert!(self.given_up.remove(&number).is_some(), "{number} was delivered twice");
            }
        }
        assert!(spurious <= out.spurious as usize);
        out.clear();
    }
}

fn run(controller: &str, steps: Vec<Step>) {
    let mut path = path(controller);
    let mut model = Model { max_datagram: SIZE, ..Model::default() };
    let mut out = Outcome::default();
    let mut now = Instant::from_nanos(0);
    for step in steps {
        match step {
            Step::Wait(nanos) => now += Duration::from_nanos(nanos),
            Step::Send { size, kind } => {
                let kind = match kind {
                    0 => PacketKind::AckOnly,
                    1 => PacketKind::MtuProbe,
                    _ => PacketKind::Ordinary,
                };
                let number = send_kind(&mut path, now, size, kind);
                if kind != PacketKind::AckOnly {
                    // A PMTU probe is not in flight.
                    let room = if kind == PacketKind::MtuProbe { 0 } else { size };
                    model.in_flight.insert(number, (room, false));
                }
            }
            Step::Ack { back, count, skip } => {
                let Some(last) = path.next_packet_number().checked_sub(back) else { continue };
                let first = last.saturating_sub(count);
                let mut ranges = vec![first..=last];
                if let Some(older) = first.checked_sub(skip + 2) {
                    ranges.push(older.saturating_sub(count)..=older);
                }
                acked(&mut path, now, &ranges, &mut out).unwrap();
            }
            Step::Timeout => {
                now = path.deadline().map_or(now, |deadline| deadline.max(now));
                path.on_timeout(now, &mut out);
                assert!(path.deadline().is_none_or(|deadline| deadline > now), "no busy loop");
            }
            Step::Move => {
                for packet in path.in_flight().take(3) {
                    packet.reinjected = true;
                    model.in_flight.get_mut(&packet.packet_number).unwrap().1 = true;
                }
            }
            Step::AppLimited => path.set_app_limited(),
            Step::CheckAppLimited => path.check_app_limited(now),
            Step::SuspectPeriod(is_suspect) => path.set_suspect(is_suspect),
            Step::OtherPath(alive) => path.set_other_path_alive(alive),
            Step::Abandon => path.abandon(now, &mut out),
            Step::Restart => path.restart(now, Some(Duration::from_millis(40))),
            Step::MaxDatagram(size) => {
                path.set_max_datagram(size);
                model.max_datagram = size;
            }
        }
        model.settle(&mut out);
        // The loss of a reinjected packet is not reported, so compare with the packets that remain in flight.
        let alive: Vec<u64> = path.in_flight().map(|packet| packet.packet_number).collect();
        let gone: Vec<u64> =
            model.in_flight.keys().filter(|n| alive.binary_search(n).is_err()).copied().collect();
        for number in gone {
            assert!(model.in_flight.remove(&number).unwrap().1, "{number} vanished");
            model.given_up.insert(number, false);
        }
        let sum: u64 = model.in_flight.values().map(|(size, _)| u64::from(*size)).sum();
        assert_eq!(path.bytes_in_flight(), ByteCount(sum));
        assert_eq!(path.sent.counted_bytes(), ByteCount(sum));
        assert_eq!(path.packets_in_flight(), model.in_flight.len());
        assert!(path.window() >= ByteCount(2 * u64::from(model.max_datagram)));
        assert_eq!(path.deadline().is_some(), !model.in_flight.is_empty());
        if let Allowance::Ready { bytes } = path.allowance(now) {
            assert!(path.bytes_in_flight() + bytes <= path.window());
            assert!(bytes >= ByteCount(u64::from(model.max_datagram)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn bytes_in_flight_are_the_sum_of_packets_under_any_order_of_events(
        controller in prop_oneof![Just("bbr"), Just("cubic"), Just("new-reno"), Just("fixed")],
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        run(controller, steps);
    }
}
