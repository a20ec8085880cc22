use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn peer(text: &str) -> SocketAddr {
    SocketAddr::new(ip(text), 4455)
}

fn prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').unwrap();
    Prefix { address: ip(address), length: length.parse().unwrap() }
}

fn interface(index: u32, name: &str, addresses: &[&str]) -> Interface {
    let addresses = addresses.iter().map(|text| {
        let Prefix { address, length } = prefix(text);
        InterfaceAddress::new(address, length)
    });
    Interface { addresses: addresses.collect(), ..Interface::new(index, name) }
}

fn loopback() -> Interface {
    Interface { kind: InterfaceKind::Loopback, ..interface(1, "lo", &["127.0.0.1/8", "::1/128"]) }
}

/// A host with Ethernet, a modem and loopback.
fn host() -> Snapshot {
    let interfaces = vec![
        loopback(),
        interface(2, "eth0", &["192.0.2.10/24", "fe80::2/64", "2001:db8:1::10/64"]),
        interface(3, "wwan0", &["10.64.0.9/30"]),
    ];
    let routes = [(2, "192.0.2.0/24"), (2, "0.0.0.0/0"), (2, "::/0"), (3, "10.64.0.8/30"), (3, "0.0.0.0/0")];
    let routes = routes.iter().map(|(index, to)| Route::new(*index, prefix(to))).collect();
    Snapshot::new(interfaces, Some(routes))
}

fn locals(selection: &Selection) -> Vec<String> {
    selection.candidates.iter().map(|c| format!("{} {}", c.name, c.local)).collect()
}

fn reason(selection: &Selection, name: &str) -> Exclusion {
    let excluded = selection.excluded.iter().find(|e| e.interface == name);
    excluded.unwrap_or_else(|| panic!("{name} is used: {selection:?}")).reason.clone()
}

#[test]
fn every_interface_with_a_route_to_the_peer_is_used() {
    let selection = host().usable(&InterfacePolicy::new(), &[peer("198.51.100.1"), peer("2001:db8:9::1")]);
    assert_eq!(
        locals(&selection),
        ["eth0 192.0.2.10:0%2", "eth0 [2001:db8:1::10]:0%2", "wwan0 10.64.0.9:0%3"]
    );
    assert_eq!(reason(&selection, "lo"), Exclusion::Loopback);
}

#[test]
fn a_link_local_peer_without_a_zone_is_looked_for_behind_every_interface_that_has_such_an_address() {
    let mut host = host();
    host.interfaces[2].addresses.push(InterfaceAddress::new(ip("fe80::3"), 64));
    let peers =
        host.with_scopes(&["[fe80::9]:1", "[fe80::9%3]:1", "192.0.2.1:1"].map(|peer| peer.parse().unwrap()));
    let printed: Vec<_> = peers.iter().map(ToString::to_string).collect();
    assert_eq!(printed, ["[fe80::9%2]:1", "[fe80::9%3]:1", "[fe80::9%3]:1", "192.0.2.1:1"]);
    let selection = host.usable(&InterfacePolicy::new(), &peers[..2]);
    assert_eq!(locals(&selection), ["eth0 [fe80::2%2]:0%2", "wwan0 [fe80::3%3]:0%3"]);
}

// spec 6.33
#[test]
fn an_interface_below_the_least_size_is_left_out_and_its_mtu_is_named() {
    let mut host = host();
    let usable = |host: &Snapshot| host.usable(&InterfacePolicy::new(), &[peer("198.51.100.1")]);
    host.interfaces[2].mtu = Some(1228);
    assert_eq!(usable(&host).candidates.len(), 2);
    host.interfaces[2].mtu = Some(1000);
    let reason = reason(&usable(&host), "wwan0");
    assert_eq!(reason, Exclusion::MtuTooSmall { mtu: 1000 });
    assert!(reason.to_string().starts_with("its MTU of 1000 is below 1228"), "{reason}");
}

#[test]
fn peers_of_one_family_need_one_local_address() {
    let selection = host().usable(&InterfacePolicy::new(), &[peer("198.51.100.1"), peer("198.51.100.2")]);
    assert_eq!(locals(&selection), ["eth0 192.0.2.10:0%2", "wwan0 10.64.0.9:0%3"]);
}

