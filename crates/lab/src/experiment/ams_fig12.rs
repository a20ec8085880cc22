//! AMS, figure 12: two addresses at each end, of whose four pairs two are fast.

use super::definition::{AMS, everywhere};
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "ams-fig12",
    title: "two addresses at each end: A-C and B-D 250 kbit/s and 40 ms, A-D and B-C 1 Mbit/s and 10 ms",
    source: "AMS 5.3, figure 12",
    found: "begins on A-C, leaves it, and carries everything over A-D and B-C; the figure has no numbers that the text gives",
    chosen: "queues of 50 packets; here the first path is the pair that answers first, so that a fast one is there from \
             the begin; pairs=disjoint is the document's choice, but tries each pair for a second or two before it knows that \
             it is slow; full-mesh uses all four",
    values: &[],
    rows: || vec![Row::new([], []).quick()],
    template: |_| TEMPLATE.to_owned(),
    contenders: &[CHOSEN, "manyway", ALL],
    kernel: &[AMS, "mptcp-cubic"],
    alone: Alone::Not,
    columns: &[
        Column { head: "disjoint", quantity: OURS, unit: Unit::Megabits },
        Column { head: "over A-C", quantity: route(0), unit: Unit::Megabits },
        Column { head: "A-D", quantity: route(1), unit: Unit::Megabits },
        Column { head: "B-C", quantity: route(2), unit: Unit::Megabits },
        Column { head: "B-D", quantity: route(3), unit: Unit::Megabits },
        Column { head: "local-disjoint", quantity: goodput("manyway"), unit: Unit::Megabits },
        Column { head: "full-mesh", quantity: goodput(ALL), unit: Unit::Megabits },
        Column { head: "AMS over TCP", quantity: goodput(AMS), unit: Unit::Megabits },
        Column { head: "multipath TCP", quantity: goodput("mptcp-cubic"), unit: Unit::Megabits },
    ],
    claims: &[
        Claim {
            what: "A-D carries its rate, Mbit/s",
            quantity: route(1),
            bound: Bound::AtLeast(0.95),
            unit: Unit::Megabits,
            applies: everywhere,
        },
        Claim {
            what: "and so does B-C",
            quantity: route(2),
            bound: Bound::AtLeast(0.95),
            unit: Unit::Megabits,
            applies: everywhere,
        },
        Claim {
            what: "A-C carries hardly anything, Mbit/s",
            quantity: route(0),
            bound: Bound::AtMost(0.1),
            unit: Unit::Megabits,
            applies: everywhere,
        },
        Claim {
            what: "and so does B-D",
            quantity: route(3),
            bound: Bound::AtMost(0.1),
            unit: Unit::Megabits,
            applies: everywhere,
        },
        Claim {
            what: "disjoint, where the fast pairs carry 2 Mbit/s with headers",
            quantity: OURS,
            bound: Bound::AtLeast(0.95 * 2.0 * CONTENT),
            unit: Unit::Megabits,
            applies: everywhere,
        },
    ],
    curves: None,
};

const CHOSEN: &str = "manyway:pairs=disjoint";
const ALL: &str = "manyway:pairs=full-mesh";
const OURS: Quantity = goodput(CHOSEN);
/// Payload of a packet of 1500 bytes: 1440.
const CONTENT: f64 = 0.96;

const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

const fn route(place: usize) -> Quantity {
    Quantity::Ours(CHOSEN, Measure::Route(place))
}

const TEMPLATE: &str = "\
duration = '60s'

[links.a-c]
client = 'a'
server = 'c'
rate = '250kbit'
delay = '40ms'
queue = '75kB'

[links.a-d]
client = 'a'
server = 'd'
rate = '1Mbit'
delay = '10ms'
queue = '75kB'

[links.b-c]
client = 'b'
server = 'c'
rate = '1Mbit'
delay = '10ms'
queue = '75kB'

[links.b-d]
client = 'b'
server = 'd'
rate = '250kbit'
delay = '40ms'
queue = '75kB'
";
