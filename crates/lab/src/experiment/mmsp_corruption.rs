//! The MMSP thesis, figures 4.1 and 4.2: throughput over the share of corrupted data.

use super::mmsp_links::{Kind, links};
use super::{Alone, Bound, Claim, Column, Curves, Experiment, Measure, Quantity, Row, Unit};

pub(super) static WIRED: Experiment = Experiment {
    name: "mmsp-fig41",
    title: "100 MB with corrupted data, wired primary",
    source: "MMSP thesis 4.2, figure 4.1, page 56",
    found: "TCP falls much faster than MMSP; with 80 % of the data corrupted MMSP is twice as fast",
    template: |values| scenario([Kind::Wired, Kind::Wireless, Kind::Wireless], values),
    ..BOTH
};

pub(super) static WIRELESS: Experiment = Experiment {
    name: "mmsp-fig42",
    title: "100 MB with corrupted data, wireless primary",
    source: "MMSP thesis 4.2, figure 4.2, page 57",
    found: "TCP falls as before; MMSP, which repeats over the wired link, \"is not affected too much\"",
    template: |values| scenario([Kind::Wireless, Kind::Wired, Kind::Wireless], values),
    ..BOTH
};

const BOTH: Experiment = Experiment {
    name: "",
    title: "",
    source: "",
    found: "",
    chosen: CHOSEN,
    values: &["way", "corrupted, %"],
    rows,
    template: |_| String::new(),
    contenders: &[THESIS, SINGLE, ENDURING],
    kernel: &["tcp-reno@1", "tcp-cubic@1"],
    alone: Alone::Not,
    columns: &[
        Column { head: "MMSP/1", quantity: goodput(THESIS), unit: Unit::Megabits },
        Column { head: "MB", quantity: Quantity::Ours(THESIS, Measure::Megabytes), unit: Unit::Megabytes },
        Column { head: "over the first", quantity: route(0), unit: Unit::Megabits },
        Column { head: "second", quantity: route(1), unit: Unit::Megabits },
        Column { head: "third", quantity: route(2), unit: Unit::Megabits },
        Column { head: "one path, NewReno", quantity: goodput(SINGLE), unit: Unit::Megabits },
        Column { head: "MB", quantity: Quantity::Ours(SINGLE, Measure::Megabytes), unit: Unit::Megabytes },
        Column { head: "times", quantity: TIMES, unit: Unit::Times },
        Column { head: "MMSP/1 with BBR", quantity: goodput(ENDURING), unit: Unit::Megabits },
        Column { head: "TCP reno", quantity: goodput("tcp-reno@1"), unit: Unit::Megabits },
        Column { head: "TCP cubic", quantity: goodput("tcp-cubic@1"), unit: Unit::Megabits },
    ],
    claims: &[
        Claim {
            what: "MMSP/1 against the kernel's TCP reno at 80 %",
            quantity: Quantity::Ratio(&goodput(THESIS), &goodput("tcp-reno@1")),
            bound: Bound::AtLeast(2.0),
            unit: Unit::Times,
            applies: |row| row.values == [UNIFORM, 80.0],
        },
        Claim {
            what: "MMSP/1 against one path with 1 MB of each 10 MB corrupted",
            quantity: TIMES,
            bound: Bound::AtLeast(0.9),
            unit: Unit::Times,
            applies: |row| row.values == [IN_BLOCKS, 10.0],
        },
        Claim {
            what: "MMSP/1 with BBR against one path at 40 %",
            quantity: Quantity::Ratio(&goodput(ENDURING), &goodput(SINGLE)),
            bound: Bound::AtLeast(2.0),
            unit: Unit::Times,
            applies: |row| row.values == [UNIFORM, 40.0],
        },
    ],
    traces: &[],
    curves: Some(Curves {
        over: 1,
        unit: "throughput, Mbit/s",
        series: &[
            ("MMSP/1", goodput(THESIS)),
            ("one path, NewReno", goodput(SINGLE)),
            ("MMSP/1 with BBR", goodput(ENDURING)),
            ("TCP reno", goodput("tcp-reno@1")),
            ("TCP cubic", goodput("tcp-cubic@1")),
        ],
    }),
};

const CHOSEN: &str = "links as in mmsp-table42. The thesis does not say what its horizontal axis shows. Way 0: \
each first transmission is corrupted with this probability; way 1: so many MB in a row of each 10 MB, 10 % being \
the thesis's own \"1MB of every 10MB\"; way 2: as way 0, with a valid checksum of UDP or TCP, so that Adler-32 \
finds the damage and TCP does not (in virtual time there are no such checksums, and ways 0 and 2 are the same). \
What is repeated arrives. A run ends after 120 s with what arrived by then. One path, NewReno is MMSP/1 over the \
first link alone. It is no TCP: it repeats after a few milliseconds where TCP waits 200 ms or more, so it loses \
less than the thesis's TCP did. NewReno takes corruption for congestion and halves the primary's window, on \
whichever path it repeats; BBR does not";

const THESIS: &str = "manyway:wire=mmsp1";
const SINGLE: &str = "manyway@1:wire=mmsp1";
const ENDURING: &str = "manyway:wire=mmsp1,congestion=bbr";

const TIMES: Quantity = Quantity::Ratio(&goodput(THESIS), &goodput(SINGLE));

const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

const fn route(place: usize) -> Quantity {
    Quantity::Ours(THESIS, Measure::Route(place))
}

const UNIFORM: f64 = 0.0;
const IN_BLOCKS: f64 = 1.0;
const REPAIRED: f64 = 2.0;

fn rows() -> Vec<Row> {
    let shares = [0.0, 10.0, 20.0, 40.0, 60.0, 80.0];
    let ways = [UNIFORM, IN_BLOCKS].into_iter().flat_map(|way| shares.map(|share| [way, share]));
    let all = ways.chain([40.0, 80.0].map(|share| [REPAIRED, share]));
    let quick = [[UNIFORM, 0.0], [UNIFORM, 40.0], [UNIFORM, 80.0], [IN_BLOCKS, 10.0], [REPAIRED, 80.0]];
    let row = |values: [f64; 2]| {
        let row = Row::new(values, []);
        if quick.contains(&values) { row.quick() } else { row }
    };
    all.map(row).collect()
}

fn scenario(kinds: [Kind; 3], values: &[f64]) -> String {
    let [way, share] = values else { return String::new() };
    let damage = if *way == IN_BLOCKS {
        format!("part = '{}kB'\nof = '10MB'", share * 100.0)
    } else {
        let checksum = if *way == REPAIRED { "repaired" } else { "stale" };
        format!("share = '{share}%'\nchecksum = '{checksum}'")
    };
    format!(
        "duration = '120s'\nend = 'on-time'\n{}[damage]\n{damage}\n[[traffic]]\nbulk = 'up'\nsize = '100MB'\n",
        links(kinds, 1.0)
    )
}