#[test]
fn a_mapped_peer_is_an_ipv4_peer() {
    let selection = host().usable(&InterfacePolicy::new(), &[peer("::ffff:198.51.100.1")]);
    assert_eq!(locals(&selection), ["eth0 192.0.2.10:0%2", "wwan0 10.64.0.9:0%3"]);
}

#[test]
fn a_peer_on_this_host_is_reached_over_loopback_only() {
    for (at, local) in
        [("127.0.0.5", "lo 127.0.0.1:0"), ("::1", "lo [::1]:0"), ("192.0.2.10", "lo 192.0.2.10:0")]
    {
        let selection = host().usable(&InterfacePolicy::new(), &[peer(at)]);
        assert_eq!(locals(&selection), [local]);
        assert_eq!(reason(&selection, "eth0"), Exclusion::PeerIsLocal);
    }
}

#[test]
fn a_link_local_address_of_this_host_keeps_its_zone() {
    let mut snapshot = host();
    snapshot.interfaces.push(interface(15, "six", &["fe80::15/64"]));
    let selection = snapshot.usable(&InterfacePolicy::new(), &["[fe80::15%15]:4455".parse().unwrap()]);
    let bound: Vec<_> = selection.candidates.iter().map(|candidate| candidate.local.address).collect();
    assert_eq!(bound, ["[fe80::15%15]:0".parse().unwrap()]);
}

#[test]
fn without_peers_every_address_that_leads_beyond_the_link_counts() {
    let selection = host().usable(&InterfacePolicy::new(), &[]);
    assert_eq!(
        locals(&selection),
        ["eth0 192.0.2.10:0%2", "eth0 [2001:db8:1::10]:0%2", "wwan0 10.64.0.9:0%3"]
    );
}

#[test]
fn each_reason_is_found() {
    let mut snapshot = host();
    snapshot.interfaces.extend([
        Interface { state: LinkState::Down, ..interface(10, "down", &["10.1.0.1/24"]) },
        Interface { state: LinkState::NoCarrier, ..interface(11, "out", &["10.1.0.1/24"]) },
        Interface { part_of: Some("br0".into()), ..interface(12, "port", &["10.1.0.1/24"]) },
        Interface {
            kind: InterfaceKind::Tunnel { kind: "wireguard".into() },
            ..interface(13, "wg0", &["10.1.0.1/24"])
        },
        interface(14, "bare", &[]),
        interface(15, "six", &["2001:db8::1/64", "fe80::1/64"]),
        interface(16, "docker0", &["172.17.0.1/16"]),
        interface(17, "own", &["10.9.0.1/24"]),
        interface(18, "never", &["10.9.0.1/24"]),
    ]);
    let mut waiting = interface(19, "waiting", &["198.51.100.9/24"]);
    waiting.addresses[0].state = AddressState::Tentative;
    snapshot.interfaces.push(waiting);
    let policy = InterfacePolicy::new().without_own_tunnel("own").without("never".parse().unwrap());

    let selection = snapshot.usable(&policy, &[peer("198.51.100.1")]);
    assert_eq!(locals(&selection), ["eth0 192.0.2.10:0%2", "wwan0 10.64.0.9:0%3"]);
    for (name, expected) in [
        ("lo", Exclusion::Loopback),
        ("down", Exclusion::Down),
        ("out", Exclusion::NoCarrier),
        ("port", Exclusion::PartOf { whole: "br0".into() }),
        ("wg0", Exclusion::Tunnel { kind: "wireguard".into() }),
        ("bare", Exclusion::NoAddress),
        ("six", Exclusion::NoAddressOfFamily),
        ("docker0", Exclusion::NoRoute),
        ("own", Exclusion::OwnTunnel),
        ("never", Exclusion::ByUser),
        ("waiting", Exclusion::AddressNotReady),
    ] {
        assert_eq!(reason(&selection, name), expected);
        assert!(!expected.to_string().is_empty());
    }
}

