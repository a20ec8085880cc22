use std::time::Duration;

use manyway_proto::Rate;
use manyway_sim::link::LinkConfig;
use manyway_sim::nat::NatConfig;
use manyway_sim::pair::Side;

use super::plan::Plan;
use crate::scenario::{Checksum, Ending, Interface, Link, Route, Scenario};

/// Two interfaces at the client, of 10 and 20 Mbit/s, one at the server.
fn scenario() -> Scenario {
    let interface = |name: &str| Interface {
        name: name.into(),
        addresses: Vec::new(),
        mtu: 1400,
        nat: None,
        cost: 0,
        is_for_others: false,
        tcp_packet: None,
        starts_down: false,
    };
    let link = |name: &str, megabits: u64| {
        let config =
            LinkConfig::new(Rate::from_bits_per_second(megabits * 1_000_000), Duration::from_millis(5));
        Link { name: name.into(), up: config.clone(), down: config, checksum: Checksum::Stale }
    };
    let route = |client| Route {
        name: format!("r{client}"),
        client,
        server: 0,
        links: vec![client],
        shares: Vec::new(),
    };
    Scenario {
        name: String::new(),
        title: String::new(),
        group: String::new(),
        source: String::new(),
        duration: Duration::ZERO,
        client: vec![interface("a"), interface("b")],
        server: vec![interface("s")],
        links: vec![link("la", 10), link("lb", 20)],
        routes: vec![route(0), route(1)],
        cross_routes: Vec::new(),
        traffic: Vec::new(),
        cross_traffic: Vec::new(),
        events: Vec::new(),
        ending: Ending::Complete,
        damage: None,
    }
}

#[test]
fn each_interface_has_a_table_of_its_own_and_the_best_route_the_least_metric() {
    let plan = Plan::new(&scenario());
    let lines = plan.set_up(Side::Client, 0).unwrap();
    let expected = "link set dev a mtu 1400 txqueuelen 1000\n\
                    address add 10.77.1.1/32 dev a\n\
                    rule add from 10.77.1.1 lookup 100\n\
                    link set dev a up\n\
                    route replace 0.0.0.0/0 dev a table 100\n\
                    route replace 10.78.1.1 dev a src 10.77.1.1 metric 11\n";
    assert_eq!(lines, expected);
    assert!(plan.set_up(Side::Client, 1).unwrap().ends_with("10.78.1.1 dev b src 10.77.2.1 metric 10\n"));
    let lines = plan.set_up(Side::Server, 0).unwrap();
    assert!(lines.contains("10.77.2.1 dev s src 10.78.1.1 metric 10\n"));
    assert!(lines.contains("10.77.1.1 dev s src 10.78.1.1 metric 11\n"));
    assert!(plan.set_up(Side::Server, 1).is_err());
}

#[test]
fn peers_are_told_the_size_of_segments() {
    let mut scenario = scenario();
    scenario.client[0].tcp_packet = Some(1000);
    scenario.client[0].addresses = ["10.1.0.1", "fd00::1"].map(|text| text.parse().unwrap()).to_vec();
    scenario.server[0].addresses = ["10.1.0.2", "fd00::2"].map(|text| text.parse().unwrap()).to_vec();
    let lines = Plan::new(&scenario).set_up(Side::Client, 0).unwrap();
    assert!(lines.contains("route replace 0.0.0.0/0 dev a table 100 advmss 960\n"), "{lines}");
    assert!(lines.contains("route replace fd00::2 dev a src fd00::1 metric 11 advmss 940\n"), "{lines}");
}

#[test]
fn an_interface_that_comes_up_later_has_its_addresses_and_gets_its_routes_then() {
    let mut scenario = scenario();
    scenario.client[0].starts_down = true;
    let mut plan = Plan::new(&scenario);
    let expected = "link set dev a mtu 1400 txqueuelen 1000\n\
                    address add 10.77.1.1/32 dev a\n\
                    rule add from 10.77.1.1 lookup 100\n";
    assert_eq!(plan.set_up(Side::Client, 0).unwrap(), expected);
    let later = "link set dev a up\n\
                 route replace 0.0.0.0/0 dev a table 100\n\
                 route replace 10.78.1.1 dev a src 10.77.1.1 metric 11\n";
    assert_eq!(plan.set_state(Side::Client, 0, true).unwrap(), later);
}

#[test]
fn both_families_get_routes_of_their_own() {
    let mut scenario = scenario();
    scenario.client[0].addresses = ["10.1.0.1", "fd00::1"].map(|text| text.parse().unwrap()).to_vec();
    scenario.server[0].addresses = ["fd00::2".parse().unwrap()].to_vec();
    let lines = Plan::new(&scenario).set_up(Side::Client, 0).unwrap();
    assert!(lines.contains("address add fd00::1/128 dev a nodad\n-6 rule add from fd00::1 lookup 100\n"));
    assert!(lines.contains("route replace ::/0 dev a table 100\n"));
    assert!(lines.contains("route replace fd00::2 dev a src fd00::1 metric 11\n"));
    assert!(!lines.contains("fd00::2 dev a src 10.1.0.1"));
}

#[test]
fn the_other_host_knows_a_translated_interface_by_its_outer_address() {
    let mut scenario = scenario();
    scenario.client[0].nat = Some(NatConfig::new("198.51.100.7".parse().unwrap()));
    let lines = Plan::new(&scenario).set_up(Side::Server, 0).unwrap();
    assert!(lines.contains("198.51.100.7 dev s"));
    assert!(!lines.contains("10.77.1.1"));
}

#[test]
fn a_new_address_replaces_the_old_one_on_both_hosts() {
    let mut plan = Plan::new(&scenario());
    let lines = plan.readdress(Side::Client, 1, "10.9.9.9".parse().unwrap()).unwrap();
    let here = "rule del from 10.77.2.1 lookup 101\naddress del 10.77.2.1/32 dev b\n\
                address add 10.9.9.9/32 dev b\nrule add from 10.9.9.9 lookup 101\n";
    assert!(lines.here.starts_with(here), "{}", lines.here);
    assert!(lines.here.contains("10.78.1.1 dev b src 10.9.9.9"));
    assert_eq!(lines.there_old, "route del 10.77.2.1\n");
    assert!(lines.there_new.contains("10.9.9.9 dev s src 10.78.1.1"));
    assert!(!lines.there_new.contains("10.77.2.1"));
}

#[test]
fn no_routes_lead_by_an_interface_that_is_down() {
    let mut plan = Plan::new(&scenario());
    assert_eq!(plan.set_state(Side::Client, 0, false).unwrap(), "link set dev a down\n");
    let lines = plan.readdress(Side::Client, 0, "10.9.9.9".parse().unwrap()).unwrap();
    assert!(!lines.here.contains("route replace"));
    let lines = plan.set_state(Side::Client, 0, true).unwrap();
    assert!(lines.starts_with("link set dev a up\nroute replace 0.0.0.0/0 dev a"));
    assert!(lines.contains("src 10.9.9.9"));
}

#[test]
fn packets_dropped_by_a_device_are_read_from_the_table_of_the_system() {
    let table = "Inter-|   Receive                                                |  Transmit\n \
                 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n    \
                 lo:       0       0    0    1    0     0          0         0        0       0    0    2    0\n \
                 near:  150000  100    0    3    0     0          0         0   150000    100    0   44    0\n";
    assert_eq!(super::dropped(table, "near"), Some(44));
    assert_eq!(super::dropped(table, "nea"), None);
    assert_eq!(super::dropped("", "near"), None);
}
