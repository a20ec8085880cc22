//! Changes while the links are in use.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use manyway_lab::emulator::Snapshot;
use manyway_lab::scenario::{Change, Direction, Event, Setting, Side};
use manyway_sim::link::{LinkConfig, LossModel, Probability, RateModel};

use crate::common::{
    Arrived, Bench, FULL, MS, mbit, measured, open, passes, send_numbered, side_by_side, single,
};

#[test]
fn events_happen_at_their_times() {
    let direction = Direction::Up;
    let lossy = Setting::Loss(LossModel::Random(Probability::ALWAYS));
    let clear = Setting::Loss(LossModel::None);
    let mut scenario = single(&open(Duration::ZERO));
    scenario.events = vec![
        Event { at: 200 * MS, change: Change::Cut { link: 0, direction } },
        Event { at: 400 * MS, change: Change::Restore { link: 0, direction } },
        Event { at: 600 * MS, change: Change::Set { link: 0, direction, setting: lossy } },
        Event { at: 800 * MS, change: Change::Set { link: 0, direction, setting: clear } },
    ];
    // A retry needs a new emulator.
    let is_right = |edges: &Option<Vec<i128>>| {
        edges.as_ref().is_none_or(|edges| {
            edges.len() == 4
                && edges.iter().zip([200, 400, 600, 800]).all(|(edge, at)| (edge - at * 1_000).abs() < 5_000)
        })
    };
    measured(is_right, || {
        let bench = Bench::alone(&scenario)?;
        let (near, far) = bench.pair(0);
        let begun = bench.emulator.begin();
        assert_eq!(bench.emulator.begin(), begun);
        let arrived = send_numbered((&near, &far), 4_000, 100, 1_000 * MS, 100 * MS);
        Some(edges(&arrived, begun))
    });
}

/// The send times, in microseconds since `begun`, of the arrived datagrams around each gap of more than 100 ms.
fn edges(arrived: &[Arrived], begun: std::time::Instant) -> Vec<i128> {
    let since =
        |arrived: &Arrived| i128::try_from(arrived.sent_at.duration_since(begun).as_micros()).unwrap();
    let gaps = arrived.windows(2).map(|pair| (since(&pair[0]), since(&pair[1])));
    gaps.filter(|(before, after)| after - before > 100_000)
        .flat_map(|(before, after)| [before, after])
        .collect()
}

#[test]
fn a_rate_changes_during_the_run_and_the_figures_show_it() {
    let Some(bench) = Bench::shared(&single(&LinkConfig::new(mbit(4), 5 * MS).with_queue_time(200 * MS)))
    else {
        return;
    };
    let (near, far) = bench.pair(0);
    let control = bench.emulator.control();
    bench.emulator.begin();
    let slow = send_numbered((&near, &far), 400, FULL, 500 * MS, 500 * MS).len();
    let setting = Setting::Rate(RateModel::Fixed(mbit(40)));
    control.apply(&Change::Set { link: 0, direction: Direction::Up, setting }).unwrap();
    let fast = send_numbered((&near, &far), 400, FULL, 500 * MS, 500 * MS).len();
    assert!(fast == 400 && slow < 300, "{slow} {fast}");
    let snapshot = control.snapshot().unwrap();
    let json = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
    let report = bench.emulator.finish().unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let series = json["routes"][0]["up"]["bins"].as_array().unwrap();
    let bytes: u64 = series.iter().map(|bin| bin.as_u64().unwrap()).sum();
    assert_eq!(bytes, (slow + fast) as u64 * 1_500);
    let route = &report.routes[0];
    assert_eq!(route.up.total().get(), (slow + fast) as u64 * 1_500);
    assert_eq!(route.dropped, (400 - slow) as u64);
    assert_eq!(report.totals.links[0].up.queue_full.packets, route.dropped);
    assert_eq!(route.down.total().get(), 0);
    assert!(control.snapshot().is_err());
}

#[test]
fn an_interface_goes_down_and_comes_up_again() {
    let Some(bench) = Bench::shared(&side_by_side(&[open(MS), open(MS)])) else { return };
    let (near, far) = bench.pair(0);
    let control = bench.emulator.control();
    assert!(passes(&near, &far));
    for side in [Side::Client, Side::Server] {
        let interface = 0;
        control.apply(&Change::InterfaceDown { side, interface }).unwrap();
        assert!(!passes(&near, &far) && !passes(&far, &near));
        let (other_near, other_far) = bench.pair(1);
        assert!(passes(&other_near, &other_far));
        control.apply(&Change::InterfaceUp { side, interface }).unwrap();
        assert!(passes(&near, &far) && passes(&far, &near), "{side:?}");
    }
    assert!(control.apply(&Change::InterfaceUp { side: Side::Client, interface: 2 }).is_err());
    bench.emulator.finish().unwrap();
}

#[test]
fn routes_follow_an_interface_to_its_new_address() {
    let Some(bench) = Bench::shared(&side_by_side(&[open(MS), open(MS)])) else { return };
    let (near, far) = bench.pair(0);
    let control = bench.emulator.control();
    assert!(passes(&near, &far));
    for (side, address) in
        [(Side::Client, "10.99.0.1"), (Side::Server, "10.99.0.2"), (Side::Client, "10.99.0.3")]
    {
        let address: IpAddr = address.parse().unwrap();
        control.apply(&Change::Readdress { side, interface: 0, address }).unwrap();
        assert!(!passes(&near, &far), "the old address still works");
        let here = bench.socket_at(side, address);
        let there = match side {
            Side::Client => bench.hosts.inside(Side::Server, any).unwrap(),
            Side::Server => bench.hosts.inside(Side::Client, any).unwrap(),
        };
        there.connect(here.local_addr().unwrap()).unwrap();
        let far_address = there.local_addr().unwrap();
        here.connect(far_address).unwrap();
        assert!(passes(&there, &here) && passes(&here, &there), "{side:?} {address} {far_address}");
    }
    bench.emulator.finish().unwrap();
}

/// A socket whose address the system chooses, by the route to its peer.
fn any() -> UdpSocket {
    UdpSocket::bind(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap()
}

#[test]
fn interfaces_change_by_events_too() {
    let mut scenario = single(&open(MS));
    let (side, interface) = (Side::Client, 0);
    scenario.events = vec![
        Event { at: 100 * MS, change: Change::InterfaceDown { side, interface } },
        Event { at: 500 * MS, change: Change::InterfaceUp { side, interface } },
    ];
    let Some(bench) = Bench::alone(&scenario) else { return };
    let (near, far) = bench.pair(0);
    let begun = bench.emulator.begin();
    let arrived = send_numbered((&near, &far), 900, 100, 900 * MS, 100 * MS);
    let edges = edges(&arrived, begun);
    let [down, up] = edges[..] else { panic!("{edges:?}") };
    // Each takes a call of `ip`.
    assert!((100_000..300_000).contains(&down) && (500_000..800_000).contains(&up), "{edges:?}");
    bench.emulator.finish().unwrap();
}

#[test]
fn hosts_can_be_removed_before_the_links() {
    let Some(bench) = Bench::alone(&single(&open(MS))) else { return };
    let Bench { emulator, hosts, turn: _turn } = bench;
    drop(hosts);
    let before = emulator.control().snapshot().unwrap().busy;
    std::thread::sleep(500 * MS);
    let after = emulator.finish().unwrap().totals.busy;
    // A device that is gone must not keep the thread awake.
    assert!(after - before < 100 * MS, "{:?}", after - before);
}
