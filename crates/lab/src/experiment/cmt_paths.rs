//! CMT, table 2 and figure 5.3: throughput over the number of paths. And the links of all experiments of that document.

use super::definition::everywhere;
use super::{Alone, Bound, Claim, Column, Curves, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "cmt-table2",
    title: "100 MB over a modem, a modem and Ethernet, and both modems and Ethernet",
    source: "CMT 5.1.2, table 2 and figure 5.3, page 36",
    found: "2.40, 4.12 and 4.21 MB/s: much more with Ethernet, little more with the second modem",
    chosen: LINKS,
    values: &["paths"],
    rows: || {
        let rows = [(1.0, 2.396_51), (2.0, 4.123_65), (3.0, 4.211_22)];
        rows.map(|(paths, rate)| Row::new([paths], [rate]).quick()).to_vec()
    },
    template: |values| {
        let paths = values.first().copied().unwrap_or(3.0);
        transfer(links(paths), None)
    },
    contenders: &["manyway"],
    kernel: &["possible-cubic", "mptcp-cubic"],
    alone: Alone::Runs,
    columns: &[
        Column { head: "document MB/s", quantity: THEIRS, unit: Unit::Megabytes },
        Column { head: "times", quantity: Quantity::Relative(&THEIRS), unit: Unit::Times },
        Column { head: "manyway MB/s", quantity: megabytes(&OURS), unit: Unit::Megabytes },
        Column { head: "times", quantity: Quantity::Relative(&OURS), unit: Unit::Times },
        Column { head: "sum MB/s", quantity: megabytes(&Quantity::Alone), unit: Unit::Megabytes },
        Column { head: "of the sum", quantity: OF_SUM, unit: Unit::Share },
        held("held", "manyway"),
        delay("delay p95", "manyway"),
        jitter("jitter", "manyway"),
        discarded("discarded", "manyway"),
        Column { head: "TCP on each MB/s", quantity: megabytes(&POSSIBLE), unit: Unit::Megabytes },
        Column { head: "multipath TCP MB/s", quantity: megabytes(&MULTIPATH), unit: Unit::Megabytes },
    ],
    claims: &[
        Claim {
            what: "manyway against the sum of the paths",
            quantity: OF_SUM,
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: everywhere,
        },
        Claim {
            what: "how many times the modem's rate, against the document's times",
            quantity: STEPS,
            bound: Bound::AtLeast(0.95),
            unit: Unit::Share,
            applies: everywhere,
        },
        Claim {
            what: "and no more than that: the second modem adds hardly anything",
            quantity: STEPS,
            bound: Bound::AtMost(1.2),
            unit: Unit::Share,
            applies: everywhere,
        },
    ],
    traces: &[],
    curves: Some(Curves {
        over: 0,
        unit: "throughput, MB/s",
        series: &[
            ("the document", THEIRS),
            ("manyway", megabytes(&OURS)),
            ("sum of the paths", megabytes(&Quantity::Alone)),
            ("multipath TCP", megabytes(&MULTIPATH)),
        ],
    }),
};

const THEIRS: Quantity = Quantity::Document(0);
const OURS: Quantity = Quantity::Ours("manyway", Measure::Goodput);
const STEPS: Quantity = Quantity::Ratio(&Quantity::Relative(&OURS), &Quantity::Relative(&THEIRS));
const OF_SUM: Quantity = Quantity::Ratio(&OURS, &Quantity::Alone);
const POSSIBLE: Quantity = Quantity::Ours("possible-cubic", Measure::Goodput);
const MULTIPATH: Quantity = Quantity::Ours("mptcp-cubic", Measure::Goodput);

/// Mbit/s as 10⁶ bytes a second.
pub(super) const fn megabytes(rate: &'static Quantity) -> Quantity {
    Quantity::Scaled(rate, 0.125)
}

/// What a contender's resequencing needs.
pub(super) const fn held(head: &'static str, name: &'static str) -> Column {
    Column { head, quantity: Quantity::Ours(name, Measure::Held), unit: Unit::Kilobytes }
}

/// 95th percentile of the delay.
pub(super) const fn delay(head: &'static str, name: &'static str) -> Column {
    Column { head, quantity: Quantity::Ours(name, Measure::DelayP95), unit: Unit::Seconds }
}

/// How much the delay varies.
pub(super) const fn jitter(head: &'static str, name: &'static str) -> Column {
    Column { head, quantity: Quantity::Ours(name, Measure::Jitter), unit: Unit::Seconds }
}

/// What arrived again.
pub(super) const fn discarded(head: &'static str, name: &'static str) -> Column {
    Column { head, quantity: Quantity::Ours(name, Measure::Discarded), unit: Unit::Kilobytes }
}

/// Remarks about the links.
pub(super) const LINKS: &str = "the document used what the building and an operator offered; our links are estimates by its tables: \
Ethernet of 20 Mbit/s and 5 ms, and two modems of 20 Mbit/s and 25 ms behind one cell of 19.2 Mbit/s and 5 ms, which one \
of them fills; held is what waits at the receiver for earlier bytes, jitter by how much the delays of one and the next byte in 16 KiB differ";

/// Interfaces, routes and links of the first paths, in the order of the document: a modem, Ethernet, the other modem.
pub(super) fn links(paths: f64) -> String {
    let mut text = "routes = [\n".to_owned();
    text += "{ client = 'usb0', links = ['modem0', 'cell'] },\n";
    if paths >= 2.0 {
        text += "{ client = 'eth0', links = ['eth0'] },\n";
    }
    if paths >= 3.0 {
        text += "{ client = 'usb1', links = ['modem1', 'cell'] },\n";
    }
    text += "]\n";
    if paths >= 2.0 {
        text += "[links.eth0]\nrate = '20Mbit'\ndelay = '5ms'\n";
    }
    for modem in (0..2).take(if paths >= 3.0 { 2 } else { 1 }) {
        text += &format!("[links.modem{modem}]\nrate = '20Mbit'\ndelay = '25ms'\n");
    }
    text + "[links.cell]\nrate = '19.2Mbit'\ndelay = '5ms'\n"
}

/// The document's file over these links, written in chunks of this many bytes.
pub(super) fn transfer(links: String, chunk: Option<f64>) -> String {
    let chunk = chunk.map_or_else(String::new, |chunk| format!("chunk = '{chunk}'\n"));
    // About the time of the file over all paths.
    format!("duration = '22s'\n{links}[[traffic]]\nbulk = 'up'\nsize = '{FILE}'\n{chunk}")
}

/// Bytes of the document's file.
pub(super) const FILE: f64 = 104_857_600.0;
