use super::toy::{Cheat, Toy};
use super::*;
use crate::invariants::Law;
use crate::link::{Jitter, LinkConfig, LossModel, Order, Probability};
use crate::traffic::{Requests, Scribbler};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}

fn megabytes(number: u64) -> ByteCount {
    ByteCount(number * 1_000_000)
}

fn two_paths() -> PairBuilder {
    PairBuilder::new().path(mbit(20), 10 * MS).path(mbit(20), 10 * MS)
}

fn build(builder: PairBuilder) -> Pair<Toy> {
    let mut pair = builder.build(|_| Toy::new(Side::Client), |_| Toy::new(Side::Server));
    pair.connect(MINUTE).unwrap();
    pair
}

#[test]
fn the_handshake_takes_a_round_trip() {
    let mut pair = two_paths().build(|_| Toy::new(Side::Client), |_| Toy::new(Side::Server));
    let took = pair.connect(MINUTE).unwrap();
    assert!(took >= 20 * MS && took < 21 * MS, "{took:?}");
}

#[test]
fn a_transfer_is_measured_at_the_receiver() {
    for family in [Family::V4, Family::V6] {
        for from in [Side::Client, Side::Server] {
            let mut pair = build(two_paths().family(family));
            let report = pair.transfer(from, megabytes(3), MINUTE).unwrap();
            assert_eq!(report.received.total(), megabytes(3));
            assert!(report.goodput > mbit(25) && report.goodput < mbit(40), "{}", report.goodput);
            assert!(report.path_bytes.iter().all(|bytes| *bytes > megabytes(1)), "{:?}", report.path_bytes);
            assert!(pair.is_quiet());
        }
    }
}

