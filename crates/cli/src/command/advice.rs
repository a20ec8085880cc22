//! Prints advice about the system of this host.

use std::net::SocketAddr;

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
pub fn tell_firewall(endpoint: &Endpoint) {
    note(&firewall(endpoint));
}

/// How to let clients through a firewall of this host.
pub fn firewall(endpoint: &Endpoint) -> String {
    let port = |address: SocketAddr| address.port();
    let udp = endpoint.local_addresses().first().map_or(manyway::DEFAULT_PORT, |local| port(local.address));
    let (what, rule) = if endpoint.tcp_addresses().is_empty() {
        ("UDP", "udp dport")
    } else {
        ("UDP and TCP", "meta l4proto { tcp, udp } th dport")
    };
    format!(
        "If a firewall is on, open {what} {udp}, for example:\n  nft add rule inet filter input {rule} {udp} accept"
    )
}
