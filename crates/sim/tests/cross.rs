//! Cross traffic over links alone: what its flows reach, and how they share.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail as tests do")]

use std::net::IpAddr;
use std::time::Duration;

use manyway_proto::{LocalAddress, Rate, Rng};
use manyway_sim::link::{LinkConfig, LinkState, LossModel, Probability, QueueConfig, QueueLimit};
use manyway_sim::scenario::{MS, SECOND, mbit};
use manyway_sim::{
    CrossFlow, CrossHost, CrossKind, EndpointPeer, HostId, LinkId, Part, Sizes, TcpPeer, World,
};

/// Two hosts with a link each way.
struct Hosts {
    world: World<CrossHost>,
    hosts: [HostId; 2],
    links: [LinkId; 2],
}

const ADDRESSES: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];

impl Hosts {
    fn new(seed: u64, link: LinkConfig) -> Self {
        let mut world = World::new(seed);
        let peer = |byte| EndpointPeer::client(Default::default(), Rng::from_seed([byte; 32]));
        let peers = [peer(1), peer(2)].map(TcpPeer::new);
        let hosts = peers.map(|peer| world.add_node(CrossHost::new(peer)));
        let now = world.now();
        let network = world.network_mut();
        network.set_sizes(Sizes::Whole);
        let [near, far] = [0, 1].map(|place| network.add_interface(hosts[place], ADDRESSES[place].into()));
        let back = link.clone().with_loss(LossModel::None);
        let links = network.connect(now, (near, far), link, back);
        Self { world, hosts, links: links.into() }
    }

    /// Adds a flow from the first host, or from the second.
    fn add(&mut self, kind: CrossKind, from: usize, (start, end): (Duration, Duration)) {
        let now = self.world.now();
        let flow = CrossFlow { kind, packet: 1500, start: now + start, end: now + end, bytes: None };
        for place in [0, 1] {
            let part = if place == from { Part::Send } else { Part::Receive };
            let address: IpAddr = ADDRESSES[place].into();
            let local = LocalAddress { interface: 1, address: (address, 0).into() };
            let peer = (place == 0).then_some(ADDRESSES[1].into());
            self.world.node_mut(self.hosts[place]).unwrap().add(flow, part, local, peer);
        }
    }

    fn run(&mut self, time: Duration) {
        self.world.run_until(self.world.now() + time).unwrap();
    }

    fn received(&self, to: usize, flow: usize) -> u64 {
        self.world.node(self.hosts[to]).unwrap().received(flow)
    }

    /// Mbit/s of payload of the flows to the second host over a time, after another time.
    fn rates(&mut self, skip: Duration, time: Duration, flows: usize) -> Vec<f64> {
        self.run(skip);
        let before: Vec<u64> = (0..flows).map(|flow| self.received(1, flow)).collect();
        self.run(time);
        let rate = |(flow, before): (usize, &u64)| {
            (self.received(1, flow) - before) as f64 * 8e-6 / time.as_secs_f64()
        };
        before.iter().enumerate().map(rate).collect()
    }
}

/// 10 Mbit/s and 40 ms there and back.
fn link(queue: QueueLimit) -> LinkConfig {
    LinkConfig::new(mbit(10), 20 * MS).with_overhead(0).with_queue(QueueConfig::drop_tail(queue))
}

fn for_good() -> (Duration, Duration) {
    (Duration::ZERO, 1000 * SECOND)
}

#[test]
fn a_flow_alone_fills_a_link_with_a_queue_of_one_round_trip() {
    for kind in [CrossKind::Cubic, CrossKind::Reno] {
        for from in [0, 1] {
            let mut hosts = Hosts::new(1, link(QueueLimit::Time(40 * MS)));
            hosts.add(kind, from, for_good());
            hosts.run(20 * SECOND);
            let rate = hosts.received(1 - from, 0) as f64 * 8e-6 / 20.0;
            // Of 9.65 Mbit/s without headers.
            assert!((9.3..9.66).contains(&rate), "{kind:?} from {from}: {rate}");
        }
    }
}

#[test]
fn a_short_queue_costs_reno_more_than_cubic() {
    let rate = |kind| {
        let mut hosts = Hosts::new(1, link(QueueLimit::Time(4 * MS)));
        hosts.add(kind, 0, for_good());
        hosts.rates(5 * SECOND, 60 * SECOND, 1)[0]
    };
    // Windows swing between a half, or seven tenths, and the whole.
    let (reno, cubic) = (rate(CrossKind::Reno), rate(CrossKind::Cubic));
    assert!((7.2..8.3).contains(&reno), "{reno}");
    assert!((8.2..9.2).contains(&cubic), "{cubic}");
}

#[test]
fn flows_that_began_at_different_times_share_the_link() {
    let mut hosts = Hosts::new(1, link(QueueLimit::Time(40 * MS)));
    hosts.add(CrossKind::Cubic, 0, for_good());
    hosts.add(CrossKind::Cubic, 0, (5 * SECOND, 1000 * SECOND));
    let rates = hosts.rates(40 * SECOND, 100 * SECOND, 2);
    assert!(rates.iter().all(|rate| *rate > 3.2) && rates.iter().sum::<f64>() > 9.3, "{rates:?}");
}

