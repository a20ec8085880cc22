//! What of this machine's settings makes a tunnel fail in silence.

use manyway_terminal::{CommandError, note};

use super::super::super::network::interface_policy;
use super::super::super::paths::reverse_path::advice_towards;
use super::super::bond::EgressBond;
use crate::args::GlobalArgs;

/// Looks for interfaces on which this host drops what the server sends, once the best route to the server is the
/// tunnel's.
pub(super) async fn check_reverse_path(global: &GlobalArgs, bond: &EgressBond) -> Result<(), CommandError> {
    let Some(session) = bond.bond().session().await else { return Ok(()) };
    let Ok(info) = session.0.info().await else { return Ok(()) };
    let peers: Vec<_> = info.paths.iter().map(|path| path.statistics.tuple.remote).collect();
    let advice = advice_towards(&interface_policy(global)?, &peers);
    let commands: Vec<_> = advice.iter().flatten().map(String::as_str).collect();
    if commands.is_empty() {
        return Ok(());
    }
    let text = format!(
        "this host drops the server's packets, since strict reverse-path filtering is on: {}",
        commands.join(", ")
    );
    if commands.len() == advice.len() {
        return Err(CommandError::failed(text));
    }
    note(&text);
    Ok(())
}
