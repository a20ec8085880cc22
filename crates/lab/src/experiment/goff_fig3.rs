//! Goff and Phatak, figure 3: packets distributed over two paths below the transport, the starting point of the
//! document.

use super::{Alone, Bound, Claim, Column, Curves, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "goff-fig3",
    title: "one TCP striped packet by packet over two paths at 4:1",
    source: "Goff-Phatak II, figure 3",
    found: "below the faster path alone: the slower one drags the connection down",
    chosen: "striped 0: two paths, of which TCP has the faster one and manyway both; striped 1: one path, whose packets \
             the network deals out to the two links, 4 to 1; the slower link has a round trip of 1 ms as the \
             faster one, or of 200 ms beside 20; otherwise links as in goff-fig4; today's TCP bears reordering that the document's \
             did not: TCP as of 2002 knows losses by three repeated acknowledgements alone (on sockets the kernel's Reno without SACK, \
             RACK, tail loss probes, F-RTO and time stamps), below the records of manyway",
    values: &["RTT of the slower, ms", "striped", "total Mbit/s"],
    rows,
    template,
    contenders: &["manyway", TCP_2002],
    kernel: &["tcp-reno", "tcp-cubic"],
    alone: Alone::Runs,
    columns: &[
        Column { head: "TCP of 2002", quantity: AS_OF_2002, unit: Unit::Megabits },
        Column { head: "of the links", quantity: Quantity::Ratio(&AS_OF_2002, &TOTAL), unit: Unit::Share },
        Column { head: "TCP reno", quantity: RENO, unit: Unit::Megabits },
        Column { head: "of the links", quantity: Quantity::Ratio(&RENO, &TOTAL), unit: Unit::Share },
        Column { head: "TCP cubic", quantity: CUBIC, unit: Unit::Megabits },
        Column { head: "of the links", quantity: Quantity::Ratio(&CUBIC, &TOTAL), unit: Unit::Share },
        Column { head: "manyway", quantity: OURS, unit: Unit::Megabits },
        Column { head: "of the links", quantity: Quantity::Ratio(&OURS, &TOTAL), unit: Unit::Share },
        Column { head: "of the sum", quantity: OF_SUM, unit: Unit::Share },
    ],
    claims: &[
        Claim {
            what: "manyway over both paths against the sum",
            quantity: OF_SUM,
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: |row| !is_striped(row),
        },
        Claim {
            what: "TCP of 2002 over the striped path with unlike delays, of the rate of the faster link",
            quantity: Quantity::Ratio(&AS_OF_2002, &Quantity::Scaled(&TOTAL, 0.8)),
            bound: Bound::AtMost(0.7),
            unit: Unit::Share,
            applies: |row| is_striped(row) && row.values.first() != Some(&1.0),
        },
    ],
    traces: &[],
    curves: Some(Curves {
        over: 2,
        unit: "throughput, Mbit/s",
        series: &[
            ("links", TOTAL),
            ("TCP of 2002", AS_OF_2002),
            ("TCP reno", RENO),
            ("TCP cubic", CUBIC),
            ("manyway", OURS),
        ],
    }),
};

/// Over the first route: the faster path, or the striped one.
const TCP_2002: &str = "manyway@1:carrier=tcp,congestion=reno_2002";
const OURS: Quantity = goodput("manyway");
const AS_OF_2002: Quantity = goodput(TCP_2002);
const RENO: Quantity = goodput("tcp-reno");
const CUBIC: Quantity = goodput("tcp-cubic");
const TOTAL: Quantity = Quantity::Value(2);
const OF_SUM: Quantity = Quantity::Ratio(&OURS, &Quantity::Alone);

const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

/// Round trips of the slower link, in milliseconds.
const DELAYS: [f64; 2] = [1.0, 200.0];
const APART: f64 = 0.0;
const STRIPED: f64 = 1.0;
const TOTALS: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 10.0];

fn is_striped(row: &Row) -> bool {
    row.values.get(1) == Some(&STRIPED)
}

fn rows() -> Vec<Row> {
    let ways = DELAYS.into_iter().flat_map(|slower| [(slower, APART), (slower, STRIPED)]);
    let rows = ways.flat_map(|(slower, way)| TOTALS.map(|total| Row::new([slower, way, total], [])));
    rows.map(|row| if row.values.last() == Some(&10.0) { row.quick() } else { row }).collect()
}

fn template(values: &[f64]) -> String {
    let [slower, way, total] = values else { return String::new() };
    let faster = if *slower > 1.0 { 20.0 } else { 1.0 };
    let routes = if *way > APART {
        "routes = [{ client = 'bond', links = ['fast', 'slow'], shares = [4, 1] }]\n"
    } else {
        ""
    };
    let link = |name: &str, rate: f64, rtt: f64| {
        format!("[links.{name}]\nrate = '{rate}bit'\nrtt = '{rtt}ms'\nqueue = '75kB'\n")
    };
    let (fast, slow) = (link("fast", total * 8e5, faster), link("slow", total * 2e5, *slower));
    format!("duration = '60s'\n{routes}{fast}{slow}")
}
