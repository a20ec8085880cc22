use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use manyway_lab::Scenario;
use manyway_lab::scenario::{Change, Checksum, CrossTraffic, Direction, Route, Setting, Side, Traffic};
use manyway_proto::{ByteCount, Rate};
use manyway_sim::CrossKind;
use manyway_sim::link::{
    DelayModel, Discipline, Drops, Jitter, LossModel, Order, Probability, QueueConfig, QueueLimit, RateModel,
    Reaction,
};
use manyway_sim::nat::Dependence;

use super::{parse, with};

const MS: Duration = Duration::from_millis(1);

fn mbit(megabits: u64) -> RateModel {
    RateModel::Fixed(Rate::from_bits_per_second(megabits * 1_000_000))
}

#[test]
fn a_link_makes_its_interface_and_its_route() {
    let scenario = with("");
    let names: Vec<_> = scenario.client.iter().map(|interface| interface.name.as_str()).collect();
    assert_eq!(names, ["wifi", "lte"], "the order of the file");
    assert_eq!(scenario.server.len(), 1);
    assert_eq!((scenario.routes[1].client, scenario.routes[1].server), (1, 0));
    assert_eq!((scenario.routes[1].links.as_slice(), scenario.routes[1].name.as_str()), (&[1][..], "lte"));
    assert_eq!(
        (scenario.name.as_str(), scenario.title.as_str(), scenario.group.as_str()),
        ("mine", "mine", "user")
    );
    assert_eq!(
        scenario.traffic,
        [Traffic::Bulk { direction: Direction::Up, size: None, rate: None, chunk: None }]
    );
    assert_eq!(scenario.duration, Duration::from_secs(15));
    let link = &scenario.links[1];
    assert_eq!(link.up.rate, mbit(20));
    assert_eq!(
        (link.up.delay, link.down.delay),
        (DelayModel::constant(30 * MS), DelayModel::constant(30 * MS))
    );
    assert_eq!((link.up.overhead, link.up.mtu), (0, 1500));
    let addresses = scenario.client.iter().chain(&scenario.server).flat_map(|interface| &interface.addresses);
    let addresses: BTreeSet<&IpAddr> = addresses.collect();
    assert_eq!(addresses.len(), 3, "each has one of its own");
}

#[test]
fn every_property_of_a_link_is_read() {
    let scenario = parse(
        "[links.a]\nrate = { mean = '10M', burst = '16KiB' }\nrtt = '20ms'\njitter = '10ms'\nloss = '1%'\n\
         queue = '64KiB'\ncorruption = '0.1%'\nduplication = '0.2%'\nmtu = 1280\nchecksum = 'repaired'\n\
         up = { rate = '5M', delay = '3ms', queue = '50 packets' }\n\
         down = { jitter = { spread = '4ms', order = 'free', hold = '50ms' }, loss = { share = '1%', burst = 4 }, \
         queue = { codel = 'mark', target = '7ms' } }\n",
    )
    .unwrap();
    let link = &scenario.links[0];
    assert_eq!(link.checksum, Checksum::Repaired);
    assert_eq!(link.up.rate, mbit(5));
    // The jitter is not named there, so it stays: 10 ms / √2.
    let deviation = Jitter::Normal(Duration::from_nanos(7_071_065));
    assert_eq!(link.up.delay, DelayModel::constant(3 * MS).with_jitter(deviation, Order::Kept));
    assert_eq!(link.up.queue, QueueConfig::drop_tail(QueueLimit::Packets(50)));
    assert_eq!(link.up.loss, LossModel::Random(Probability::from_percent(1.0)));
    let rate = Rate::from_bits_per_second(10_000_000);
    assert_eq!(link.down.rate, RateModel::TokenBucket { rate, burst: ByteCount(16_384) });
    let varied =
        DelayModel::constant(10 * MS).with_jitter(Jitter::Uniform(4 * MS), Order::Free).with_hold(50 * MS);
    assert_eq!(link.down.delay, varied);
    assert_eq!(link.down.loss, LossModel::bursts(Probability::from_percent(1.0), 4));
    let Discipline::Codel(codel) = link.down.queue.discipline else { panic!("{:?}", link.down.queue) };
    assert_eq!((codel.target, codel.interval, codel.reaction), (7 * MS, 100 * MS, Reaction::Mark));
    for way in [&link.up, &link.down] {
        assert_eq!(way.corruption, Probability::from_percent(0.1));
        assert_eq!(way.duplication, Probability::from_percent(0.2));
        assert_eq!(way.mtu, 1280);
    }
}

