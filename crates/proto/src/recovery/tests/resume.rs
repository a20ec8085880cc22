//! Paths that fail and recover.

use super::*;

/// A path that fails at 200 ms and recovers at `back` ms, with a path challenge that took 40 ms.
fn returned(controller: &str, back: u64) -> (PathRecovery, ByteCount) {
    let mut path = grown(controller);
    send(&mut path, at(190), 10);
    let window = path.window();
    path.snapshot(at(200));
    path.abandon(at(300), &mut Outcome::default());
    path.restart(at(back + 41), Some(Duration::from_millis(40)));
    (path, window)
}

#[test]
fn half_of_the_window_is_tried_after_a_short_outage() {
    for controller in ["cubic", "new-reno", "bbr"] {
        let (mut path, window) = returned(controller, 2000);
        assert_eq!(path.window(), window / 2, "{controller}");
        // Paced over one round trip.
        assert_eq!(path.pacing_rate(), path.window().per(path.rtt().smoothed()));
        let first = path.next_packet_number();
        send(&mut path, at(2041), 8);
        ack(&mut path, at(2081), &[first..=first + 7]);
        send(&mut path, at(2082), 1);
        ack(&mut path, at(2122), &[first..=first + 8]);
        assert!(path.pacing_rate() > path.window().per(path.rtt().smoothed()));
    }
}

#[test]
fn a_loss_in_the_first_flight_leads_to_the_initial_window() {
    for controller in ["cubic", "new-reno", "bbr"] {
        let (mut path, _) = returned(controller, 2000);
        let first = path.next_packet_number();
        send(&mut path, at(2041), 8);
        ack(&mut path, at(2081), &[first + 4..=first + 7]);
        // And for *bbr*, the bytes that arrived at the same time.
        let grown = path.window() - ByteCount(12_000);
        assert!(
            grown == ByteCount::ZERO || controller == "bbr" && grown == ByteCount(4800),
            "{controller}: {grown:?}"
        );
        assert!(path.controller.is_in_slow_start(), "{controller}");
    }
}

#[test]
fn a_long_outage_leads_to_the_initial_window() {
    for controller in ["cubic", "new-reno", "bbr"] {
        let (path, _) = returned(controller, 12_000);
        assert_eq!(path.window(), ByteCount(12_000), "{controller}");
    }
}
