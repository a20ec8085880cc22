//! AMS, section 5.3: what the choice among all address pairs costs.

use super::definition::{AMS, everywhere};
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "ams-race",
    title: "set-up between one and several addresses of each end, with the choice of pairs",
    source: "AMS 5.3",
    found: "146 µs to send a SYN, minor memory for each pair at the client and an entry of the SYN cache at the server",
    chosen: "from the first packet until all paths carry data: the handshake, the checks of every pair and the paths that are \
             chosen, over UDP, and over TCP by one SYN for each pair; links of 10 Mbit/s, whose delay is 10 ms for the pairs that are to be chosen and 20 ms for the \
             others; memory is that of the measurements of pairs at the client over UDP, in virtual time; a server keeps nothing for a pair without a path",
    values: &["addresses", "of the server"],
    rows: || SIZES.map(|(here, there)| Row::new([here, there], []).quick()).to_vec(),
    template,
    contenders: &[CHOSEN],
    kernel: &[AMS],
    alone: Alone::Not,
    columns: &[
        Column { head: "pairs", quantity: PAIRS, unit: Unit::Number },
        Column { head: "set up after", quantity: TIME, unit: Unit::Seconds },
        Column { head: "packets", quantity: PACKETS, unit: Unit::Number },
        Column { head: "for each pair", quantity: PACKETS_EACH, unit: Unit::Times },
        Column { head: "bytes", quantity: BYTES, unit: Unit::Kilobytes },
        Column { head: "for each pair", quantity: BYTES_EACH, unit: Unit::Kilobytes },
        Column { head: "memory", quantity: MEMORY, unit: Unit::Kilobytes },
        Column { head: "for each pair", quantity: MEMORY_EACH, unit: Unit::Kilobytes },
        Column { head: "AMS over TCP: after", quantity: over_tcp(Measure::SetUpTime), unit: Unit::Seconds },
        Column { head: "packets", quantity: over_tcp(Measure::SetUpPackets), unit: Unit::Number },
        Column { head: "bytes", quantity: over_tcp(Measure::SetUpBytes), unit: Unit::Kilobytes },
    ],
    claims: &[
        Claim {
            what: "all paths are set up within",
            quantity: TIME,
            bound: Bound::AtMost(1.0),
            unit: Unit::Seconds,
            applies: everywhere,
        },
        Claim {
            what: "and of AMS over TCP",
            quantity: over_tcp(Measure::SetUpTime),
            bound: Bound::AtMost(1.0),
            unit: Unit::Seconds,
            applies: everywhere,
        },
        Claim {
            what: "bytes on the links for each pair",
            quantity: BYTES_EACH,
            bound: Bound::AtMost(20.0),
            unit: Unit::Kilobytes,
            applies: everywhere,
        },
        Claim {
            what: "memory for each pair",
            quantity: MEMORY_EACH,
            bound: Bound::AtMost(1.0),
            unit: Unit::Kilobytes,
            applies: everywhere,
        },
    ],
    traces: &[],
    curves: None,
};

const CHOSEN: &str = "manyway:pairs=disjoint";
const PAIRS: Quantity = Quantity::Product(&Quantity::Value(0), &Quantity::Value(1));
const TIME: Quantity = ours(Measure::SetUpTime);
const PACKETS: Quantity = ours(Measure::SetUpPackets);
const BYTES: Quantity = ours(Measure::SetUpBytes);
const MEMORY: Quantity = ours(Measure::PairMemory);
const PACKETS_EACH: Quantity = Quantity::Ratio(&PACKETS, &PAIRS);
const BYTES_EACH: Quantity = Quantity::Ratio(&BYTES, &PAIRS);
const MEMORY_EACH: Quantity = Quantity::Ratio(&MEMORY, &PAIRS);

const fn ours(measure: Measure) -> Quantity {
    Quantity::Ours(CHOSEN, measure)
}

const fn over_tcp(measure: Measure) -> Quantity {
    Quantity::Ours(AMS, measure)
}

/// Addresses of client and server; a connection checks 32 pairs at most.
const SIZES: [(f64, f64); 5] = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (4.0, 8.0)];

fn template(values: &[f64]) -> String {
    let [here, there] = values else { return String::new() };
    let numbers = |most: f64| (1..=8_u8).take_while(move |number| f64::from(*number) <= most);
    let mut text = "duration = '60s'\n".to_owned();
    for client in numbers(*here) {
        for server in numbers(*there) {
            let delay = if client == server { 10 } else { 20 };
            text += &format!(
                "[links.a{client}-c{server}]\nclient = 'a{client}'\nserver = 'c{server}'\n\
                 rate = '10Mbit'\ndelay = '{delay}ms'\n"
            );
        }
    }
    text + "[[traffic]]\nmessages = 'up'\nsize = 100\ninterval = '100ms'\n"
}