#[test]
fn the_jitter_of_a_round_trip_is_divided_between_its_directions() {
    let read = |text: &str| parse(&format!("[links.a]\n{text}\n")).unwrap().links[0].up.delay.jitter;
    assert_eq!(read("delay = '10ms'\njitter = '5ms'"), Jitter::Normal(5 * MS));
    assert_eq!(read("rtt = '20ms'\njitter = { spread = '6ms' }"), Jitter::Uniform(3 * MS));
    // 10 ms / √2.
    let Jitter::Normal(deviation) = read("rtt = '20ms'\njitter = '10ms'") else { panic!("not normal") };
    assert_eq!(deviation.as_micros(), 7_071);
}

#[test]
fn a_mesh_names_both_ends_of_its_links() {
    let scenario = parse(
        "[links.ac]\nclient = 'a'\nserver = 'c'\n[links.ad]\nclient = 'a'\nserver = 'd'\n\
         [links.bc]\nclient = 'b'\nserver = 'c'\n[links.bd]\nclient = 'b'\nserver = 'd'\n",
    )
    .unwrap();
    let routes: Vec<_> =
        scenario.routes.iter().map(|route| (route.name.as_str(), route.client, route.server)).collect();
    assert_eq!(routes, [("a-c", 0, 0), ("a-d", 0, 1), ("b-c", 1, 0), ("b-d", 1, 1)]);
}

#[test]
fn routes_may_share_a_link() {
    let scenario = parse(
        "routes = [{ client = 'm1', links = ['one', 'cell'] }, { client = 'm2', links = ['two', 'cell'] }]\n\
         [links.one]\nrate = '10M'\n[links.two]\nrate = '10M'\n[links.cell]\nrate = '19M'\n[links.wire]\nrate = '20M'\n",
    )
    .unwrap();
    let links: Vec<_> =
        scenario.routes.iter().map(|route| (route.name.as_str(), route.links.clone())).collect();
    assert_eq!(links, [("wire", vec![3]), ("m1", vec![0, 2]), ("m2", vec![1, 2])]);
    assert_eq!(scenario.sum(Direction::Up), Rate::from_bits_per_second(39_000_000));
}

#[test]
fn interfaces_have_addresses_sizes_and_nats() {
    let scenario = with(
        "[client.wifi]\nmtu = 9000\naddresses = ['192.0.2.7', '2001:db8::7']\n\
         [client.lte]\ncost = 2\nnat = { timeout = '1m', mapping = 'address-and-port' }\n\
         [server.net]\nmtu = 9000\naddresses = ['198.51.100.1', '2001:db8:1::1']\n",
    );
    let [wifi, lte] = scenario.client.as_slice() else { panic!("{:?}", scenario.client) };
    assert_eq!((wifi.addresses.len(), wifi.mtu, wifi.nat), (2, 9000, None));
    assert_eq!(scenario.links[0].up.mtu, 9000, "a link takes what its interfaces can send");
    assert_eq!(scenario.links[1].up.mtu, 1500);
    assert_eq!((wifi.cost, lte.cost), (0, 2));
    let nat = lte.nat.unwrap();
    assert_eq!((nat.timeout, nat.mapping), (Duration::from_secs(60), Dependence::AddressAndPort));
    assert_eq!(nat.filtering, Dependence::AddressAndPort);
}

#[test]
fn traffic_is_bulk_or_messages() {
    let scenario = with(
        "[[traffic]]\nbulk = 'both'\nsize = '16MiB'\nrate = '5M'\n\
         [[traffic]]\nmessages = 'down'\nsize = 100\ninterval = '50ms'\n\
         [[traffic]]\nmessages = 'up'\nsize = 100\ninterval = '50ms'\nlifetime = '200ms'\n",
    );
    let messages = |direction, lifetime| Traffic::Messages {
        direction,
        size: ByteCount(100),
        interval: 50 * MS,
        lifetime,
    };
    let rate = Some(Rate::from_bits_per_second(5_000_000));
    assert_eq!(
        scenario.traffic,
        [
            Traffic::Bulk { direction: Direction::Both, size: Some(ByteCount(16 << 20)), rate, chunk: None },
            messages(Direction::Down, None),
            messages(Direction::Up, Some(200 * MS)),
        ]
    );
}

