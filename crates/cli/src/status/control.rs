//! Requests between commands of a user, over the sockets at which they publish their state.

use manyway::{Connection, PathInfo};
use serde::{Deserialize, Serialize};

use super::state::SharedState;

/// A request: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Name of the interface, or the local address, whose path is to be the primary one.
    pub primary: String,
}

/// The answer of a command: one line of JSON among its documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Its process ID.
    pub pid: u32,
    /// Its verb.
    pub verb: String,
    /// The outcome for each of its connections.
    pub answer: Vec<Outcome>,
}

/// The outcome for a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the peer, if it has one.
    pub peer: Option<String>,
    /// The scheduler of this end.
    pub scheduler: String,
    /// The path that is the primary one from now on.
    pub path: Option<u32>,
    /// Why nothing changed.
    pub error: Option<String>,
}

/// Carries out a request for every connection of this command.
#[cfg(unix)]
pub(super) async fn carry_out(state: &SharedState, request: &Request) -> Answer {
    let (verb, connections) = state.connections();
    let mut answer = Vec::new();
    for (peer, connection) in connections {
        answer.extend(make_primary(peer, &connection, &request.primary).await);
    }
    Answer { pid: std::process::id(), verb: verb.to_owned(), answer }
}

/// Makes the path over `place` the primary one; `None` if the connection has ended.
#[cfg(unix)]
async fn make_primary(peer: Option<String>, connection: &Connection, place: &str) -> Option<Outcome> {
    let info = connection.info().await.ok()?;
    let scheduler = info.statistics.scheduler.to_owned();
    let choice = choose(&scheduler, &info.paths, place);
    if let Ok(path) = &choice {
        connection.path(path.statistics.id).make_primary();
    }
    let (path, error) = match choice {
        Ok(path) => (Some(path.statistics.id.0), None),
        Err(error) => (None, Some(error)),
    };
    Some(Outcome { peer, scheduler, path, error })
}

/// The path to make primary: of several over `place` one that works.
#[cfg(unix)]
fn choose<'a>(scheduler: &str, paths: &'a [PathInfo], place: &str) -> Result<&'a PathInfo, String> {
    if scheduler != "primary" {
        return Err(format!(
            "the scheduler {scheduler} has no primary path; start the command with --scheduler primary"
        ));
    }
    path_over(paths, place).ok_or_else(|| {
        let mut names: Vec<_> =
            paths.iter().map(|path| path.interface.clone().unwrap_or_else(|| local(path))).collect();
        names.dedup();
        let known = if names.is_empty() {
            "none is open".to_owned()
        } else {
            format!("its paths go over {}", names.join(", "))
        };
        format!("no path over {place}; {known}")
    })
}

/// The path over an interface or a local address: of several one that works.
pub fn path_over<'a>(paths: &'a [PathInfo], place: &str) -> Option<&'a PathInfo> {
    let lies_there = |path: &&PathInfo| path.interface.as_deref() == Some(place) || local(path) == place;
    let works = |path: &&&PathInfo| path.statistics.state.carries_data();
    let there: Vec<_> = paths.iter().filter(lies_there).collect();
    there.iter().find(works).or_else(|| there.first()).copied()
}

/// The local address of a path, as the user writes it.
fn local(path: &PathInfo) -> String {
    path.statistics.tuple.local.address.ip().to_canonical().to_string()
}
