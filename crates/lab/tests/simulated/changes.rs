use std::fmt::Write as _;
use std::time::Duration;

use manyway_lab::contender::ManywaySettings;
use manyway_lab::scenario::Library;
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, Runner as _};
use manyway_proto::Rate;

use super::{TWO, only, run, run_with};

const MS: Duration = Duration::from_millis(1);

fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}

#[test]
fn events_happen_at_their_times() {
    let event = |what: &str| format!("duration = '3s'\n{TWO}[[events]]\nat = '1s'\n{what}\n");
    let during = |what: &str, route: usize| {
        let outcome = run(&event(what));
        // If only the interface goes down, queued packets still pass.
        outcome.routes[route].up.rate(1300 * MS, 2900 * MS)
    };
    assert_eq!(during("cut = 'b'", 1), Rate::ZERO);
    // A sender upwards without acknowledgements soon stops.
    assert!(during("cut = 'b'\ndirection = 'down'", 1) < mbit(1));
    assert!(during("cut = 'b'\nfor = '50ms'", 1) > mbit(7));
    assert!(during("set = 'b'\nrate = '2M'", 1) < mbit(3));
    assert_eq!(during("down = 'b'", 1), Rate::ZERO);
    assert!(during("down = 'b'", 0) > mbit(9));
}

#[test]
fn an_interface_comes_back_and_may_have_another_address() {
    for what in ["down = 'b'\nfor = '500ms'\n", "address = 'b'\nto = '10.9.9.9'\n"] {
        let outcome = run(&format!("duration = '4s'\n{TWO}[[events]]\nat = '1s'\n{what}"));
        let late = outcome.routes[1].up.rate(3000 * MS, 4000 * MS);
        assert!(late > mbit(8), "{what}: {late}");
    }
}

#[test]
fn a_nat_that_drops_its_mappings_is_survived() {
    let nat = "[client.a]\nnat = {}\n[client.b]\nnat = {}\n[[events]]\nat = '1s'\nrebind = 'a'\n";
    let outcome = run(&format!("duration = '4s'\n{TWO}{nat}"));
    let late = outcome.routes[0].up.rate(3000 * MS, 4000 * MS);
    assert!(late > mbit(8), "{late}");
}

#[test]
fn routes_can_share_their_bottleneck() {
    let shared = "duration = '3s'\n\
        routes = [{ client = 'a', links = ['a', 'cell'] }, { client = 'b', links = ['b', 'cell'] }]\n\
        [links.cell]\nrate = '12M'\ndelay = '5ms'\n";
    let outcome = run(&format!("{shared}{TWO}"));
    let both: u64 =
        outcome.routes.iter().map(|route| route.up.rate(1000 * MS, 3000 * MS).bits_per_second()).sum();
    assert!(both > 11_500_000 && both < 12_050_000, "{both}");
    // 15 ms each way, and at most 10 Mbit/s.
    let single = run_with(&format!("{shared}{TWO}"), only(0));
    assert!(single.flows[0].arrivals.goodput() > mbit(8) && single.flows[0].arrivals.goodput() < mbit(10));
}

