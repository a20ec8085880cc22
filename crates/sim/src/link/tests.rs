use std::sync::Arc;
use std::time::Duration;

use manyway_proto::{ByteCount, Instant, Rate, Rng};

use super::*;

const MS: Duration = Duration::from_millis(1);
const START: Instant = Instant::from_nanos(1_000_000_000);

/// Number of a packet and its bytes.
#[derive(Debug, Clone, PartialEq)]
struct Numbered {
    number: u64,
    ecn: bool,
    marked: bool,
    bytes: Vec<u8>,
}

impl Parcel for Numbered {
    fn flip_bit(&mut self, random: u64) {
        self.bytes.flip_bit(random);
    }
    fn is_ecn_capable(&self) -> bool {
        self.ecn
    }
    fn mark_congestion(&mut self) {
        self.marked = true;
    }
}

fn numbered(number: u64) -> Numbered {
    Numbered { number, ecn: true, marked: false, bytes: vec![0; 8] }
}

fn link(config: LinkConfig, seed: u8) -> Link<Numbered> {
    Link::new(START, config, Rng::from_seed([seed; 32]))
}

fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}

/// Offers a packet every `gap` and takes all out as they arrive; returns (number, arrival).
fn run(link: &mut Link<Numbered>, packets: u64, size: usize, gap: Duration) -> Vec<(Numbered, Instant)> {
    let mut out = Vec::new();
    for number in 0..packets {
        let now = START + gap * u32::try_from(number).unwrap();
        drain(link, now, &mut out);
        link.send(now, size, numbered(number));
        assert!(link.counters().balance());
    }
    drain(link, Instant::from_nanos(u64::MAX), &mut out);
    out
}

fn drain(link: &mut Link<Numbered>, until: Instant, out: &mut Vec<(Numbered, Instant)>) {
    let mut last = None;
    while let Some(now) = link.next_departure().filter(|next| *next <= until) {
        assert!(last.is_none_or(|last| last < now), "the link asks to be called again without time passing");
        last = Some(now);
        while let Some(packet) = link.poll(now) {
            out.push((packet, now));
        }
    }
}

/// When [`run`] offered a packet.
fn offered(packet: &Numbered, gap: Duration) -> Instant {
    START + gap * u32::try_from(packet.number).unwrap()
}

#[test]
fn the_rate_is_kept_within_one_per_cent_over_ten_seconds() {
    for rate in [mbit(1), mbit(8), mbit(50), mbit(300)] {
        let mut link = link(LinkConfig::new(rate, 15 * MS), 1);
        // Offered 1.5 times the rate.
        let gap = ByteCount(1000) / rate.scaled(3, 2);
        let packets = u64::try_from(Duration::from_secs(10).as_nanos() / gap.as_nanos()).unwrap();
        let out = run(&mut link, packets, 1000 - 28, gap);
        let within = out.iter().filter(|(_, at)| *at <= START + Duration::from_secs(10)).count() as f64;
        let expected = rate.bytes_per_second() as f64 * (10.0 - 0.015) / 1000.0;
        assert!((within / expected - 1.0).abs() < 0.01, "{rate}: {within} of {expected}");
    }
}

#[test]
fn the_delay_is_exact() {
    let mut link = link(LinkConfig::new(mbit(8), 40 * MS), 1);
    let out = run(&mut link, 100, 972, 2 * MS);
    for (packet, arrival) in out {
        assert_eq!(arrival - offered(&packet, 2 * MS), 41 * MS);
    }
}

#[test]
fn headers_count_on_the_rate() {
    for (overhead, expected) in [(0, 1_000), (LinkConfig::IPV4_UDP, 1_028), (LinkConfig::IPV6_UDP, 1_048)] {
        let config = LinkConfig::new(mbit(8), Duration::ZERO).with_overhead(overhead);
        let out = run(&mut link(config, 1), 1, 1_000, MS);
        assert_eq!(out[0].1 - START, Duration::from_micros(expected));
    }
}

#[test]
fn a_queue_never_holds_more_than_its_limit_and_drops_only_when_full() {
    let limits = [QueueLimit::Bytes(ByteCount(20_000)), QueueLimit::Packets(20), QueueLimit::Time(20 * MS)];
    for limit in limits {
        let config =
            LinkConfig::new(mbit(8), 10 * MS).with_overhead(0).with_queue(QueueConfig::drop_tail(limit));
        let mut link = link(config, 1);
        for number in 0..100 {
            let before = link.waiting();
            let fate = link.send(START, 1_000, numbered(number));
            assert!(link.waiting() <= ByteCount(20_000));
            assert_eq!(fate == Fate::Dropped(DropCause::QueueFull), before == ByteCount(20_000));
        }
        // 20 waiting and one being sent.
        assert_eq!(link.counters().held.packets, 21);
        assert_eq!(link.counters().queue_full.packets, 79);
    }
}

