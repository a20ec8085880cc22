//! The MMSP thesis, table 4.2: throughput over the number of wired and wireless links.

use super::mmsp_links::{kinds, links};
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "mmsp-table42",
    title: "throughput over one to three links",
    source: "MMSP thesis 4.2, table 4.2, page 54",
    found: "171 and 18 Mbit/s over one link, 172 as soon as others are added to the wired one, 21 over two \
            wireless ones (\"improved by 36%\" against 18; that is 17 %)",
    chosen: CHOSEN,
    values: &["wired", "wireless"],
    rows,
    template: |values| {
        let [wired, wireless] = values else { return String::new() };
        format!("duration = '20s'\n{}", links(kinds(*wired, *wireless), 1.0))
    },
    contenders: &[THESIS, SINGLE, DEFAULT],
    kernel: &["tcp-reno@1", "tcp-cubic@1"],
    alone: Alone::Not,
    columns: &[
        Column { head: "thesis: TCP", quantity: Quantity::Document(0), unit: Unit::Megabits },
        Column { head: "MMSP", quantity: Quantity::Document(1), unit: Unit::Megabits },
        Column { head: "MMSP/1", quantity: OURS, unit: Unit::Megabits },
        Column { head: "of the thesis", quantity: OF_THESIS, unit: Unit::Share },
        Column { head: "over the first", quantity: route(0), unit: Unit::Megabits },
        Column { head: "second", quantity: route(1), unit: Unit::Megabits },
        Column { head: "third", quantity: route(2), unit: Unit::Megabits },
        Column { head: "one path, NewReno", quantity: goodput(SINGLE), unit: Unit::Megabits },
        Column { head: "default scheduler", quantity: goodput(DEFAULT), unit: Unit::Megabits },
        Column { head: "of the links", quantity: OF_LINKS, unit: Unit::Share },
        Column { head: "TCP reno", quantity: goodput("tcp-reno@1"), unit: Unit::Megabits },
        Column { head: "TCP cubic", quantity: goodput("tcp-cubic@1"), unit: Unit::Megabits },
    ],
    claims: &[
        Claim {
            what: "MMSP/1 with primary against the thesis",
            quantity: OF_THESIS,
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: is_followed,
        },
        Claim {
            what: "and no more than that",
            quantity: OF_THESIS,
            bound: Bound::AtMost(1.05),
            unit: Unit::Share,
            applies: is_followed,
        },
        Claim {
            what: "the third path is idle, Mbit/s",
            quantity: route(2),
            bound: Bound::AtMost(0.01),
            unit: Unit::Megabits,
            applies: |row| row.values.iter().sum::<f64>() > 2.0,
        },
        Claim {
            what: "the default scheduler against all links",
            quantity: OF_LINKS,
            bound: Bound::AtLeast(0.93),
            unit: Unit::Share,
            applies: super::definition::everywhere,
        },
    ],
    traces: &[],
    curves: None,
};

/// Where the thesis is silent, and why one row differs.
const CHOSEN: &str = "the thesis names no delays and queues: 1 ms there and back on the wired link, 4 ms on a \
wireless one, queues of 100 ms; a link carries what the thesis's TCP needs in packets of 1500 bytes with 1460 of \
data, so 174 and 18 Mbit/s become 178.8 and 18.5; the primary is the wired link, if there is one; one path, \
NewReno is MMSP/1 over the first link alone, which in virtual time stands for TCP; two wireless links: new data \
go on the primary alone, as section 3.3.4 and the end of 4.2 say, so the second adds what is repeated there and \
no more: 18. For 21 the thesis's primary must have lost what its second link then repeated, as it says \
(\"relatively noisy\"), at more than 18 Mbit/s on the air; it gives no losses. The default scheduler sums";

const THESIS: &str = "manyway:wire=mmsp1";
const SINGLE: &str = "manyway@1:wire=mmsp1";
const DEFAULT: &str = "manyway:wire=mmsp1,scheduler=earliest,congestion=bbr";

const OURS: Quantity = goodput(THESIS);
const OF_THESIS: Quantity = Quantity::Ratio(&OURS, &Quantity::Document(1));
/// Of what TCP would bring over each, added up.
const OF_LINKS: Quantity = Quantity::Ratio(&goodput(DEFAULT), &Quantity::Document(2));

const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

const fn route(place: usize) -> Quantity {
    Quantity::Ours(THESIS, Measure::Route(place))
}

fn rows() -> Vec<Row> {
    const NONE: f64 = f64::NAN;
    let rows = [
        ([1.0, 0.0], [174.0, 171.0]),
        ([0.0, 1.0], [18.0, 18.0]),
        ([1.0, 1.0], [NONE, 172.0]),
        ([1.0, 2.0], [NONE, 172.0]),
        ([0.0, 2.0], [NONE, 21.0]),
    ];
    let row = |([wired, wireless], [tcp, mmsp]): ([f64; 2], [f64; 2])| {
        Row::new([wired, wireless], [tcp, mmsp, 174.0 * wired + 18.0 * wireless]).quick()
    };
    rows.map(row).to_vec()
}

/// All but the two wireless links.
fn is_followed(row: &Row) -> bool {
    row.values != [0.0, 2.0]
}
