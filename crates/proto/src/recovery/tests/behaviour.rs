//! Behaviour of single packets.

use super::*;

#[test]
fn an_arrival_returns_its_content_and_an_rtt_sample() {
    let mut path = path("cubic");
    send(&mut path, at(0), 2);
    let out = ack(&mut path, at(40), &[0..=1]);
    assert_eq!(numbers(&out.delivered), [0, 1]);
    assert!(out.progress && out.lost.is_empty());
    assert_eq!(out.newly_acked_bytes, ByteCount(2400));
    assert_eq!(
        (path.rtt().latest(), path.bytes_in_flight(), path.deadline()),
        (ms(40), ByteCount::ZERO, None)
    );
    assert_eq!((path.largest_acked(), path.next_packet_number()), (Some(1), 2));
    assert_eq!((path.last_progress, path.oldest_unacked_time()), (Some(at(40)), None));
    assert!(!ack(&mut path, at(50), &[0..=1]).progress);
}

#[test]
fn acknowledging_a_packet_that_was_never_sent_is_a_violation() {
    let mut path = path("cubic");
    send(&mut path, at(0), 2);
    let result = acked(&mut path, at(40), &[0..=2], &mut Outcome::default());
    assert_eq!(result, Err(Violation::AckOfUnsent { path: PathId(0), packet_number: 2 }));
    assert_eq!(path.packets_in_flight(), 2);
}

#[test]
fn ack_only_packets_are_not_in_flight_and_arm_no_timer() {
    let mut path = path("cubic");
    for _ in 0..1000 {
        send_kind(&mut path, at(0), SIZE, PacketKind::AckOnly);
    }
    assert_eq!(
        (path.bytes_in_flight(), path.packets_in_flight(), path.deadline()),
        (ByteCount::ZERO, 0, None)
    );
    assert!(!ack(&mut path, at(9), &[0..=999]).progress);
    assert!(!path.rtt().has_sample());
}

// spec 9.30
#[test]
fn an_ack_query_is_not_in_flight_and_its_reply_is_an_rtt_sample() {
    let mut path = path("cubic");
    send_kind(&mut path, at(0), SIZE, PacketKind::AckQuery);
    assert_eq!(
        (path.bytes_in_flight(), path.packets_in_flight(), path.deadline()),
        (ByteCount::ZERO, 0, None)
    );
    assert!(!path.may_query_acks(at(99)) && path.may_query_acks(at(100)));
    let out = ack(&mut path, at(40), &[0..=0]);
    assert_eq!((numbers(&out.delivered), out.progress, path.rtt().latest()), (vec![0], false, ms(40)));
    assert!(ack(&mut path, at(50), &[0..=0]).delivered.is_empty(), "it is told once");
}

#[test]
fn a_reply_repeated_long_after_its_query_is_no_rtt_sample() {
    let mut path = path("cubic");
    send_kind(&mut path, at(0), SIZE, PacketKind::AckQuery);
    let held_back = ReceivedAck::new(PathId(0), std::iter::once(0..=0), ms(9_000), 0);
    let mut out = Outcome::default();
    path.on_ack(at(9_040), held_back, &[], &mut out).unwrap();
    assert_eq!((numbers(&out.delivered), path.rtt().has_sample()), (vec![0], false));
}

// spec 9.9
#[test]
fn acknowledgements_over_another_path_affect_the_average_alone() {
    let mut path = path("cubic");
    send(&mut path, at(0), 1);
    ack(&mut path, at(40), &[0..=0]);
    send(&mut path, at(100), 2);
    for (number, arrival, smoothed) in [(1, 116, ms(37)), (2, 153, ms(39))] {
        let ranges = std::iter::once(number..=number);
        let elsewhere = ReceivedAck::new(PathId(0), ranges, Duration::ZERO, 0).over(PathId(1));
        let mut out = Outcome::default();
        path.on_ack(at(arrival), elsewhere, &[], &mut out).unwrap();
        assert_eq!(numbers(&out.delivered), [number]);
        assert_eq!((path.rtt().smoothed(), path.rtt().minimum()), (smoothed, ms(40)));
    }
}

