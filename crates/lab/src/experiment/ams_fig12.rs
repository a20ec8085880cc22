//! AMS, figure 12: two addresses at each end, of whose four pairs two are fast.

use super::definition::AMS;
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Trace, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "ams-fig12",
    title: "two addresses at each end: A-C and B-D 250 kbit/s and 40 ms, A-D and B-C 1 Mbit/s and 10 ms",
    source: "AMS 5.3, figure 12",
    found: "begins on A-C, leaves it, and carries everything over A-D and B-C; without the choice it stays on A-C and B-D; the \
            figure has no numbers that the text gives",
    chosen: "queues of 50 packets; pairs are those that have links: with two there is nothing to choose, as without the \
             document's choice; at set-up are those that are there then, with one the connection begins on A-C, and the other \
             addresses of both ends come 10 s later; pairs=disjoint is the document's choice, but tries each pair for a second \
             or two before it knows that it is slow; full-mesh uses all; rates of a time are those of its second half",
    values: &["pairs", "at set-up"],
    rows,
    template,
    contenders: &[CHOSEN, "manyway", ALL],
    kernel: &[AMS, "mptcp-cubic"],
    alone: Alone::Not,
    columns: &[
        Column { head: "disjoint", quantity: OURS, unit: Unit::Megabits },
        Column { head: "over A-C", quantity: route(0), unit: Unit::Megabits },
        Column { head: "B-D", quantity: route(1), unit: Unit::Megabits },
        Column { head: "A-D", quantity: route(2), unit: Unit::Megabits },
        Column { head: "B-C", quantity: route(3), unit: Unit::Megabits },
        Column { head: "local-disjoint", quantity: goodput("manyway"), unit: Unit::Megabits },
        Column { head: "full-mesh", quantity: goodput(ALL), unit: Unit::Megabits },
        Column { head: "AMS over TCP", quantity: goodput(AMS), unit: Unit::Megabits },
        Column { head: "over A-C", quantity: Quantity::Ours(AMS, Measure::Route(0)), unit: Unit::Megabits },
        Column { head: "multipath TCP", quantity: goodput("mptcp-cubic"), unit: Unit::Megabits },
    ],
    claims: &[
        Claim {
            what: "A-D carries its rate, Mbit/s",
            quantity: route(2),
            bound: Bound::AtLeast(0.95),
            unit: Unit::Megabits,
            applies: has_a_choice,
        },
        Claim {
            what: "and so does B-C",
            quantity: route(3),
            bound: Bound::AtLeast(0.95),
            unit: Unit::Megabits,
            applies: has_a_choice,
        },
        Claim {
            what: "A-C carries hardly anything, Mbit/s",
            quantity: route(0),
            bound: Bound::AtMost(0.1),
            unit: Unit::Megabits,
            applies: has_a_choice,
        },
        Claim {
            what: "and so does B-D",
            quantity: route(1),
            bound: Bound::AtMost(0.1),
            unit: Unit::Megabits,
            applies: has_a_choice,
        },
        Claim {
            what: "disjoint, where the fast pairs carry 2 Mbit/s with headers",
            quantity: OURS,
            bound: Bound::AtLeast(0.95 * 2.0 * CONTENT),
            unit: Unit::Megabits,
            applies: has_a_choice,
        },
        Claim {
            what: "AMS over TCP, with the headers of TCP",
            quantity: goodput(AMS),
            bound: Bound::AtLeast(0.9 * 2.0 * CONTENT),
            unit: Unit::Megabits,
            applies: has_a_choice,
        },
        Claim {
            what: "and A-C carries hardly anything of it, Mbit/s",
            quantity: Quantity::Ours(AMS, Measure::Route(0)),
            bound: Bound::AtMost(0.1),
            unit: Unit::Megabits,
            applies: has_a_choice,
        },
        Claim {
            what: "it begins on A-C, which carries its rate, Mbit/s",
            quantity: route(0),
            bound: Bound::AtLeast(0.95 * 0.25),
            unit: Unit::Megabits,
            applies: |row| row.phase.is_some_and(|phase| phase.name == FIRST),
        },
    ],
    traces: &[Trace::Sequence(CHOSEN), Trace::Sequence(AMS)],
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

const FIRST: &str = "A and C alone";
const CHOICE: &str = "B and D come";
const AFTER: &str = "and after the choice";
/// When B and D come, and when the choice is over in a quick run, too, of the duration.
const COME: f64 = 1.0 / 9.0;
const OVER: f64 = 5.0 / 9.0;

fn rows() -> Vec<Row> {
    let begins_on_first = |pairs: f64| {
        let row = || Row::new([pairs, 1.0], []).quick();
        [(FIRST, 0.0, COME), (CHOICE, COME, OVER), (AFTER, OVER, 1.0)]
            .map(|(name, from, to)| row().during(name, from, to))
    };
    let all_at_once = Row::new([4.0, 4.0], []).quick();
    [all_at_once].into_iter().chain(begins_on_first(4.0)).chain(begins_on_first(2.0)).collect()
}

/// Whether there are slow pairs that can be left alone.
fn has_a_choice(row: &Row) -> bool {
    row.values.first() == Some(&4.0) && row.phase.is_none_or(|phase| phase.name == AFTER)
}

/// The slow pairs, then the fast ones.
const LINKS: [(char, char, &str); 4] = [
    ('a', 'c', "rate = '250kbit'\ndelay = '40ms'\n"),
    ('b', 'd', "rate = '250kbit'\ndelay = '40ms'\n"),
    ('a', 'd', "rate = '1Mbit'\ndelay = '10ms'\n"),
    ('b', 'c', "rate = '1Mbit'\ndelay = '10ms'\n"),
];

fn template(values: &[f64]) -> String {
    let [pairs, at_set_up] = values else { return String::new() };
    let begins_on_first = *at_set_up < 2.0;
    let mut text = "duration = '90s'\n[client.a]\n[server.c]\n".to_owned();
    for late in ["client.b", "server.d"] {
        text += &format!("[{late}]\ndown = {begins_on_first}\n");
        if begins_on_first {
            text += &format!("[[events]]\nat = '10s'\nup = '{late}'\n");
        }
    }
    let count = if *pairs < 4.0 { 2 } else { LINKS.len() };
    for (client, server, numbers) in LINKS.iter().take(count) {
        text += &format!(
            "[links.{client}-{server}]\nclient = '{client}'\nserver = '{server}'\nqueue = '75kB'\n{numbers}"
        );
    }
    text
}
