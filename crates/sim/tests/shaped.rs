//! Links whose round-trip time is tiny until the queue of a shaper fills.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ByteCount, PathState, Rng};
use manyway_sim::link::{LinkConfig, RateModel};
use manyway_sim::nightly::{is_nightly, seeds};
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected, mbit, megabytes, path_events, path_figures};
use manyway_sim::traffic::Exchange;
use manyway_sim::{PairBuilder, Side};

/// As `tbf rate … burst 16k latency …` makes it.
fn shaped(megabits: u64, queue: Duration) -> LinkConfig {
    LinkConfig::new(mbit(megabits), Duration::from_micros(50))
        .with_rate(RateModel::TokenBucket { rate: mbit(megabits), burst: ByteCount(16_000) })
        .with_queue_time(queue)
}

/// The effect of several transfers of 8 MB over two shaped links on the paths, at both ends.
#[derive(Debug, Default)]
struct Suspicions {
    suspects: usize,
    deaths: usize,
    silence: Duration,
}

fn transfers(first: u64, second: u64, queue: Duration) -> Suspicions {
    let mut suspicions = Suspicions::default();
    for seed in seeds(1, 3) {
        for from in [Side::Client, Side::Server] {
            let link = |megabits| shaped(megabits, queue);
            let builder = PairBuilder::new().seed(seed).path_with(link(first), link(first));
            let mut pair = connected(builder.path_with(link(second), link(second))).unwrap();
            pair.run_for(13 * MS * u32::try_from(seed).unwrap()).unwrap();
            let report = pair.transfer(from, megabytes(8), MINUTE).unwrap();
            suspicions.silence = suspicions.silence.max(report.longest_silence);
            for side in [Side::Client, Side::Server] {
                let states: Vec<_> =
                    path_events(&mut pair, side).iter().map(|(_, event)| event.state).collect();
                suspicions.suspects += states.iter().filter(|state| **state == PathState::Suspect).count();
                suspicions.deaths += states.iter().filter(|state| **state == PathState::Dead).count();
            }
        }
    }
    suspicions
}

/// A shaper passes a burst at once; the paths together need not reach that rate.
#[test]
fn the_guard_ignores_bursts_of_a_shaper() {
    for from in [Side::Client, Side::Server] {
        let link = || shaped(20, 50 * MS);
        let builder = PairBuilder::new().path_with(link(), link()).path_with(link(), link());
        let mut pair = connected(builder).unwrap();
        let report = pair.transfer(from, megabytes(16), MINUTE).unwrap();
        assert!(report.goodput > mbit(37), "{from:?} {}", report.goodput);
        assert!(path_events(&mut pair, from).iter().all(|(_, event)| event.state != PathState::Parked));
    }
}

/// The receiver's packets wait for their answers behind the sender's data.
#[test]
fn no_path_dies_of_the_queue_of_its_own_transfer() {
    for (place, (first, second)) in [(20, 20), (20, 5), (50, 10)].into_iter().enumerate() {
        // By day each pair with one of the queues.
        let chosen = if is_nightly() { 0..2 } else { place % 2..place % 2 + 1 };
        for queue in [50 * MS, 100 * MS][chosen].iter().copied() {
            let suspicions = transfers(first, second, queue);
            let case = format!("{first} and {second} Mbit/s, {queue:?}: {suspicions:?}");
            assert_eq!(suspicions.deaths, 0, "{case}");
            assert!(suspicions.silence < 300 * MS, "{case}");
            assert!(queue > 50 * MS || suspicions.suspects <= 2, "{case}");
        }
    }
}

/// A busy system delays a program, whose bursts then pass the shaper at the speed of the wire. Such a rate is believed
/// until the queue behind it drops the ends of the bursts, in few gaps.
#[test]
fn a_busy_host_does_not_send_what_the_shaper_drops() {
    let (mut sent, mut lost) = (0, 0);
    for seed in 0..6 {
        let link = || shaped(20, 50 * MS);
        let builder = PairBuilder::new().seed(seed).path_with(link(), link()).path_with(link(), link());
        let mut pair = connected(builder).unwrap();
        let host = pair.host(Side::Client);
        pair.start(Side::Client, Box::new(Exchange::new(host, megabytes(20))));
        let (begin, mut rng) = (pair.now(), Rng::from_seed([u8::try_from(seed).unwrap(); 32]));
        while !pair.is_quiet() {
            for stopped in [false, true] {
                if stopped {
                    pair.stop(Side::Client);
                }
                pair.run_for(Duration::from_micros(rng.next_u64() % 20_000)).unwrap();
            }
            pair.resume(Side::Client);
        }
        let time = pair.now() - begin;
        assert!(time < 5 * SECOND, "seed {seed}: {time:?} for 20 MB at 40 Mbit/s");
        for path in path_figures(&mut pair, Side::Client) {
            sent += path.packets_sent;
            lost += path.packets_lost;
        }
    }
    assert!(lost * 100 < sent * 11, "{lost} of {sent} lost");
}