// spec 9.9
#[test]
fn acknowledgements_re_sent_while_suspect_give_no_rtt_sample() {
    for (is_suspect, has_sample) in [(true, false), (false, true)] {
        let mut path = path("cubic");
        send(&mut path, at(0), 1);
        path.set_suspect(is_suspect);
        let held_back = ReceivedAck::new(PathId(0), std::iter::once(0..=0), ms(60), 0);
        let mut out = Outcome::default();
        path.on_ack(at(100), held_back, &[], &mut out).unwrap();
        assert_eq!((numbers(&out.delivered), path.rtt().has_sample()), (vec![0], has_sample));
    }
}

#[test]
fn three_later_arrivals_make_a_packet_lost() {
    let mut path = path("new-reno");
    send(&mut path, at(0), 6);
    assert!(ack(&mut path, at(20), &[1..=2]).lost.is_empty());
    let out = ack(&mut path, at(21), &[1..=3]);
    assert_eq!(numbers(&out.lost), [0]);
    assert_eq!(out.lost_bytes, ByteCount(1200));
    assert_eq!(path.bytes_in_flight(), ByteCount(2400));
}

#[test]
fn time_makes_a_packet_lost_when_a_later_one_has_arrived() {
    let mut path = path("new-reno");
    send(&mut path, at(0), 2);
    ack(&mut path, at(40), &[1..=1]);
    // 40 ms and an eighth
    assert_eq!(path.deadline(), Some(at(45)));
    let mut out = Outcome::default();
    assert_eq!(path.on_timeout(at(44), &mut out), TimeoutKind::Nothing);
    assert_eq!(path.on_timeout(at(45), &mut out), TimeoutKind::Lost);
    assert_eq!(numbers(&out.lost), [0]);
    assert_eq!(path.deadline(), None);
}

#[test]
fn silence_causes_probe_timeouts_that_declare_nothing_lost() {
    let mut path = path("new-reno");
    send(&mut path, at(0), 1);
    ack(&mut path, at(40), &[0..=0]);
    send(&mut path, at(100), 1);
    // 40 + 4 · 20 + 25
    assert_eq!((path.pto(), path.deadline()), (ms(145), Some(at(245))));
    let mut out = Outcome::default();
    assert_eq!(path.on_timeout(at(245), &mut out), TimeoutKind::ProbeTimeout { count: 1 });
    // Even if no probe could be sent, the timer does not fire again at once.
    assert_eq!(path.deadline(), Some(at(485)));
    send(&mut path, at(246), 2);
    assert_eq!(path.deadline(), Some(at(486)));
    assert_eq!(path.on_timeout(at(486), &mut out), TimeoutKind::ProbeTimeout { count: 2 });
    assert!(out.lost.is_empty() && path.probe_timer.count == 2);
    ack(&mut path, at(500), &[2..=2]);
    assert_eq!(path.probe_timer.count, 0);
}

#[test]
fn a_reinjected_packet_is_reported_when_delivered_but_not_when_lost() {
    let mut path = path("new-reno");
    send(&mut path, at(0), 8);
    for packet in path.in_flight().take(2) {
        packet.reinjected = true;
    }
    let out = ack(&mut path, at(20), &[1..=1, 3..=5]);
    assert_eq!(numbers(&out.lost), [2]);
    assert_eq!(numbers(&out.delivered), [1, 3, 4, 5]);
    let out = ack(&mut path, at(22), &[0..=0]);
    assert_eq!((numbers(&out.delivered), out.spurious), (vec![0], 1));
}

#[test]
fn a_lost_pmtu_probe_is_reported_and_is_no_sign_of_congestion() {
    let mut path = path("new-reno");
    let window = path.window();
    send_kind(&mut path, at(0), 1452, PacketKind::MtuProbe);
    send(&mut path, at(0), 4);
    let out = ack(&mut path, at(20), &[3..=4]);
    assert_eq!((out.mtu_lost, out.lost_bytes), (Some(1452), ByteCount(1200)));
    let mut path = self::path("new-reno");
    send_kind(&mut path, at(0), 1452, PacketKind::MtuProbe);
    send(&mut path, at(0), 4);
    let out = ack(&mut path, at(20), &[1..=4]);
    assert_eq!(
        (out.mtu_lost, out.lost_bytes, path.bytes_in_flight()),
        (Some(1452), ByteCount::ZERO, ByteCount::ZERO)
    );
    assert!(path.window() >= window);
    // The probe was only late.
    assert_eq!(ack(&mut path, at(21), &[0..=4]).mtu_acked, Some(1452));
}

