//! Laws of `earliest` for any view, and its typical cases.

use manyway_wire::{PathId, StreamId};
use proptest::prelude::*;

use super::*;
use crate::path::{PathState, Role};
use crate::scheduler::{HeadOfLine, NextUp, RttView};

const NOW: Instant = Instant::from_nanos(10_000_000_000);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A path of `mbit` Mbit/s and an RTT of `rtt` ms, with a window twice as large as needed, of which `used` percent
/// are in flight.
fn path(id: u32, mbit: u64, rtt: u64, used: u64) -> PathView {
    let rate = Rate::from_bits_per_second(mbit * 1_000_000);
    let window = rate * ms(rtt) * 2 + ByteCount(2400);
    let in_flight = window * used / 100;
    let room = window - in_flight;
    PathView {
        rtt: RttView { smoothed: ms(rtt), variation: ms(1), minimum: ms(rtt), base: ms(rtt) },
        delay: ms(rtt) / 2,
        delivery_rate: rate,
        window,
        in_flight,
        sendable: if room < ByteCount(1200) { ByteCount::ZERO } else { room.min(ByteCount(12_000)) },
        ..PathView::new(PathId(id))
    }
}

/// A view with this backlog, all within the credit.
fn view(paths: &[PathView], backlog: u64) -> View<'_> {
    let mut view = View::new(NOW, paths);
    view.backlog = ByteCount(backlog);
    view.credit_left = ByteCount(64 << 20);
    view.credit_total = ByteCount(64 << 20);
    view.copy_budget = ByteCount(20_000);
    view
}

fn decide(view: &View<'_>) -> Decision {
    Earliest.decide(view)
}

fn new_data(path: u32, skip: u64) -> Decision {
    Decision::send(PathId(path), ByteCount(12_000), Source::Skip(ByteCount(skip)))
}

fn any_path(id: u32) -> impl Strategy<Value = PathView> {
    let states = prop::sample::select(PathState::ALL.to_vec());
    let roles = prop::sample::select(vec![Role::Primary, Role::Primary, Role::Secondary, Role::Backup]);
    let waits = prop_oneof![3 => Just(None), 1 => (1..50_000_u64).prop_map(Some)];
    (
        prop_oneof![3 => Just(PathState::Active), 1 => states],
        roles,
        1..1000_u64,
        1..500_u64,
        0..101_u64,
        waits,
    )
        .prop_map(move |(state, role, mbit, rtt, used, waits)| {
            let path = path(id, mbit, rtt, used);
            let next_departure = waits.map(|micros| NOW + Duration::from_micros(micros));
            let sendable = if waits.is_some() { ByteCount::ZERO } else { path.sendable };
            PathView { state, role, next_departure, sendable, ..path }
        })
}

fn any_paths() -> impl Strategy<Value = Vec<PathView>> {
    (any_path(0), any_path(1), any_path(2), 1..4_usize)
        .prop_map(|(first, second, third, count)| [first, second, third].into_iter().take(count).collect())
}

