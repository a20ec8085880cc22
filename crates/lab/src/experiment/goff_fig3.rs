//! Goff and Phatak, figure 3: packets distributed over two paths below the transport, the starting point of the
//! document.

use super::goff_fig4::link;
use super::{Alone, Bound, Claim, Column, Curves, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "goff-fig3",
    title: "one TCP striped packet by packet over two paths at 4:1",
    source: "Goff-Phatak II, figure 3",
    found: "below the faster path alone: the slower one drags the connection down",
    chosen: "striped 0: two paths, of which TCP has the faster one and manyway both; striped 1: one path, whose packets \
             are dealt out among the two links 4 to 1 below whoever sends; links as in goff-fig4; today's TCP bears \
             reordering that the document's did not",
    values: &["striped", "total Mbit/s"],
    rows,
    template,
    contenders: &["manyway"],
    kernel: &["tcp-reno", "tcp-cubic"],
    alone: Alone::Runs,
    columns: &[
        Column { head: "TCP reno", quantity: RENO, unit: Unit::Megabits },
        Column { head: "of the links", quantity: Quantity::Ratio(&RENO, &TOTAL), unit: Unit::Share },
        Column { head: "TCP cubic", quantity: CUBIC, unit: Unit::Megabits },
        Column { head: "of the links", quantity: Quantity::Ratio(&CUBIC, &TOTAL), unit: Unit::Share },
        Column { head: "manyway", quantity: OURS, unit: Unit::Megabits },
        Column { head: "of the links", quantity: Quantity::Ratio(&OURS, &TOTAL), unit: Unit::Share },
        Column { head: "of the sum", quantity: OF_SUM, unit: Unit::Share },
    ],
    claims: &[Claim {
        what: "manyway over both paths against the sum",
        quantity: OF_SUM,
        bound: Bound::AtLeast(0.95),
        unit: Unit::Share,
        applies: |row| row.values.first() == Some(&APART),
    }],
    curves: Some(Curves {
        over: 1,
        unit: "throughput, Mbit/s",
        series: &[("links", TOTAL), ("TCP reno", RENO), ("TCP cubic", CUBIC), ("manyway", OURS)],
    }),
};

const OURS: Quantity = goodput("manyway");
const RENO: Quantity = goodput("tcp-reno");
const CUBIC: Quantity = goodput("tcp-cubic");
const TOTAL: Quantity = Quantity::Value(1);
const OF_SUM: Quantity = Quantity::Ratio(&OURS, &Quantity::Alone);

const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

const APART: f64 = 0.0;
const STRIPED: f64 = 1.0;
const TOTALS: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 10.0];

fn rows() -> Vec<Row> {
    let rows = [APART, STRIPED].into_iter().flat_map(|way| TOTALS.map(|total| Row::new([way, total], [])));
    rows.map(|row| if row.values.last() == Some(&10.0) { row.quick() } else { row }).collect()
}

fn template(values: &[f64]) -> String {
    let [way, total] = values else { return String::new() };
    let routes = if *way > APART {
        "routes = [{ client = 'bond', links = ['fast', 'slow'], shares = [4, 1] }]\n"
    } else {
        ""
    };
    let (fast, slow) = (link("fast", total * 8e5), link("slow", total * 2e5));
    format!("duration = '60s'\n{routes}{fast}{slow}")
}
