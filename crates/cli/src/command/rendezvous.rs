//! `manyway rendezvous`: a meeting point for peers whose addresses both change.

use std::net::SocketAddr;

use manyway::{RelayLimits, RendezvousServer};
use manyway_terminal::{CommandError, json, note};
use serde_json::json;

use super::advice::firewall_for_udp;
use super::error::of_listen;
use super::signal::interrupted;
use crate::args::{GlobalArgs, RendezvousArgs};
use crate::output::{address, count};
use crate::serving::notify::{Notice, tell};

/// Serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// If a port can not be bound, or standard output is closed.
pub async fn run(global: &GlobalArgs, arguments: &RendezvousArgs) -> Result<(), CommandError> {
    let mut server = RendezvousServer::bind(&arguments.listen, RelayLimits::default())
        .map_err(|error| of_listen(&error))?;
    let stop = interrupted();
    announce(global, &server)?;
    tell(Notice::Ready);
    let signal = tokio::select! {
        ended = server.run() => return Ok(ended?),
        signal = stop => signal,
    };
    tell(Notice::Stopping);
    conclude(global, &server, signal.name())
}

fn announce(global: &GlobalArgs, server: &RendezvousServer) -> Result<(), CommandError> {
    let addresses = server.local_addresses();
    let listening: Vec<_> = addresses.iter().copied().map(address).collect();
    if global.json {
        json::print(&json!({ "listening": listening }))?;
    }
    if !global.quiet {
        if !global.cap_rules().is_empty() {
            note("warning: caps do not hold for a rendezvous server, which counts nothing");
        }
        note(&format!("rendezvous on UDP {}", listening.join(", ")));
        let port = addresses.first().map_or(manyway::DEFAULT_PORT, SocketAddr::port);
        note(&firewall_for_udp(port));
        note("On a server: `manyway serve --rendezvous HOST:PORT`, with the name of this host");
    }
    Ok(())
}

fn conclude(global: &GlobalArgs, server: &RendezvousServer, name: &str) -> Result<(), CommandError> {
    let counters = server.counters();
    if global.json {
        json::print(&json!({
            "connections": server.tokens(),
            "answered": counters.answered,
            "matched": counters.matched,
            "retried": counters.retried,
            "refused": counters.refused,
            "evicted": counters.evicted,
        }))?;
    }
    if !global.quiet {
        note(&format!(
            "{name}: {} known, {}, {} matched, {}",
            count(server.tokens(), "connection"),
            count(counters.answered, "query"),
            counters.matched,
            count(counters.refused, "invalid datagram")
        ));
    }
    Ok(())
}
