//! Programs of others over a verb of Manyway.

use std::time::Duration;

use manyway_lab::scenario::{Change, Direction, Event, Traffic};
use manyway_proto::ByteCount;

use super::{Lab, two_paths};

/// A link dies in silence in the middle. On a busy machine packets are late and paths seem to fail: one run of three has to be
/// without that.
#[test]
fn a_camera_sends_by_srt_while_a_link_dies_and_the_copies_of_manyway_are_counted() {
    let Some(mut lab) = Lab::start() else { return };
    let mut scenario = two_paths(Direction::Up);
    let (size, interval) = (ByteCount(1316), Duration::from_micros(1316));
    let lifetime = Some(Duration::from_millis(200));
    scenario.traffic = vec![Traffic::Messages { direction: Direction::Up, size, interval, lifetime }];
    let cut = Change::Cut { link: 0, direction: Direction::Both };
    scenario.events = vec![Event { at: Duration::from_millis(500), change: cut }];
    let mut disturbed = Vec::new();
    while disturbed.len() < 3 {
        let Some(outcome) = lab.run_if_built(&scenario, "forward:program=srt") else { return };
        assert_eq!(outcome.failure, None);
        let [film] = outcome.flows.as_slice() else { panic!("{:?}", outcome.flows) };
        let handed_out = film.latencies.as_ref().unwrap();
        // 760 packets a second, of which 380 follow the cut.
        assert_eq!(handed_out.len() as u64 + film.missing, 760, "{:?}", outcome.told);
        assert!(handed_out.iter().all(|latency| *latency > Duration::from_millis(150)), "{handed_out:?}");
        let told: Vec<&str> = outcome.told.keys().copied().collect();
        assert_eq!(told, ["copies", "dropped", "other copies", "sent again"]);
        if outcome.told["copies"] > 0.0 && outcome.told["other copies"] == 0.0 && film.missing < 95 {
            return;
        }
        disturbed.push((film.missing, outcome.told));
    }
    panic!("packets are late, or others than those in flight are sent again: {disturbed:?}");
}

#[test]
fn a_download_by_quinn_is_carried() {
    let Some(mut lab) = Lab::start() else { return };
    for name in ["direct:program=quinn", "run:program=quinn"] {
        let Some(outcome) = lab.run_if_built(&two_paths(Direction::Down), name) else { return };
        assert_eq!(outcome.failure, None, "{name}");
        assert!(outcome.flows[0].arrivals.goodput().bits_per_second() > 5_000_000, "{name}: {outcome:?}");
        assert!((0.0..0.5).contains(&outcome.told["lost"]), "{name}: {:?}", outcome.told);
        assert!((0.0..0.5).contains(&outcome.told["overtaken"]), "{name}: {:?}", outcome.told);
    }
}