#[test]
fn naming_interfaces_gives_them_their_role_and_leaves_the_rest_out() {
    let mut snapshot = host();
    snapshot.interfaces.push(Interface {
        kind: InterfaceKind::Tunnel { kind: "wireguard".into() },
        ..interface(9, "wg0", &["10.5.0.2/24"])
    });
    snapshot.routes.as_mut().unwrap().push(Route::new(9, prefix("0.0.0.0/0")));
    let policy = InterfacePolicy::new()
        .with("wwan*,role=backup".parse().unwrap())
        .with("wg0,role=secondary".parse().unwrap())
        .with("usb7".parse().unwrap());
    let selection = snapshot.usable(&policy, &[peer("198.51.100.1")]);
    let found: Vec<_> = selection.candidates.iter().map(|c| (c.name.as_str(), c.role)).collect();
    assert_eq!(found, [("wwan0", Role::Backup), ("wg0", Role::Secondary)]);
    assert_eq!(reason(&selection, "eth0"), Exclusion::NotNamed);
    assert_eq!(reason(&selection, "usb7"), Exclusion::NotThere);
}

#[test]
fn a_tun_device_counts_without_being_named() {
    let mut snapshot = host();
    snapshot.interfaces =
        vec![Interface { kind: InterfaceKind::Tun, ..interface(3, "tap0", &["10.0.2.100/24"]) }];
    let selection = snapshot.usable(&InterfacePolicy::new(), &[peer("198.51.100.1")]);
    assert_eq!(locals(&selection), ["tap0 10.0.2.100:0%3"]);
}

#[test]
fn the_address_that_fits_the_peer_best_comes_first_and_others_that_last_and_lead_as_far_follow() {
    let mut eth0 = interface(
        2,
        "eth0",
        &["2001:db8:1::bad/64", "2001:db8:1::10/64", "fd00::10/64", "2001:db8:2::10/64", "2001:db8:1::11/64"],
    );
    eth0.addresses[0].state = AddressState::Deprecated;
    eth0.addresses[4].temporary = true;
    let towards = |routes: Vec<Route>, at: &str| {
        locals(&Snapshot::new(vec![eth0.clone()], Some(routes)).usable(&InterfacePolicy::new(), &[peer(at)]))
    };
    let default = || vec![Route::new(2, prefix("::/0"))];
    assert_eq!(
        towards(default(), "2001:db8:1::99"),
        ["eth0 [2001:db8:1::10]:0%2", "eth0 [2001:db8:2::10]:0%2"],
        "on the link, and lasting"
    );
    assert_eq!(
        towards(default(), "2001:db8:2::99"),
        ["eth0 [2001:db8:2::10]:0%2", "eth0 [2001:db8:1::10]:0%2"],
        "on the link"
    );
    assert_eq!(towards(default(), "fd00:1::1"), ["eth0 [fd00::10]:0%2"], "of the same reach");
    let mut chosen = default();
    chosen[0].source = Some(ip("2001:db8:2::10"));
    assert_eq!(
        towards(chosen, "2600::1"),
        ["eth0 [2001:db8:2::10]:0%2", "eth0 [2001:db8:1::10]:0%2"],
        "as the route says"
    );
}

/// An interface with enough addresses to reach the limit on their number.
fn crowded(addresses: &[String]) -> Snapshot {
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    let eth0 = interface(2, "eth0", &addresses);
    Snapshot::new(vec![loopback(), eth0, interface(3, "wwan0", &["10.64.0.9/24", "2600:3::9/64"])], None)
}

#[test]
fn of_an_interface_with_many_addresses_the_best_are_selected_for_each_peer_in_turn() {
    let many: Vec<_> =
        (1..=9).map(|n| format!("2001:db8:{n}::1/64")).chain(["192.0.2.10/24".to_owned()]).collect();
    let peers = [peer("198.51.100.1"), peer("2001:db8:7::99"), peer("2001:db8:9::99")];
    let taken = locals(&crowded(&many).usable(&InterfacePolicy::new(), &peers));
    assert_eq!(
        taken[..3],
        ["eth0 192.0.2.10:0%2", "eth0 [2001:db8:7::1]:0%2", "eth0 [2001:db8:9::1]:0%2"],
        "{taken:?}"
    );
    assert_eq!(taken.iter().filter(|address| address.starts_with("eth0")).count(), 8);
    assert_eq!(taken[8..], ["wwan0 10.64.0.9:0%3", "wwan0 [2600:3::9]:0%3"]);
}