proptest! {
    #[test]
    fn every_choice_can_send_and_is_within_credit_and_backlog(
        paths in any_paths(), backlog in 0..5_000_000_u64, deferred in 0..100_000_u64, retransmissions in 0..20_000_u64,
        left in 0..2_000_000_u64, outstanding in 0..4_000_000_u64,
    ) {
        let mut view = view(&paths, backlog);
        view.deferred = ByteCount(deferred.min(backlog));
        view.retransmissions = ByteCount(retransmissions);
        view.credit_left = ByteCount(left);
        view.credit_total = ByteCount(left + outstanding);
        match decide(&view) {
            Decision::Send { path, quantum, source } => {
                let chosen = view.path(path).unwrap();
                prop_assert!(quantum > ByteCount::ZERO && quantum <= chosen.sendable);
                prop_assert!(chosen.tier().is_some());
                prop_assert!(chosen.in_flight + chosen.datagram <= chosen.window);
                match source {
                    Source::Skip(skip) => prop_assert!(skip + quantum <= view.sendable_unsent()),
                    Source::Retransmission => prop_assert!(retransmissions > 0),
                    Source::Next | Source::Reinject | Source::Stream(_) => prop_assert!(false, "{source:?}"),
                }
            }
            Decision::Copy { .. } => prop_assert!(false),
            Decision::Wait { .. } => {
                // An event brings it back: an acknowledgement or the pacer.
                let stirs = |path: &PathView| path.in_flight > ByteCount::ZERO || path.next_departure.is_some();
                let idle = view.in_use().all(|path| !stirs(path));
                prop_assert!(view.sendable() == ByteCount::ZERO || !idle || view.in_use().next().is_none());
            }
        }
    }

    #[test]
    fn an_available_path_on_which_bytes_arrive_sooner_is_never_idle_in_favour_of_a_slower_one(
        paths in any_paths(), backlog in 1..5_000_000_u64,
    ) {
        let mut view = view(&paths, backlog);
        view.credit_total = ByteCount(1 << 40);
        if let Decision::Send { path, .. } = decide(&view) {
            let chosen = view.path(path).unwrap();
            for other in view.in_use().filter(|other| other.sendable > ByteCount::ZERO) {
                prop_assert!((chosen.tier(), chosen.delay) <= (other.tier(), other.delay));
            }
        }
    }

    #[test]
    fn a_slower_path_gets_only_bytes_that_the_others_cannot_deliver_before(
        paths in any_paths(), backlog in 1..5_000_000_u64, left in 1..5_000_000_u64,
    ) {
        let mut view = view(&paths, backlog);
        view.credit_left = ByteCount(left);
        view.credit_total = ByteCount(1 << 40);
        if let Decision::Send { path, source: Source::Skip(skip), .. } = decide(&view) {
            let chosen = view.path(path).unwrap();
            let others = view.in_use().filter(|other| other.id != path && other.in_flight + other.datagram <= other.window);
            // Paths without a queue deliver from now on; they get at least that.
            let sooner = others.filter(|other| other.next_departure.is_none()).map(|other| {
                other.delivery_rate * chosen.delay.saturating_sub(other.delay).min(FARTHEST)
            });
            prop_assert!(skip >= sooner.sum());
        }
    }

    #[test]
    fn while_credit_is_scarce_no_path_has_much_more_in_flight_than_a_round_trip(
        paths in any_paths(), backlog in 1..5_000_000_u64, percent in 0..200_u64,
    ) {
        let mut view = view(&paths, backlog);
        prop_assume!(view.in_use().count() > 1);
        let longest = view.in_use().map(|path| path.rtt.base).max().unwrap();
        let carried = view.in_use().map(|path| path.delivery_rate).sum::<Rate>() * longest;
        view.credit_total = carried * percent / 100;
        if let Decision::Send { path, quantum, .. } = decide(&view) {
            let chosen = view.path(path).unwrap();
            let little = chosen.delivery_rate.scaled(110, 100) * chosen.rtt.base + chosen.datagram * 3;
            prop_assert!(chosen.in_flight + quantum <= little, "{chosen:?} {quantum}");
        }
    }

    #[test]
    fn a_head_of_line_packet_is_copied_once_if_it_arrives_sooner_or_is_overdue(
        paths in any_paths(), holder in 0..3_u32, age in 0..1000_u64, copies in 0..2_u32, budget in 0..20_000_u64,
    ) {
        let mut view = view(&paths, 0);
        view.copy_budget = ByteCount(budget);
        let sent_at = NOW - ms(age);
        view.head_of_line = Some(HeadOfLine { stream: StreamId(0), path: PathId(holder), bytes: ByteCount(1000), sent_at, copies });
        if let Decision::Send { path, quantum, source } = decide(&view) {
            let holder = view.path(PathId(holder)).unwrap();
            let is_overdue = NOW >= sent_at + holder.rtt.smoothed * 5 / 4;
            let is_sooner = NOW + view.path(path).unwrap().delay < sent_at + holder.delay;
            prop_assert!(source == Source::Reinject && path != holder.id && copies == 0);
            prop_assert!(quantum.get() <= budget && (is_overdue || is_sooner), "{holder:?}");
        }
    }
}

#[test]
fn the_nearest_path_goes_first_and_a_far_one_gets_bytes_that_are_due_when_it_delivers() {
    let mut paths = [path(0, 40, 20, 0), path(1, 10, 200, 0)];
    assert_eq!(decide(&view(&paths, 5_000_000)), new_data(0, 0));
    // The near path is full: a datagram has to leave first. Until the far path delivers, 90 ms later, it carries 450
    // kB less that datagram.
    paths[0].in_flight = paths[0].window;
    paths[0].sendable = ByteCount::ZERO;
    assert_eq!(decide(&view(&paths, 5_000_000)), new_data(1, 448_800));
}

#[test]
fn a_far_path_gets_nothing_if_the_near_one_delivers_the_backlog_sooner() {
    let paths = [path(0, 40, 20, 100), path(1, 10, 200, 0)];
    assert_eq!(decide(&view(&paths, 400_000)), Decision::WAIT);
    let mut view = view(&paths, 5_000_000);
    view.credit_left = ByteCount(400_000);
    assert_eq!(decide(&view), Decision::WAIT);
}

#[test]
fn while_credit_is_scarce_no_path_gets_more_than_its_capacity_in_a_round_trip() {
    // 75 of 100: a queue of half a round trip.
    let paths = [path(0, 40, 20, 75), path(1, 10, 40, 75)];
    let mut view = view(&paths, 5_000_000);
    assert_eq!(decide(&view), new_data(0, 0));
    view.credit_total = ByteCount(300_000);
    assert_eq!(decide(&view), Decision::WAIT);
}

