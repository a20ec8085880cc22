//! Any program over Manyway: bulk over TCP, by each verb, beside the transport itself and the kernel.

use super::definition::everywhere;
use super::{Alone, Bound, Claim, Column, Experiment, Measure, Quantity, Row, Unit};

pub(super) static ONE: Experiment = Experiment {
    name: "programs-tcp",
    title: "one download over TCP by forward, proxy, run and tunnel",
    chosen: "a download for 15 s: of the lab's own program, which sends as fast as TCP takes it, of iperf3 and of curl, \
             each as a share of what a stream of Manyway brings in the same run, as in bench; the kernel's TCP and ssh -D \
             run over the better link, multipath TCP over both; the loss is that of the first link",
    values: LINKS,
    rows: || WORLDS.map(|values| Row::new(values, []).quick()).to_vec(),
    kernel: &[
        "manyway",
        "forward",
        "proxy",
        "run",
        "tunnel",
        "forward:program=iperf3",
        "run:program=iperf3",
        "tunnel:program=iperf3",
        "proxy:program=curl",
        "proxy:program=iperf3",
        "ssh",
        "tcp-cubic",
        "mptcp-cubic",
        "mptcp-bbr",
    ],
    columns: &[
        Column { head: "manyway", quantity: OURS, unit: Unit::Megabits },
        Column { head: "forward", quantity: of_ours(&FORWARD), unit: Unit::Share },
        Column { head: "proxy", quantity: of_ours(&PROXY), unit: Unit::Share },
        Column { head: "run", quantity: of_ours(&RUN), unit: Unit::Share },
        Column { head: "tunnel", quantity: of_ours(&TUNNEL), unit: Unit::Share },
        Column { head: "iperf3 by forward", quantity: of_ours(&FORWARD_IPERF3), unit: Unit::Share },
        Column { head: "by run", quantity: of_ours(&RUN_IPERF3), unit: Unit::Share },
        Column { head: "by tunnel", quantity: of_ours(&TUNNEL_IPERF3), unit: Unit::Share },
        Column { head: "curl by proxy", quantity: of_ours(&PROXY_CURL), unit: Unit::Share },
        Column { head: "iperf3 by proxy", quantity: of_ours(&PROXY_IPERF3), unit: Unit::Share },
        Column { head: "ssh -D", quantity: SSH, unit: Unit::Megabits },
        Column { head: "TCP", quantity: goodput("tcp-cubic"), unit: Unit::Megabits },
        Column { head: "multipath TCP", quantity: MPTCP_CUBIC, unit: Unit::Megabits },
        Column { head: "with BBR", quantity: MPTCP_BBR, unit: Unit::Megabits },
    ],
    claims: &[
        not_below("forward of manyway", of_ours(&FORWARD), SHARE),
        not_below("proxy of manyway", of_ours(&PROXY), SHARE),
        not_below("run of manyway", of_ours(&RUN), SHARE),
        not_below("tunnel of manyway", of_ours(&TUNNEL), SHARE),
        not_below("iperf3 by forward of manyway", of_ours(&FORWARD_IPERF3), SHARE),
        not_below("iperf3 by run of manyway", of_ours(&RUN_IPERF3), SHARE),
        not_below("iperf3 by tunnel of manyway", of_ours(&TUNNEL_IPERF3), SHARE),
        not_below("curl by proxy of manyway", of_ours(&PROXY_CURL), SHARE),
        not_below("iperf3 by proxy of manyway", of_ours(&PROXY_IPERF3), SHARE),
        not_below("proxy of ssh -D", Quantity::Ratio(&PROXY, &SSH), 1.0),
        not_below("run of multipath TCP", Quantity::Ratio(&RUN, &MPTCP_CUBIC), 1.0),
        not_below("run of multipath TCP with BBR", Quantity::Ratio(&RUN, &MPTCP_BBR), 1.0),
    ],
    ..BOTH
};

pub(super) static SEVERAL: Experiment = Experiment {
    name: "programs-flows",
    title: "1 to 16 downloads over TCP at once by run and tunnel, 16 by forward and proxy",
    chosen: "as programs-tcp; all flows together, as a share of what a stream of Manyway brings in the same run; the rates \
             are those of the second half, since the flows do not end together: the sockets of the programs hold \
             megabytes each",
    values: LINKS,
    rows: || WORLDS.map(|values| Row::new(values, []).quick().during("all send", 0.0, 1.0)).to_vec(),
    kernel: &[
        "manyway",
        "run",
        "run:flows=2",
        "run:flows=4",
        "run:flows=8",
        "run:flows=16",
        "tunnel",
        "tunnel:flows=2",
        "tunnel:flows=4",
        "tunnel:flows=8",
        "tunnel:flows=16",
        "forward:flows=16",
        "proxy:flows=16",
    ],
    columns: &[
        Column { head: "manyway", quantity: OURS, unit: Unit::Megabits },
        Column { head: "run: 1", quantity: of_ours(&RUN), unit: Unit::Share },
        Column { head: "2", quantity: of_ours(&RUN_2), unit: Unit::Share },
        Column { head: "4", quantity: of_ours(&RUN_4), unit: Unit::Share },
        Column { head: "8", quantity: of_ours(&RUN_8), unit: Unit::Share },
        Column { head: "16", quantity: of_ours(&RUN_16), unit: Unit::Share },
        Column { head: "tunnel: 1", quantity: of_ours(&TUNNEL), unit: Unit::Share },
        Column { head: "2", quantity: of_ours(&TUNNEL_2), unit: Unit::Share },
        Column { head: "4", quantity: of_ours(&TUNNEL_4), unit: Unit::Share },
        Column { head: "8", quantity: of_ours(&TUNNEL_8), unit: Unit::Share },
        Column { head: "16", quantity: of_ours(&TUNNEL_16), unit: Unit::Share },
        Column { head: "forward: 16", quantity: of_ours(&FORWARD_16), unit: Unit::Share },
        Column { head: "proxy: 16", quantity: of_ours(&PROXY_16), unit: Unit::Share },
    ],
    claims: &[
        not_below("run of manyway, 1 flow", of_ours(&RUN), SHARE),
        not_below("2 flows", of_ours(&RUN_2), SHARE),
        not_below("4 flows", of_ours(&RUN_4), SHARE),
        not_below("8 flows", of_ours(&RUN_8), SHARE),
        not_below("16 flows", of_ours(&RUN_16), SHARE),
        not_below("tunnel of manyway, 1 flow", of_ours(&TUNNEL), SHARE),
        not_below("2 flows", of_ours(&TUNNEL_2), SHARE),
        not_below("4 flows", of_ours(&TUNNEL_4), SHARE),
        not_below("8 flows", of_ours(&TUNNEL_8), SHARE),
        not_below("16 flows", of_ours(&TUNNEL_16), SHARE),
        not_below("forward of manyway, 16 flows", of_ours(&FORWARD_16), SHARE),
        not_below("proxy of manyway, 16 flows", of_ours(&PROXY_16), SHARE),
    ],
    ..BOTH
};

