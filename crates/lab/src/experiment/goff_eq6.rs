//! Goff and Phatak, equations 1 to 6: loss below and above the striping.

use super::definition::everywhere;
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "goff-eq6",
    title: "two paths of 20 Mbit/s that lose packets: striped below the congestion control, and above it",
    source: "Goff-Phatak II.C, equations 1 to 6",
    found: "the rate goes as 1/sqrt(loss), so the sum over the paths is above that of one congestion control with the loss of all \
            paths together",
    chosen: "striped 0: a congestion control for each path; striped 1: one path, whose packets are dealt out in equal parts; round trips \
             of 40 ms, NewReno, and TCP with Reno in virtual time; theory is 1.22 packets of 1448 bytes a round trip over the root of the loss. Equation 3 adds \
             up the losses of the paths: packets that are dealt out meet their mean, so that the printed sum makes the striped rate too small by the root of \
             2",
    values: &["striped", "loss of the first, %", "of the second, %"],
    rows: || {
        let pairs = LOSSES.into_iter().flat_map(|(first, second)| {
            let apart = theory(first) + theory(second);
            let (mean, sum) = (theory(f64::midpoint(first, second)), theory(first + second));
            [
                Row::new([APART, first, second], [apart, f64::NAN, f64::NAN, f64::NAN]),
                Row::new([STRIPED, first, second], [mean, sum, apart / mean, apart / sum]),
            ]
        });
        pairs.map(|row| if row.values.get(1) == Some(&QUICK) { row.quick() } else { row }).collect()
    },
    template,
    contenders: &["manyway:congestion=new-reno", TCP],
    kernel: &["possible-reno"],
    alone: Alone::Not,
    columns: &[
        Column { head: "theory Mbit/s", quantity: Quantity::Document(0), unit: Unit::Megabits },
        Column { head: "by equation 3", quantity: Quantity::Document(1), unit: Unit::Megabits },
        Column { head: "manyway", quantity: OURS, unit: Unit::Megabits },
        Column { head: "of theory", quantity: OF_THEORY, unit: Unit::Share },
        Column { head: "TCP reno", quantity: OVER_TCP, unit: Unit::Megabits },
        Column { head: "TCP of the system", quantity: goodput("possible-reno"), unit: Unit::Megabits },
        Column { head: "above over below: theory", quantity: THEIR_GAIN, unit: Unit::Times },
        Column { head: "by equation 3", quantity: Quantity::Document(3), unit: Unit::Times },
        Column { head: "manyway", quantity: GAIN, unit: Unit::Times },
        Column { head: "TCP reno", quantity: TCP_GAIN, unit: Unit::Times },
    ],
    claims: &[
        Claim {
            what: "above the congestion control over below it, against theory",
            quantity: Quantity::Ratio(&GAIN, &THEIR_GAIN),
            bound: Bound::AtLeast(0.8),
            unit: Unit::Share,
            applies: is_striped,
        },
        Claim {
            what: "and no more than that",
            quantity: Quantity::Ratio(&GAIN, &THEIR_GAIN),
            bound: Bound::AtMost(1.25),
            unit: Unit::Share,
            applies: is_striped,
        },
        Claim {
            what: "the rate against theory",
            quantity: OF_THEORY,
            bound: Bound::AtLeast(0.7),
            unit: Unit::Share,
            applies: everywhere,
        },
    ],
    traces: &[],
    curves: None,
};

const TCP: &str = "manyway:carrier=tcp,congestion=reno";
const OURS: Quantity = goodput("manyway:congestion=new-reno");
const OF_THEORY: Quantity = Quantity::Ratio(&OURS, &Quantity::Document(0));
/// Rows with striping follow those without. Only they have a ratio of theory, and so one of ours.
const GAIN: Quantity = Quantity::Ratio(
    &Quantity::Product(&Quantity::Before(&OURS), &THEIR_GAIN),
    &Quantity::Product(&OURS, &THEIR_GAIN),
);
const TCP_GAIN: Quantity = Quantity::Ratio(
    &Quantity::Product(&Quantity::Before(&OVER_TCP), &THEIR_GAIN),
    &Quantity::Product(&OVER_TCP, &THEIR_GAIN),
);
const THEIR_GAIN: Quantity = Quantity::Document(2);
const OVER_TCP: Quantity = goodput(TCP);

const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

const APART: f64 = 0.0;
const STRIPED: f64 = 1.0;
/// Shares of lost packets in percent.
const LOSSES: [(f64, f64); 3] = [(0.5, 0.5), (QUICK, 0.8), (0.1, 1.9)];
const QUICK: f64 = 0.2;

fn is_striped(row: &Row) -> bool {
    row.values.first() == Some(&STRIPED)
}

/// Mbit/s over a path that loses so many percent (Mathis 1997).
fn theory(percent: f64) -> f64 {
    1.22 * 1448.0 * 8.0 / 0.04 / (percent / 100.0).sqrt() / 1e6
}

fn template(values: &[f64]) -> String {
    let [way, losses @ ..] = values else { return String::new() };
    let routes = if *way > APART {
        "routes = [{ client = 'bond', links = ['link1', 'link2'], shares = [1, 1] }]\n"
    } else {
        ""
    };
    let link = |(number, loss): (usize, &f64)| {
        format!("[links.link{number}]\nrate = '20Mbit'\nrtt = '40ms'\nup = {{ loss = '{loss}%' }}\n")
    };
    format!("duration = '150s'\n{routes}{}", (1..).zip(losses).map(link).collect::<String>())
}