#[test]
fn events_are_in_the_order_of_time() {
    let scenario = with(
        "[client.wifi]\nnat = {}\n\
         [[events]]\nat = '9s'\nrebind = 'wifi'\n\
         [[events]]\nat = '1s'\ncut = 'lte'\ndirection = 'down'\nfor = '500ms'\n\
         [[events]]\nat = '2s'\ndown = 'server.server'\n[[events]]\nat = '3s'\nup = 'server.server'\n\
         [[events]]\nat = '4s'\naddress = 'lte'\nto = '10.9.9.9'\n\
         [[events]]\nat = '5s'\nset = 'wifi'\nrate = '1M'\njitter = '2ms'\n",
    );
    let at: Vec<_> = scenario.events.iter().map(|event| event.at.as_millis()).collect();
    assert_eq!(at, [1000, 1500, 2000, 3000, 4000, 5000, 5000, 9000]);
    let changes: Vec<_> = scenario.events.iter().map(|event| event.change.clone()).collect();
    let (lte, down) = (1, Direction::Down);
    assert_eq!(changes[0], Change::Cut { link: lte, direction: down });
    assert_eq!(changes[1], Change::Restore { link: lte, direction: down });
    assert_eq!(changes[2], Change::InterfaceDown { side: Side::Server, interface: 0 });
    assert_eq!(changes[3], Change::InterfaceUp { side: Side::Server, interface: 0 });
    let address = "10.9.9.9".parse().unwrap();
    assert_eq!(changes[4], Change::Readdress { side: Side::Client, interface: 1, address });
    let both = Direction::Both;
    assert_eq!(changes[5], Change::Set { link: 0, direction: both, setting: Setting::Rate(mbit(1)) });
    let varied = DelayModel::constant(7_500_000 * Duration::from_nanos(1))
        .with_jitter(Jitter::Normal(2 * MS), Order::Kept);
    assert_eq!(changes[6], Change::Set { link: 0, direction: both, setting: Setting::Delay(varied) });
    assert_eq!(changes[7], Change::Rebind { side: Side::Client, interface: 0 });
}

#[test]
fn a_new_delay_keeps_the_jitter_and_a_new_jitter_the_delay() {
    let read = |event: &str| {
        let text = "[links.a]\ndelay = '10ms'\njitter = { spread = '4ms', order = 'free', hold = '50ms' }\n";
        let scenario = parse(&format!("{text}[[events]]\nat = '1s'\nset = 'a'\n{event}\n")).unwrap();
        let Change::Set { setting: Setting::Delay(delay), .. } = &scenario.events[0].change else {
            panic!("{:?}", scenario.events)
        };
        *delay
    };
    let varied = |delay, spread| {
        DelayModel::constant(delay).with_jitter(Jitter::Uniform(spread), Order::Free).with_hold(50 * MS)
    };
    assert_eq!(read("delay = '30ms'"), varied(30 * MS, 4 * MS));
    assert_eq!(
        read("jitter = '2ms'"),
        DelayModel::constant(10 * MS).with_jitter(Jitter::Normal(2 * MS), Order::Kept)
    );
    assert_eq!(read("delay = '30ms'\njitter = '0s'").jitter, Jitter::Normal(Duration::ZERO));
}

#[test]
fn fifty_flaps_are_four_lines() {
    let scenario = with(
        "[[events]]\nat = '1s'\ncut = 'wifi'\nfor = '100ms'\nrepeat = { every = '200ms', times = 50 }\n",
    );
    assert_eq!(scenario.events.len(), 100);
    assert_eq!(scenario.events[99].at, Duration::from_millis(1000 + 49 * 200 + 100));
    assert!(matches!(scenario.events[98].change, Change::Cut { link: 0, .. }));
    assert!(matches!(scenario.events[99].change, Change::Restore { link: 0, .. }));
}