#[test]
fn content_survives_every_fault_of_the_links() {
    for seed in 0..5 {
        let config = LinkConfig::new(mbit(20), 10 * MS)
            .with_jitter(Jitter::Normal(3 * MS), Order::Free)
            .with_loss(LossModel::bursts(Probability::from_percent(2.0), 3))
            .with_corruption(Probability::from_percent(1.0))
            .with_duplication(Probability::from_percent(2.0));
        let builder = PairBuilder::new().seed(seed).path_with(config.clone(), config.clone());
        let mut pair = build(builder.path_with(config.clone(), config).answer(ByteCount(5_000)));
        pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
        pair.transfer(Side::Server, megabytes(1), MINUTE).unwrap();
    }
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let run = |seed| {
        let config =
            LinkConfig::new(mbit(20), 10 * MS).with_loss(LossModel::Random(Probability::from_percent(1.0)));
        let mut pair = build(PairBuilder::new().seed(seed).path_with(config.clone(), config));
        pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
        pair.world().record().digest()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_cut_shows_as_silence_and_a_restored_path_carries_data() {
    let mut pair = build(PairBuilder::new().path(mbit(20), 10 * MS));
    let stream = Exchange::new(pair.host(Side::Client), megabytes(4));
    pair.start(Side::Client, Box::new(stream));
    pair.run_for(500 * MS).unwrap();
    pair.cut(0, Direction::Both);
    pair.run_for(700 * MS).unwrap();
    pair.restore(0, Direction::Both);
    let delivered = pair.delivered(Side::Client);
    pair.run_until(MINUTE, "done", |pair| pair.is_quiet()).unwrap();
    let silence = pair.received(Side::Server).longest_silence();
    assert!(silence > 650 * MS && silence < 1_000 * MS, "{silence:?}");
    assert!(pair.delivered(Side::Client)[0] > delivered[0]);
}

#[test]
fn addresses_change_and_interfaces_go_and_come_back() {
    let mut pair = build(two_paths().behind_nat(Duration::from_secs(30)));
    pair.start(Side::Client, Box::new(Exchange::new(pair.host(Side::Client), megabytes(5))));
    pair.run_for(200 * MS).unwrap();
    pair.change_address(0);
    pair.run_for(200 * MS).unwrap();
    pair.set_interface(0, LinkState::Down);
    pair.run_for(200 * MS).unwrap();
    pair.rebind(1);
    pair.set_interface(0, LinkState::Up);
    pair.run_until(MINUTE, "done", |pair| pair.is_quiet()).unwrap();
    assert_eq!(pair.received(Side::Server).total(), megabytes(5));
    assert!(pair.world().network().counters().kept_out > 0);
}

#[test]
fn requests_are_timed_one_by_one() {
    let mut pair = build(two_paths().answer(ByteCount(100)));
    let host = pair.host(Side::Client);
    let mut requests = Requests::new(host, ByteCount(100), pair.now() + 5 * MS, 50 * MS, 20);
    assert_eq!(requests.wakes_at(), Some(pair.now() + 5 * MS));
    pair.start(Side::Client, Box::new(Requests::new(host, ByteCount(100), pair.now(), 50 * MS, 20)));
    let start = pair.now();
    pair.run_until(MINUTE, "answered", |pair| pair.is_quiet()).unwrap();
    let took = pair.now() - start;
    assert!(took >= 19 * 50 * MS + 20 * MS && took < 19 * 50 * MS + 25 * MS, "{took:?}");
    assert!(requests.latencies().is_empty() && !requests.is_done());
    requests.act(pair.now(), pair.peer(Side::Client).unwrap());
}

#[test]
fn the_time_up_message_says_what_is_missing() {
    let mut pair = build(two_paths());
    pair.cut(0, Direction::Up);
    pair.cut(1, Direction::Up);
    let error = pair.transfer(Side::Client, megabytes(1), Duration::from_secs(2)).unwrap_err();
    assert!(matches!(error, PairError::TimeUp { missing: "transferred", .. }), "{error}");
}

#[test]
fn violations_of_the_laws_are_found() {
    let expect = |cheat, find: fn(&Law) -> bool| {
        // Reordering, so that the order matters.
        let config = LinkConfig::new(mbit(20), 20 * MS).with_jitter(Jitter::Uniform(5 * MS), Order::Free);
        let mut pair = build(PairBuilder::new().seed(3).path_with(config.clone(), config));
        for side in [Side::Client, Side::Server] {
            pair.peer(side).unwrap().cheat = Some(cheat);
        }
        match pair.transfer(Side::Client, megabytes(1), MINUTE) {
            Err(PairError::Broken(broken)) => {
                assert_eq!(broken.seed, 3);
                assert!(find(&broken.law), "{broken}");
            }
            other => panic!("{cheat:?}: {other:?}"),
        }
    };
    expect(Cheat::Order, |law| matches!(law, Law::Content { .. }));
    expect(Cheat::Deadline, |law| matches!(law, Law::DeadlineInThePast { .. }));
    expect(Cheat::Window, |law| matches!(law, Law::Window { .. }));
}

#[test]
fn random_changes_violate_no_law() {
    for seed in 0..10 {
        let builder = two_paths().path(mbit(5), 40 * MS).behind_nat(2 * Duration::from_secs(1));
        let mut pair = build(builder.seed(seed).answer(ByteCount(3_000)));
        for side in [Side::Client, Side::Server] {
            let (host, now, rng) = (pair.host(side), pair.now(), pair.world_mut().fork_rng());
            pair.start(side, Box::new(Scribbler::new(host, megabytes(1), now, rng)));
        }
        let mut chaos = Chaos::new(pair.world_mut().fork_rng(), 100 * MS);
        let result = chaos.run(&mut pair, Duration::from_secs(4));
        chaos.heal(&mut pair);
        let result = result.and_then(|()| pair.run_until(5 * MINUTE, "settled", |pair| pair.is_quiet()));
        assert!(result.is_ok(), "seed {seed}: {result:?} after {:#?}", chaos.done());
        assert!(pair.received(Side::Server).total() >= megabytes(1));
        assert!(pair.received(Side::Client).total() >= megabytes(1));
    }
}
