//! Any program over Manyway: a link dies in silence beneath a download, a call and an interactive session.

use super::programs_tcp::goodput;
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "programs-death",
    title: "a link dies in silence, and returns, beneath a download, a call and an interactive session",
    source: "the project's goals",
    found: "",
    chosen: "links of 40 Mbit/s at 20 ms and of 30 Mbit/s at 50 ms; a third of the time each with both, without the one \
             that dies, and with both again; the call is a datagram of 160 bytes each 20 ms both ways, the session a \
             message of 100 bytes over TCP each 20 ms both ways, so that a silence of 20 ms is none; over multipath TCP \
             the call is a connection of its own",
    values: &["dies"],
    rows,
    template,
    contenders: &[],
    kernel: &["manyway", "forward", "run", "tunnel", "mptcp-cubic", "mptcp-bbr"],
    alone: Alone::Not,
    columns: &[
        Column { head: "download, Mbit/s: run", quantity: goodput("run"), unit: Unit::Megabits },
        Column { head: "tunnel", quantity: goodput("tunnel"), unit: Unit::Megabits },
        Column {
            head: "silence of the download: manyway",
            quantity: silence("manyway", 0),
            unit: Unit::Seconds,
        },
        Column { head: "forward", quantity: silence("forward", 0), unit: Unit::Seconds },
        Column { head: "run", quantity: silence("run", 0), unit: Unit::Seconds },
        Column { head: "tunnel", quantity: silence("tunnel", 0), unit: Unit::Seconds },
        Column { head: "MPTCP BBR", quantity: silence("mptcp-bbr", 0), unit: Unit::Seconds },
        Column { head: "of the call: manyway", quantity: silence("manyway", 1), unit: Unit::Seconds },
        Column { head: "forward", quantity: silence("forward", 1), unit: Unit::Seconds },
        Column { head: "run", quantity: silence("run", 1), unit: Unit::Seconds },
        Column { head: "tunnel", quantity: silence("tunnel", 1), unit: Unit::Seconds },
        Column { head: "MPTCP BBR", quantity: silence("mptcp-bbr", 1), unit: Unit::Seconds },
        Column { head: "of the session: manyway", quantity: silence("manyway", 2), unit: Unit::Seconds },
        Column { head: "forward", quantity: silence("forward", 2), unit: Unit::Seconds },
        Column { head: "run", quantity: silence("run", 2), unit: Unit::Seconds },
        Column { head: "tunnel", quantity: silence("tunnel", 2), unit: Unit::Seconds },
        Column { head: "MPTCP BBR", quantity: silence("mptcp-bbr", 2), unit: Unit::Seconds },
        Column { head: "MPTCP cubic", quantity: silence("mptcp-cubic", 2), unit: Unit::Seconds },
    ],
    claims: &[
        short("silence of the download, forward", silence("forward", 0)),
        short("silence of the download, run", silence("run", 0)),
        short("silence of the download, tunnel", silence("tunnel", 0)),
        short("silence of the call, forward", silence("forward", 1)),
        short("silence of the call, run", silence("run", 1)),
        short("silence of the call, tunnel", silence("tunnel", 1)),
        short("silence of the session, forward", silence("forward", 2)),
        short("silence of the session, run", silence("run", 2)),
        short("silence of the session, tunnel", silence("tunnel", 2)),
    ],
    traces: &[],
    curves: None,
};

const fn silence(name: &'static str, entry: usize) -> Quantity {
    Quantity::Ours(name, Measure::SilenceOf(entry))
}

/// What a person hardly notices.
const fn short(what: &'static str, quantity: Quantity) -> Claim {
    Claim { what, quantity, bound: Bound::AtMost(0.15), unit: Unit::Seconds, applies: is_after_a_change }
}

fn is_after_a_change(row: &Row) -> bool {
    row.phase.is_some_and(|phase| phase.from > 0.0)
}

const NAMES: [&str; 2] = ["near", "far"];
const THIRD: f64 = 1.0 / 3.0;

fn rows() -> Vec<Row> {
    let of_link = |dies: f64| {
        [
            Row::new([dies], []).quick().during("both", 0.0, THIRD),
            Row::new([dies], []).quick().during("one is dead", THIRD, 2.0 * THIRD),
            Row::new([dies], []).quick().during("both again", 2.0 * THIRD, 1.0),
        ]
    };
    [1.0, 2.0].into_iter().flat_map(of_link).collect()
}

/// The length of a run, and its links.
pub(super) const LINKS: &str = "duration = '15s'\n\
    [links.near]\nrate = '40Mbit'\nrtt = '20ms'\nqueue = '100ms'\n\
    [links.far]\nrate = '30Mbit'\nrtt = '50ms'\nqueue = '100ms'\n";

/// The link that dies in a row, the first or the second.
pub(super) fn dies(values: &[f64]) -> &'static str {
    if values == [1.0] { NAMES[0] } else { NAMES[1] }
}

fn template(values: &[f64]) -> String {
    let dies = dies(values);
    format!(
        "{LINKS}\
         [[traffic]]\nbulk = 'down'\n\
         [[traffic]]\nmessages = 'both'\nsize = '160'\ninterval = '20ms'\nlifetime = '500ms'\n\
         [[traffic]]\nmessages = 'both'\nsize = '100'\ninterval = '20ms'\n\
         [[events]]\nat = '5s'\ncut = '{dies}'\n\
         [[events]]\nat = '10s'\nrestore = '{dies}'\n"
    )
}
