//! Any program over Manyway: one flow of datagrams over unequal paths.

use super::definition::everywhere;
use super::programs_tcp::{goodput, links};
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "programs-udp",
    title: "one flow of datagrams over unequal links by forward, run and tunnel",
    source: "the project's goals",
    found: "",
    chosen: "datagrams of 1200 bytes from the server for 15 s, at a rate that the better link carries, and at one for which \
             it takes both; the limit is what the better link alone brings in the same run, without Manyway; the loss is that of \
             the first link; manyway itself has messages in no order; all but iperf3 (with -u) are the lab's own program",
    values: &["Mbit/s", "ms", "and Mbit/s", "and ms", "loss %", "offered Mbit/s"],
    rows,
    template,
    contenders: &[],
    kernel: &[
        "direct",
        "manyway",
        "forward",
        "run",
        "tunnel",
        "forward:program=iperf3",
        "run:program=iperf3",
        "tunnel:program=iperf3",
    ],
    alone: Alone::Not,
    columns: &[
        Column { head: "better link", quantity: BETTER, unit: Unit::Megabits },
        Column { head: "manyway", quantity: of_better(&goodput("manyway")), unit: Unit::Share },
        Column { head: "forward", quantity: of_better(&FORWARD), unit: Unit::Share },
        Column { head: "run", quantity: of_better(&RUN), unit: Unit::Share },
        Column { head: "tunnel", quantity: of_better(&TUNNEL), unit: Unit::Share },
        Column { head: "iperf3 by forward", quantity: of_better(&IPERF3[0]), unit: Unit::Share },
        Column { head: "by run", quantity: of_better(&IPERF3[1]), unit: Unit::Share },
        Column { head: "by tunnel", quantity: of_better(&IPERF3[2]), unit: Unit::Share },
        Column { head: "overtaken: manyway", quantity: overtaken("manyway"), unit: Unit::Share },
        Column { head: "forward", quantity: overtaken("forward"), unit: Unit::Share },
        Column { head: "run", quantity: overtaken("run"), unit: Unit::Share },
        Column { head: "tunnel", quantity: overtaken("tunnel"), unit: Unit::Share },
        Column { head: "iperf3 by forward", quantity: told("forward:program=iperf3"), unit: Unit::Share },
        Column { head: "by run", quantity: told("run:program=iperf3"), unit: Unit::Share },
        Column { head: "by tunnel", quantity: told("tunnel:program=iperf3"), unit: Unit::Share },
    ],
    claims: &[
        fast("forward of the better link", of_better(&FORWARD)),
        fast("run of the better link", of_better(&RUN)),
        fast("tunnel of the better link", of_better(&TUNNEL)),
        ordered("overtaken by forward", overtaken("forward")),
        ordered("overtaken by run", overtaken("run")),
        ordered("overtaken by tunnel", overtaken("tunnel")),
        fast("iperf3 by forward of the better link", of_better(&IPERF3[0])),
        fast("iperf3 by run of the better link", of_better(&IPERF3[1])),
        fast("iperf3 by tunnel of the better link", of_better(&IPERF3[2])),
        ordered("iperf3 overtaken by forward", told("forward:program=iperf3")),
        ordered("iperf3 overtaken by run", told("run:program=iperf3")),
        ordered("iperf3 overtaken by tunnel", told("tunnel:program=iperf3")),
    ],
    traces: &[],
    curves: None,
};

const FORWARD: Quantity = goodput("forward");
const RUN: Quantity = goodput("run");
const TUNNEL: Quantity = goodput("tunnel");
const IPERF3: [Quantity; 3] =
    [goodput("forward:program=iperf3"), goodput("run:program=iperf3"), goodput("tunnel:program=iperf3")];
const BETTER: Quantity = goodput("direct");

const fn of_better(quantity: &'static Quantity) -> Quantity {
    Quantity::Ratio(quantity, &BETTER)
}

const fn overtaken(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Overtaken)
}

/// What iperf3 tells.
const fn told(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Told("overtaken"))
}

const fn fast(what: &'static str, quantity: Quantity) -> Claim {
    Claim { what, quantity, bound: Bound::AtLeast(0.97), unit: Unit::Share, applies: everywhere }
}

const fn ordered(what: &'static str, quantity: Quantity) -> Claim {
    Claim { what, quantity, bound: Bound::AtMost(0.001), unit: Unit::Share, applies: everywhere }
}

/// Bytes of a datagram.
const SIZE: f64 = 1_200.0;

fn rows() -> Vec<Row> {
    let row = |[rate, rtt, other, far, loss]: [f64; 5], offered: f64| {
        Row::new([rate, rtt, other, far, loss, offered], [])
    };
    let (far, lossy) = ([50.0, 10.0, 50.0, 100.0, 0.0], [30.0, 15.0, 20.0, 60.0, 1.0]);
    vec![
        row(far, 20.0),
        row(far, 45.0).quick(),
        row(far, 80.0).quick(),
        row(lossy, 10.0),
        row(lossy, 25.0).quick(),
        row(lossy, 40.0).quick(),
    ]
}

fn template(values: &[f64]) -> String {
    let offered = values.last().copied().unwrap_or(1.0);
    let interval = (SIZE * 8.0 / offered).round();
    format!(
        "duration = '15s'\n{}[[traffic]]\nmessages = 'down'\nsize = '{SIZE}'\ninterval = '{interval}us'\nlifetime = '500ms'\n",
        links(values)
    )
}
