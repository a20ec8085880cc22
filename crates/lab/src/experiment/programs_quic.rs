//! Any program over Manyway: a download over QUIC, which is one flow of datagrams.

use super::definition::everywhere;
use super::programs_tcp::{LINKS, WORLDS, goodput, template};
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "programs-quic",
    title: "one download over QUIC by forward, run and tunnel",
    source: "the project's goals",
    found: "",
    chosen: "a stream of quinn for 15 s from the server, with its defaults (CUBIC, a search for the MTU) and windows of 16 MiB; \
             the limit is what it brings over the better link alone in the same run, without Manyway; the loss is that of \
             the first link; lost are packets that quinn's server declared lost, also those that only arrived much later \
             than others; overtaken those that arrived at its client after one that was sent later",
    values: LINKS,
    rows: || WORLDS.map(|values| Row::new(values, []).quick()).to_vec(),
    template,
    contenders: &[],
    kernel: &[DIRECT, "forward:program=quinn", "run:program=quinn", "tunnel:program=quinn"],
    alone: Alone::Not,
    columns: &[
        Column { head: "better link", quantity: BETTER, unit: Unit::Megabits },
        Column { head: "forward", quantity: of_better(&FORWARD), unit: Unit::Share },
        Column { head: "run", quantity: of_better(&RUN), unit: Unit::Share },
        Column { head: "tunnel", quantity: of_better(&TUNNEL), unit: Unit::Share },
        Column { head: "lost: better link", quantity: lost(DIRECT), unit: Unit::Share },
        Column { head: "forward", quantity: lost("forward:program=quinn"), unit: Unit::Share },
        Column { head: "run", quantity: lost("run:program=quinn"), unit: Unit::Share },
        Column { head: "tunnel", quantity: lost("tunnel:program=quinn"), unit: Unit::Share },
        Column { head: "overtaken: better link", quantity: overtaken(DIRECT), unit: Unit::Share },
        Column { head: "forward", quantity: overtaken("forward:program=quinn"), unit: Unit::Share },
        Column { head: "run", quantity: overtaken("run:program=quinn"), unit: Unit::Share },
        Column { head: "tunnel", quantity: overtaken("tunnel:program=quinn"), unit: Unit::Share },
    ],
    claims: &[
        fast("forward of the better link", of_better(&FORWARD)),
        fast("run of the better link", of_better(&RUN)),
        fast("tunnel of the better link", of_better(&TUNNEL)),
        ordered("overtaken by forward", overtaken("forward:program=quinn")),
        ordered("overtaken by run", overtaken("run:program=quinn")),
        ordered("overtaken by tunnel", overtaken("tunnel:program=quinn")),
    ],
    traces: &[],
    curves: None,
};

const DIRECT: &str = "direct:program=quinn";
const BETTER: Quantity = goodput(DIRECT);
const FORWARD: Quantity = goodput("forward:program=quinn");
const RUN: Quantity = goodput("run:program=quinn");
const TUNNEL: Quantity = goodput("tunnel:program=quinn");

const fn lost(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Told("lost"))
}

const fn overtaken(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Told("overtaken"))
}

const fn of_better(quantity: &'static Quantity) -> Quantity {
    Quantity::Ratio(quantity, &BETTER)
}

const fn fast(what: &'static str, quantity: Quantity) -> Claim {
    Claim { what, quantity, bound: Bound::AtLeast(0.97), unit: Unit::Share, applies: everywhere }
}

const fn ordered(what: &'static str, quantity: Quantity) -> Claim {
    Claim { what, quantity, bound: Bound::AtMost(0.001), unit: Unit::Share, applies: everywhere }
}
