//! An application that reads more slowly than the paths carry: it alone blocks the sender, and no path is blamed.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{Instant, PathState, Rate, Rng, StreamId};
use manyway_sim::nightly::few_or_many;
use manyway_sim::scenario::{MINUTE, MS, connected, mbit, megabytes, path_events};
use manyway_sim::traffic::{Application, Read, Streams};
use manyway_sim::{PairBuilder, Side};

/// Reads the service's answer in bursts between pauses of random length, at this average rate.
#[derive(Debug)]
struct Bursty {
    stream: Option<StreamId>,
    average: Rate,
    longest_pause: Duration,
    allowed: u64,
    looked_at: Instant,
    reads_at: Instant,
    rng: Rng,
}

impl Application for Bursty {
    fn act(&mut self, now: Instant, streams: &mut dyn Streams) {
        if self.stream.is_none() {
            self.stream = streams.open();
            self.stream.iter().for_each(|stream| streams.finish(*stream));
        }
        if now >= self.reads_at {
            self.allowed += (self.average * (now - self.looked_at)).get();
            self.looked_at = now;
            let micros = u64::try_from(self.longest_pause.as_micros()).unwrap();
            self.reads_at = now + Duration::from_micros(self.rng.next_u64() % micros);
        }
        let Some(stream) = self.stream else { return };
        while self.allowed > 0 {
            let most = usize::try_from(self.allowed).unwrap();
            let Read::Data(data) = streams.read(stream, most) else { break };
            self.allowed -= data.len() as u64;
        }
    }

    fn wakes_at(&self) -> Option<Instant> {
        Some(self.reads_at)
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// How often the server parks one of two paths of 50 Mbit/s in a minute.
fn parked(seed: u8, longest_pause: Duration) -> usize {
    let builder = PairBuilder::new().seed(seed.into()).path(mbit(50), 10 * MS).path(mbit(50), 10 * MS);
    let mut pair = connected(builder.answer(megabytes(100))).unwrap();
    let now = pair.now();
    let reader = Bursty {
        stream: None,
        average: mbit(10),
        longest_pause,
        allowed: 0,
        looked_at: now,
        reads_at: now,
        rng: Rng::from_seed([seed; 32]),
    };
    pair.start(Side::Client, Box::new(reader));
    pair.run_for(MINUTE).unwrap();
    let total = pair.received(Side::Client).total();
    assert!((megabytes(65)..megabytes(76)).contains(&total), "{total}");
    let events = path_events(&mut pair, Side::Server);
    events.iter().filter(|(_, event)| event.state == PathState::Parked).count()
}

// spec 6.42: a delay by the peer's application is no path's fault
#[test]
fn no_path_is_parked_because_the_peer_reads_slowly() {
    for longest_pause in [50 * MS, 4000 * MS, 100 * MS, 400 * MS].into_iter().take(few_or_many(2, 4)) {
        for seed in 0..few_or_many(1, 3) {
            assert_eq!(parked(seed, longest_pause), 0, "seed {seed}, pauses of up to {longest_pause:?}");
        }
    }
}
