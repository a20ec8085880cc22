use std::time::Duration;

use manyway_lab::scenario::{Change, Direction, Library, Side, Traffic};
use manyway_proto::ByteCount;

use super::{parse, with};

#[test]
fn reversed_twice_is_the_same() {
    for scenario in Library::builtin().unwrap().all() {
        let reversed = scenario.clone().reversed();
        assert_ne!(reversed.traffic, scenario.traffic, "{}", scenario.name);
        assert_eq!(format!("{:?}", reversed.reversed()), format!("{scenario:?}"));
    }
    let both = with("[[traffic]]\nbulk = 'both'\n");
    assert_eq!(both.clone().reversed().traffic, both.traffic);
}

#[test]
fn a_single_route_keeps_its_interfaces_links_and_events() {
    let text = "routes = [{ client = 'a', links = ['one', 'cell'] }, { client = 'b', links = ['two', 'cell'] }]\n\
        [links.one]\n[links.two]\n[links.cell]\n[client.a]\n[client.b]\n\
        [[events]]\nat = '1s'\ncut = 'one'\n[[events]]\nat = '2s'\ncut = 'cell'\n[[events]]\nat = '3s'\ndown = 'b'\n\
        [[events]]\nat = '4s'\ndown = 'a'\n";
    let single = parse(text).unwrap().single(1);
    assert_eq!((single.client.len(), single.client[0].name.as_str()), (1, "b"));
    assert_eq!(single.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["two", "cell"]);
    assert_eq!((single.routes[0].client, single.routes[0].links.as_slice()), (0, &[0, 1][..]));
    let changes: Vec<_> = single.events.iter().map(|event| event.change.clone()).collect();
    let cut = Change::Cut { link: 1, direction: Direction::Both };
    assert_eq!(changes, [cut, Change::InterfaceDown { side: Side::Client, interface: 0 }]);
    let whole = parse(text).unwrap();
    assert_eq!(format!("{:?}", whole.clone().single(9)), format!("{whole:?}"));
}

#[test]
fn traffic_of_others_keeps_its_route_beside_a_single_one() {
    let text = "routes = [{ client = 'a', links = ['one', 'cell'] }, { client = 'b', links = ['two', 'cell'] }]\n\
        [links.one]\n[links.two]\n[links.cell]\n[[events]]\nat = '1s'\ncut = 'one'\n\
        [[traffic]]\nby = 'tcp-reno'\nroute = 'a'\n[[traffic]]\nby = 'tcp-cubic'\nroute = 'b'\n";
    let single = parse(text).unwrap().single(1);
    assert_eq!((single.routes.len(), single.cross_routes.len()), (1, 1));
    assert_eq!(
        single.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(),
        ["two", "cell", "one"]
    );
    assert_eq!((single.cross_routes[0].client, single.cross_routes[0].links.as_slice()), (1, &[2, 1][..]));
    assert_eq!(single.client.iter().map(|one| one.is_for_others).collect::<Vec<_>>(), [false, true]);
    assert_eq!(single.cross_traffic.iter().map(|traffic| traffic.route).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(single.events.len(), 1);
}

#[test]
fn traffic_of_others_turns_and_scales_with_the_scenario() {
    let text = "[links.a]\n[[traffic]]\nby = 'udp'\nrate = '1M'\nat = '5s'\nfor = '10s'\n";
    let scenario = parse(text).unwrap().reversed().with_duration(Duration::from_secs(3));
    let [traffic] = scenario.cross_traffic.as_slice() else { panic!("{:?}", scenario.cross_traffic) };
    assert_eq!(traffic.direction, Direction::Down);
    assert_eq!((traffic.at, traffic.lasts), (Duration::from_secs(1), Some(Duration::from_secs(2))));
}

#[test]
fn another_duration_moves_events_and_sizes_in_proportion() {
    let scenario = with("[[traffic]]\nbulk = 'up'\nsize = '3MiB'\n[[events]]\nat = '5s'\ncut = 'wifi'\n");
    let short = scenario.with_duration(Duration::from_secs(3));
    assert_eq!(short.duration, Duration::from_secs(3));
    assert_eq!(short.events[0].at, Duration::from_secs(1));
    let Traffic::Bulk { size, .. } = short.traffic[0] else { panic!("{:?}", short.traffic) };
    assert_eq!(size, Some(ByteCount(3 * (1 << 20) / 5)));
    assert_eq!(short.limit(), Duration::from_secs(42));
}

#[test]
fn a_route_carries_nothing_while_one_of_its_interfaces_is_down() {
    let text = |events: &str| {
        format!("duration = '10s'\n[links.fast]\nrate = '20M'\n[links.steady]\nrate = '15M'\n{events}")
    };
    let best = |events: &str| parse(&text(events)).unwrap().best_route();
    assert_eq!(best(""), 0);
    // 18, then 14 of 20 Mbit/s over the time, whatever interrupts the route.
    assert_eq!(best("[[events]]\nat = '1s'\ndown = 'fast'\nfor = '1s'\n"), 0);
    for event in ["down = 'fast'", "cut = 'fast'\ndirection = 'down'"] {
        assert_eq!(best(&format!("[[events]]\nat = '1s'\n{event}\nfor = '3s'\n")), 1, "{event}");
    }
    // It does not come back; events after the end do not count.
    assert_eq!(best("[[events]]\nat = '6s'\ndown = 'fast'\n"), 1);
    assert_eq!(best("[[events]]\nat = '9s'\ndown = 'fast'\n"), 0);
}

#[test]
fn the_best_route_carries_most_alone() {
    let library = Library::builtin().unwrap();
    let best = |name: &str| library.find(name).unwrap()[0].best_route();
    // Of equal ones the first; 1 % of loss leaves less of 30 Mbit/s than 20 Mbit/s without.
    assert_eq!([best("two-50"), best("wifi-lte"), best("one-lossy"), best("fiber-lte")], [0, 1, 0, 0]);
    assert_eq!([best("ams-mesh"), best("lte-starlink"), best("flows-30-10-near")], [1, 0, 0]);
    // The other one is a black hole for a third of the time.
    assert_eq!(best("black-hole"), 1);
    let slow_up = with("").links.remove(0);
    let mut turning = with("");
    turning.links[0].up.rate =
        manyway_sim::link::RateModel::Fixed(manyway_proto::Rate::from_bits_per_second(1_000_000));
    assert_ne!(turning.links[0], slow_up);
    assert_eq!((turning.best_route(), turning.reversed().best_route()), (1, 0));
}

#[test]
fn loss_is_found_on_links_and_in_events() {
    let library = Library::builtin().unwrap();
    let lossy: Vec<_> = library
        .all()
        .iter()
        .filter(|scenario| scenario.has_loss())
        .map(|scenario| scenario.name.as_str())
        .collect();
    insta::assert_snapshot!(
        lossy.join(" "),
        @"two-50-loss one-lossy wifi-lte loss-05 loss-2 dual-lte fiber-lte lte-starlink lte-geo congested telemetry fades-near fades-short fades-many fades-long fades-deep fades-both cross-loss"
    );
    assert!(with("[[events]]\nat = '1s'\nset = 'lte'\nloss = { share = '1%', burst = 3 }\n").has_loss());
    assert!(!with("[[events]]\nat = '1s'\nset = 'lte'\nrate = '1M'\n").has_loss());
}