#[test]
fn one_short_round_trip_among_long_ones_does_not_limit_a_path() {
    let lucky = RttView { smoothed: ms(35), variation: ms(8), minimum: ms(3), base: ms(30) };
    // The capacity within 3 ms is in flight several times over.
    let paths = [path(0, 40, 20, 75), PathView { rtt: lucky, ..path(1, 40, 35, 25) }];
    let mut view = view(&paths, 5_000_000);
    view.credit_total = ByteCount(300_000);
    assert_eq!(decide(&view), new_data(1, 0));
}

#[test]
fn retransmissions_go_first_where_they_arrive_first() {
    let paths = [path(0, 40, 20, 0), path(1, 10, 200, 0)];
    let mut view = view(&paths, 5_000_000);
    view.retransmissions = ByteCount(3_000);
    assert_eq!(decide(&view), Decision::send(PathId(0), ByteCount(12_000), Source::Retransmission));
}

#[test]
fn a_head_of_line_packet_is_sent_again_where_it_arrives_sooner() {
    let paths = [path(0, 40, 20, 0), path(1, 10, 200, 50)];
    let mut view = view(&paths, 0);
    view.head_of_line = Some(HeadOfLine {
        stream: StreamId(0),
        path: PathId(1),
        bytes: ByteCount(1000),
        sent_at: NOW - ms(10),
        copies: 0,
    });
    assert_eq!(decide(&view), Decision::send(PathId(0), ByteCount(4800), Source::Reinject));
    view.copy_budget = ByteCount::ZERO;
    assert_eq!(decide(&view), Decision::Wait { until: Some(NOW - ms(10) + ms(250)) });
    view.head_of_line.as_mut().unwrap().copies = 1;
    assert_eq!(decide(&view), Decision::WAIT);
}

// spec 8.43
#[test]
fn a_message_is_sent_twice_if_it_may_miss_its_deadline_alone() {
    let copies = |class, left: Option<u64>, loss: u32, variation: u64| {
        // The delays are 10 and 25 ms.
        let mut paths = [path(0, 20, 20, 0), path(1, 20, 50, 0)];
        paths[0].record.loss = loss;
        paths[0].rtt.variation = ms(variation);
        let mut view = view(&paths, 300);
        let deadline = left.map(|left| NOW + ms(left));
        view.next = Some(NextUp { stream: StreamId(0), class, left: ByteCount(300), deadline });
        Earliest.urgent_copies(&view, &paths[0])
    };
    let deadline = |left, loss, variation| copies(Class::Deadline, Some(left), loss, variation);
    // A loss is detected after 20 + 4 + 25 ms, and repaired 10 ms later.
    assert_eq!([deadline(58, 1_000, 1), deadline(59, 1_000, 1)], [1, 0]);
    assert_eq!(deadline(58, 999, 1), 0, "hardly anything gets lost");
    assert_eq!([deadline(33, 0, 6), deadline(34, 0, 6)], [1, 0], "a late one comes after 10 + 24 ms");
    assert_eq!(copies(Class::Bulk, Some(10), 20_000, 6), 0, "no stream waits for it");
    assert_eq!(copies(Class::Deadline, None, 20_000, 6), 0, "it has time for ever");
}

// spec 8.57
#[test]
fn the_end_of_interactive_data_is_sent_twice_on_lossy_paths() {
    let copies = |left: u64, loss: u32, round_trip: u64| {
        let mut paths = [path(0, 20, 20, 0), path(1, 20, round_trip, 0)];
        paths[0].record.loss = loss;
        let mut view = view(&paths, left);
        let class = Class::Interactive;
        view.next = Some(NextUp { stream: StreamId(0), class, left: ByteCount(left), deadline: None });
        Earliest.urgent_copies(&view, &paths[0])
    };
    let two = 2 * path(0, 20, 20, 0).datagram.get();
    assert_eq!([copies(two, 1_000, 59), copies(two + 1, 1_000, 59)], [1, 0], "what follows shows the loss");
    assert_eq!(copies(100, 999, 59), 0, "hardly anything gets lost");
    assert_eq!(copies(100, 1_000, 60), 0, "it would be too late");
}

/// A TCP path takes a little more than its congestion window: with a window of two segments, none would be on its way while
/// the first is being repaired, and TCP would wait for its timeout.
#[test]
fn a_stream_carrier_is_filled_beyond_its_window_as_far_as_it_takes_more() {
    let narrow = PathView {
        window: ByteCount(4_200),
        in_flight: ByteCount(1_298),
        sendable: ByteCount(19_286),
        datagram: ByteCount(4_096),
        ..path(0, 1, 80, 0)
    };
    let paths = [narrow];
    assert_eq!(
        decide(&view(&paths, 100_000)),
        Decision::send(PathId(0), ByteCount(19_286), Source::Skip(ByteCount(0)))
    );
}
