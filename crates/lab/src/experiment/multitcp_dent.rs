//! MultiTCP, section 6.1: the dent that one lost packet makes in the throughput.

use super::definition::everywhere;
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "multitcp-dent",
    title: "one packet lost in one, and in each of two, TCP connections that together have a window of 40 and 80 packets",
    source: "MultiTCP 6.1, equations 6.1 to 6.4 and figure 6.2, page 29",
    found: "W²·MTU/8 bytes are missing after a loss over one connection, a quarter of that over two of which one loses, half of it \
            if both do; equation 6.4 leaves out the 8",
    chosen: "4.47 Mbit/s wanted, which takes W packets in flight; packets of 1452 bytes; each connection has an address and \
             links of its own, so that it can be met alone; what is missing counts at the links, in whole packets; the windows are constant as \
             in the document's analysis; each connection loses four packets, one at a time, before the one that counts, since slow start leaves a congestion window above the receive window, \
             whose half makes no dent; the document leaves out the round trip in which a loss is noticed and repaired",
    values: &["RTT, ms", "W", "connections", "that lose"],
    rows: || SIZES.into_iter().flat_map(|size| WAYS.map(|way| row(size, way))).collect(),
    template,
    contenders: &[CONSTANT],
    kernel: &[],
    alone: Alone::Not,
    columns: &[
        Column { head: "document: missing", quantity: THEIRS, unit: Unit::Kilobytes },
        Column { head: "and a round trip", quantity: WITH_REPAIR, unit: Unit::Kilobytes },
        Column { head: "here", quantity: MISSING, unit: Unit::Kilobytes },
        Column { head: "of the document's", quantity: OF_THEIRS, unit: Unit::Share },
        Column { head: "Mbit/s", quantity: Quantity::Ours(CONSTANT, Measure::Goodput), unit: Unit::Megabits },
    ],
    claims: &[
        Claim {
            what: "missing bytes against the document's",
            quantity: OF_THEIRS,
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: everywhere,
        },
        Claim {
            what: "and against that with the round trip of the repair",
            quantity: Quantity::Ratio(&MISSING, &WITH_REPAIR),
            bound: Bound::AtMost(1.25),
            unit: Unit::Share,
            applies: everywhere,
        },
    ],
    traces: &[],
    curves: None,
};

/// The thesis's formula, and the same with a window of each connection that loses, for the round trip in which the loss is
/// noticed and repaired.
const THEIRS: Quantity = Quantity::Document(0);
const WITH_REPAIR: Quantity = Quantity::Document(1);
/// No adjustment falls into a run.
const CONSTANT: &str = "manyway:carrier=tcp,connections=1,target=4470k,interval=1000s,congestion=reno";
const MISSING: Quantity = Quantity::Ours(CONSTANT, Measure::Dent);
const OF_THEIRS: Quantity = Quantity::Ratio(&MISSING, &THEIRS);

/// Connections, and how many of them lose a packet.
const WAYS: [(f64, f64); 3] = [(1.0, 1.0), (2.0, 1.0), (2.0, 2.0)];

fn row((rtt, window): (f64, f64), (connections, losing): (f64, f64)) -> Row {
    let each = window / connections;
    let kilobytes = |packets: f64| losing * packets * PACKET / 1e3;
    let missing = each * each / 8.0;
    let row = Row::new([rtt, window, connections, losing], [kilobytes(missing), kilobytes(missing + each)]);
    if rtt > QUICK { row } else { row.quick() }
}

/// Bytes of a full packet of the modelled TCP.
const PACKET: f64 = 1452.0;
/// Round trips in milliseconds, and the packets in flight that the wanted rate takes then.
const SIZES: [(f64, f64); 2] = [(QUICK, 40.0), (200.0, 80.0)];
/// Behind a longer round trip the dent lasts longer than a quick run.
const QUICK: f64 = 100.0;

/// The first losses bring the congestion window down to the receive window, the last one counts.
fn template(values: &[f64]) -> String {
    let [rtt, _, connections, losing] = values else { return String::new() };
    let mut text = "duration = '300s'\n".to_owned();
    let links = |most: f64| (1..=2).filter(move |number| f64::from(*number) <= most);
    for number in links(*connections) {
        text += &format!("[links.link{number}]\nrate = '100Mbit'\nrtt = '{rtt}ms'\nqueue = '1000 packets'\n");
    }
    text += "[[traffic]]\nbulk = 'down'\n";
    let mut lose = |at: &str, number: i32| {
        text += &format!(
            "[[events]]\nset = 'link{number}'\ndirection = 'down'\nloss = {{ next = 1, from = 1000 }}\nat = {at}\n"
        );
    };
    links(*connections).for_each(|number| lose("'15s'\nrepeat = { every = '24s', times = 4 }", number));
    links(*losing).for_each(|number| lose("'180s'", number));
    text
}
