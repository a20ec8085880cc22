use super::*;
use crate::LocalAddress;

const NOW: Instant = Instant::from_nanos(0);

fn limit(address: &str, interface: u32) -> SizeLimit {
    let local = LocalAddress { interface: 1, address: address.parse().unwrap() };
    SizeLimit::new(&FourTuple::udp(local, local.address), Some(interface), LARGEST)
}

fn v4(interface: u32) -> SizeLimit {
    limit("10.0.0.1:1", interface)
}

/// Runs a search on a path that carries payloads up to `carries`; returns the sizes of the probes.
fn run(search: &mut MtuSearch, carries: u16) -> Vec<u16> {
    let mut tried = Vec::new();
    while let Some(size) = search.wanted() {
        tried.push(size);
        search.on_probe_sent();
        assert_eq!(search.wanted(), None, "one probe at a time");
        if size <= carries {
            search.on_acked(NOW, size);
        } else {
            search.on_lost(NOW, size);
        }
        assert!(tried.len() < 60, "{tried:?}");
    }
    tried
}

fn searched(limit: SizeLimit, carries: u16) -> (u16, Vec<u16>) {
    let mut search = MtuSearch::of(Carrier::Udp);
    assert_eq!(search.wanted(), None);
    search.start(NOW, limit);
    let tried = run(&mut search, carries);
    (search.current(), tried)
}

// spec 6.61
#[test]
fn the_first_probe_finds_the_size_that_the_interface_carries() {
    for (interface, found) in [(1500, 1472), (9000, 8972), (65_536, 65_000), (1420, 1392), (1280, 1252)] {
        assert_eq!(searched(v4(interface), found), (found, vec![found]));
    }
    assert_eq!(searched(limit("[fd00::1]:1", 1500), 1452), (1452, vec![1452]));
    assert_eq!(searched(v4(1200), 1200), (1200, vec![]));
    let unknown = SizeLimit { most: 1472, headers: 28 };
    let tuple = FourTuple::udp(
        LocalAddress { interface: 0, address: "10.0.0.1:1".parse().unwrap() },
        "10.0.0.2:1".parse().unwrap(),
    );
    assert_eq!(SizeLimit::new(&tuple, None, LARGEST), unknown);
    assert_eq!(SizeLimit::new(&tuple, Some(9000), 1300).most, 1300);
}

#[test]
fn the_second_probe_finds_ethernet_behind_a_jumbo_interface() {
    assert_eq!(
        searched(v4(9000), 1472),
        (1472, vec![8972, 8972, 8972, 1472, 4000, 4000, 4000, 1488, 1488, 1488])
    );
    assert_eq!(
        searched(v4(65_536), 8972).1,
        [65_000, 65_000, 65_000, 1472, 8972, 16_384, 16_384, 16_384, 8988, 8988, 8988]
    );
}

#[test]
fn few_probes_find_a_common_tunnel() {
    // WireGuard, PPPoE, and the 1400 bytes of some carriers.
    for (mtu, least) in [(1420, 1380), (1492, 1450), (1400, 1360), (1280, 1240)] {
        let (found, tried) = searched(v4(1500), mtu - 28);
        assert!(found > least && found <= mtu - 28, "{mtu} {found}");
        assert!(tried.len() <= 14, "{mtu} {tried:?}");
    }
}

#[test]
fn any_size_is_found_to_within_sixteen_bytes() {
    for interface in [1500, 9000, 65_536] {
        for carries in (1200..=65_000).step_by(977) {
            let (found, tried) = searched(v4(interface), carries);
            let best = carries.min(v4(interface).most);
            assert!(found <= best && best - found <= PRECISION, "{interface} {carries} {found}");
            assert!(tried.len() <= 50, "{interface} {carries} {tried:?}");
        }
    }
}