#[test]
fn an_address_of_smaller_scope_or_a_temporary_one_is_used_only_without_a_better_one() {
    let addresses = ["169.254.3.4/16", "192.0.2.10/24", "fd00::10/64", "2001:db8::77/64", "2001:db8::10/64"];
    let mut snapshot = crowded(&addresses.map(str::to_owned));
    snapshot.interfaces[1].addresses[3].temporary = true;
    let peers = [peer("198.51.100.1"), peer("2600::1")];
    let usable = |snapshot: &Snapshot| locals(&snapshot.usable(&InterfacePolicy::new(), &peers));
    assert_eq!(usable(&snapshot)[..2], ["eth0 192.0.2.10:0%2", "eth0 [2001:db8::10]:0%2"]);
    assert_eq!(usable(&snapshot).len(), 4);
    snapshot.interfaces[1].addresses[4].state = AddressState::Deprecated;
    assert_eq!(usable(&snapshot)[1], "eth0 [2001:db8::77]:0%2");
    snapshot.interfaces[1].addresses[3].state = AddressState::Deprecated;
    snapshot.interfaces[1].addresses[1].state = AddressState::Deprecated;
    assert_eq!(usable(&snapshot)[..2], ["eth0 169.254.3.4:0%2", "eth0 [fd00::10]:0%2"]);
}

#[test]
fn a_server_is_reachable_at_every_address_one_of_each_family_and_interface_first() {
    let addresses = ["169.254.3.4/16", "192.0.2.10/24", "192.0.2.11/24", "fd00::10/64", "2001:db8::77/64"];
    let addresses = [&addresses[..], &["2001:db8::10/64", "fe80::1/64"]].concat();
    let mut snapshot = crowded(&addresses.iter().map(ToString::to_string).collect::<Vec<_>>());
    snapshot.interfaces[1].addresses[4].temporary = true;
    let listening = |at: &[&str]| -> Vec<String> {
        let local = |at: &&str| manyway_proto::LocalAddress { interface: 0, address: at.parse().unwrap() };
        let listening: Vec<_> = at.iter().map(local).collect();
        crate::reachable_addresses(&listening, &snapshot).iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        listening(&["[::]:5", "0.0.0.0:5"]),
        ["10.64.0.9:5", "192.0.2.10:5", "[2001:db8::10]:5", "[2600:3::9]:5", "192.0.2.11:5", "[fd00::10]:5"]
    );
    assert_eq!(listening(&["[2001:db8::77]:7", "0.0.0.0:5"])[..2], ["[2001:db8::77]:7", "10.64.0.9:5"]);
}

#[test]
fn a_link_local_peer_is_reached_from_a_link_local_address_of_its_link() {
    let mut snapshot = host();
    snapshot.interfaces.push(interface(7, "eth1", &["fe80::7/64"]));
    let at = |scope| SocketAddr::V6(std::net::SocketAddrV6::new("fe80::99".parse().unwrap(), 4455, 0, scope));
    let selection = snapshot.usable(&InterfacePolicy::new(), &[at(7)]);
    assert_eq!(locals(&selection), ["eth1 [fe80::7%7]:0%7"]);
    assert_eq!(reason(&selection, "eth0"), Exclusion::NoRoute);
}

#[test]
fn without_known_routes_every_address_counts() {
    let mut snapshot = host();
    snapshot.routes = None;
    let selection = snapshot.usable(&InterfacePolicy::new(), &[peer("198.51.100.1")]);
    assert_eq!(locals(&selection), ["eth0 192.0.2.10:0%2", "wwan0 10.64.0.9:0%3"]);
}