const BOTH: Experiment = Experiment {
    name: "",
    title: "",
    source: "the project's goals",
    found: "",
    chosen: "",
    values: &[],
    rows: Vec::new,
    template,
    // Virtual time has no programs.
    contenders: &[],
    kernel: &[],
    alone: Alone::Not,
    columns: &[],
    claims: &[],
    traces: &[],
    curves: None,
};

/// The least share of what the transport itself brings.
const SHARE: f64 = 0.95;

const OURS: Quantity = goodput("manyway");
const FORWARD: Quantity = goodput("forward");
const PROXY: Quantity = goodput("proxy");
const RUN: Quantity = goodput("run");
const RUN_2: Quantity = goodput("run:flows=2");
const RUN_4: Quantity = goodput("run:flows=4");
const RUN_8: Quantity = goodput("run:flows=8");
const RUN_16: Quantity = goodput("run:flows=16");
const TUNNEL: Quantity = goodput("tunnel");
const TUNNEL_2: Quantity = goodput("tunnel:flows=2");
const TUNNEL_4: Quantity = goodput("tunnel:flows=4");
const TUNNEL_8: Quantity = goodput("tunnel:flows=8");
const TUNNEL_16: Quantity = goodput("tunnel:flows=16");
const FORWARD_16: Quantity = goodput("forward:flows=16");
const PROXY_16: Quantity = goodput("proxy:flows=16");
const FORWARD_IPERF3: Quantity = goodput("forward:program=iperf3");
const RUN_IPERF3: Quantity = goodput("run:program=iperf3");
const TUNNEL_IPERF3: Quantity = goodput("tunnel:program=iperf3");
const PROXY_CURL: Quantity = goodput("proxy:program=curl");
/// By proxychains, since it knows no proxy.
const PROXY_IPERF3: Quantity = goodput("proxy:program=iperf3");
const SSH: Quantity = goodput("ssh");
const MPTCP_CUBIC: Quantity = goodput("mptcp-cubic");
const MPTCP_BBR: Quantity = goodput("mptcp-bbr");

pub(super) const fn goodput(name: &'static str) -> Quantity {
    Quantity::Ours(name, Measure::Goodput)
}

const fn of_ours(quantity: &'static Quantity) -> Quantity {
    Quantity::Ratio(quantity, &OURS)
}

const fn not_below(what: &'static str, quantity: Quantity, limit: f64) -> Claim {
    Claim { what, quantity, bound: Bound::AtLeast(limit), unit: Unit::Share, applies: everywhere }
}

/// The values of a pair of links.
pub(super) const LINKS: &[&str] = &["Mbit/s", "ms", "and Mbit/s", "and ms", "loss %"];

/// Equal links, a fast one beside a slow one, a near one beside a far one, Wi-Fi with loss beside LTE.
pub(super) const WORLDS: [[f64; 5]; 4] = [
    [100.0, 25.0, 100.0, 25.0, 0.0],
    [300.0, 10.0, 80.0, 30.0, 0.0],
    [50.0, 10.0, 50.0, 100.0, 0.0],
    [30.0, 15.0, 20.0, 60.0, 1.0],
];

pub(super) fn template(values: &[f64]) -> String {
    format!("duration = '15s'\n{}[[traffic]]\nbulk = 'down'\n", links(values))
}

/// Two links of so many Mbit/s and ms each, and the loss of the first in percent.
pub(super) fn links(values: &[f64]) -> String {
    let [rate, rtt, other_rate, other_rtt, loss, ..] = values else { return String::new() };
    let link = |name: &str, rate: &f64, rtt: &f64| {
        format!("[links.{name}]\nrate = '{rate}Mbit'\nrtt = '{rtt}ms'\nqueue = '100ms'\n")
    };
    let loss = if *loss > 0.0 { format!("loss = '{loss}%'\n") } else { String::new() };
    format!("{}{loss}{}", link("first", rate, rtt), link("second", other_rate, other_rtt))
}