#[test]
fn losses_of_one_flight_shrink_the_window_once() {
    let mut path = path("new-reno");
    send(&mut path, at(0), 10);
    let before = path.window();
    ack(&mut path, at(20), &[3..=3]);
    ack(&mut path, at(21), &[3..=3, 5..=5]);
    ack(&mut path, at(22), &[3..=3, 5..=5, 9..=9]);
    assert_eq!(path.window(), before / 2);
    send(&mut path, at(30), 4);
    ack(&mut path, at(50), &[13..=13]);
    assert_eq!(path.window(), before / 4);
}

#[test]
fn a_congestion_event_is_undone_when_all_its_packets_arrive_late() {
    for controller in ["new-reno", "cubic"] {
        let mut path = path(controller);
        send(&mut path, at(0), 10);
        let before = path.window();
        let out = ack(&mut path, at(40), &[5..=5]);
        assert_eq!(numbers(&out.lost), [0, 1, 2]);
        let reduced = path.window();
        assert!(reduced < before);
        let out = ack(&mut path, at(42), &[5..=5, 1..=2]);
        assert_eq!((out.spurious, numbers(&out.delivered)), (2, vec![1, 2]));
        assert_eq!(path.window(), reduced);
        let out = ack(&mut path, at(43), &[5..=5, 0..=2]);
        assert!(out.progress && out.spurious == 1);
        assert_eq!(path.window(), before, "{controller}");
        // The thresholds have adapted to the reordering: five numbers back and three milliseconds late.
        send(&mut path, at(50), 6);
        assert!(ack(&mut path, at(90), &[14..=14, 3..=9]).lost.is_empty());
    }
}

// spec 9.38
#[test]
fn losses_of_a_suspect_period_are_no_sign_of_congestion() {
    for controller in ["cubic", "new-reno", "bbr", "lia", "olia", "balia"] {
        let windows = [true, false].map(|is_suspect| {
            let mut path = grown(controller);
            let before = path.window();
            for round in 5..9 {
                let first = path.next_packet_number();
                path.set_suspect(is_suspect);
                send(&mut path, at(round * 40), 20);
                let arrived: Vec<_> = (first..first + 20).step_by(2).map(|number| number..=number).collect();
                ack(&mut path, at(round * 40 + 40), &arrived);
            }
            (before, path.window())
        });
        let [(before, suspect), (_, lost)] = windows;
        assert!(suspect >= before && lost < before, "{controller}: {before:?} {suspect:?} {lost:?}");
    }
}

#[test]
fn a_packet_that_arrives_after_two_timeouts_undoes_nothing() {
    let mut path = path("new-reno");
    send(&mut path, at(0), 10);
    ack(&mut path, at(40), &[4..=9]);
    let reduced = path.window();
    let out = ack(&mut path, at(40 + 2 * 145 + 1), &[0..=9]);
    assert_eq!((out.spurious, out.progress, path.window()), (0, false, reduced));
}

#[test]
fn losing_every_packet_for_three_timeouts_resets_the_window_of_the_only_path() {
    for (alone, expected) in [(true, ByteCount(2400)), (false, ByteCount(6000))] {
        let mut path = path("new-reno");
        path.set_other_path_alive(!alone);
        send(&mut path, at(0), 1);
        ack(&mut path, at(20), &[0..=0]);
        let window = path.window();
        for step in 0..8 {
            send(&mut path, at(100 + step * 100), 1);
        }
        let out = ack(&mut path, at(820), &[8..=8]);
        assert_eq!(out.lost.len(), 7);
        assert_eq!(path.window().min(window), expected);
    }
}

#[test]
fn an_abandoned_path_has_nothing_in_flight_and_keeps_its_window() {
    let mut path = path("cubic");
    send(&mut path, at(0), 10);
    let window = path.window();
    let mut out = Outcome::default();
    path.abandon(at(10), &mut out);
    assert_eq!((out.lost.len(), path.bytes_in_flight(), path.deadline()), (10, ByteCount::ZERO, None));
    assert_eq!(path.window(), window);
    // Late arrivals are still reported.
    let out = ack(&mut path, at(20), &[0..=9]);
    assert_eq!((out.delivered.len(), out.progress, path.window()), (10, true, window));
}

#[test]
fn a_pmtu_probe_on_an_abandoned_path_is_reported_as_lost() {
    let mut path = path("cubic");
    send_kind(&mut path, at(0), 1452, PacketKind::MtuProbe);
    let mut out = Outcome::default();
    path.abandon(at(10), &mut out);
    assert_eq!((out.mtu_lost, out.lost_bytes), (Some(1452), ByteCount::ZERO));
}

