//! AMS, figure 10: a new address during a transfer, then the death of the first path.

use super::definition::{AMS, everywhere};
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Trace, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "ams-fig10",
    title: "the receiver gains a second address after 30 s, the first path dies after 60 s",
    source: "AMS 5.2, figure 10",
    found: "the transfer goes on: over one path, over both, and over the second alone",
    chosen: "paths of 1 Mbit/s and 10 ms as in its figure 9, queues of 50 packets; the document's numbers are how many \
             paths carry; rates are those of the second half of each time",
    values: &[],
    rows: || {
        let phase = |name, third: f64, paths| {
            Row::new([], [paths]).quick().during(name, third / 3.0, (third + 1.0) / 3.0)
        };
        vec![phase(ONE, 0.0, 1.0), phase(BOTH, 1.0, 2.0), phase(SECOND, 2.0, 1.0)]
    },
    template: |_| TEMPLATE.to_owned(),
    contenders: &["manyway", "manyway:scheduler=outstanding-ratio"],
    // The lab announces no later address to multipath TCP.
    kernel: &[AMS],
    alone: Alone::Not,
    columns: &[
        Column { head: "document, times", quantity: Quantity::Document(0), unit: Unit::Times },
        Column { head: "manyway, times", quantity: Quantity::Relative(&OURS), unit: Unit::Times },
        Column { head: "Mbit/s", quantity: OURS, unit: Unit::Megabits },
        Column { head: "over the first", quantity: FIRST, unit: Unit::Megabits },
        Column { head: "over the second", quantity: NEW, unit: Unit::Megabits },
        Column { head: "gap", quantity: ours(Measure::Silence), unit: Unit::Seconds },
        Column { head: "used after", quantity: ours(Measure::UsedAgain), unit: Unit::Seconds },
        Column { head: "full after", quantity: ours(Measure::Recovery), unit: Unit::Seconds },
        Column {
            head: "outstanding-ratio Mbit/s",
            quantity: Quantity::Ours("manyway:scheduler=outstanding-ratio", Measure::Goodput),
            unit: Unit::Megabits,
        },
        Column {
            head: "AMS over TCP",
            quantity: Quantity::Ours(AMS, Measure::Goodput),
            unit: Unit::Megabits,
        },
    ],
    claims: &[
        Claim {
            what: "manyway in relation to one path against the document",
            quantity: Quantity::Ratio(&Quantity::Relative(&OURS), &Quantity::Document(0)),
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: everywhere,
        },
        Claim {
            what: "the first path carries while both are there, Mbit/s",
            quantity: FIRST,
            bound: Bound::AtLeast(0.5),
            unit: Unit::Megabits,
            applies: |row| row.phase.is_some_and(|phase| phase.name == BOTH),
        },
        Claim {
            what: "and so does the second, Mbit/s",
            quantity: NEW,
            bound: Bound::AtLeast(0.5),
            unit: Unit::Megabits,
            applies: |row| row.phase.is_some_and(|phase| phase.name == BOTH),
        },
        Claim {
            what: "the new path is used after",
            quantity: ours(Measure::UsedAgain),
            bound: Bound::AtMost(2.0),
            unit: Unit::Seconds,
            applies: |row| row.phase.is_some_and(|phase| phase.name == BOTH),
        },
        Claim {
            what: "AMS over TCP in relation to one path against the document",
            quantity: Quantity::Ratio(
                &Quantity::Relative(&Quantity::Ours(AMS, Measure::Goodput)),
                &Quantity::Document(0),
            ),
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: everywhere,
        },
    ],
    traces: &[Trace::Sequence("manyway"), Trace::Sequence(AMS)],
    curves: None,
};

const ONE: &str = "one address";
const BOTH: &str = "two addresses";
const SECOND: &str = "the first path is dead";

const OURS: Quantity = ours(Measure::Goodput);
const FIRST: Quantity = ours(Measure::Route(0));
const NEW: Quantity = ours(Measure::Route(1));

const fn ours(measure: Measure) -> Quantity {
    Quantity::Ours("manyway", measure)
}

const TEMPLATE: &str = "\
duration = '90s'

[client.a]
[client.b]
[server.c]

[server.d]
down = true

[links.first]
client = 'a'
server = 'c'
rate = '1Mbit'
delay = '10ms'
queue = '75kB'

[links.second]
client = 'b'
server = 'd'
rate = '1Mbit'
delay = '10ms'
queue = '75kB'

[[events]]
at = '30s'
up = 'server.d'

[[events]]
at = '60s'
cut = 'first'
";
