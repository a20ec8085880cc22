//! CMT, table 1 and figures 5.4 and 5.5: throughput over the size of the chunks, and over their number.

use super::cmt_paths::{FILE, delay, discarded, held, jitter, links, megabytes, transfer};
use super::definition::everywhere;
use super::{Alone, Bound, Claim, Column, Curves, Experiment, Measure, Quantity, Row, Unit};

pub(super) static BY_SIZE: Experiment = Experiment {
    name: "cmt-table1",
    title: "100 MB over three paths in chunks, in turn and weighted",
    values: &["chunk, bytes"],
    rows: || TABLE.map(|line| row(line.0, line)).to_vec(),
    template: |values| template(values.first().copied().unwrap_or(FILE)),
    ..BOTH
};

pub(super) static BY_NUMBER: Experiment = Experiment {
    name: "cmt-fig55",
    title: "the same over the number of chunks",
    values: &["chunks"],
    rows: || TABLE.iter().rev().map(|line| row((FILE / line.0).ceil(), *line)).collect(),
    template: |values| template((FILE / values.first().copied().unwrap_or(1.0)).round()),
    ..BOTH
};

const BOTH: Experiment = Experiment {
    name: "",
    title: "",
    source: "CMT 4.4 and 5.2, table 1, figures 5.4 and 5.5, page 37",
    found: "weighted up to 1.3 times as fast as in turn with large chunks (4.4 against 3.4 MB/s), alike with small ones, \
            which its program was slow to send",
    chosen: CHOSEN,
    values: &[],
    rows: Vec::new,
    template: |_| String::new(),
    contenders: &["manyway", IN_TURN, WEIGHTED, SKIPPING, PROGRAM, PROGRAM_WEIGHTED],
    kernel: &["possible-cubic"],
    alone: Alone::Runs,
    columns: &[
        Column { head: "document: in turn MB/s", quantity: Quantity::Document(0), unit: Unit::Megabytes },
        Column { head: "weighted", quantity: Quantity::Document(1), unit: Unit::Megabytes },
        Column { head: "times", quantity: THEIR_GAIN, unit: Unit::Times },
        Column { head: "its program: in turn MB/s", quantity: megabytes(&THEIRS), unit: Unit::Megabytes },
        Column { head: "weighted", quantity: megabytes(&THEIRS_WEIGHTED), unit: Unit::Megabytes },
        Column { head: "times", quantity: PROGRAM_GAIN, unit: Unit::Times },
        Column { head: "ours: in turn MB/s", quantity: megabytes(&RR), unit: Unit::Megabytes },
        Column { head: "weighted", quantity: megabytes(&WRR), unit: Unit::Megabytes },
        Column { head: "times", quantity: OUR_GAIN, unit: Unit::Times },
        Column { head: "round-robin", quantity: megabytes(&ROOM), unit: Unit::Megabytes },
        Column { head: "default", quantity: megabytes(&OURS), unit: Unit::Megabytes },
        Column { head: "of the sum", quantity: OF_SUM, unit: Unit::Share },
        held("held: its program", PROGRAM),
        held("in turn", IN_TURN),
        held("weighted", WEIGHTED),
        held("default", "manyway"),
        delay("delay p95: in turn", IN_TURN),
        delay("weighted", WEIGHTED),
        delay("default", "manyway"),
        jitter("jitter: in turn", IN_TURN),
        jitter("weighted", WEIGHTED),
        jitter("default", "manyway"),
        discarded("discarded: default", "manyway"),
        Column { head: "TCP on each MB/s", quantity: megabytes(&POSSIBLE), unit: Unit::Megabytes },
    ],
    claims: &[
        Claim {
            what: "weighted against in turn",
            quantity: OUR_GAIN,
            bound: Bound::AtLeast(1.25),
            unit: Unit::Times,
            // Where the document's curves no longer rise: by its own numbers, whatever the first column is.
            applies: |row| row.document.get(1).is_some_and(|weighted| *weighted > 4.4),
        },
        Claim {
            what: "its program: weighted against in turn",
            quantity: PROGRAM_GAIN,
            bound: Bound::AtLeast(1.2),
            unit: Unit::Times,
            applies: |row| row.document.get(1).is_some_and(|weighted| *weighted > 4.4),
        },
        Claim {
            what: "its program with small chunks, in turn, against the document",
            quantity: Quantity::Ratio(&megabytes(&THEIRS), &Quantity::Document(0)),
            bound: Bound::AtLeast(0.7),
            unit: Unit::Share,
            applies: is_slow,
        },
        Claim {
            what: "and no more than that",
            quantity: Quantity::Ratio(&megabytes(&THEIRS), &Quantity::Document(0)),
            bound: Bound::AtMost(1.3),
            unit: Unit::Share,
            applies: is_slow,
        },
        Claim {
            what: "the default scheduler against the sum",
            quantity: OF_SUM,
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: everywhere,
        },
    ],
    traces: &[],
    curves: Some(Curves {
        over: 0,
        unit: "throughput, MB/s",
        series: &[
            ("document, in turn", Quantity::Document(0)),
            ("document, weighted", Quantity::Document(1)),
            ("its program, in turn", megabytes(&THEIRS)),
            ("its program, weighted", megabytes(&THEIRS_WEIGHTED)),
            ("in turn", megabytes(&RR)),
            ("weighted 2:1:1", megabytes(&WRR)),
            ("default scheduler", megabytes(&OURS)),
            ("TCP on each path", megabytes(&POSSIBLE)),
        ],
    }),
};

