//! Links compared with their settings: as `manyway-lab validate`, with the same bounds.

use manyway_lab::validation::{Extent, Options, Property, Report, Row, run, text};
use manyway_sim::nightly::{few_or_many, is_nightly};

use crate::common::{Turn, measured};

#[test]
fn fixed_rates_are_kept() {
    holds(Property::Rate);
}

#[test]
fn a_trace_gives_its_mean_rate() {
    holds(Property::Trace);
}

#[test]
fn a_round_trip_takes_hardly_longer_than_the_delay_of_the_links() {
    // A machine that is slow to wake threads delays the bare thread, which has the emulator's priority, as much. The
    // rest is the emulator's own.
    const OWN: f64 = 0.1;
    judged(Property::Delay, Turn::alone, |rows| {
        let [emulated, bare] = rows else { return false };
        let excess = |row: &Row| row.measured.median - row.theory.unwrap_or_default();
        emulated.holds() || (0.0..=excess(bare) + OWN).contains(&excess(emulated))
    });
}

#[test]
fn a_full_queue_delays_by_its_length() {
    holds(Property::Queue);
}

#[test]
fn delays_vary_and_packets_overtake_as_they_should() {
    holds(Property::Jitter);
}

#[test]
fn losses_and_their_bursts_follow_their_models() {
    holds(Property::Loss);
}

#[test]
fn packets_are_damaged_at_the_configured_rate() {
    holds(Property::Corruption);
}

#[test]
fn copies_arrive_at_the_configured_rate() {
    holds(Property::Duplication);
}

#[test]
fn codel_drops_and_marks_as_specified() {
    holds(Property::Codel);
}

#[test]
fn a_core_carries_a_gigabit() {
    // A machine with other work has to repeat it.
    if is_nightly() {
        holds(Property::Speed);
    }
}

fn holds(property: Property) {
    // Other tests disturb the rest little, which counts packets or compares times of many milliseconds.
    let needs_machine = [Property::Delay, Property::Queue, Property::Speed].contains(&property);
    let turn = if needs_machine { Turn::alone } else { Turn::shared };
    judged(property, turn, |rows| rows.iter().all(Row::holds));
}

/// Measures once, and again if the measurement may have been disturbed.
#[track_caller]
fn judged(property: Property, turn: impl Fn() -> Option<Turn>, is_right: impl Fn(&[Row]) -> bool) {
    let Some(_turn) = turn() else { return };
    let extent = few_or_many(Extent::Quick, Extent::Full);
    let options = Options { properties: vec![property], repetitions: 1, extent, ..Options::default() };
    let report = measured(|report: &Report| is_right(&report.rows), || run(&options, |_| {}).unwrap());
    println!("{}", text(&report));
}