// spec 6.125, 6.126
#[test]
fn a_black_hole_leads_to_a_smaller_size_at_once_and_to_a_search_a_minute_later() {
    let mut search = MtuSearch::of(Carrier::Udp);
    search.start(NOW, v4(9000));
    run(&mut search, 8972);
    search.on_large_lost(BLACK_HOLE - 1);
    assert_eq!(search.current(), 8972);
    search.on_large_lost(BLACK_HOLE);
    assert_eq!((search.current(), search.wanted()), (BASE, Some(8972)));
    assert_eq!(run(&mut search, 1472)[..3], [8972, 8972, 8972]);
    assert_eq!(search.current(), 1472);
    assert_eq!(search.deadline(), Some(NOW + RAISE_AFTER_BLACK_HOLE));
    search.on_timeout(NOW + RAISE_AFTER_BLACK_HOLE);
    run(&mut search, 1472);
    assert_eq!(search.deadline(), Some(NOW + RAISE_AFTER));
}

// spec 6.125
#[test]
fn losses_that_only_look_like_a_black_hole_cost_one_probe() {
    let mut search = MtuSearch::of(Carrier::Udp);
    search.start(NOW, v4(9000));
    run(&mut search, 8972);
    search.on_large_lost(BLACK_HOLE);
    assert_eq!(run(&mut search, 8972), [8972]);
    assert_eq!(search.current(), 8972);
}

// spec 6.125
#[test]
fn a_size_suspected_in_an_outage_is_restored_by_one_probe() {
    let mut search = MtuSearch::of(Carrier::Udp);
    search.start(NOW, v4(1500));
    run(&mut search, 1372);
    let before = search.current();
    search.on_silence();
    assert_eq!((search.current(), search.wanted()), (BASE, None));
    search.on_progress();
    assert_eq!(run(&mut search, 1372), [before]);
    assert_eq!(search.current(), before);
    // If the size was to blame, the search continues below it.
    search.on_silence();
    search.on_progress();
    let tried = run(&mut search, 1300);
    assert!(tried.iter().all(|size| *size <= before), "{tried:?}");
    assert!((1284..=1300).contains(&search.current()));
}

// spec 6.125
#[test]
fn a_size_refused_by_the_system_is_not_tried_twice() {
    let mut search = MtuSearch::of(Carrier::Udp);
    search.start(NOW, v4(9000));
    search.on_probe_sent();
    search.on_refused(NOW, 8972);
    assert_eq!(search.wanted(), Some(1472));
    run(&mut search, 1472);
    search.on_refused(NOW, 1472);
    assert_eq!(search.current(), BASE);
    assert!(search.wanted().is_some_and(|size| size < 1472));
}

#[test]
fn a_changed_interface_mtu_is_followed_up_and_down() {
    let mut search = MtuSearch::of(Carrier::Udp);
    search.set_limit(NOW, v4(9000));
    assert!(search.is_off(), "before the handshake nothing is searched");
    search.start(NOW, v4(1500));
    run(&mut search, LARGEST);
    search.set_limit(NOW, v4(9000));
    assert_eq!(search.current(), 1472, "what is in use holds meanwhile");
    assert_eq!(run(&mut search, LARGEST), [8972]);
    search.set_limit(NOW, v4(1400));
    assert_eq!(search.current(), BASE);
    assert_eq!(run(&mut search, LARGEST), [1372]);
}

#[test]
fn a_late_probe_counts_although_it_was_declared_lost() {
    let mut search = MtuSearch::of(Carrier::Udp);
    search.start(NOW, v4(1500));
    for _ in 0..TRIES {
        search.on_probe_sent();
        search.on_lost(NOW, 1472);
    }
    assert_eq!(search.wanted(), Some(1372));
    search.on_probe_sent();
    search.on_acked(NOW, 1472);
    assert_eq!((search.current(), search.wanted()), (1472, None));
    search.on_lost(NOW, 1372);
    assert_eq!((search.current(), search.wanted()), (1472, None));
}

#[test]
fn an_interrupted_search_restarts_and_a_finished_one_stays_finished() {
    let mut search = MtuSearch::of(Carrier::Udp);
    search.start(NOW, v4(1500));
    search.on_probe_sent();
    search.interrupt();
    search.on_lost(NOW, 1472);
    assert!(search.is_off());
    search.start(NOW, v4(1500));
    assert_eq!(search.wanted(), Some(1472));
    search.on_probe_sent();
    search.on_acked(NOW, 1472);
    search.interrupt();
    assert!(!search.is_off());
    assert_eq!((search.wanted(), search.current()), (None, 1472));
}
