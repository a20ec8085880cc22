//! What the system of this host keeps from a transfer.

use manyway::{Advice, Endpoint};

use crate::args::GlobalArgs;

/// Tells what limits the rate, with the command that changes it; the log tells the rest, and with `-v` this too.
#[expect(clippy::print_stderr, reason = "this is what the user is told")]
pub fn print(global: &GlobalArgs, endpoint: &Endpoint) {
    if global.quiet || global.verbose > 0 {
        return;
    }
    for advice in endpoint.advice() {
        if matches!(advice, Advice::ReceiveBuffer { .. } | Advice::SendBuffer { .. }) {
            eprintln!("note: {advice}");
        }
    }
}
