//! The MMSP thesis, table 4.1: does a connection survive the loss of paths, and end when all are lost?

use manyway_sim::pair::Side;

use super::mmsp_links::{kinds, links};
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "mmsp-table41",
    title: "six cases of lost paths over three interfaces a side",
    source: "MMSP thesis 4.1, table 4.1, page 53",
    found: "connected in the first five cases, the data on an idle path while the primary is away and on the \
            primary after; in the sixth, after timers at both hosts, the connection is closed",
    chosen: "links of a tenth of the rates of mmsp-table42; silent cuts, as of a router's port; phases of 50 s; \
            the server answers with ten small messages a second, since an end that only receives asks a quiet \
            path after 15 s and gives up that much later; a silence counts in each case that it touches; the \
            out-of-service timer is 5 s as in the thesis, and begins when the last path is unreachable, after \
            three probes without an answer (about 3 s)",
    values: &[],
    rows,
    template: |_| scenario(),
    contenders: &[MMSP1, FAST, MMSP2],
    kernel: &[],
    alone: Alone::Not,
    columns: &[
        Column { head: "MMSP/1 Mbit/s", quantity: one(Measure::Goodput), unit: Unit::Megabits },
        Column { head: "wired", quantity: one(Measure::Route(0)), unit: Unit::Megabits },
        Column { head: "wireless", quantity: one(Measure::Route(1)), unit: Unit::Megabits },
        Column { head: "wireless 2", quantity: one(Measure::Route(2)), unit: Unit::Megabits },
        Column { head: "silence", quantity: one(Measure::Silence), unit: Unit::Seconds },
        Column {
            head: "ended at client",
            quantity: one(Measure::GivenUp(Side::Client)),
            unit: Unit::Seconds,
        },
        Column { head: "at server", quantity: one(Measure::GivenUp(Side::Server)), unit: Unit::Seconds },
        Column {
            head: "silence with fast detection",
            quantity: Quantity::Ours(FAST, Measure::Silence),
            unit: Unit::Seconds,
        },
        Column { head: "MMSP/2 Mbit/s", quantity: two(Measure::Goodput), unit: Unit::Megabits },
        Column { head: "wired", quantity: two(Measure::Route(0)), unit: Unit::Megabits },
        Column { head: "wireless", quantity: two(Measure::Route(1)), unit: Unit::Megabits },
        Column { head: "wireless 2", quantity: two(Measure::Route(2)), unit: Unit::Megabits },
        Column { head: "silence", quantity: two(Measure::Silence), unit: Unit::Seconds },
        Column {
            head: "ended at client",
            quantity: two(Measure::GivenUp(Side::Client)),
            unit: Unit::Seconds,
        },
        Column { head: "at server", quantity: two(Measure::GivenUp(Side::Server)), unit: Unit::Seconds },
    ],
    claims: &[
        Claim {
            what: "MMSP/1 delivers while a path is left, of the rate of the path that the thesis uses",
            quantity: Quantity::Ratio(&one(Measure::Goodput), &Quantity::Document(0)),
            bound: Bound::AtLeast(0.9),
            unit: Unit::Share,
            applies: lives,
        },
        Claim {
            what: "MMSP/2 delivers as well",
            quantity: Quantity::Ratio(&two(Measure::Goodput), &Quantity::Document(0)),
            bound: Bound::AtLeast(0.9),
            unit: Unit::Share,
            applies: lives,
        },
        Claim {
            what: "longest stall of MMSP/1 while a path is left",
            quantity: one(Measure::Silence),
            bound: Bound::AtMost(4.0),
            unit: Unit::Seconds,
            applies: |row| lives(row) && changes(row),
        },
        Claim {
            what: "silence of MMSP/1 with fast detection when the primary dies",
            quantity: Quantity::Ours(FAST, Measure::Silence),
            bound: Bound::AtMost(0.15),
            unit: Unit::Seconds,
            applies: |row| row.phase.is_some_and(|phase| phase.from > 0.0 && phase.from < 0.2),
        },
        Claim {
            what: "longest stall of MMSP/2",
            quantity: two(Measure::Silence),
            bound: Bound::AtMost(1.0),
            unit: Unit::Seconds,
            applies: |row| lives(row) && changes(row),
        },
        ends("MMSP/1 has ended at the client", one(Measure::GivenUp(Side::Client))),
        ends("and at the server", one(Measure::GivenUp(Side::Server))),
        ends("MMSP/2 has ended at the client", two(Measure::GivenUp(Side::Client))),
        ends("and at the server", two(Measure::GivenUp(Side::Server))),
    ],
    traces: &[],
    curves: None,
};

const MMSP1: &str = "manyway:wire=mmsp1";
const FAST: &str = "manyway:wire=mmsp1,detection=fast";
const MMSP2: &str = "manyway";

const fn one(measure: Measure) -> Quantity {
    Quantity::Ours(MMSP1, measure)
}

const fn two(measure: Measure) -> Quantity {
    Quantity::Ours(MMSP2, measure)
}

/// The out-of-service timer of 5 s, and 3.5 s to find that the last path is unreachable.
const fn ends(what: &'static str, quantity: Quantity) -> Claim {
    Claim { what, quantity, bound: Bound::AtMost(8.5), unit: Unit::Seconds, applies: |row| !lives(row) }
}

/// Whether a path is left.
fn lives(row: &Row) -> bool {
    row.document.iter().all(|rate| rate.is_finite())
}

/// Whether a path changes at the begin of the phase; not in the last case before the end, whose silence touches it.
fn changes(row: &Row) -> bool {
    row.phase.is_some_and(|phase| phase.from > 0.0 && phase.from < 0.6)
}

/// Mbit/s of data over a tenth of the thesis's wired and wireless link.
const WIRED: f64 = 17.1;
const WIRELESS: f64 = 1.8;

/// The cases of the table, and the rate of the path that the thesis uses then.
const CASES: [(&str, f64); 6] = [
    ("all three paths coexist: connected", WIRED),
    ("primary disconnected: still connected", WIRELESS),
    ("primary reconnected: still connected", WIRED),
    ("one secondary disconnected: still connected", WIRED),
    ("both secondary disconnected: still connected", WIRED),
    ("all disconnected: shut down", f64::NAN),
];

fn rows() -> Vec<Row> {
    let row = |((name, rate), number): (&(&'static str, f64), u8)| {
        let at = |number: u8| f64::from(number) / 6.0;
        Row::new([], [*rate]).quick().during(name, at(number), at(number + 1))
    };
    CASES.iter().zip(0..).map(row).collect()
}

fn scenario() -> String {
    let mut text = format!("duration = '300s'\nend = {{ no_path = '5s' }}\n{}", links(kinds(1.0, 2.0), 0.1));
    for (at, change) in [
        (50, "cut = 'wired'"),
        (100, "restore = 'wired'"),
        (150, "cut = 'wireless1'"),
        (200, "cut = 'wireless2'"),
        (250, "cut = 'wired'"),
    ] {
        text += &format!("[[events]]\nat = '{at}s'\n{change}\n");
    }
    text + "[[traffic]]\nbulk = 'up'\n[[traffic]]\nmessages = 'down'\nsize = 100\ninterval = '100ms'\n"
}
