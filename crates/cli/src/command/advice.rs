//! Prints advice about the system of this host.

use manyway::{Advice, Endpoint};
use manyway_terminal::note;

use crate::args::GlobalArgs;

/// Prints what limits the rate.
pub fn print(global: &GlobalArgs, endpoint: &Endpoint) {
    of(global, endpoint).iter().for_each(|advice| note(advice));
}

/// The advice about what limits the rate; the log has the rest, and with `-v` this too.
pub fn of(global: &GlobalArgs, endpoint: &Endpoint) -> Vec<String> {
    if global.quiet || global.verbose > 0 {
        return Vec::new();
    }
    let limits = |advice: &Advice| matches!(advice, Advice::ReceiveBuffer { .. } | Advice::SendBuffer { .. });
    endpoint.advice().into_iter().filter(limits).map(|advice| format!("note: {advice}")).collect()
}

/// Prints how to let clients through a firewall of this host.
pub fn tell_firewall(port: Option<u16>) {
    note(&firewall(port));
}

/// How to let clients through a firewall of this host.
pub fn firewall(port: Option<u16>) -> String {
    let port = port.unwrap_or(manyway::DEFAULT_PORT);
    format!(
        "If a firewall is on, open UDP {port}, for example:\n  nft add rule inet filter input udp dport {port} accept"
    )
}
