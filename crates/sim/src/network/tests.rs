use std::net::SocketAddr;
use std::time::Duration;

use manyway_proto::Rate;

use super::*;
use crate::nat::NatConfig;

const MS: Duration = Duration::from_millis(1);
const START: Instant = Instant::from_nanos(1_000_000_000);

/// A client with two interfaces, a server with one, two paths of 10 and 30 ms.
struct Triangle {
    network: Network,
    client: [InterfaceId; 2],
    server: InterfaceId,
    up: Vec<LinkId>,
}

fn triangle() -> Triangle {
    let mut network = Network::new(Rng::from_seed([1; 32]));
    let (client, server) = (network.add_host(), network.add_host());
    let server = network.add_interface(server, ip("192.0.2.1"));
    let client = ["10.0.0.2", "10.1.0.2"].map(|address| network.add_interface(client, ip(address)));
    let mut up = Vec::new();
    for (interface, delay) in client.into_iter().zip([10, 30]) {
        let config = LinkConfig::new(Rate::from_bits_per_second(100_000_000), delay * MS);
        up.push(network.connect(START, (interface, server), config.clone(), config).0);
    }
    Triangle { network, client, server, up }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn tuple(local: &str, interface: u32, remote: &str) -> FourTuple {
    let local = LocalAddress { interface, address: local.parse().unwrap() };
    FourTuple::udp(local, remote.parse().unwrap())
}

impl Triangle {
    fn send_from(&mut self, local: &str, interface: u32) -> Result<(), SendError> {
        self.send_at(START, local, interface)
    }

    fn send_at(&mut self, now: Instant, local: &str, interface: u32) -> Result<(), SendError> {
        let tuple = tuple(local, interface, "192.0.2.1:443");
        self.network.send(now, (self.client[0].host, tuple), Ecn::Ect0, vec![1; 100])
    }

    /// All arrivals with their times.
    fn drain(&mut self) -> Vec<(Duration, Arrival)> {
        let mut out = Vec::new();
        while let Some(now) = self.network.next_event() {
            while let Some(arrival) = self.network.poll(now) {
                out.push((now - START, arrival));
            }
            assert!(self.network.balances());
        }
        out
    }
}

#[test]
fn a_packet_takes_the_link_of_its_source_address() {
    let mut net = triangle();
    net.send_from("10.1.0.2:5000", 0).unwrap();
    net.send_from("10.0.0.2:5000", 1).unwrap();
    let out = net.drain();
    let seen: Vec<_> = out.iter().map(|(at, arrival)| (at.as_millis(), arrival.tuple.remote)).collect();
    let expected: [(u128, SocketAddr); 2] =
        [(10, "10.0.0.2:5000".parse().unwrap()), (30, "10.1.0.2:5000".parse().unwrap())];
    assert_eq!(seen, expected);
    assert_eq!(out[0].1.tuple.local.interface, 1);
    assert_eq!(out[0].1.host, net.server.host);
}

#[test]
fn the_system_refuses_foreign_addresses_and_interfaces_that_are_down() {
    let mut net = triangle();
    assert!(matches!(net.send_from("10.9.0.2:5000", 0), Err(SendError::AddressNotAvailable { .. })));
    assert!(matches!(net.send_from("10.0.0.2:5000", 2), Err(SendError::AddressNotAvailable { .. })));
    net.network.set_interface_state(net.client[0], LinkState::Down);
    assert_eq!(net.send_from("10.0.0.2:5000", 1), Err(SendError::InterfaceDown { interface: net.client[0] }));
    assert_eq!(net.network.addresses(net.client[0].host), [(net.client[1], ip("10.1.0.2"))]);
}

#[test]
fn a_cut_link_drops_silently() {
    let mut net = triangle();
    let link = net.up[0];
    net.network.link_mut(link).unwrap().set_state(START, LinkState::Down);
    net.send_from("10.0.0.2:5000", 1).unwrap();
    assert!(net.drain().is_empty());
}

#[test]
fn packets_to_a_removed_address_are_lost() {
    let mut net = triangle();
    net.send_from("10.0.0.2:5000", 1).unwrap();
    net.network.remove_address(net.server, ip("192.0.2.1"));
    net.network.add_address(net.server, ip("192.0.2.2"));
    assert!(net.drain().is_empty());
    let to_new = tuple("10.0.0.2:5000", 1, "192.0.2.2:443");
    net.network.send(START, (net.client[0].host, to_new), Ecn::NotEct, vec![0; 9]).unwrap();
    assert_eq!(net.drain().len(), 1);
    assert_eq!(net.network.counters().stray, 1);
}

#[test]
fn a_nat_hides_the_inner_address_and_translates_answers_back() {
    let mut net = triangle();
    net.network.set_nat(net.client[0], Nat::new(NatConfig::new(ip("198.51.100.7"))));
    net.send_from("10.0.0.2:5000", 1).unwrap();
    let (_, arrival) = net.drain().remove(0);
    assert_eq!(arrival.tuple.remote.ip(), ip("198.51.100.7"));

    let answer = arrival.tuple;
    let now = START + 20 * MS;
    net.network.send(now, (net.server.host, answer), Ecn::NotEct, vec![2; 10]).unwrap();
    let (_, back) = net.drain().remove(0);
    assert_eq!(back.tuple, tuple("10.0.0.2:5000", 1, "192.0.2.1:443"));

    net.network.nat_mut(net.client[0]).unwrap().rebind();
    net.network.send(now, (net.server.host, answer), Ecn::NotEct, vec![2; 10]).unwrap();
    assert!(net.drain().is_empty());
    assert_eq!(net.network.counters().kept_out, 1);
}

#[test]
fn routes_can_share_a_bottleneck() {
    let mut net = triangle();
    // 1 ms for a packet of 128 bytes with headers.
    let cell = LinkConfig::new(Rate::from_bytes_per_second(128_000), Duration::ZERO);
    let cell = net.network.add_link(START, cell);
    for (interface, link) in net.client.into_iter().zip(net.up.clone()) {
        net.network.set_route(interface, net.server, vec![link, cell]);
    }
    for _ in 0..5 {
        net.send_at(START + 20 * MS, "10.0.0.2:5000", 1).unwrap();
        net.send_at(START, "10.1.0.2:5000", 2).unwrap();
    }
    let out = net.drain();
    assert_eq!(out.len(), 10);
    assert!(out.windows(2).all(|pair| pair[1].0 - pair[0].0 >= MS));
}

#[test]
fn rules_drop_delay_corrupt_and_copy_until_lifted() {
    let mut net = triangle();
    let mut trials = 0;
    let mut try_rule = |action: Option<Action>| {
        trials += 1;
        let start = trials * 1_000;
        let matching = Matching::all().at(net.client[0]).sized(100..=100);
        let rule = action.map(|action| net.network.add_rule(matching, action));
        net.send_at(START + start * MS, "10.0.0.2:5000", 1).unwrap();
        let out = net.drain().into_iter();
        if let Some(rule) = rule {
            assert_eq!(net.network.rule_hits(rule), Some(1));
            assert_eq!(net.network.remove_rule(rule), Some(1));
        }
        out.map(|(at, arrival)| (at.as_millis() - u128::from(start), arrival.data)).collect::<Vec<_>>()
    };
    assert!(try_rule(Some(Action::Drop)).is_empty());
    assert_eq!(try_rule(Some(Action::Delay(50 * MS))), [(60, vec![1; 100])]);
    let copied = try_rule(Some(Action::Copy(500 * MS)));
    assert_eq!(copied, [(10, vec![1; 100]), (510, vec![1; 100])]);
    let corrupted = try_rule(Some(Action::Corrupt)).remove(0).1;
    assert_eq!(corrupted.iter().map(|byte| (byte ^ 1).count_ones()).sum::<u32>(), 1);
    assert_eq!(try_rule(None), [(10, vec![1; 100])]);
}

#[test]
fn whole_packets_are_counted_by_links_and_at_the_end_of_routes() {
    let mut triangle = triangle();
    triangle.network.set_sizes(Sizes::Whole);
    assert!(triangle.network.take_passed().is_empty());
    triangle.send_from("10.0.0.2:1", 1).unwrap();
    triangle.drain();
    let passed = triangle.network.take_passed();
    // 100 bytes and the headers of IPv4 and UDP; the links of this network add theirs once more to the time.
    assert_eq!(passed.iter().map(|passed| passed.bytes).collect::<Vec<_>>(), [128]);
    assert!(passed.iter().all(|passed| passed.route == RouteId(0) && passed.at > START + 10 * MS));
    assert_eq!(triangle.network.link(triangle.up[0]).unwrap().counters().delivered.bytes.get(), 128);
    assert!(triangle.network.take_passed().is_empty());
}