#[test]
fn the_queueing_delay_is_bounded_by_the_limit() {
    let config = LinkConfig::new(mbit(10), 5 * MS).with_queue_time(30 * MS);
    let out = run(&mut link(config, 1), 5_000, 1_000, Duration::from_micros(400));
    let longest = out.iter().map(|(p, at)| *at - (offered(p, Duration::from_micros(400)))).max();
    let transmission = ByteCount(1_028) / mbit(10);
    assert!(longest.unwrap() <= 35 * MS + 2 * transmission, "{longest:?}");
    assert!(longest.unwrap() >= 34 * MS, "{longest:?}");
}

#[test]
fn codel_keeps_the_standing_delay_near_its_target() {
    // An unresponsive sender 10 % above the rate; the algorithm must find the drop rate by itself.
    let config = LinkConfig::new(mbit(8), Duration::ZERO)
        .with_overhead(0)
        .with_queue(QueueConfig::codel(Reaction::Drop));
    let mut codel = link(config, 1);
    let gap = Duration::from_micros(909);
    let out = run(&mut codel, 40_000, 1_000, gap);
    let late: Vec<_> = out.iter().filter(|(p, _)| p.number > 30_000).collect();
    let mean =
        late.iter().map(|(p, at)| (*at - (offered(p, gap))).as_secs_f64()).sum::<f64>() / late.len() as f64;
    assert!(mean < 0.030, "mean delay {mean}");
    assert!(codel.counters().queue_law.packets > 1_000);
    assert_eq!(codel.counters().queue_full.packets, 0);
}

#[test]
fn codel_marks_ecn_capable_packets() {
    let config = LinkConfig::new(mbit(8), Duration::ZERO)
        .with_overhead(0)
        .with_queue(QueueConfig::codel(Reaction::Mark));
    let mut link = link(config, 1);
    let out = run(&mut link, 2_000, 1_000, Duration::from_micros(800));
    let marked = out.iter().filter(|(packet, _)| packet.marked).count() as u64;
    assert!(marked > 0);
    assert_eq!(marked, link.counters().marked.packets);
    assert_eq!(link.counters().queue_law.packets, 0);
}

#[test]
fn jitter_that_keeps_order_keeps_it_and_free_jitter_does_not() {
    for (order, in_order) in [(Order::Kept, true), (Order::Free, false)] {
        for jitter in [Jitter::Uniform(15 * MS), Jitter::Normal(8 * MS)] {
            let config = LinkConfig::new(mbit(50), 20 * MS).with_jitter(jitter, order);
            let out = run(&mut link(config, 3), 2_000, 1_000, MS);
            assert_eq!(out.len(), 2_000);
            assert_eq!(out.is_sorted_by_key(|(packet, _)| packet.number), in_order, "{order:?} {jitter:?}");
            assert!(out.is_sorted_by_key(|(_, at)| *at));
        }
    }
}

