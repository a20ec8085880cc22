//! Any program over Manyway: a camera that sends by SRT, while a link becomes a black hole.

use super::definition::everywhere;
use super::programs_death::{LINKS, dies};
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "programs-srt",
    title: "a camera over SRT, while one of two links dies in silence",
    source: "the project's goals",
    found: "",
    chosen: "8 Mbit/s in packets of 1316 bytes to the server with a latency of 200 ms, by srt-live-transmit at both ends; \
             links of 40 Mbit/s at 20 ms and of 30 Mbit/s at 50 ms, one of which becomes a black hole after a third of the \
             time; late is what the receiver did not hand out, dropped what both ends of SRT say that they dropped as too \
             late; copies are datagrams that the client of Manyway sent again, from its log: those whose earlier packets \
             were in flight on the link that failed, and others",
    values: &["dies"],
    rows: || [1.0, 2.0].map(|dies| Row::new([dies], []).quick()).to_vec(),
    template,
    contenders: &[],
    kernel: &["forward:program=srt", "run:program=srt", "tunnel:program=srt"],
    alone: Alone::Not,
    columns: &[
        Column { head: "late: forward", quantity: late(FORWARD), unit: Unit::Number },
        Column { head: "run", quantity: late(RUN), unit: Unit::Number },
        Column { head: "tunnel", quantity: late(TUNNEL), unit: Unit::Number },
        Column { head: "dropped by SRT: forward", quantity: dropped(FORWARD), unit: Unit::Number },
        Column { head: "run", quantity: dropped(RUN), unit: Unit::Number },
        Column { head: "tunnel", quantity: dropped(TUNNEL), unit: Unit::Number },
        Column {
            head: "sent again by SRT: forward",
            quantity: told(FORWARD, "sent again"),
            unit: Unit::Number,
        },
        Column { head: "run", quantity: told(RUN, "sent again"), unit: Unit::Number },
        Column { head: "tunnel", quantity: told(TUNNEL, "sent again"), unit: Unit::Number },
        Column {
            head: "copies of those in flight: forward",
            quantity: told(FORWARD, "copies"),
            unit: Unit::Number,
        },
        Column { head: "run", quantity: told(RUN, "copies"), unit: Unit::Number },
        Column { head: "tunnel", quantity: told(TUNNEL, "copies"), unit: Unit::Number },
        Column { head: "of others: forward", quantity: others(FORWARD), unit: Unit::Number },
        Column { head: "run", quantity: others(RUN), unit: Unit::Number },
        Column { head: "tunnel", quantity: others(TUNNEL), unit: Unit::Number },
    ],
    claims: &[
        none("late by forward", late(FORWARD)),
        none("late by run", late(RUN)),
        none("late by tunnel", late(TUNNEL)),
        none("dropped by SRT, forward", dropped(FORWARD)),
        none("dropped by SRT, run", dropped(RUN)),
        none("dropped by SRT, tunnel", dropped(TUNNEL)),
        none("copies of others by forward", others(FORWARD)),
        none("copies of others by run", others(RUN)),
        none("copies of others by tunnel", others(TUNNEL)),
    ],
    traces: &[],
    curves: None,
};

const FORWARD: &str = "forward:program=srt";
const RUN: &str = "run:program=srt";
const TUNNEL: &str = "tunnel:program=srt";

const fn late(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Missing)
}

const fn told(name: &'static str, what: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Told(what))
}

const fn dropped(name: &'static str) -> Quantity {
    told(name, "dropped")
}

const fn others(name: &'static str) -> Quantity {
    told(name, "other copies")
}

const fn none(what: &'static str, quantity: Quantity) -> Claim {
    Claim { what, quantity, bound: Bound::AtMost(0.0), unit: Unit::Number, applies: everywhere }
}

fn template(values: &[f64]) -> String {
    let dies = dies(values);
    format!(
        "{LINKS}\
         [[traffic]]\nmessages = 'up'\nsize = '1316'\ninterval = '1316us'\nlifetime = '200ms'\n\
         [[events]]\nat = '5s'\ncut = '{dies}'\n"
    )
}
