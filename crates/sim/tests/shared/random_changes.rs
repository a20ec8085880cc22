//! What random changes of the network must not do to the data of a pair, over any wire.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use manyway_proto::{ByteCount, Order as MessageOrder, Rate};
use manyway_sim::link::{Jitter, LinkConfig, LossModel, Order, Probability};
use manyway_sim::pair::Chaos;
use manyway_sim::traffic::{Messenger, Scribbler};
use manyway_sim::{EndpointPair, PairBuilder, Side};

const MS: Duration = Duration::from_millis(1);

fn link(megabits: u64, delay: Duration) -> LinkConfig {
    LinkConfig::new(Rate::from_bits_per_second(megabits * 1_000_000), delay)
}

/// Three paths: one without faults, one with every kind of fault, one behind a NAT.
pub(crate) fn three_paths(seed: u64) -> PairBuilder {
    let faulty = link(10, 25 * MS)
        .with_jitter(Jitter::Normal(5 * MS), Order::Free)
        .with_loss(LossModel::bursts(Probability::from_percent(2.0), 3))
        .with_corruption(Probability::from_percent(0.5))
        .with_duplication(Probability::from_percent(1.0));
    PairBuilder::new()
        .seed(seed)
        .answer(ByteCount(5_000))
        .path_with(link(10, 15 * MS), link(10, 15 * MS))
        .path_with(faulty.clone(), faulty)
        .path_with(link(5, 40 * MS), link(20, 40 * MS))
        .behind_nat(Duration::from_secs(5))
}

/// Connects a pair, and writes bytes at both ends while the network changes; returns the digest of all events.
pub(crate) fn bytes_survive(mut pair: EndpointPair, seed: u64, change: impl FnOnce(Chaos) -> Chaos) -> u64 {
    connect(&mut pair, seed);
    for side in [Side::Client, Side::Server] {
        let (host, now, rng) = (pair.host(side), pair.now(), pair.world_mut().fork_rng());
        pair.start(side, Box::new(Scribbler::new(host, ByteCount(2_000_000), now, rng)));
    }
    let mut chaos = change(Chaos::new(pair.world_mut().fork_rng(), 150 * MS));
    let result = chaos.run(&mut pair, Duration::from_secs(8));
    chaos.heal(&mut pair);
    let result =
        result.and_then(|()| pair.run_until(Duration::from_secs(120), "settled", |pair| pair.is_quiet()));
    assert!(result.is_ok(), "seed {seed}: {result:?} after {:?}", chaos.done());
    pair.world().record().digest()
}

fn connect(pair: &mut EndpointPair, seed: u64) {
    let took = pair.connect(Duration::from_secs(10));
    assert!(took.is_ok(), "seed {seed}: {took:?}");
}

/// Messages of every kind beside bytes: reliable ones arrive once, complete, and in order on their stream.
pub(crate) fn messages_survive(mut pair: EndpointPair, seed: u64, change: impl FnOnce(Chaos) -> Chaos) {
    connect(&mut pair, seed);
    let mut expected = Vec::new();
    for side in [Side::Client, Side::Server] {
        let (host, now, rng) = (pair.host(side), pair.now(), pair.world_mut().fork_rng());
        pair.start(side, Box::new(Scribbler::new(host, ByteCount(500_000), now, rng)));
        let messenger = Messenger::new(300, now, pair.world_mut().fork_rng());
        expected.push((side, messenger.reliable()));
        pair.start(side, Box::new(messenger));
    }
    let mut chaos = change(Chaos::new(pair.world_mut().fork_rng(), 150 * MS).everywhere());
    let result = chaos.run(&mut pair, Duration::from_secs(4));
    chaos.heal(&mut pair);
    let all_told = |pair: &mut EndpointPair| {
        let idle = [Side::Client, Side::Server].into_iter().all(|side| {
            let connection = pair.peer(side).unwrap().connection().unwrap();
            let figures = connection.statistics().messages;
            figures.sent + figures.dropped == figures.delivered + figures.abandoned && figures.sent > 0
        });
        idle && pair.is_quiet()
    };
    let result = result.and_then(|()| pair.run_until(Duration::from_secs(120), "settled", all_told));
    assert!(result.is_ok(), "seed {seed}: {result:?} after {:?}", chaos.done());
    for (side, reliable) in expected {
        let mut seen = BTreeSet::new();
        let mut last = BTreeMap::new();
        for delivery in pair.messages(side.other()) {
            let number = Messenger::number_of(&delivery.message).unwrap();
            assert!(seen.insert(number), "seed {seed}: message {number} came twice");
            if delivery.message.order == MessageOrder::Ordered {
                let before = last.insert(delivery.stream, number);
                assert!(
                    before.is_none_or(|before| before < number),
                    "seed {seed}: {number} after {before:?}"
                );
            }
        }
        for number in reliable.lock().unwrap().iter() {
            assert!(seen.contains(number), "seed {seed}: message {number} is missing");
        }
    }
}