#[test]
fn datagrams_keep_their_rate_and_leave_the_rest() {
    let mut hosts = Hosts::new(1, link(QueueLimit::Time(40 * MS)));
    hosts.add(CrossKind::Udp(Rate::from_bits_per_second(6_000_000)), 0, (10 * SECOND, 20 * SECOND));
    hosts.add(CrossKind::Cubic, 0, for_good());
    assert!(hosts.rates(5 * SECOND, 4 * SECOND, 2)[1] > 9.0);
    let during = hosts.rates(2 * SECOND, 8 * SECOND, 2);
    // 1472 of 1500 bytes are payload.
    assert!(during[0] > 5.3 && during[0] < 5.9, "{during:?}");
    assert!(during[1] > 2.9 && during[1] < 4.2, "{during:?}");
    let after = hosts.rates(6 * SECOND, 4 * SECOND, 2);
    assert!(after[0] < 1e-6 && after[1] > 9.0, "{after:?}");
    // Without losses every datagram of ten seconds would arrive.
    assert!(hosts.received(1, 0) <= 5000 * 1472);
}

#[test]
fn random_loss_bounds_the_rate() {
    let lossy = link(QueueLimit::Time(100 * MS)).with_loss(LossModel::Random(Probability::from_percent(1.0)));
    let rate = |kind| {
        let rates = (1..=4).map(|seed| {
            let mut hosts = Hosts::new(seed, lossy.clone());
            hosts.add(kind, 0, for_good());
            hosts.rates(5 * SECOND, 60 * SECOND, 1)[0]
        });
        rates.sum::<f64>() / 4.0
    };
    // 1.22 · 1448 bytes / (40 ms · √0.01) is 3.5 Mbit/s.
    let (reno, cubic) = (rate(CrossKind::Reno), rate(CrossKind::Cubic));
    assert!((2.8..4.2).contains(&reno), "{reno}");
    // Linux's CUBIC follows the estimate of Reno's window a round trip later.
    assert!((2.4..3.4).contains(&cubic) && cubic < reno, "{cubic}, {reno}");
}

#[test]
fn twenty_flows_share_a_link_on_which_each_has_three_packets() {
    let narrow = LinkConfig::new(mbit(6), 40 * MS)
        .with_overhead(0)
        .with_queue(QueueConfig::drop_tail(QueueLimit::Time(80 * MS)));
    let mut hosts = Hosts::new(1, narrow);
    for _ in 0..20 {
        hosts.add(CrossKind::Reno, 0, for_good());
    }
    let rates = hosts.rates(10 * SECOND, 100 * SECOND, 20);
    let sum: f64 = rates.iter().sum();
    assert!(sum > 5.5, "{sum} {rates:?}");
    assert!(rates.iter().all(|rate| *rate > sum / 20.0 / 2.5 && *rate < sum / 20.0 * 2.5), "{rates:?}");
}

#[test]
fn a_flow_begins_and_ends_on_time_and_survives_an_outage() {
    let mut hosts = Hosts::new(1, link(QueueLimit::Time(40 * MS)));
    let cut = |hosts: &mut Hosts, state| {
        let now = hosts.world.now();
        for link in hosts.links {
            hosts.world.network_mut().link_mut(link).unwrap().set_state(now, state);
        }
    };
    // The first packet of the flow is lost, and repeated a second later.
    hosts.add(CrossKind::Cubic, 1, (SECOND, 10 * SECOND));
    hosts.run(SECOND - MS);
    assert_eq!(hosts.received(0, 0), 0);
    cut(&mut hosts, LinkState::Down);
    hosts.run(SECOND / 2);
    cut(&mut hosts, LinkState::Up);
    hosts.run(SECOND);
    assert!(hosts.received(0, 0) > 300_000);
    cut(&mut hosts, LinkState::Down);
    hosts.run(SECOND);
    let before = hosts.received(0, 0);
    cut(&mut hosts, LinkState::Up);
    hosts.run(2 * SECOND);
    assert!(hosts.received(0, 0) > before + 1_000_000);
    hosts.run(5 * SECOND);
    let at_the_end = hosts.received(0, 0);
    hosts.run(10 * SECOND);
    assert_eq!(hosts.received(0, 0), at_the_end);
}

#[test]
fn damaged_segments_are_dropped_by_their_checksum() {
    let mut damaging = link(QueueLimit::Time(100 * MS));
    damaging.corruption = Probability::from_percent(2.0);
    let mut hosts = Hosts::new(1, damaging);
    hosts.add(CrossKind::Cubic, 0, for_good());
    hosts.add(CrossKind::Udp(Rate::from_bits_per_second(1_000_000)), 0, for_good());
    let rates = hosts.rates(SECOND, 20 * SECOND, 2);
    assert!(rates[0] > 1.5 && rates[1] > 0.9 && rates[1] < 0.98, "{rates:?}");
}