/// Equal numbers on each path, as the document's round robin does.
const IN_TURN: &str = "manyway:scheduler=weighted=1:1:1";
/// The document's 1:1:2 for its two modems and Ethernet. Paths are numbered as they come up: Ethernet, which is nearest, first.
const WEIGHTED: &str = "manyway:scheduler=weighted=2:1:1";
/// The document's program; shares in the order of the routes: a modem, Ethernet, the other modem.
const PROGRAM: &str = "chunks:search=57ns,file=104857600";
const PROGRAM_WEIGHTED: &str = "chunks:shares=1/2/1,search=57ns,file=104857600";
/// In turn too, but past paths without available cwnd.
const SKIPPING: &str = "manyway:scheduler=round-robin";

const OURS: Quantity = goodput("manyway");
const THEIRS: Quantity = goodput(PROGRAM);
const THEIRS_WEIGHTED: Quantity = goodput(PROGRAM_WEIGHTED);
const PROGRAM_GAIN: Quantity = Quantity::Ratio(&THEIRS_WEIGHTED, &THEIRS);
const RR: Quantity = goodput(IN_TURN);
const WRR: Quantity = goodput(WEIGHTED);
const ROOM: Quantity = goodput(SKIPPING);
const POSSIBLE: Quantity = goodput("possible-cubic");
const OUR_GAIN: Quantity = Quantity::Ratio(&WRR, &RR);
const THEIR_GAIN: Quantity = Quantity::Ratio(&Quantity::Document(1), &Quantity::Document(0));
const OF_SUM: Quantity = Quantity::Ratio(&OURS, &Quantity::Alone);

const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

const CHOSEN: &str = "its program has 15 TCP connections, five a path, and deals chunks out in fixed shares; the document's times with \
small chunks grow with the square of their number, as if its receiver searched a list of all chunks for each: 57 ns an entry, which \
is fitted to the table and makes the slope, while the rest does not depend on it; it takes chunks of less than 4000 bytes for 22 s \
only, since all would take up to 42 minutes. Ours is one connection in the place of 15, chunks are what the application hands over; in \
turn is weighted=1:1:1, which like the document's round robin sends the same on each path, while our round-robin goes \
past paths that are full; weighted is 2:1:1 with Ethernet first, which answers first; links as in cmt-table2";

/// Whether the document's program, not the links, set the rate.
fn is_slow(row: &Row) -> bool {
    row.document.first().is_some_and(|in_turn| *in_turn < 1.5)
}

/// The transfer in chunks of this length; small ones are not waited for.
fn template(chunk: f64) -> String {
    let end = if chunk < 4000.0 { "end = 'on-time'\n" } else { "" };
    format!("{end}{}", transfer(links(3.0), Some(chunk)))
}

fn row(value: f64, (chunk, in_turn, weighted): (f64, f64, f64)) -> Row {
    // The document uses kB/s.
    let row = Row::new([value], [in_turn / 1e3, weighted / 1e3]);
    if [500.0, 20_000.0].contains(&chunk) { row.quick() } else { row }
}

/// Bytes of a chunk, kB/s in turn and weighted.
const TABLE: [(f64, f64, f64); 18] = [
    (500.0, 41.81, 39.54),
    (1000.0, 153.128, 176.597),
    (1500.0, 332.918, 325.096),
    (2000.0, 578.664, 582.483),
    (2500.0, 857.507, 873.016),
    (3000.0, 1210.344, 1234.246),
    (3500.0, 1643.588, 1629.826),
    (4000.0, 2011.32, 2053.257),
    (4500.0, 2564.395, 2555.429),
    (5000.0, 3052.923, 3087.028),
    (5500.0, 3294.36, 3599.679),
    (6000.0, 3370.482, 4055.893),
    (7000.0, 3387.114, 4465.263),
    (8000.0, 3464.274, 4441.448),
    (9000.0, 3414.742, 4456.348),
    (10_000.0, 3439.892, 4444.296),
    (15_000.0, 3446.825, 4448.634),
    (20_000.0, 3300.384, 4415.992),
];
