//! Goff and Phatak, figure 4: throughput over the bandwidth of two unequal paths.

use super::definition::everywhere;
use super::{Alone, Bound, Claim, Column, Curves, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "goff-fig4",
    title: "two paths at 4:1 and 8:1",
    source: "Goff-Phatak IV, figures 4(a) and 4(b)",
    found: "both links together are above the faster one alone everywhere: no drag-down, also beyond the 7:1 where TCP's \
            time-outs would ruin a striped connection",
    chosen: "no delay but 1 ms, queues of 50 packets, the default of the document's dummynet; a minute for each point, \
             below 1 Mbit/s as long as 60 Mbit take (10 min as in the document at 0.1); the sum is what each path brings \
             alone; static is the document's own way, packets in the ratio of the bandwidths",
    values: &["ratio", "total Mbit/s"],
    rows,
    template,
    contenders: &["manyway", STATIC],
    kernel: &["tcp-cubic@1", "possible-cubic", "mptcp-cubic"],
    alone: Alone::Runs,
    columns: &[
        Column { head: "faster alone", quantity: Quantity::BestAlone, unit: Unit::Megabits },
        Column { head: "sum", quantity: Quantity::Alone, unit: Unit::Megabits },
        Column { head: "manyway", quantity: OURS, unit: Unit::Megabits },
        Column { head: "of the faster", quantity: OF_FASTER, unit: Unit::Share },
        Column { head: "of the sum", quantity: OF_SUM, unit: Unit::Share },
        Column { head: "of the links", quantity: Quantity::Ratio(&OURS, &TOTAL), unit: Unit::Share },
        Column { head: "static", quantity: goodput(STATIC), unit: Unit::Megabits },
        Column {
            head: "of the sum",
            quantity: Quantity::Ratio(&goodput(STATIC), &Quantity::Alone),
            unit: Unit::Share,
        },
        Column { head: "TCP, the faster", quantity: goodput("tcp-cubic@1"), unit: Unit::Megabits },
        Column { head: "TCP on each", quantity: goodput("possible-cubic"), unit: Unit::Megabits },
        Column { head: "multipath TCP", quantity: goodput("mptcp-cubic"), unit: Unit::Megabits },
    ],
    claims: &[
        Claim {
            what: "both links against the faster one alone",
            quantity: OF_FASTER,
            bound: Bound::AtLeast(1.0),
            unit: Unit::Share,
            applies: everywhere,
        },
        Claim {
            what: "both links against the sum",
            quantity: OF_SUM,
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: everywhere,
        },
        Claim {
            what: "in the static ratio against the faster one alone",
            quantity: Quantity::Ratio(&goodput(STATIC), &Quantity::BestAlone),
            bound: Bound::AtLeast(1.0),
            unit: Unit::Share,
            applies: everywhere,
        },
    ],
    traces: &[],
    curves: Some(Curves {
        over: 1,
        unit: "throughput, Mbit/s",
        series: &[
            ("links", TOTAL),
            ("both links", OURS),
            ("in the static ratio", goodput(STATIC)),
            ("high bandwidth link only", Quantity::BestAlone),
            ("TCP on the faster link", goodput("tcp-cubic@1")),
            ("multipath TCP", goodput("mptcp-cubic")),
        ],
    }),
};

/// Bytes in the ratio of the bandwidths, which is the first value of the row.
const STATIC: &str = "manyway:scheduler=weighted={0}:1";
const OURS: Quantity = goodput("manyway");
const OF_FASTER: Quantity = Quantity::Ratio(&OURS, &Quantity::BestAlone);
const OF_SUM: Quantity = Quantity::Ratio(&OURS, &Quantity::Alone);
const TOTAL: Quantity = Quantity::Value(1);

const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

const TOTALS: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0];

fn rows() -> Vec<Row> {
    let rows = [4.0, 8.0].into_iter().flat_map(|ratio| TOTALS.map(|total| Row::new([ratio, total], [])));
    // A tenth of the time is too short for the slowest, where a packet takes up to a second.
    let has_quick = |row: &Row| row.values.last().is_some_and(|total| [1.0, 10.0].contains(total));
    rows.map(|row| if has_quick(&row) { row.quick() } else { row }).collect()
}

fn template(values: &[f64]) -> String {
    let [ratio, total] = values else { return String::new() };
    let bits = total * 1e6;
    let slow = (bits / (ratio + 1.0)).round();
    let seconds = (60.0 / total).max(60.0);
    format!("duration = '{seconds}s'\n{}{}", link("fast", bits - slow), link("slow", slow))
}

/// A link of so many bits a second.
fn link(name: &str, rate: f64) -> String {
    format!("[links.{name}]\nrate = '{rate}bit'\nrtt = '1ms'\nqueue = '75kB'\n")
}
