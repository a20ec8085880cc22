//! Connections and datagrams of other programs through a server: `pipe`, `forward`, `proxy`, `run` and `tunnel`; and
//! whole packets between sites.

pub mod bond;
pub mod forward;
pub mod pipe;
pub mod proxy;
mod remote;
pub mod run;
pub mod tunnel;

#[cfg(target_os = "linux")]
mod captured;
mod flows;
pub(super) mod listening;
#[cfg(target_os = "linux")]
pub(super) mod sites;

use manyway::ConnectionError;
use manyway_egress::{EgressError, Reason};
use manyway_terminal::{CommandError, ExitCode};

use super::error::of_connection;

/// Why a request failed, with the reason of the connection's end.
pub(super) fn explain(error: &EgressError, connection: Option<ConnectionError>) -> CommandError {
    match (error, connection) {
        (EgressError::Refused(refusal), _) => {
            let is_policy =
                matches!(refusal.reason, Reason::NotEnabled | Reason::Forbidden | Reason::TooMany);
            let code = if is_policy { ExitCode::Policy } else { ExitCode::Failed };
            CommandError::new(code, refusal)
        }
        (_, Some(reason)) => of_connection(reason),
        (error, None) => CommandError::new(ExitCode::Failed, error),
    }
}
