use std::time::Duration;

use manyway_lab::contender::{ManywaySettings, Wire};
use manyway_lab::scenario::Side;
use manyway_lab::simulated::Simulated;
use manyway_lab::{Contender, Runner as _, Scenario};
use manyway_proto::Rate;

use super::{TWO, run, run_with};

const MS: Duration = Duration::from_millis(1);

fn mbit(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000)
}

#[test]
fn bulk_traffic_fills_both_routes_for_the_duration() {
    let outcome = run(&format!("duration = '4s'\n{TWO}"));
    let [flow] = outcome.flows.as_slice() else { panic!("{:?}", outcome.flows.len()) };
    assert_eq!(flow.receiver, Side::Server);
    let (_, last) = flow.arrivals.span().unwrap();
    assert!(last > 4000 * MS && last < 6000 * MS, "{last:?}");
    // Payload is at least 95 % of the packets that the routes carried.
    let packets: u64 = outcome.routes.iter().map(|route| route.up.total().get()).sum();
    let payload = flow.arrivals.total().get();
    assert!(payload < packets && payload * 100 > packets * 90, "{payload} of {packets}");
    for route in &outcome.routes {
        assert!(route.up.goodput() > mbit(8) && route.up.goodput() <= mbit(10), "{}", route.up.goodput());
        assert!(route.down.total() < route.up.total());
    }
}

#[test]
fn traffic_with_a_size_ends_with_it() {
    let outcome = run(&format!("{TWO}[[traffic]]\nbulk = 'both'\nsize = '1MiB'\n"));
    let receivers: Vec<_> = outcome.flows.iter().map(|flow| flow.receiver).collect();
    assert_eq!(receivers, [Side::Server, Side::Client], "up before down");
    for flow in &outcome.flows {
        assert_eq!(flow.arrivals.total().get(), 1 << 20);
        assert!(flow.arrivals.span().unwrap().1 < 2000 * MS);
    }
}

