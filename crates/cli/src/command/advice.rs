//! What the system of this host keeps from a transfer.

use manyway::{Advice, Endpoint};

use crate::args::GlobalArgs;
use crate::output::note;

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