#[test]
fn the_counters_balance_under_every_fault() {
    for seed in 0..20 {
        let config = LinkConfig::new(mbit(10), 20 * MS)
            .with_queue_time(10 * MS)
            .with_jitter(Jitter::Uniform(10 * MS), Order::Free)
            .with_loss(LossModel::bursts(Probability::from_percent(5.0), 3))
            .with_corruption(Probability::from_percent(3.0))
            .with_duplication(Probability::from_percent(4.0));
        let mut link = link(config, seed);
        let mut rng = Rng::from_seed([seed + 100; 32]);
        let mut now = START;
        for number in 0..5_000 {
            now += Duration::from_micros(rng.next_u64() % 1_600);
            match rng.next_u64() % 400 {
                0 => link.set_state(now, LinkState::Down),
                1..=3 => link.set_state(now, LinkState::Up),
                4 => link.set_rate(now, RateModel::Fixed(Rate::ZERO)),
                5 => link.set_rate(now, RateModel::Unlimited),
                6..=9 => link.set_rate(now, RateModel::Fixed(mbit(10))),
                _ => {}
            }
            link.send(now, 500 + usize::try_from(rng.next_u64() % 1_200).unwrap(), numbered(number));
            while rng.next_u64().is_multiple_of(2) && link.poll(now).is_some() {}
            assert!(link.counters().balance(), "seed {seed} packet {number}: {:?}", link.counters());
        }
        link.set_rate(now, RateModel::Fixed(mbit(10)));
        let mut out = Vec::new();
        drain(&mut link, Instant::from_nanos(u64::MAX), &mut out);
        let counters = link.counters();
        assert!(counters.balance() && counters.held.packets == 0);
        for count in
            [counters.lost, counters.outage, counters.duplicated, counters.corrupted, counters.too_large]
        {
            assert!(count.packets > 0, "seed {seed}: {counters:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let config = LinkConfig::new(mbit(20), 20 * MS)
        .with_jitter(Jitter::Normal(5 * MS), Order::Free)
        .with_loss(LossModel::Random(Probability::from_percent(2.0)))
        .with_corruption(Probability::from_percent(2.0))
        .with_duplication(Probability::from_percent(2.0));
    let trace = |seed| run(&mut link(config.clone(), seed), 3_000, 1_000, Duration::from_micros(420));
    assert!(trace(1) == trace(1));
    assert!(trace(1) != trace(2));
}

#[test]
fn corruption_flips_exactly_one_bit() {
    let config = LinkConfig::default().with_corruption(Probability::ALWAYS);
    for (packet, _) in run(&mut link(config, 5), 200, 100, MS) {
        assert_eq!(packet.bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    }
    let mut empty: Vec<u8> = Vec::new();
    empty.flip_bit(7);
}

#[test]
fn a_cut_drops_packets_on_the_link_and_a_stop_holds_them() {
    let config = LinkConfig::new(mbit(8), 10 * MS).with_overhead(0);
    let mut cut = link(config.clone(), 1);
    let mut stopped = link(config, 1);
    for number in 0..5 {
        cut.send(START, 1_000, numbered(number));
        stopped.send(START, 1_000, numbered(number));
    }
    // 2.5 packets have left.
    let moment = START + Duration::from_micros(2_500);
    cut.set_state(moment, LinkState::Down);
    assert_eq!(cut.next_departure(), None);
    assert_eq!(cut.send(moment, 1_000, numbered(9)), Fate::Dropped(DropCause::Outage));
    assert_eq!(cut.counters().outage.packets, 6);

    stopped.set_rate(moment, RateModel::Fixed(Rate::ZERO));
    let mut out = Vec::new();
    drain(&mut stopped, START + Duration::from_secs(5), &mut out);
    assert_eq!(out.len(), 2);
    // At double rate the half packet takes 250 µs.
    stopped.set_rate(START + Duration::from_secs(5), RateModel::Fixed(mbit(16)));
    drain(&mut stopped, Instant::from_nanos(u64::MAX), &mut out);
    assert_eq!(out.len(), 5);
    assert_eq!(out[2].1, START + Duration::from_secs(5) + Duration::from_micros(10_250));
}

#[test]
fn a_trace_limits_the_rate_to_its_mean() {
    let trace = DeliveryTrace::from_mahimahi("1\n2\n2\n7\n10\n").unwrap();
    let expected = trace.mean_rate().bytes_per_second() as f64;
    let config = LinkConfig::default().with_rate(RateModel::Trace(Arc::new(trace)));
    let out = run(&mut link(config, 1), 20_000, 1_400, MS);
    let bytes = out.iter().filter(|(_, at)| *at <= START + Duration::from_secs(10)).count() as f64 * 1_428.0;
    assert!((bytes / 10.0 / expected - 1.0).abs() < 0.01, "{bytes} {expected}");
}

#[test]
fn a_bucket_limits_the_rate_in_the_long_run() {
    let model = RateModel::TokenBucket { rate: mbit(10), burst: ByteCount(32_000) };
    let config = LinkConfig::default().with_rate(model);
    let out = run(&mut link(config, 1), 20_000, 1_222, Duration::from_micros(700));
    let bytes = out.iter().filter(|(_, at)| *at <= START + Duration::from_secs(10)).count() as f64 * 1_250.0;
    assert!((bytes / 12_500_000.0 - 1.0).abs() < 0.01, "{bytes}");
}

#[test]
fn packets_above_the_mtu_vanish() {
    let mut link = link(LinkConfig::default().with_mtu(1_280), 1);
    assert_eq!(link.send(START, 1_252, numbered(0)), Fate::Taken);
    assert_eq!(link.send(START, 1_253, numbered(1)), Fate::Dropped(DropCause::TooLarge));
}

#[test]
fn presets_have_names_and_rates() {
    for preset in Preset::ALL {
        assert_eq!(Preset::by_name(preset.name()), Some(preset));
        assert!(preset.down().rate.nominal() >= preset.up().rate.nominal());
    }
    assert_eq!(Preset::by_name("carrier-pigeon"), None);
}
