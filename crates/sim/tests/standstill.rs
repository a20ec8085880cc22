//! With a working path there is always progress, whatever the limits of streams and credit and however readers pause.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

use std::time::Duration;

use manyway_proto::{ByteCount, Class, ConnectionConfig, Instant, Rng, StreamConfig};
use manyway_sim::nightly::{for_each_seed, rotating_seeds};
use manyway_sim::pair::Chaos;
use manyway_sim::scenario::{MS, SECOND, mbit};
use manyway_sim::traffic::{Application, Exchange, Streams};
use manyway_sim::{EndpointPair, PairBuilder, Side, endpoint_pair};

/// Exchanges that want more streams than the limit allows, each of which acts at times of its own.
#[derive(Debug)]
struct Crowd {
    exchanges: Vec<(Instant, Exchange)>,
    rng: Rng,
    longest_rest: Duration,
}

impl Application for Crowd {
    fn act(&mut self, now: Instant, streams: &mut dyn Streams) {
        for (looks_at, exchange) in &mut self.exchanges {
            if *looks_at <= now {
                exchange.act(now, streams);
                *looks_at = now + self.longest_rest.mul_f64(unit(&mut self.rng)) + Duration::from_micros(1);
            }
        }
        self.exchanges.retain(|(_, exchange)| !exchange.is_done());
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.exchanges.iter().map(|(at, _)| *at).min()
    }

    fn is_done(&self) -> bool {
        self.exchanges.is_empty()
    }
}

/// A random number from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a random number")]
fn unit(rng: &mut Rng) -> f64 {
    rng.next_u64() as f64 / u64::MAX as f64
}

/// A random number from `least` to `most`, small ones as often as large ones.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size"
)]
fn between(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let (low, high) = ((least as f64).ln(), (most as f64).ln());
    (low + (high - low) * unit(rng)).exp() as u64
}

fn random_limits(rng: &mut Rng) -> StreamConfig {
    let mut streams = StreamConfig::default();
    streams.peer_streams = between(rng, 1, 40);
    streams.max_window = between(rng, 16 << 10, 1 << 20);
    streams.connection_receive_window = between(rng, 16 << 10, streams.max_window).max(16 << 10);
    streams.stream_receive_window = between(rng, 16 << 10, streams.max_window).max(16 << 10);
    streams.send_buffer = between(rng, 16 << 10, 1 << 20);
    streams.max_send_buffer = streams.send_buffer;
    streams.send_memory = between(rng, 48 << 10, 2 << 20);
    streams
}

fn pair(seed: u64, rng: &mut Rng) -> EndpointPair {
    let mut config = ConnectionConfig::default();
    config.streams = random_limits(rng);
    let answer = ByteCount(between(rng, 1, 60_000));
    let builder = PairBuilder::new()
        .seed(seed)
        .answer(answer)
        .path(mbit(20), 10 * MS)
        .path(mbit(10), 30 * MS)
        .path(mbit(5), 5 * MS);
    let mut pair = endpoint_pair(builder, &config);
    pair.connect(10 * SECOND).unwrap();
    pair
}

fn crowd(pair: &EndpointPair, side: Side, rng: &mut Rng) -> Crowd {
    let (host, now) = (pair.host(side), pair.now());
    let exchange = |rng: &mut Rng| {
        let class = [Class::Bulk, Class::Interactive][usize::from(rng.next_u64().is_multiple_of(4))];
        (now, Exchange::new(host, ByteCount(between(rng, 1, 100_000))).class(class))
    };
    let exchanges = (0..between(rng, 2, 60)).map(|_| exchange(rng)).collect();
    let longest_rest = Duration::from_micros(between(rng, 20_000, 300_000));
    Crowd { exchanges, rng: Rng::from_seed([u8::try_from(rng.next_u64() & 255).unwrap(); 32]), longest_rest }
}

/// While one path has no faults and not everything has arrived, something arrives in each span of time.
fn never_stands_still(seed: u64) {
    let mut rng = Rng::from_seed(std::array::from_fn(|place| seed.to_le_bytes()[place % 8]));
    let mut pair = pair(seed, &mut rng);
    let sides = [Side::Client, Side::Server];
    for side in sides {
        let crowd = crowd(&pair, side, &mut rng);
        pair.start(side, Box::new(crowd));
    }
    let mut chaos = Chaos::new(pair.world_mut().fork_rng(), 200 * MS);
    let arrived =
        |pair: &EndpointPair| sides.iter().map(|side| pair.received(*side).total().get()).sum::<u64>();
    for stretch in 0..400 {
        if pair.is_quiet() {
            return;
        }
        let before = arrived(&pair);
        chaos.run(&mut pair, STRETCH).unwrap();
        let moved = arrived(&pair) > before || pair.is_quiet();
        assert!(moved, "seed {seed}: nothing moves in stretch {stretch}, after {:?}", chaos.done());
    }
    panic!("seed {seed}: it does not come to its end");
}

#[test]
fn no_combination_of_streams_credit_and_readers_stalls() {
    for_each_seed(rotating_seeds(12, 120), never_stands_still);
}

/// Longer than a faultless path and its reader ever pause together.
const STRETCH: Duration = Duration::from_secs(2);
