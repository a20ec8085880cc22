//! Goff and Phatak, figure 5: one of two paths comes and goes, in (b) with another address each time; and that address
//! also without the path going down before.

use super::definition::everywhere;
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static SAME_ADDRESS: Experiment = Experiment {
    name: "goff-fig5a",
    title: "two paths of 112 kbit/s, one down for the last third of each cycle",
    source: "Goff-Phatak IV, figure 5(a)",
    rows: || cycles(&[]),
    template: |_| scenario(GOES_DOWN, |_| String::new()),
    ..BOTH
};

pub(super) static OTHER_ADDRESS: Experiment = Experiment {
    name: "goff-fig5b",
    title: "the same, and the path returns with another address each time, or has one while it is up",
    source: "Goff-Phatak IV, figure 5(b)",
    values: &["goes down"],
    rows: || [cycles(&[GOES_DOWN]), moves(&[STAYS_UP])].concat(),
    template: |values| {
        scenario(*values.first().unwrap_or(&GOES_DOWN), |number| format!("to = '10.9.9.{number}'\n"))
    },
    ..BOTH
};

const BOTH: Experiment = Experiment {
    name: "",
    title: "",
    source: "",
    found: "half the rate while one is down, the full rate again after; another address changes nothing",
    chosen: "cycles of 198 s (the document's first failure comes after about 130 s and lasts until about 200 s) and 132 s \
             more, to see the last return; no delay but 1 ms, queues of 50 packets; rates are those of the second half of \
             each time",
    values: &[],
    rows: Vec::new,
    template: |_| String::new(),
    contenders: &["manyway", "manyway@1"],
    // The lab announces no later address to multipath TCP.
    kernel: &[],
    alone: Alone::Not,
    columns: &[
        Column { head: "document, of the full rate", quantity: SHARE, unit: Unit::Share },
        Column { head: "manyway", quantity: Quantity::Ratio(&OURS, &FULL), unit: Unit::Share },
        Column { head: "Mbit/s", quantity: OURS, unit: Unit::Megabits },
        Column { head: "over the steady one", quantity: ours(Measure::Route(0)), unit: Unit::Megabits },
        Column { head: "over the other", quantity: ours(Measure::Route(1)), unit: Unit::Megabits },
        Column { head: "gap", quantity: ours(Measure::SilenceOf(0)), unit: Unit::Seconds },
        Column { head: "used after", quantity: ours(Measure::UsedAgain), unit: Unit::Seconds },
        Column { head: "full after", quantity: ours(Measure::Recovery), unit: Unit::Seconds },
    ],
    claims: &[
        Claim {
            what: "manyway against the working paths, each alone as fast as the steady one",
            quantity: Quantity::Ratio(&OURS, &Quantity::Product(&SHARE, &FULL)),
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: everywhere,
        },
        Claim {
            what: "a path that returned is used after",
            quantity: ours(Measure::UsedAgain),
            bound: Bound::AtMost(2.0),
            unit: Unit::Seconds,
            applies: |row| row.phase.is_some_and(|phase| phase.from > 0.0 && phase.name == UP),
        },
    ],
    traces: &[],
    curves: None,
};

const UP: &str = "both are up";
const DOWN: &str = "one is down";
const MOVED: &str = "another address";

const OURS: Quantity = ours(Measure::Goodput);
const SHARE: Quantity = Quantity::Document(0);
/// Twice the path that never fails.
const FULL: Quantity = Quantity::Scaled(&Quantity::Ours("manyway@1", Measure::Goodput), 2.0);

const fn ours(measure: Measure) -> Quantity {
    Quantity::Ours("manyway", measure)
}

/// Seconds.
const DURATION: f64 = 726.0;
const CYCLE: f64 = 198.0;
const FAILS: f64 = CYCLE * 2.0 / 3.0;

/// Whether the path goes down before it has another address.
const GOES_DOWN: f64 = 1.0;
const STAYS_UP: f64 = 0.0;

fn phase(values: &[f64], name: &'static str, (from, to): (f64, f64), share: f64) -> Row {
    Row::new(values, [share]).quick().during(name, from / DURATION, to / DURATION)
}

/// One of the paths is down in the last third of each cycle.
fn cycles(values: &[f64]) -> Vec<Row> {
    let cycle = |begin: f64| {
        let (fails, returns) = (begin + FAILS, begin + CYCLE);
        [phase(values, UP, (begin, fails), 1.0), phase(values, DOWN, (fails, returns), 0.5)]
    };
    let cycles = [0.0, 1.0, 2.0].into_iter().flat_map(|number| cycle(number * CYCLE));
    cycles.chain([phase(values, UP, (3.0 * CYCLE, DURATION), 1.0)]).collect()
}

/// The address changes at the end of each cycle.
fn moves(values: &[f64]) -> Vec<Row> {
    let ends = [0.0, CYCLE, 2.0 * CYCLE, 3.0 * CYCLE, DURATION];
    let names = ["the first address", MOVED, MOVED, MOVED];
    let spans = ends.iter().copied().zip(ends.iter().skip(1).copied());
    spans.zip(names).map(|(span, name)| phase(values, name, span, 1.0)).collect()
}

/// With what an event needs for another address at the end of a cycle, by its number; without that it keeps its own.
fn scenario(goes_down: f64, moves: impl Fn(u32) -> String) -> String {
    let mut text = format!("duration = '{DURATION}s'\n");
    for link in ["steady", "shaky"] {
        text += &format!("[links.{link}]\nrate = '112kbit'\nrtt = '1ms'\nqueue = '75kB'\n");
    }
    for number in 1..=3 {
        let returns = f64::from(number) * CYCLE;
        let mut event = |at: f64, what: &str| text += &format!("[[events]]\nat = '{at}s'\n{what}\n");
        if goes_down > STAYS_UP {
            event(returns - CYCLE + FAILS, "down = 'shaky'");
        }
        let to = moves(number);
        if !to.is_empty() {
            event(returns, &format!("address = 'shaky'\n{to}"));
        }
        if goes_down > STAYS_UP {
            event(returns, "up = 'shaky'");
        }
    }
    text
}