#[test]
fn data_that_does_not_arrive_in_time_is_a_failure() {
    let failure = |text: &str| {
        let scenario =
            Scenario::parse("mine.toml", text, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
        let contender = Contender::Manyway(ManywaySettings::default());
        Simulated::new().run(&scenario, &contender, 7).unwrap().failure.unwrap()
    };
    // 30 s and four times the duration are over before 100 kbit/s have delivered 1 MiB.
    let slow =
        "duration = '1s'\n[links.a]\nrate = '100k'\nrtt = '20ms'\n[[traffic]]\nbulk = 'up'\nsize = '1MiB'\n";
    let text = failure(slow);
    assert!(
        text.starts_with("only ") && text.ends_with(" of 1048576 bytes arrived at the server in time"),
        "{text}"
    );
    let cut =
        format!("duration = '1s'\n{TWO}[[events]]\nat = '0s'\ncut = 'a'\n[[events]]\nat = '0s'\ncut = 'b'\n");
    assert_eq!(failure(&cut), "nothing arrived at the server");
}

#[test]
fn a_rate_is_kept() {
    let outcome = run(&format!("duration = '3s'\n{TWO}[[traffic]]\nbulk = 'down'\nrate = '2Mbit'\n"));
    let rate = outcome.flows[0].arrivals.goodput();
    assert!(
        rate > Rate::from_bits_per_second(1_950_000) && rate < Rate::from_bits_per_second(2_050_000),
        "{rate}"
    );
    assert_eq!(
        outcome.flows[0].arrivals.longest_silence().map(|silence| silence.length > 30 * MS),
        Some(false)
    );
}

#[test]
fn messages_are_counted_and_timed() {
    let messages = "[[traffic]]\nmessages = 'up'\nsize = 100\ninterval = '50ms'\n";
    let outcome = run(&format!("duration = '1s'\n{TWO}{messages}"));
    let flow = &outcome.flows[0];
    let latencies = flow.latencies.as_ref().unwrap();
    assert_eq!((latencies.len(), flow.missing), (20, 0));
    assert!(latencies.iter().all(|latency| *latency > 10 * MS && *latency < 11 * MS), "{latencies:?}");
    // Behind a black hole that lasts to the end they are missing, and only those.
    let cut = "[[events]]\nat = '475ms'\ncut = 'a'\n[[events]]\nat = '475ms'\ncut = 'b'\n";
    let outcome = run(&format!("duration = '1s'\n{TWO}{messages}{cut}"));
    let flow = &outcome.flows[0];
    assert_eq!((flow.latencies.as_ref().unwrap().len(), flow.missing), (10, 10));
}

#[test]
fn messages_with_a_lifetime_are_unordered_and_abandoned() {
    let messages = "[[traffic]]\nmessages = 'up'\nsize = 300\ninterval = '10ms'\nlifetime = '100ms'\n";
    let cut = "[[events]]\nat = '395ms'\ncut = 'a'\nfor = '200ms'\n\
        [[events]]\nat = '395ms'\ncut = 'b'\nfor = '200ms'\n";
    let outcome = run(&format!("duration = '1s'\n{TWO}{messages}{cut}"));
    let flow = &outcome.flows[0];
    let latencies = flow.latencies.as_ref().unwrap();
    // Messages sent in the first half of the outage have expired at its end.
    assert!((5..=20).contains(&flow.missing), "{}", flow.missing);
    assert_eq!(latencies.len() as u64 + flow.missing, 100);
    assert!(latencies.iter().all(|latency| *latency > 10 * MS && *latency < 200 * MS), "{latencies:?}");
    // Later ones arrive at once.
    let soon = latencies.iter().filter(|latency| **latency < 11 * MS).count();
    assert!(soon >= 70, "{soon} {latencies:?}");
}

#[test]
fn a_rate_counts_whole_ip_packets_in_both_families() {
    let v6 = "[client.a]\naddresses = ['2001:db8::2']\n[client.b]\naddresses = ['2001:db8::3']\n\
        [server.s]\naddresses = ['2001:db8::1']\n";
    for addresses in ["", v6] {
        let outcome = run(&format!("duration = '3s'\n{TWO}{addresses}"));
        for route in &outcome.routes {
            // From the middle, where both are full.
            let rate = route.up.rate(1000 * MS, 3000 * MS);
            assert!(rate > mbit(99).scaled(1, 10) && rate <= mbit(1003).scaled(1, 100), "{rate}");
        }
    }
}

fn mmsp1() -> ManywaySettings {
    ManywaySettings { wire: Wire::Mmsp1, ..ManywaySettings::default() }
}

#[test]
fn over_mmsp1_the_first_route_carries_the_data() {
    let outcome = run_with(&format!("duration = '3s'\n{TWO}"), mmsp1());
    let [first, second] = outcome.routes.as_slice() else { panic!("{:?}", outcome.routes.len()) };
    assert!(first.up.goodput() > mbit(8), "{}", first.up.goodput());
    assert!(second.up.total().get() * 20 < first.up.total().get(), "{:?}", second.up.total());
}

#[test]
fn a_run_that_ends_on_time_may_leave_data_behind() {
    let text = format!("duration = '2s'\nend = 'on-time'\n{TWO}[[traffic]]\nbulk = 'up'\nsize = '1GB'\n");
    let outcome = run(&text);
    let arrived = outcome.flows[0].arrivals.total().get();
    assert!((3_000_000..6_000_000).contains(&arrived), "{arrived}");
    assert!(outcome.flows[0].arrivals.span().unwrap().1 <= 2000 * MS);
}

#[test]
fn a_connection_that_loses_all_paths_ends_at_both_ends_after_its_timer() {
    let cut =
        "[[events]]\nat = '2s'\ncut = 'a'\n[[events]]\nat = '2s'\ncut = 'b'\n[[traffic]]\nbulk = 'both'\n";
    for (settings, detection) in [(mmsp1(), 3500 * MS), (ManywaySettings::default(), 3500 * MS)] {
        let outcome = run_with(&format!("duration = '4s'\nend = {{ no_path = '3s' }}\n{TWO}{cut}"), settings);
        assert_eq!((outcome.ended.len(), outcome.remarks.len()), (2, 0), "{:?}", outcome.remarks);
        for ended in outcome.ended {
            assert!(ended >= 5000 * MS && ended <= 5000 * MS + detection, "{ended:?}");
        }
    }
}

/// What is sent first goes on the primary, and what was damaged again on the other path.
#[test]
fn damaged_first_transmissions_arrive_by_the_other_path() {
    let damage = "[damage]\nshare = '20%'\n[[traffic]]\nbulk = 'up'\nsize = '2MB'\n";
    let outcome = run_with(&format!("{TWO}{damage}"), mmsp1());
    assert_eq!(outcome.flows[0].arrivals.total().get(), 2_000_000);
    let again = outcome.routes[1].up.total().get();
    assert!((350_000..600_000).contains(&again), "{again} of about 20 % with headers");
}
