use std::time::{Duration, Instant};

use super::*;
use crate::test_namespace::{in_namespace, ip, wait_for_carrier};

/// Well below the slow poll, so that only a netlink message can explain it.
const PROMPT: Duration = Duration::from_millis(1500);

fn here(test: &str) -> String {
    format!("interfaces::tests_in_namespace::{test}")
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

/// Waits until the selection towards `peer` fits, and returns how long that took.
async fn until(watcher: &mut InterfaceWatcher, peer: &str, fits: impl Fn(&Selection) -> bool) -> Duration {
    let peer = format!("{peer}:4455").parse().unwrap();
    let start = Instant::now();
    loop {
        let selection = watcher.usable(&InterfacePolicy::new(), &[peer]);
        if fits(&selection) {
            return start.elapsed();
        }
        let changes = tokio::time::timeout(Duration::from_secs(8), watcher.changed()).await;
        let changes = changes.unwrap_or_else(|_| panic!("no change after 8 s; {selection:?}"));
        assert!(!changes.is_empty());
    }
}

fn local_is(selection: &Selection, name: &str, local: &str) -> bool {
    matches!(&selection.candidates[..], [only] if only.name == name && only.local.address.ip().to_string() == local)
}

fn excluded_as(selection: &Selection, name: &str, reason: &Exclusion) -> bool {
    selection.excluded.iter().any(|e| e.interface == name && e.reason == *reason)
}

#[test]
fn an_interface_is_seen_to_appear_change_its_address_and_vanish() {
    in_namespace(&here("an_interface_is_seen_to_appear_change_its_address_and_vanish"), || {
        run(async {
            let mut watcher = InterfaceWatcher::new().unwrap();
            let peer = "10.99.0.2";
            assert!(
                watcher
                    .usable(&InterfacePolicy::new(), &["10.99.0.2:1".parse().unwrap()])
                    .candidates
                    .is_empty()
            );

            ip("link add mwtest0 type veth peer name mwother0");
            ip("link set dev mwother0 up");
            ip("address add 10.99.0.1/24 dev mwtest0");
            ip("link set dev mwtest0 up mtu 1400");
            wait_for_carrier("mwtest0");
            let time = until(&mut watcher, peer, |s| local_is(s, "mwtest0", "10.99.0.1")).await;
            assert!(time < PROMPT, "appeared after {time:?}");
            let found = watcher.usable(&InterfacePolicy::new(), &["10.99.0.2:1".parse().unwrap()]);
            assert_eq!(found.candidates[0].mtu, Some(1400));

            ip("address delete 10.99.0.1/24 dev mwtest0");
            let time =
                until(&mut watcher, peer, |s| excluded_as(s, "mwtest0", &Exclusion::NoAddressOfFamily)).await;
            assert!(time < Duration::from_millis(200), "address gone after {time:?}");
            ip("address add 10.99.0.7/24 dev mwtest0");
            let time = until(&mut watcher, peer, |s| local_is(s, "mwtest0", "10.99.0.7")).await;
            assert!(time < PROMPT, "address new after {time:?}");

            ip("link set dev mwtest0 down");
            let time = until(&mut watcher, peer, |s| excluded_as(s, "mwtest0", &Exclusion::Down)).await;
            assert!(time < Duration::from_millis(200), "down after {time:?}");
            ip("link set dev mwtest0 up");
            until(&mut watcher, peer, |s| local_is(s, "mwtest0", "10.99.0.7")).await;

            ip("link delete dev mwtest0");
            let time = until(&mut watcher, peer, |s| s.candidates.is_empty()).await;
            assert!(time < Duration::from_millis(200), "vanished after {time:?}");
            assert!(!watcher.snapshot().interfaces.iter().any(|i| i.name == "mwtest0"));
        });
    });
}

#[test]
fn routes_carrier_bridges_and_tentative_addresses_are_noticed() {
    in_namespace(&here("routes_carrier_bridges_and_tentative_addresses_are_noticed"), || {
        run(async {
            let mut watcher = InterfaceWatcher::new().unwrap();
            ip("link add mwa type veth peer name mwb");
            ip("address add 10.98.0.1/24 dev mwa");
            ip("link set dev mwa up");
            let far = "198.51.100.1";
            until(&mut watcher, far, |s| excluded_as(s, "mwa", &Exclusion::NoCarrier)).await;
            ip("link set dev mwb up");
            until(&mut watcher, far, |s| excluded_as(s, "mwa", &Exclusion::NoRoute)).await;
            ip("route add default via 10.98.0.2 table 77");
            let time = until(&mut watcher, far, |s| local_is(s, "mwa", "10.98.0.1")).await;
            assert!(time < PROMPT, "routed after {time:?}");
            ip("route delete default table 77");
            let time = until(&mut watcher, far, |s| excluded_as(s, "mwa", &Exclusion::NoRoute)).await;
            assert!(time < Duration::from_millis(200), "route gone after {time:?}");

            ip("address add 2001:db8:5::1/64 dev mwa");
            let peer = "[2001:db8:5::2]";
            until(&mut watcher, peer, |s| excluded_as(s, "mwa", &Exclusion::AddressNotReady)).await;
            let time = until(&mut watcher, peer, |s| local_is(s, "mwa", "2001:db8:5::1")).await;
            assert!(time > Duration::from_millis(100), "used while it was being checked");

            ip("link add mwbr type bridge");
            ip("link set dev mwa master mwbr");
            let part = Exclusion::PartOf { whole: "mwbr".into() };
            until(&mut watcher, peer, |s| excluded_as(s, "mwa", &part)).await;
        });
    });
}

#[test]
fn a_tun_device_and_a_tunnel_are_told_apart() {
    in_namespace(&here("a_tun_device_and_a_tunnel_are_told_apart"), || {
        run(async {
            let kind = |name: &str| {
                let watcher = InterfaceWatcher::new().unwrap();
                let interface = watcher.snapshot().interfaces.iter().find(|i| i.name == name).cloned();
                interface.unwrap().kind
            };
            ip("link add mwv type veth peer name mww");
            assert_eq!(kind("mwv"), InterfaceKind::Ordinary);
            for (name, add) in
                [("mwtap", "tuntap add dev mwtap mode tap"), ("mwtun", "tuntap add dev mwtun mode tun")]
            {
                if std::path::Path::new("/dev/net/tun").exists() {
                    ip(add);
                    assert_eq!(kind(name), InterfaceKind::Tun);
                }
            }
            let wireguard =
                std::process::Command::new("ip").args(["link", "add", "mwg", "type", "wireguard"]).output();
            if wireguard.unwrap().status.success() {
                assert_eq!(kind("mwg"), InterfaceKind::Tunnel { kind: "wireguard".into() });
            }
        });
    });
}
