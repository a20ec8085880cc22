//! MMSP/1 beside MMSP/2 with the same scheduler and congestion control, without losses and changes of address.

use manyway_proto::ConnectionConfig;
use manyway_sim::link::LinkConfig;
use manyway_sim::nightly::few_or_many;
use manyway_sim::scenario::{MINUTE, MS, SECOND, mbit, megabytes, percent};
use manyway_sim::{EndpointPair, PairBuilder, Side, endpoint_pair, mmsp1_pair};

use super::modern;

/// Networks without losses: rate in Mbit/s and delay in one direction in ms of each path.
const NETWORKS: [&[(u64, u32)]; 5] = [
    &[(50, 10)],
    &[(50, 10), (50, 10)],
    &[(50, 10), (20, 40)],
    &[(100, 5), (10, 60)],
    &[(30, 10), (30, 25), (30, 40)],
];

fn goodput(mut pair: EndpointPair) -> manyway_proto::Rate {
    pair.connect(10 * SECOND).unwrap();
    pair.run_for(500 * MS).unwrap();
    pair.transfer(Side::Client, megabytes(few_or_many(12, 40)), MINUTE).unwrap().goodput
}

fn builder(network: &[(u64, u32)]) -> PairBuilder {
    network.iter().fold(PairBuilder::new(), |builder, (rate, delay)| {
        let link = LinkConfig::new(mbit(*rate), *delay * MS);
        builder.path_with(link.clone(), link)
    })
}

fn compare(network: &[(u64, u32)], config: &ConnectionConfig) -> u64 {
    let mmsp2 = goodput(endpoint_pair(builder(network), config));
    let mmsp1 = goodput(mmsp1_pair(builder(network), config, config));
    percent(mmsp1, mmsp2)
}

#[test]
fn mmsp1_is_as_fast_as_mmsp2_with_the_same_scheduler_and_congestion_control() {
    for (scheduler, congestion) in [("earliest", "bbr"), ("min-rtt", "cubic")] {
        let config = modern(scheduler, congestion);
        for network in NETWORKS {
            let share = compare(network, &config);
            assert!(share >= 95, "{scheduler} {congestion} {network:?}: {share} %");
        }
    }
}
