//! `manyway rendezvous`: a meeting point for peers whose addresses both change.

use std::net::SocketAddr;

use manyway::{ForwardLimits, RelayCounters, RendezvousServer};
use manyway_terminal::{CommandError, json, note};
use serde_json::json;

use super::advice::firewall_of;
use super::error::of_listen;
use super::signal::interrupted;
use crate::args::{GlobalArgs, RendezvousArgs};
use crate::output::opening::Opening;
use crate::output::{address, count, units};
use crate::serving::notify::{Notice, tell};

/// Serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// If a port can not be bound, or standard output is closed.
pub async fn run(global: &GlobalArgs, arguments: &RendezvousArgs) -> Result<(), CommandError> {
    let mut server =
        RendezvousServer::bind(&arguments.listen, arguments.limits()).map_err(|error| of_listen(&error))?;
    let stop = interrupted();
    announce(global, arguments, &server)?;
    tell(Notice::Ready);
    let signal = tokio::select! {
        ended = server.run() => return Ok(ended?),
        signal = stop => signal,
    };
    tell(Notice::Stopping);
    finish(global, &server, signal.name())
}

fn announce(
    global: &GlobalArgs,
    arguments: &RendezvousArgs,
    server: &RendezvousServer,
) -> Result<(), CommandError> {
    let addresses = server.local_addresses();
    let listening: Vec<_> = addresses.iter().copied().map(address).collect();
    if global.json {
        let tcp: Vec<_> = server.tcp_addresses().into_iter().map(address).collect();
        json::print(&json!({ "listening": listening, "tcp": tcp, "relay": arguments.relay }))?;
    }
    let port = addresses.first().map_or(manyway::DEFAULT_PORT, SocketAddr::port);
    let relay = arguments.limits().forwarding;
    let lacks_tcp = server.tcp_addresses().len() < addresses.len();
    let warnings = [
        (!global.cap_rules().is_empty())
            .then_some("warning: caps do not hold for a rendezvous server, which counts nothing"),
        lacks_tcp
            .then_some("warning: a TCP port is taken: hosts whose network blocks UDP cannot use this server"),
    ];
    opening(&listening, (port, relay), warnings).print(global.quiet)
}

fn opening(
    listening: &[String],
    (port, relay): (u16, Option<ForwardLimits>),
    warnings: [Option<&str>; 2],
) -> Opening {
    let warned = warnings.into_iter().fold(Opening::default(), Opening::message_if_some);
    warned
        .message(format!("rendezvous on UDP and TCP {}", listening.join(", ")))
        .message_if_some(relay.map(|limits| {
            format!(
                "relay for {} pairs, each at most {}, {} and {}",
                limits.pairs,
                units::volume(limits.bytes.get()),
                limits.rate,
                units::duration(limits.time)
            )
        }))
        .message(firewall_of(port, true, None))
        .message("On a server: `manyway serve --rendezvous HOST:PORT`, with the name of this host")
}

fn finish(global: &GlobalArgs, server: &RendezvousServer, name: &str) -> Result<(), CommandError> {
    let counters = server.counters();
    if global.json {
        json::print(&json!({
            "connections": server.tokens(),
            "answered": counters.answered,
            "matched": counters.matched,
            "retried": counters.retried,
            "refused": counters.refused,
            "evicted": counters.evicted,
            "limited": counters.limited,
            "forwarded": counters.forwarded,
            "forwarded_bytes": counters.forwarded_bytes,
        }))?;
    }
    if !global.quiet {
        note(&ending(name, server.tokens(), &counters));
    }
    Ok(())
}

fn ending(name: &str, connections: usize, counters: &RelayCounters) -> String {
    let relayed = match counters.forwarded_bytes {
        0 => String::new(),
        bytes => format!(", {} relayed", units::size(bytes)),
    };
    format!(
        "{name}: {} known, {}, {} matched, {}{relayed}",
        count(connections, "connection"),
        count(counters.answered, "query"),
        counters.matched,
        count(counters.refused, "invalid datagram")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::opening::tests::message;

    #[test]
    fn the_screen_of_a_meeting_point_fits_every_terminal() {
        let listening = ["0.0.0.0:4455", "[::]:4455"].map(str::to_owned);
        let mut counters = RelayCounters::default();
        (counters.answered, counters.matched, counters.refused) = (312, 40, 1);
        counters.forwarded_bytes = 1_234_567;
        let warnings =
            [Some("warning: caps do not hold for a rendezvous server, which counts nothing"), None];
        for width in [80, 120] {
            let screen = opening(&listening, (4455, Some(ForwardLimits::default())), warnings).screen(width);
            let ending = message(&ending("SIGTERM", 21, &counters), width);
            insta::assert_snapshot!(format!("rendezvous_{width}"), format!("{screen}\n{ending}"));
        }
    }
}
