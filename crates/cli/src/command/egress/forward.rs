//! `manyway forward`: local TCP ports that are connected through the server.

use std::sync::Arc;

use manyway_terminal::{CommandError, ExitCode, json, note, print_line};
use serde_json::json;
use tokio::task::JoinSet;

use super::super::direction::Direction;
use super::bond::EgressBond;
use super::listening::{carry, listen, reset, run as run_ports, serve};
use crate::args::{ForwardArgs, ForwardRule, GlobalArgs};
use crate::output::address;

/// Forwards until Ctrl-C or SIGTERM.
///
/// # Errors
/// A port is taken, the server is not reached, or it refuses.
pub async fn run(global: &GlobalArgs, arguments: &ForwardArgs) -> Result<ExitCode, CommandError> {
    let mut listeners = Vec::new();
    for rule in &arguments.forwards {
        let listener = listen("-L", rule.listen).await?;
        let rule = ForwardRule { listen: listener.local_addr()?, destination: rule.destination.clone() };
        listeners.push((listener, rule));
    }
    Direction::Both.tell_what_decides(global);
    let bond = Arc::new(EgressBond::start(global, &arguments.server).await?);
    announce(global, listeners.iter().map(|(_, rule)| rule))?;
    let mut ports = JoinSet::new();
    for (listener, rule) in listeners {
        let (bond, destination) = (Arc::clone(&bond), Arc::new(rule.destination));
        ports.spawn(serve(listener, move |socket| {
            let (bond, destination) = (Arc::clone(&bond), Arc::clone(&destination));
            async move {
                match bond.connect(&destination).await {
                    Ok(opened) => carry(socket, opened).await,
                    Err(_) => reset(socket),
                }
            }
        }));
    }
    run_ports(global, bond.bond(), ports).await
}

/// One line a port to standard output, the rest to standard error.
fn announce<'a>(
    global: &GlobalArgs,
    rules: impl Iterator<Item = &'a ForwardRule>,
) -> Result<(), CommandError> {
    if global.json {
        let ports: Vec<_> = rules
            .map(|rule| json!({ "listening": address(rule.listen), "destination": rule.destination.to_string() }))
            .collect();
        return Ok(json::print(&json!({ "forwards": ports }))?);
    }
    for rule in rules {
        print_line(&rule.to_string())?;
    }
    if !global.quiet {
        note("forwarding until Ctrl-C");
    }
    Ok(())
}