#[tokio::test]
async fn this_host_has_a_loopback_interface() {
    for watcher in [InterfaceWatcher::new().unwrap(), InterfaceWatcher::portable().unwrap()] {
        let snapshot = watcher.snapshot();
        let lo = snapshot.interfaces.iter().find(|i| i.kind == InterfaceKind::Loopback);
        let lo = lo.unwrap_or_else(|| panic!("{snapshot:?}"));
        assert!(lo.addresses.iter().any(|a| a.prefix.address.is_loopback()), "{lo:?}");
        let selection = watcher.usable(&InterfacePolicy::new(), &[peer("127.0.0.1")]);
        assert_eq!(selection.candidates.len(), 1, "{selection:?}");
    }
}

#[tokio::test]
async fn both_sources_see_the_same_addresses() {
    let all = |watcher: InterfaceWatcher| {
        let mut all: Vec<_> = watcher
            .snapshot()
            .interfaces
            .iter()
            .flat_map(|i| i.addresses.iter().map(|a| (i.index, i.name.clone(), a.prefix)))
            .collect();
        all.sort();
        all
    };
    assert_eq!(all(InterfaceWatcher::new().unwrap()), all(InterfaceWatcher::portable().unwrap()));
}

/// Returns prepared snapshots and hints.
#[derive(Debug, Clone, Default)]
struct Script(Arc<Mutex<(Snapshot, VecDeque<Hint>)>>);

impl InterfaceSource for Script {
    fn snapshot(&mut self) -> io::Result<Snapshot> {
        let script = self.0.lock().map_err(|_| io::Error::other("poisoned"))?;
        Ok(script.0.clone())
    }

    fn poll_hint(&mut self, _: &mut Context<'_>) -> Poll<Hint> {
        self.0.lock().unwrap().1.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

async fn time_until_told(hint: Option<Hint>, before: Snapshot, after: Snapshot) -> (Duration, Vec<Change>) {
    let script = Script::default();
    script.0.lock().unwrap().0 = before;
    let mut watcher = InterfaceWatcher::with_source(Box::new(script.clone())).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    *script.0.lock().unwrap() = (after, hint.into_iter().collect());
    let start = tokio::time::Instant::now();
    let changes = watcher.changed().await;
    (start.elapsed(), changes)
}

#[tokio::test(start_paused = true)]
async fn additions_are_reported_after_the_debounce_time() {
    let mut before = host();
    before.interfaces.pop();
    let (time, changes) = time_until_told(Some(Hint::Gained), before, host()).await;
    assert!((50..60).contains(&time.as_millis()), "{time:?}");
    assert_eq!(changes, [Change::Appeared { index: 3, name: "wwan0".into() }]);
}

#[tokio::test(start_paused = true)]
async fn removals_are_reported_at_once() {
    let mut after = host();
    after.interfaces.pop();
    let (time, changes) = time_until_told(Some(Hint::Lost), host(), after).await;
    assert!(time < Duration::from_millis(5), "{time:?}");
    assert_eq!(changes, [Change::Vanished { index: 3, name: "wwan0".into() }]);
}

#[tokio::test(start_paused = true)]
async fn without_hints_the_slow_poll_finds_the_change() {
    let mut after = host();
    after.interfaces[1].addresses[0] = InterfaceAddress::new(ip("192.0.2.77"), 24);
    let (time, changes) = time_until_told(None, host(), after).await;
    assert!(time <= InterfaceWatcher::POLL, "{time:?}");
    assert_eq!(
        changes,
        [
            Change::AddressRemoved { index: 2, address: prefix("192.0.2.10/24") },
            Change::AddressAdded { index: 2, address: prefix("192.0.2.77/24") }
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_link_that_goes_down_is_reported_before_other_changes() {
    let mut after = host();
    after.interfaces[2].state = LinkState::NoCarrier;
    after.interfaces[1].mtu = Some(1400);
    after.routes.as_mut().unwrap().pop();
    let (_, changes) = time_until_told(Some(Hint::Lost), host(), after).await;
    assert_eq!(
        changes,
        [
            Change::State { index: 3, name: "wwan0".into(), state: LinkState::NoCarrier },
            Change::Properties { index: 2, name: "eth0".into() },
            Change::Routes
        ]
    );
}
