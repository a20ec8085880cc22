//! What the system of this host may keep from a connection.

use manyway::{Advice, Endpoint};
use manyway_terminal::note;

use crate::args::GlobalArgs;

/// Tells what limits the rate, with the command that changes it; the log tells the rest, and with `-v` this too.
pub fn print(global: &GlobalArgs, endpoint: &Endpoint) {
    if global.quiet || global.verbose > 0 {
        return;
    }
    for advice in endpoint.advice() {
        if matches!(advice, Advice::ReceiveBuffer { .. } | Advice::SendBuffer { .. }) {
            note(&format!("note: {advice}"));
        }
    }
}

/// Tells how to let clients through a firewall of this host.
pub fn tell_firewall(port: Option<u16>) {
    let port = port.unwrap_or(manyway::DEFAULT_PORT);
    note(&format!(
        "If a firewall is on, open UDP {port}, for example:\n  nft add rule inet filter input udp dport {port} accept"
    ));
}
