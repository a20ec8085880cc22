//! CMT 4.2.2: every packet on every path; the first copy counts.

use super::cmt_paths::{delay, jitter, links};
use super::definition::everywhere;
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "cmt-duplicates",
    title: "every packet on each of three paths",
    source: "CMT 4.2.2 and 5.1.1, figure 5.2, page 35",
    found: "only the copy that arrives first is used, the others are dropped",
    chosen: "messages of 1000 bytes, 100 a second, by the scheduler redundant, without loss and with 2 % of the packets \
             lost on each path; links as in cmt-table2, of which Ethernet is the fastest; copies is what all paths \
             delivered over what that delivered most, and discarded the messages that came more than once by that",
    values: &["loss %"],
    rows: || [0.0, 2.0].map(|loss| Row::new([loss], []).quick()).to_vec(),
    template: |values| {
        let loss = values.first().copied().unwrap_or(0.0);
        let links = links(3.0);
        let lossy = ["eth0", "modem0", "modem1"].iter().fold(links, |text, link| {
            let head = format!("[links.{link}]\n");
            text.replace(&head, &format!("{head}loss = '{loss}%'\n"))
        });
        format!("duration = '60s'\n{lossy}[[traffic]]\nmessages = 'up'\nsize = '1kB'\ninterval = '10ms'\n")
    },
    contenders: &["manyway:scheduler=redundant", "manyway", ETHERNET, MODEM],
    kernel: &["tcp-cubic@2"],
    alone: Alone::Not,
    columns: &[
        Column { head: "copies", quantity: COPIES, unit: Unit::Times },
        Column {
            head: "discarded",
            quantity: Quantity::Ours(REDUNDANT, Measure::DiscardedMessages),
            unit: Unit::Number,
        },
        Column { head: "redundant p50", quantity: MEDIAN, unit: Unit::Seconds },
        Column { head: "p99", quantity: P99, unit: Unit::Seconds },
        delay("p95", REDUNDANT),
        jitter("jitter", REDUNDANT),
        Column { head: "the fastest alone p50", quantity: FASTEST, unit: Unit::Seconds },
        Column { head: "p99", quantity: FASTEST_P99, unit: Unit::Seconds },
        jitter("jitter", ETHERNET),
        Column { head: "a modem alone p50", quantity: median(MODEM), unit: Unit::Seconds },
        Column { head: "default p50", quantity: median("manyway"), unit: Unit::Seconds },
        Column { head: "p99", quantity: p99("manyway"), unit: Unit::Seconds },
        jitter("jitter", "manyway"),
        Column { head: "TCP on the fastest p50", quantity: median("tcp-cubic@2"), unit: Unit::Seconds },
        Column { head: "p99", quantity: p99("tcp-cubic@2"), unit: Unit::Seconds },
    ],
    claims: &[
        Claim {
            what: "copies that arrive of each packet",
            quantity: COPIES,
            bound: Bound::AtLeast(2.8),
            unit: Unit::Times,
            applies: everywhere,
        },
        Claim {
            what: "median latency against that of the fastest path alone",
            quantity: Quantity::Ratio(&MEDIAN, &FASTEST),
            bound: Bound::AtMost(1.05),
            unit: Unit::Times,
            applies: everywhere,
        },
        Claim {
            what: "latency of 99 % against that of the fastest path alone",
            quantity: Quantity::Ratio(&P99, &FASTEST_P99),
            bound: Bound::AtMost(1.05),
            unit: Unit::Times,
            applies: everywhere,
        },
    ],
    traces: &[],
    curves: None,
};

const ETHERNET: &str = "manyway@2";
const MODEM: &str = "manyway@1";
const REDUNDANT: &str = "manyway:scheduler=redundant";
const COPIES: Quantity = Quantity::Ours(REDUNDANT, Measure::Copies);
const MEDIAN: Quantity = median(REDUNDANT);
const P99: Quantity = p99(REDUNDANT);
const FASTEST: Quantity = median(ETHERNET);
const FASTEST_P99: Quantity = p99(ETHERNET);

const fn median(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::MessageMedian)
}

const fn p99(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::MessageP99)
}