#[test]
fn a_sender_that_uses_a_part_of_its_window_does_not_grow_it() {
    for controller in ["new-reno", "cubic"] {
        let mut path = path(controller);
        let window = path.window();
        for round in 0..50 {
            send(&mut path, at(round * 40), 4);
            path.set_app_limited();
            ack(&mut path, at(round * 40 + 20), &[0..=round * 4 + 3]);
        }
        assert_eq!(path.window(), window, "{controller}");
    }
}

#[test]
fn allowance_names_the_reason_why_nothing_may_be_sent() {
    let mut path = path("cubic");
    assert_eq!(path.allowance(at(0)), Allowance::Ready { bytes: ByteCount(2400) });
    send(&mut path, at(0), 2);
    // Two windows of 12 000 bytes in 100 ms: 2400 bytes need 10 ms.
    assert_eq!(path.allowance(at(0)), Allowance::PacedUntil(at(10)));
    assert_eq!(path.allowance(at(10)), Allowance::Ready { bytes: ByteCount(2400) });
    send(&mut path, at(10), 8);
    assert_eq!(path.allowance(at(500)), Allowance::Window);
}

#[test]
fn data_held_back_by_the_window_does_not_count_as_late_for_the_pacer() {
    let mut path = path("cubic");
    assert_eq!(path.allowance(at(0)), Allowance::Ready { bytes: ByteCount(2400) });
    send(&mut path, at(0), 2);
    assert_eq!(path.allowance(at(0)), Allowance::PacedUntil(at(10)));
    send(&mut path, at(1), 8);
    assert_eq!(path.allowance(at(1)), Allowance::Window);
    ack(&mut path, at(41), &[0..=9]);
    // Two windows of 24 000 bytes in 40 ms: this leaves in 2 ms.
    assert_eq!(path.allowance(at(41)), Allowance::Ready { bytes: ByteCount(2400) });
}

#[test]
fn an_assumed_round_trip_and_the_ack_delay_of_the_peer_set_the_first_timeout() {
    let mut path = path("cubic");
    // 100 + 4 · 50 + 25
    assert_eq!(path.pto(), ms(325));
    path.seed_rtt(ms(40));
    path.set_max_ack_delay(ms(5));
    assert_eq!(path.pto(), ms(125));
    send(&mut path, at(0), 1);
    assert_eq!(path.deadline(), Some(at(125)));
}

#[test]
fn subflows_report_the_longest_interval_without_congestion() {
    let mut path = path("new-reno");
    send(&mut path, at(0), 10);
    ack(&mut path, at(20), &[0..=3]);
    assert_eq!(path.as_subflow(), Subflow::new(path.window(), ms(20), ByteCount(4 * 1200)));
    let out = ack(&mut path, at(21), &[8..=8, 0..=3]);
    assert_eq!(out.lost.len(), 2);
    ack(&mut path, at(22), &[8..=9]);
    // Five packets until the congestion event, one since.
    assert_eq!(path.as_subflow().loss_interval, ByteCount(5 * 1200));
}

#[test]
fn on_a_stream_only_what_the_peer_discarded_counts_as_lost_and_only_the_peer_frees_content() {
    let mut path = path("cubic");
    path.set_carrier(Carrier::Tcp);
    send(&mut path, at(0), 20);
    // A stream delivers in order: the peer had the first two before the third.
    let window = path.window();
    let out = ack(&mut path, at(40), &[2..=2]);
    assert_eq!((out.lost.len(), out.delivered.len()), (2, 1));
    let mut out = Outcome::default();
    let probe = path.deadline().unwrap();
    assert_eq!(path.on_timeout(probe, &mut out), TimeoutKind::ProbeTimeout { count: 1 });
    assert_eq!((out.lost.len(), path.packets_in_flight(), path.window()), (0, 17, window));
    // The carrier is empty: its window is free again, but the packets are still remembered.
    path.on_figures(CarrierFigures::new(ms(40), ByteCount(30_000)));
    assert_eq!((path.bytes_in_flight(), path.packets_in_flight()), (ByteCount::ZERO, 17));
    assert_eq!(path.ecn_mark(), Ecn::NotEct);
    // A copy of the third had overtaken the first two.
    let out = ack(&mut path, at(200), &[0..=19]);
    assert_eq!((out.delivered.len(), out.spurious, path.packets_in_flight()), (19, 2, 0));
}
