//! CMT, table 2 and figure 5.3: throughput over the number of paths. And the links of all experiments of that document.

use super::definition::everywhere;
use super::{Alone, Bound, Claim, Column, Curves, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "cmt-table2",
    title: "100 MB over one, two and three paths",
    source: "CMT 5.1.2, table 2 and figure 5.3",
    found: "2.40, 4.12 and 4.21 MB/s: much more with two paths, little more with three",
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
        Column { head: "TCP on each MB/s", quantity: megabytes(&POSSIBLE), unit: Unit::Megabytes },
        Column { head: "multipath TCP MB/s", quantity: megabytes(&MULTIPATH), unit: Unit::Megabytes },
    ],
    claims: &[Claim {
        what: "manyway against the sum of the paths",
        quantity: OF_SUM,
        bound: Bound::AtLeast(0.95),
        unit: Unit::Share,
        applies: everywhere,
    }],
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
const OF_SUM: Quantity = Quantity::Ratio(&OURS, &Quantity::Alone);
const POSSIBLE: Quantity = Quantity::Ours("possible-cubic", Measure::Goodput);
const MULTIPATH: Quantity = Quantity::Ours("mptcp-cubic", Measure::Goodput);

/// Mbit/s as 10⁶ bytes a second.
pub(super) const fn megabytes(rate: &'static Quantity) -> Quantity {
    Quantity::Scaled(rate, 0.125)
}

/// Remarks about the links.
const LINKS: &str = "the document used what the building and an operator offered; our links are Ethernet of \
20 Mbit/s and 5 ms and two modems of 10 Mbit/s and 30 ms behind one cell of 19 Mbit/s, so compare proportions; the sum \
is what each path brings alone, less what the cell can not carry";

/// Interfaces, routes and links of the first paths.
pub(super) fn links(paths: f64) -> String {
    let modems = if paths >= 3.0 { 2 } else { i32::from(paths >= 2.0) };
    let mut text = String::new();
    if modems > 0 {
        text += "routes = [\n";
        for number in 0..modems {
            text += &format!("{{ client = 'usb{number}', links = ['modem{number}', 'cell'] }},\n");
        }
        text += "]\n";
    }
    text += "[links.eth0]\nrate = '20Mbit'\ndelay = '5ms'\n";
    for number in 0..modems {
        text += &format!("[links.modem{number}]\nrate = '10Mbit'\ndelay = '25ms'\n");
    }
    if modems > 0 {
        text += "[links.cell]\nrate = '19Mbit'\ndelay = '5ms'\n";
    }
    text
}

/// The document's file over these links, written in chunks of this many bytes.
pub(super) fn transfer(links: String, chunk: Option<f64>) -> String {
    let chunk = chunk.map_or_else(String::new, |chunk| format!("chunk = '{chunk}'\n"));
    // About the time of the file over all paths.
    format!("duration = '22s'\n{links}[[traffic]]\nbulk = 'up'\nsize = '{FILE}'\n{chunk}")
}

/// Bytes of the document's file.
pub(super) const FILE: f64 = 104_857_600.0;
