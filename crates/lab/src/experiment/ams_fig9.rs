//! AMS, figure 9: does the throughput grow with the number of paths?

use super::definition::{AMS, everywhere};
use super::{Alone, Bound, Claim, Column, Curves, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "ams-fig9",
    title: "one to three paths of 1 Mbit/s",
    source: "AMS 5.1, figures 8 and 9",
    found: "ideal with two paths, slightly below with three; ideal is one connection times the number of paths",
    chosen: "queues of 50 packets, the default of the document's dummynet; outstanding-ratio is the document's own way \
             to stripe, AMS over TCP the same over TCP connections of the system with Reno; ideal is one path of ours times the number of paths",
    values: &["paths"],
    rows: || [1.0, 2.0, 3.0].map(|paths| Row::new([paths], []).quick()).to_vec(),
    template,
    contenders: &["manyway", "manyway:scheduler=outstanding-ratio", "manyway@1"],
    kernel: &[AMS, "tcp-cubic@1", "mptcp-cubic"],
    alone: Alone::Not,
    columns: &[
        Column { head: "ideal Mbit/s", quantity: IDEAL, unit: Unit::Megabits },
        Column { head: "manyway", quantity: OURS, unit: Unit::Megabits },
        Column { head: "of ideal", quantity: Quantity::Ratio(&OURS, &IDEAL), unit: Unit::Share },
        Column { head: "outstanding-ratio", quantity: THEIRS, unit: Unit::Megabits },
        Column { head: "of ideal", quantity: Quantity::Ratio(&THEIRS, &IDEAL), unit: Unit::Share },
        Column { head: "AMS over TCP", quantity: goodput(AMS), unit: Unit::Megabits },
        Column { head: "of ideal", quantity: Quantity::Ratio(&goodput(AMS), &IDEAL), unit: Unit::Share },
        Column { head: "TCP, one path", quantity: goodput("tcp-cubic@1"), unit: Unit::Megabits },
        Column { head: "multipath TCP", quantity: goodput("mptcp-cubic"), unit: Unit::Megabits },
    ],
    claims: &[
        Claim {
            what: "manyway against the ideal",
            quantity: Quantity::Ratio(&OURS, &IDEAL),
            bound: Bound::AtLeast(0.97),
            unit: Unit::Share,
            applies: everywhere,
        },
        Claim {
            what: "AMS over TCP against the ideal, with the headers of TCP",
            quantity: Quantity::Ratio(&goodput(AMS), &IDEAL),
            bound: Bound::AtLeast(0.93),
            unit: Unit::Share,
            applies: everywhere,
        },
    ],
    traces: &[],
    curves: Some(Curves {
        over: 0,
        unit: "throughput, Mbit/s",
        series: &[
            ("ideal", IDEAL),
            ("manyway", OURS),
            ("manyway, outstanding-ratio", THEIRS),
            ("AMS over TCP", goodput(AMS)),
            ("TCP, one path", goodput("tcp-cubic@1")),
            ("multipath TCP", goodput("mptcp-cubic")),
        ],
    }),
};

const OURS: Quantity = goodput("manyway");
const THEIRS: Quantity = goodput("manyway:scheduler=outstanding-ratio");
const IDEAL: Quantity = Quantity::Product(&Quantity::Value(0), &goodput("manyway@1"));

const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

/// A wired hop to a router and a radio hop to the receiver, for each path. Both ends have an address for each: AMS uses
/// no address twice.
fn template(values: &[f64]) -> String {
    let paths = values.first().copied().unwrap_or(1.0);
    let numbers = (1..=9).take_while(|number| f64::from(*number) <= paths);
    let (mut routes, mut links) = (String::new(), String::new());
    for number in numbers {
        routes += &format!(
            "{{ client = 'path{number}', server = 'path{number}', links = ['wire{number}', 'radio{number}'] }},\n"
        );
        links += &format!(
            "[links.wire{number}]\nrate = '10Mbit'\ndelay = '10ms'\nqueue = '75kB'\n\
             [links.radio{number}]\nrate = '1Mbit'\ndelay = '100us'\nqueue = '75kB'\n"
        );
    }
    format!("duration = '60s'\nroutes = [\n{routes}]\n{links}")
}