#[test]
fn a_trace_is_read_from_the_folder_of_its_scenario() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("up.trace"), "5\n10\n10\n").unwrap();
    let file = folder.path().join("cell.toml");
    std::fs::write(&file, "[links.cell]\nrate = '1M'\nup = { trace = 'up.trace' }\n").unwrap();
    let scenario = Scenario::read(&file).unwrap();
    assert_eq!(scenario.links[0].up.rate.nominal(), Rate::from_bits_per_second(3 * 1504 * 8 * 100));
    assert_eq!(scenario.links[0].down.rate, mbit(1));
    std::fs::write(folder.path().join("up.trace"), "5\nx\n").unwrap();
    let error = Scenario::read(&file).unwrap_err().to_string();
    let expected = "links.cell.up.trace: up.trace: line 2 of the trace is not a number of milliseconds";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn traffic_of_others_takes_its_defaults_from_the_measured_traffic_and_the_route() {
    let scenario = with(
        "[client.lte]\nmtu = 1400\n[[traffic]]\nbulk = 'down'\n\
         [[traffic]]\nby = 'tcp-cubic'\nroute = 'lte'\n\
         [[traffic]]\nby = 'udp'\nroute = 'wifi'\ncount = 3\nat = '2s'\nfor = '5s'\nrate = '2M'\n\
         direction = 'up'\npacket = 200\n",
    );
    assert_eq!(scenario.traffic.len(), 1);
    let greedy = CrossTraffic {
        kind: CrossKind::Cubic,
        count: 1,
        route: 1,
        at: Duration::ZERO,
        lasts: None,
        direction: Direction::Down,
        packet: 1400,
    };
    let steady = CrossTraffic {
        kind: CrossKind::Udp(Rate::from_bits_per_second(2_000_000)),
        count: 3,
        route: 0,
        at: 2000 * MS,
        lasts: Some(5000 * MS),
        direction: Direction::Up,
        packet: 200,
    };
    assert_eq!(scenario.cross_traffic, [greedy, steady]);
    assert_eq!((greedy.end(scenario.limit()), steady.end(scenario.limit())), (15_000 * MS, 7000 * MS));
    // Alone it stands beside the default.
    let scenario = parse("[links.a]\n[[traffic]]\nby = 'tcp-reno'\n").unwrap();
    assert_eq!((scenario.traffic.len(), scenario.cross_traffic[0].direction), (1, Direction::Up));
}

#[test]
fn an_interface_for_others_makes_a_route_that_no_contender_has() {
    let scenario = parse(
        "routes = [{ client = 'home', server = 'video', links = ['shared', 'near'] },\n\
         { client = 'home', server = 'other', links = ['shared', 'far'] }]\n\
         [links.shared]\nrate = '6M'\n[links.near]\nrate = '6M'\n[links.far]\nrate = '6M'\n\
         [server.video]\n[server.other]\nothers = true\n\
         [[traffic]]\nby = 'tcp-reno'\nroute = 'home-other'\n",
    )
    .unwrap();
    let names = |routes: &[Route]| routes.iter().map(|route| route.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&scenario.routes), names(&scenario.cross_routes)),
        (vec!["home-video".to_owned()], vec!["home-other".to_owned()])
    );
    assert_eq!(scenario.cross_traffic[0].route, 1);
    assert_eq!(scenario.any_route(1).unwrap().links, [0, 2]);
    assert_eq!(scenario.any_route(2), None);
}

#[test]
fn an_event_loses_the_next_packets_of_a_size() {
    let text = "[links.a]\nrate = '1M'\n[[events]]\nat = '1s'\nset = 'a'\nloss = { next = 2, from = 1000 }\n";
    let scenario = parse(text).unwrap();
    let lost = Setting::Loss(LossModel::Next { count: 2, from: 1000 });
    let changes = scenario.events.iter().map(|event| &event.change);
    assert!(changes.eq([&Change::Set { link: 0, direction: Direction::Both, setting: lost }]));
}

#[test]
fn a_link_may_drop_udp_from_the_start_in_one_direction_and_for_a_while() {
    let text = "[links.a]\ndrops = 'udp'\n[links.b]\ndown = { drops = 'udp' }\n[links.c]\n\
        [[events]]\nat = '1s'\nset = 'a'\ndrops = 'nothing'\n";
    let scenario = parse(text).unwrap();
    let ways = scenario.links.iter().map(|link| [link.up.drops, link.down.drops]);
    let (udp, none) = (Drops::Udp, Drops::Nothing);
    assert_eq!(ways.collect::<Vec<_>>(), [[udp, udp], [none, udp], [none, none]]);
    let setting = Setting::Drops(none);
    let change = Change::Set { link: 0, direction: Direction::Both, setting };
    assert_eq!(scenario.events[0].change, change);
    assert_eq!(
        (scenario.blocks_udp(), scenario.blocks_udp_later(), scenario.has_no_udp()),
        (true, false, false)
    );
    let error = parse("[links.a]\ndrops = 'tcp'\n").unwrap_err().to_string();
    assert!(error.contains("udp") && error.contains("nothing"), "{error}");
}
