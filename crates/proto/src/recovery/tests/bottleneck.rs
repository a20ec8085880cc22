//! A bulk transfer over one bottleneck with a drop-tail queue, in virtual time.

use std::collections::BTreeMap;

use super::*;

const RATE: Rate = Rate::from_bits_per_second(50_000_000);
const ONE_WAY: Duration = ms(10);
/// 50 Mbit/s · 20 ms
const QUEUE: ByteCount = ByteCount(125_000);

#[derive(Debug)]
enum Event {
    Arrival(u64),
    DelayedAck,
    Ack(Vec<RangeInclusive<u64>>),
}

/// The network and the receiver.
struct World {
    events: BTreeMap<(Instant, u64), Event>,
    sequence: u64,
    link_free_at: Instant,
    /// Ranges received, oldest first.
    received: Vec<RangeInclusive<u64>>,
    unacknowledged: u32,
    delivered: u64,
    dropped: u64,
    /// One packet in this many takes 5 ms more.
    late_every: u64,
}

impl World {
    fn new() -> Self {
        Self {
            events: BTreeMap::new(),
            sequence: 0,
            link_free_at: at(0),
            received: Vec::new(),
            unacknowledged: 0,
            delivered: 0,
            dropped: 0,
            late_every: u64::MAX,
        }
    }

    fn schedule(&mut self, time: Instant, event: Event) {
        self.sequence += 1;
        self.events.insert((time, self.sequence), event);
    }

    fn transmit(&mut self, now: Instant, packet_number: u64) {
        let bytes = ByteCount(u64::from(SIZE));
        if RATE * (self.link_free_at - now) + bytes > QUEUE {
            self.dropped += 1;
            return;
        }
        self.link_free_at = self.link_free_at.max(now) + bytes / RATE;
        let late = if packet_number % self.late_every == self.late_every - 1 { ms(5) } else { ms(0) };
        self.schedule(self.link_free_at + ONE_WAY + late, Event::Arrival(packet_number));
    }

    fn receive(&mut self, now: Instant, packet_number: u64) {
        self.delivered += 1;
        let gap = self.received.last().is_some_and(|last| *last.end() + 1 != packet_number);
        insert(&mut self.received, packet_number);
        self.unacknowledged += 1;
        if gap || self.unacknowledged >= 2 {
            self.acknowledge(now);
        } else {
            self.schedule(now + ms(5), Event::DelayedAck);
        }
    }

    fn acknowledge(&mut self, now: Instant) {
        self.unacknowledged = 0;
        let ranges = self.received.iter().rev().take(64).cloned().collect();
        self.schedule(now + ONE_WAY, Event::Ack(ranges));
    }
}

fn insert(ranges: &mut Vec<RangeInclusive<u64>>, number: u64) {
    let index = ranges.partition_point(|range| *range.end() + 1 < number);
    match ranges.get(index).cloned() {
        Some(range) if *range.start() <= number + 1 => {
            let mut end = number.max(*range.end());
            if ranges.get(index + 1).is_some_and(|next| *next.start() == end + 1) {
                end = *ranges.remove(index + 1).end();
            }
            ranges[index] = number.min(*range.start())..=end;
        }
        Some(_) | None => ranges.insert(index, number..=number),
    }
}

/// Sends as much as is permitted. Returns when to try again.
fn send_all(path: &mut PathRecovery, world: &mut World, now: Instant) -> Option<Instant> {
    loop {
        match path.allowance(now) {
            Allowance::Ready { bytes } => {
                for _ in 0..bytes.get() / u64::from(SIZE) {
                    let number = send_kind(path, now, SIZE, PacketKind::Ordinary);
                    world.transmit(now, number);
                }
            }
            Allowance::Window => return None,
            Allowance::PacedUntil(later) => return Some(later),
        }
    }
}

/// Results of a transfer in the observed time.
#[derive(Debug)]
struct Figures {
    /// Share of the capacity that was used.
    percent: u64,
    dropped: u64,
    /// Packets declared lost that arrived, from the start on.
    spurious: u32,
    /// Largest smoothed round trip.
    rtt: Duration,
}

/// Transfers until second `until` and observes the time from second `from` on.
fn run(path: &mut PathRecovery, from: u64, until: u64) -> Figures {
    run_in(World::new(), path, from, until)
}

