//! Look-ups by sockets of our own, which the system's resolver does not let us mark.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::files;
use super::query::Query;
use crate::interfaces::{InterfacePolicy, InterfaceWatcher};
use crate::udp::plain::open;

/// When queries without an answer are sent again, and when they are given up.
const AGAIN: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(3);
/// How long the other family may take once one was answered with an address.
const OTHER_FAMILY: Duration = Duration::from_millis(200);
/// Largest answer without extensions (RFC 1035, 4.2.1) and with some room.
const ANSWER: usize = 1500;

/// The addresses of a name: those in the file of this host, or the first that a name server knows, of which each is
/// asked over each interface.
///
/// # Errors
/// None is found.
pub(super) async fn look_up(name: &str, mark: u32, policy: &InterfacePolicy) -> io::Result<Vec<IpAddr>> {
    let listed = files::hosts(name);
    if !listed.is_empty() {
        return Ok(listed);
    }
    let mut searches = JoinSet::new();
    let watcher = InterfaceWatcher::new()?;
    for server in files::name_servers() {
        for candidate in watcher.usable(policy, &[server]).candidates {
            let queries = Query::of_both_families(name)?;
            let local = candidate.local;
            searches.spawn(async move {
                let socket = open(local, Some(mark))?;
                socket.connect(server).await?;
                ask(&socket, &queries).await
            });
        }
    }
    while let Some(finished) = searches.join_next().await {
        match finished {
            Ok(Ok(found)) if !found.is_empty() => return Ok(found),
            Ok(Err(error)) => tracing::debug!(%error, "query to name server failed"),
            Ok(Ok(_)) | Err(_) => {}
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "no name server knows it"))
}

/// Asks a server for both families.
async fn ask(socket: &UdpSocket, queries: &[Query; 2]) -> io::Result<Vec<IpAddr>> {
    let start = Instant::now();
    let mut until = start + MOST;
    let mut send_at = start;
    let mut answers = [const { None }; 2];
    let mut buffer = [0; ANSWER];
    while Instant::now() < until && answers.iter().any(Option::is_none) {
        if Instant::now() >= send_at {
            send_at += AGAIN;
            for (query, _) in queries.iter().zip(&answers).filter(|(_, answer)| answer.is_none()) {
                socket.send(query.bytes()).await?;
            }
        }
        let Ok(length) = timeout_at(until.min(send_at), socket.recv(&mut buffer)).await else { continue };
        let packet = buffer.get(..length?).unwrap_or_default();
        for (query, answer) in queries.iter().zip(&mut answers).filter(|(_, answer)| answer.is_none()) {
            *answer = query.addresses(packet);
            if answer.as_ref().is_some_and(|found| !found.is_empty()) {
                until = until.min(Instant::now() + OTHER_FAMILY);
            }
        }
    }
    Ok(answers.into_iter().flatten().flatten().collect())
}
