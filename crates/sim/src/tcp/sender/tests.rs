//! A sender without selective acknowledgements.

use manyway_proto::congestion::{ControllerConfig, NewReno};

use super::*;

const SEGMENT: u64 = 1000;
const START: Instant = Instant::from_nanos(0);

fn ms(millis: u64) -> Instant {
    START + Duration::from_millis(millis)
}

/// A sender with ten segments in flight.
fn sender() -> Sender {
    let controller = Box::new(NewReno::new(&ControllerConfig::new(1000)));
    let mut sender = Sender::new(controller, SlowStart::UntilLoss, 1000).without_selective_acks();
    assert_eq!(sent(&mut sender, START), (0..10).collect::<Vec<_>>());
    sender
}

/// The segments that leave now.
fn sent(sender: &mut Sender, now: Instant) -> Vec<u64> {
    std::iter::from_fn(|| sender.poll(now, 100 * SEGMENT, u64::MAX))
        .map(|range| range.start / SEGMENT)
        .collect()
}

fn repeat(sender: &mut Sender, now: Instant, times: usize) {
    for _ in 0..times {
        sender.on_ack(now, sender.acknowledged(), std::iter::once(3 * SEGMENT..4 * SEGMENT));
        sender.on_repeated_ack(now);
    }
}

#[test]
fn the_third_repeated_acknowledgement_repeats_the_first_segment_and_halves_the_window() {
    let mut sender = sender();
    repeat(&mut sender, ms(50), 2);
    assert_eq!(sent(&mut sender, ms(50)), []);
    repeat(&mut sender, ms(50), 1);
    assert_eq!(sent(&mut sender, ms(50)), [0]);
    assert_eq!(sender.window().get(), 5 * SEGMENT);
    // Six more have arrived: of ten in flight nine have left, so that four fit into the window of five.
    repeat(&mut sender, ms(51), 6);
    assert_eq!(sent(&mut sender, ms(51)), [10, 11, 12, 13]);
    sender.on_ack(ms(100), 14 * SEGMENT, std::iter::empty());
    assert!(sender.recovery.is_none());
    assert_eq!(sent(&mut sender, ms(100)), [14, 15, 16, 17, 18], "the window is that of the loss");
}

#[test]
fn a_partial_acknowledgement_repeats_the_next_missing_segment() {
    let mut sender = sender();
    repeat(&mut sender, ms(50), 3);
    assert_eq!(sent(&mut sender, ms(50)), [0]);
    sender.on_ack(ms(100), 2 * SEGMENT, std::iter::empty());
    assert_eq!(sent(&mut sender, ms(100)), [2]);
    assert_eq!(sender.window().get(), 5 * SEGMENT, "it is one loss");
}

#[test]
fn after_a_timeout_of_a_second_everything_leaves_again_and_repeated_acknowledgements_are_no_loss() {
    let mut sender = sender();
    assert_eq!(sender.deadline(), Some(ms(1000)));
    sender.on_timeout(ms(1000));
    assert_eq!(sent(&mut sender, ms(1000)), [0, 1]);
    let window = sender.window();
    repeat(&mut sender, ms(1001), 5);
    assert_eq!((sent(&mut sender, ms(1001)), sender.window()), (vec![], window));
    // What follows had arrived already.
    sender.on_ack(ms(1050), 10 * SEGMENT, std::iter::empty());
    assert_eq!(sender.acknowledged(), 10 * SEGMENT);
    assert!(!sent(&mut sender, ms(1050)).is_empty());
}