fn run_in(mut world: World, path: &mut PathRecovery, from: u64, until: u64) -> Figures {
    let mut out = Outcome::default();
    let mut now = at(0);
    let mut before = None;
    let mut rtt = Duration::ZERO;
    let mut spurious = 0;
    while now < at(until * 1000) {
        if now >= at(from * 1000) {
            before.get_or_insert((world.delivered, world.dropped));
            rtt = rtt.max(path.rtt().smoothed());
        }
        let paced = send_all(path, &mut world, now);
        let event = world.events.first_key_value().map(|((time, _), _)| *time);
        let next = [paced, event, path.deadline()].into_iter().flatten().min().expect("something goes on");
        now = now.max(next);
        if path.deadline().is_some_and(|deadline| deadline <= now) {
            let kind = path.on_timeout(now, &mut out);
            if matches!(kind, TimeoutKind::ProbeTimeout { .. }) {
                let number = send_kind(path, now, SIZE, PacketKind::Ordinary);
                world.transmit(now, number);
            }
        }
        while let Some(entry) = world.events.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Event::Arrival(number) => world.receive(now, number),
                Event::DelayedAck if world.unacknowledged > 0 => world.acknowledge(now),
                Event::DelayedAck => {}
                Event::Ack(ranges) => acked(path, now, &ranges, &mut out).unwrap(),
            }
        }
        spurious += out.spurious;
        out.clear();
    }
    let (delivered, dropped) = before.unwrap();
    let bytes = ByteCount((world.delivered - delivered) * u64::from(SIZE));
    let capacity = RATE * Duration::from_secs(until - from);
    Figures { percent: bytes.get() * 100 / capacity.get(), dropped: world.dropped - dropped, spurious, rtt }
}

#[test]
fn cubic_and_new_reno_fill_a_bottleneck_with_a_queue_of_one_bandwidth_delay_product() {
    for controller in ["cubic", "new-reno"] {
        let whole = run(&mut path(controller), 0, 8);
        assert!(whole.percent >= 95 && whole.spurious == 0, "{controller}: {whole:?} over all");
        let later = run(&mut path(controller), 4, 12);
        assert!(later.percent >= 95 && later.dropped > 0, "{controller}: {later:?} later");
    }
}

#[test]
fn bbr_fills_a_bottleneck_without_filling_its_queue() {
    let mut path = path("bbr");
    let figures = run(&mut path, 2, 20);
    // Fourteen bandwidth probes come near the end of the queue, which holds one bandwidth-delay product.
    assert!(figures.percent >= 97 && figures.dropped < 100 && figures.spurious == 0, "{figures:?}");
    assert!(figures.rtt < ms(42), "{figures:?}");
    let measured = path.delivery_rate().bits_per_second() / 1_000_000;
    assert!((48..=53).contains(&measured), "{measured} Mbit/s");
}

#[test]
fn a_fixed_window_of_half_the_product_gets_half_the_rate_without_a_queue() {
    let mut config = ControllerConfig::new(SIZE);
    config.initial_window = 52;
    let controller = congestion::by_name("fixed").unwrap()(&config);
    let mut path = PathRecovery::new(controller, &RecoveryConfig::default());
    let result = run(&mut path, 5, 10);
    assert!((45..=50).contains(&result.percent) && result.dropped == 0, "{result:?}");
    assert!(result.rtt < ms(22), "{result:?}");
}

#[test]
fn the_delivery_rate_is_the_rate_of_the_bottleneck() {
    let mut path = path("cubic");
    run(&mut path, 0, 5);
    let measured = path.delivery_rate().bits_per_second() / 1_000_000;
    assert!((48..=52).contains(&measured), "{measured} Mbit/s");
}

#[test]
fn reordering_is_learnt_and_costs_little() {
    for controller in ["bbr", "cubic", "new-reno"] {
        let mut world = World::new();
        world.late_every = 53;
        let figures = run_in(world, &mut path(controller), 2, 4);
        // 5 ms are about 26 packets; some 300 packets are late.
        assert!(figures.percent >= 90, "{controller}: {figures:?}");
        assert!((1..200).contains(&figures.spurious), "{controller}: {figures:?}");
    }
}
