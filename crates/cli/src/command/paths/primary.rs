//! `manyway paths --primary`: changes the primary path of connections that other commands have.

use manyway_terminal::CommandError;
#[cfg(unix)]
use manyway_terminal::{json, print_line};
#[cfg(unix)]
use serde_json::{Value, json};

use crate::args::GlobalArgs;
#[cfg(unix)]
use crate::status::{Answer, Outcome, Request, reader};

/// Makes the path over `place`, an interface or a local address, the primary one of every connection of this user's
/// commands, or of the command with this process ID.
///
/// # Errors
/// No connection has such a path and a scheduler with a primary one: the text has the reason for each.
#[cfg(unix)]
pub(super) async fn run(global: &GlobalArgs, place: &str, pid: Option<u32>) -> Result<(), CommandError> {
    let reading = reader::ask(&Request { primary: place.to_owned() }, pid).await;
    let rows = || {
        reading.answers.iter().flat_map(|answer| answer.answer.iter().map(move |outcome| (answer, outcome)))
    };
    let json: Vec<_> = rows().map(|(answer, outcome)| row_json(answer, outcome)).collect();
    let document = json!({ "primary": place, "connections": json });
    if rows().any(|(_, outcome)| outcome.path.is_some()) {
        if global.json {
            json::print(&document)?;
            return Ok(());
        }
        let changed = rows().filter_map(|(answer, outcome)| Some((name(answer, outcome), outcome.path?)));
        return changed.filter(|_| !global.quiet).try_for_each(|(name, path)| {
            print_line(&format!("{name}: path {path} is the primary path, as soon as it works"))
        });
    }
    let reason = |(answer, outcome): (&Answer, &Outcome)| {
        format!("{}: {}", name(answer, outcome), outcome.error.as_deref().unwrap_or("nothing changed"))
    };
    let mut reasons: Vec<_> = rows().map(reason).chain(reading.warnings()).collect();
    if reasons.is_empty() {
        let text = "no connection of a running command was found; `manyway status` shows what runs";
        reasons.push(text.to_owned());
    }
    let facts = document.as_object().filter(|_| global.json).cloned().unwrap_or_default();
    Err(CommandError::failed(reasons.join("; ")).with_facts(facts))
}

/// The command and the peer of a connection.
#[cfg(unix)]
fn name(answer: &Answer, outcome: &Outcome) -> String {
    let peer = outcome.peer.as_deref().map(|peer| format!(" to {peer}")).unwrap_or_default();
    format!("{} (process {}){peer}", answer.verb, answer.pid)
}

#[cfg(unix)]
fn row_json(answer: &Answer, outcome: &Outcome) -> Value {
    json!({
        "pid": answer.pid, "verb": answer.verb, "peer": outcome.peer, "scheduler": outcome.scheduler,
        "path": outcome.path, "error": outcome.error,
    })
}

/// # Errors
/// Always: commands are asked over Unix sockets.
#[cfg(not(unix))]
pub(super) async fn run(_: &GlobalArgs, _: &str, _: Option<u32>) -> Result<(), CommandError> {
    Err(CommandError::failed("this system has no Unix sockets, over which commands are asked"))
}