/// The report of the black hole, for review when the protocol changes.
#[test]
fn the_black_hole_over_a_fixed_seed() {
    let scenario = Library::builtin().unwrap().find("black-hole").unwrap().remove(0);
    let (cut, restored) = (Duration::from_secs(5), Duration::from_secs(15));
    let mut text = String::new();
    for scenario in [scenario.clone(), scenario.reversed()] {
        let contender = Contender::Manyway(ManywaySettings::default());
        let outcome = Simulated::new().run(&scenario, &contender, 1).unwrap();
        assert_eq!(outcome.failure, None);
        let flow = &outcome.flows[0];
        let silence = flow.arrivals.longest_silence().unwrap();
        let (from, length) = (silence.from.as_millis(), silence.length.as_millis());
        let window = Duration::from_millis(500);
        let [lost, safe] = outcome.routes.as_slice() else { panic!("two routes") };
        let ways = |route: &manyway_lab::outcome::RouteTotals| match flow.receiver {
            manyway_lab::scenario::Side::Server => route.up.clone(),
            manyway_lab::scenario::Side::Client => route.down.clone(),
        };
        let full = mbit(19);
        let survivor = ways(safe).reaches(cut, full, window);
        let back = ways(lost).reaches(restored, full, window);
        let goodput = flow.arrivals.goodput();
        writeln!(text, "to the {:?}: {goodput}, silent for {length} ms after {from} ms", flow.receiver)
            .unwrap();
        writeln!(text, "    survivor full after {survivor:?}, restored path full after {back:?}").unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn packets_can_be_distributed_over_links() {
    let striped = "duration = '3s'\nroutes = [{ client = 'bond', links = ['a', 'b'], shares = [3, 1] }]\n\
        [links.a]\nrate = '9M'\nrtt = '20ms'\n[links.b]\nrate = '3M'\nrtt = '20ms'\n";
    let outcome = run(striped);
    let rate = outcome.routes[0].up.rate(1000 * MS, 3000 * MS);
    assert!(rate > mbit(10) && rate < mbit(13), "{rate}");
    // The slower link has no more than its share: two thirds of the time of the other.
    let scenario = |shares: &str| {
        let text = striped.replace("[3, 1]", shares);
        manyway_lab::Scenario::parse("mine.toml", &text, &|_| Err(std::io::ErrorKind::NotFound.into()))
    };
    let sum = |shares: &str| scenario(shares).unwrap().sum(manyway_lab::scenario::Direction::Up);
    assert_eq!((sum("[3, 1]"), sum("[1, 1]")), (mbit(12), mbit(6)));
    let error = scenario("[3, 1, 1]").unwrap_err().to_string();
    assert!(error.contains("routes[1].shares") && error.contains("3 shares for 2 links"), "{error}");
}

#[test]
fn an_interface_that_is_down_at_first_is_used_once_it_comes_up() {
    let text =
        format!("duration = '4s'\n{TWO}[client.b]\ndown = true\n[[events]]\nat = '2s'\nup = 'client.b'\n");
    let outcome = run(&text);
    let carried = |from: u32, to: u32| outcome.routes[1].up.rate(from * MS, to * MS);
    assert_eq!(carried(0, 2000), Rate::ZERO);
    assert!(carried(3000, 4000) > mbit(7), "{}", carried(3000, 4000));
    // The other path was all that set-up had.
    assert!(outcome.remarks.is_empty(), "{:?}", outcome.remarks);
}

#[test]
fn tcp_has_packets_of_the_size_that_an_interface_announces() {
    let settings = || {
        let Contender::Manyway(settings) = "manyway:carrier=tcp".parse().unwrap() else { unreachable!() };
        settings
    };
    // Bytes of packets for each byte of data: the fewer bytes a packet has, the more are headers.
    let overhead = |interface: &str| {
        let text = format!("duration = '5s'\n[links.a]\nrate = '5M'\nrtt = '20ms'\n{interface}");
        let outcome = run_with(&text, settings());
        outcome.routes[0].up.total().get() as f64 / outcome.flows[0].arrivals.total().get() as f64
    };
    let (usual, small) = (overhead(""), overhead("[client.a]\ntcp-packet = 600\n"));
    assert!(small > usual + 0.04 && small < usual + 0.12, "{usual} {small}");
}

#[test]
fn the_program_of_cmt_is_as_slow_as_its_slowest_share() {
    let text = |more: &str| {
        format!(
            "duration = '8s'\n{more}[links.fast]\nrate = '8M'\nrtt = '20ms'\n[links.slow]\nrate = '4M'\nrtt = '20ms'\n\
                 [[traffic]]\nbulk = 'up'\nsize = '4MB'\nchunk = '5kB'\n"
        )
    };
    let megabits = |name: &str, more: &str| {
        let text = text(more);
        let scenario =
            manyway_lab::Scenario::parse("mine.toml", &text, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let outcome = Simulated::new().run(&scenario.unwrap(), &name.parse().unwrap(), 7).unwrap();
        assert_eq!(outcome.failure, None, "{name}");
        outcome.flows[0].arrivals.goodput().bits_per_second() as f64 / 1e6
    };
    let (in_turn, weighted) = (megabits("chunks", ""), megabits("chunks:shares=2/1", ""));
    assert!((7.0..8.0).contains(&in_turn), "twice what the slow link carries: {in_turn}");
    assert!((10.0..12.0).contains(&weighted), "what both carry: {weighted}");
    // 800 chunks of 5000 bytes, each of which takes 80 ms.
    let searching = megabits("chunks:search=100us", "end = 'on-time'\n");
    assert!((0.45..0.55).contains(&searching), "{searching}");
    let endless = Library::builtin().unwrap().find("two-50").unwrap().remove(0);
    let error = Simulated::new().run(&endless, &"chunks".parse().unwrap(), 1).unwrap_err().to_string();
    assert!(error.starts_with("chunks takes one bulk of a given size"), "{error}");
}
