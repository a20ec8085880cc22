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

/// How to let clients of an endpoint through a firewall of this host; `tls_port` is its port of TCP within TLS.
pub fn firewall(endpoint: &Endpoint, tls_port: Option<u16>) -> String {
    let port = endpoint.local_addresses().first().map(|local| local.address.port());
    firewall_of(port.unwrap_or(manyway::DEFAULT_PORT), !endpoint.tcp_addresses().is_empty(), tls_port)
}

/// How to let UDP to a port, TCP to the same one, and TCP to another one through a firewall of this host.
pub fn firewall_of(port: u16, has_tcp: bool, tls_port: Option<u16>) -> String {
    let (what, matching) =
        if has_tcp { ("UDP and TCP", "meta l4proto { tcp, udp } th dport") } else { ("UDP", "udp dport") };
    let first = (format!("{what} {port}"), format!("{matching} {port}"));
    let second = tls_port.map(|port| (format!("TCP {port}"), format!("tcp dport {port}")));
    let (ports, matches): (Vec<_>, Vec<_>) = [first].into_iter().chain(second).unzip();
    let rules: String = matches
        .iter()
        .map(|matching| format!("\n  nft add rule inet filter input {matching} accept"))
        .collect();
    format!("If a firewall is on, open {}, for example:{rules}", ports.join(" and "))
}
