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

/// How to let clients of an endpoint through a firewall of this host.
pub fn firewall(endpoint: &Endpoint) -> String {
    let port = endpoint.local_addresses().first().map(|local| local.address.port());
    let port = port.unwrap_or(manyway::DEFAULT_PORT);
    if endpoint.tcp_addresses().is_empty() {
        return firewall_for_udp(port);
    }
    rule("UDP and TCP", port, "meta l4proto { tcp, udp } th dport")
}

/// How to let UDP to a port through a firewall of this host.
pub fn firewall_for_udp(port: u16) -> String {
    rule("UDP", port, "udp dport")
}

fn rule(what: &str, port: u16, matching: &str) -> String {
    format!(
        "If a firewall is on, open {what} {port}, for example:\n  nft add rule inet filter input {matching} {port} accept"
    )
}
