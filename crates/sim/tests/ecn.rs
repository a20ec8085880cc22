//! Explicit Congestion Notification over networks that keep marks, and over networks that do not.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use manyway_proto::{ByteCount, ConnectionConfig, EcnFailure, EcnState};
use manyway_sim::link::{EcnTreatment, LinkConfig, LinkCounters, QueueConfig, Reaction};
use manyway_sim::pair::Direction;
use manyway_sim::scenario::{MINUTE, MS, SECOND, connected_with, mbit, megabytes, path_figures, percent};
use manyway_sim::traffic::Exchange;
use manyway_sim::{EndpointPair, PairBuilder, Side};

const CONTROLS: [&str; 7] = ["bbr", "cubic", "new-reno", "coupled-cubic", "lia", "olia", "balia"];

fn link() -> LinkConfig {
    LinkConfig::new(mbit(20), 10 * MS)
}

fn pair(links: &[LinkConfig], congestion: &str) -> EndpointPair {
    let mut config = ConnectionConfig::default();
    config.set_congestion(congestion).unwrap();
    let builder =
        links.iter().fold(PairBuilder::new(), |builder, link| builder.path_with(link.clone(), link.clone()));
    connected_with(builder, &config).unwrap()
}

fn states(pair: &mut EndpointPair, side: Side) -> Vec<EcnState> {
    path_figures(pair, side).iter().map(|path| path.ecn).collect()
}

fn up(pair: &EndpointPair, place: usize) -> LinkCounters {
    let path = pair.paths().get(place).unwrap();
    *pair.world().network().link(path.up).unwrap().counters()
}

// spec 9.49, 9.50, 9.67
#[test]
fn a_path_that_keeps_marks_is_capable_after_the_first_data() {
    let mut pair = pair(&[link(), link()], "bbr");
    pair.transfer(Side::Client, megabytes(2), MINUTE).unwrap();
    assert_eq!(states(&mut pair, Side::Client), [EcnState::Capable; 2]);
}

// spec 9.34, 9.52
#[test]
fn every_congestion_control_answers_marks_so_that_the_queue_need_not_drop() {
    for congestion in CONTROLS {
        let marking = link().with_queue(QueueConfig::codel(Reaction::Mark));
        let mut pair = pair(&[marking], congestion);
        let report = pair.transfer(Side::Client, megabytes(20), MINUTE).unwrap();
        let counters = up(&pair, 0);
        assert!(counters.marked.packets > 0, "{congestion}: {counters:?}");
        // Packets without a mark are dropped: acknowledgements, probes.
        assert!(counters.dropped().packets <= 3, "{congestion}: {counters:?}");
        // Without a reaction, the mark of each 100 ms would become one of each few.
        assert!(counters.marked.packets < 200, "{congestion}: {counters:?}");
        assert!(percent(report.goodput, mbit(20)) >= 80, "{congestion}: {}", report.goodput);
    }
}

// spec 9.67
#[test]
fn cleared_or_changed_marks_disable_ecn() {
    for (treatment, failure) in [
        (EcnTreatment::Bleached, EcnFailure::Bleached),
        (EcnTreatment::Remarked, EcnFailure::Remarked),
        (EcnTreatment::Congested, EcnFailure::Remarked),
    ] {
        let mut pair = pair(&[link().with_ecn(treatment), link()], "bbr");
        let report = pair.transfer(Side::Client, megabytes(8), MINUTE).unwrap();
        assert_eq!(
            states(&mut pair, Side::Client),
            [EcnState::Failed(failure), EcnState::Capable],
            "{treatment}"
        );
        assert!(percent(report.goodput, mbit(40)) >= 85, "{treatment}: {}", report.goodput);
    }
}

// spec 9.67, 9.69
#[test]
fn a_path_that_drops_marked_packets_soon_carries_unmarked_ones() {
    for count in [1, 2] {
        let mut links = vec![link().with_ecn(EcnTreatment::Dropped)];
        links.resize(count, link());
        let mut pair = pair(&links, "bbr");
        let report = pair.transfer(Side::Client, megabytes(8), MINUTE).unwrap();
        let dropped = up(&pair, 0).black_hole.packets;
        assert!((1..=12).contains(&dropped), "{count}: {dropped}");
        assert_eq!(states(&mut pair, Side::Client)[0], EcnState::Failed(EcnFailure::BlackHole), "{count}");
        assert!(report.longest_silence < 300 * MS, "{count}: {:?}", report.longest_silence);
    }
}

// spec 9.67, 9.70
#[test]
fn a_path_that_later_becomes_a_black_hole_for_marks_is_used_without_them() {
    let mut pair = pair(&[link()], "cubic");
    pair.transfer(Side::Client, megabytes(2), MINUTE).unwrap();
    assert_eq!(states(&mut pair, Side::Client), [EcnState::Capable]);
    pair.with_links(0, Direction::Both, |now, link| link.set_ecn(now, EcnTreatment::Dropped));
    let report = pair.transfer(Side::Client, megabytes(4), MINUTE).unwrap();
    assert_eq!(states(&mut pair, Side::Client), [EcnState::Failed(EcnFailure::BlackHole)]);
    assert!(report.longest_silence < SECOND, "{:?}", report.longest_silence);
}

// spec 9.70
#[test]
fn an_outage_is_no_black_hole() {
    let mut pair = pair(&[link()], "bbr");
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    pair.cut(0, Direction::Both);
    let client = pair.host(Side::Client);
    pair.start(Side::Client, Box::new(Exchange::new(client, ByteCount(100_000))));
    pair.run_for(400 * MS).unwrap();
    pair.restore(0, Direction::Both);
    pair.run_for(Duration::from_secs(3)).unwrap();
    pair.transfer(Side::Client, megabytes(1), MINUTE).unwrap();
    assert_eq!(states(&mut pair, Side::Client), [EcnState::Capable]);
}
