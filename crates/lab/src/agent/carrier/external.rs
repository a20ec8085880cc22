//! An external program: written data goes to the input of its sender, read data comes from the output of its receiver.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{empty, sink};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::child::Running;
use crate::agent::document::{Assignment, End, ExternalSpec};
use crate::agent::lane::{Lane, Reading, Writing};

/// The programs of an end: a receiver for each exchange that it receives, a sender for each that it sends.
pub(in crate::agent) struct External {
    spec: ExternalSpec,
    receivers: Vec<Option<Running>>,
    senders: Vec<Option<Running>>,
}

impl External {
    /// Starts the receivers.
    pub(super) fn listen(assignment: &Assignment, spec: &ExternalSpec) -> Result<Self, String> {
        let mut external = Self { spec: spec.clone(), receivers: Vec::new(), senders: Vec::new() };
        for (number, exchange) in (0..).zip(&assignment.exchanges) {
            let receiver = exchange.receives(assignment.end).then(|| {
                let port = port(number, assignment.end);
                Running::start("receiver", &external.command(&spec.receiver, assignment.end, port))
            });
            external.receivers.push(receiver.transpose()?);
        }
        Ok(external)
    }

    /// Starts the senders, once the receivers listen.
    pub(super) async fn connect(&mut self, assignment: &Assignment) -> Result<Vec<Vec<Lane>>, String> {
        for (number, exchange) in (0..).zip(&assignment.exchanges) {
            let sender = if exchange.sends(assignment.end) {
                let port = port(number, other(assignment.end));
                Some(Running::start("sender", &self.command(&self.spec.sender, assignment.end, port))?)
            } else {
                None
            };
            self.senders.push(sender);
        }
        // A program that cannot run exits soon.
        let deadline = Instant::now() + SETTLE;
        while Instant::now() < deadline {
            if let Some(ended) = self.find_ended().await {
                return Err(ended);
            }
            sleep(LOOK).await;
        }
        let pairs = self.receivers.iter_mut().zip(&mut self.senders);
        let lanes = pairs.map(|(receiver, sender)| {
            let output = receiver.as_mut().and_then(Running::stdout);
            let input = sender.as_mut().and_then(Running::stdin);
            vec![Lane {
                read: Reading::Bytes(
                    output.map_or_else(|| Box::new(empty()) as _, |output| Box::new(output) as _),
                ),
                write: Writing::Bytes(
                    input.map_or_else(|| Box::new(sink()) as _, |input| Box::new(input) as _),
                ),
            }]
        });
        Ok(lanes.collect())
    }

    /// Ends all programs; returns the failure of one that failed by itself.
    pub(super) async fn end(&mut self) -> Option<String> {
        let mut failure = None;
        // All senders at the same time, then all receivers, which end after them.
        for programs in [&mut self.senders, &mut self.receivers] {
            let mut ends: JoinSet<_> =
                programs.drain(..).flatten().map(|program| program.end(PATIENCE)).collect();
            while let Some(ended) = ends.join_next().await {
                let ended = ended.unwrap_or_else(|error| Some(error.to_string()));
                failure = failure.or(ended);
            }
        }
        failure
    }

    /// Waits until the receivers listen, as far as that is visible.
    pub(super) async fn listening(&mut self, assignment: &Assignment) -> Result<(), String> {
        let deadline = Instant::now() + LISTENING;
        let ports: Vec<u16> = (0..)
            .zip(&assignment.exchanges)
            .filter(|(_, exchange)| exchange.receives(assignment.end))
            .map(|(number, _)| port(number, assignment.end))
            .collect();
        while Instant::now() < deadline && !ports.iter().all(|port| is_bound(*port)) {
            if let Some(ended) = self.find_ended().await {
                return Err(ended);
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Reports a program that has ended.
    async fn find_ended(&mut self) -> Option<String> {
        for program in self.programs() {
            let ended = program.ended().await;
            if ended.is_some() {
                return ended;
            }
        }
        None
    }

    fn programs(&mut self) -> impl Iterator<Item = &mut Running> {
        self.receivers.iter_mut().chain(&mut self.senders).flatten()
    }

    /// The command with its placeholders replaced.
    fn command(&self, template: &str, end: End, port: u16) -> String {
        let mine = |pair: &crate::agent::document::Pair| match end {
            End::Client => (pair.client, pair.server),
            End::Server => (pair.server, pair.client),
        };
        let routes: Vec<(IpAddr, IpAddr)> = self.spec.routes.iter().map(mine).collect();
        let locals = distinct(routes.iter().map(|(local, _)| *local));
        let remotes = distinct(routes.iter().map(|(_, remote)| *remote));
        let routes: Vec<String> = routes.iter().map(|(local, remote)| format!("{local}>{remote}")).collect();
        let first = |all: &[String]| all.first().cloned().unwrap_or_default();
        template
            .replace("{locals}", &locals.join(","))
            .replace("{remotes}", &remotes.join(","))
            .replace("{local}", &first(&locals))
            .replace("{remote}", &first(&remotes))
            .replace("{routes}", &routes.join(","))
            .replace("{port}", &port.to_string())
    }
}

/// Each once, in order of first appearance.
fn distinct(addresses: impl Iterator<Item = IpAddr>) -> Vec<String> {
    let mut all = Vec::new();
    for address in addresses.map(|address| address.to_string()) {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// The port of an exchange at its receiver: one for each direction.
fn port(number: u16, receiver: End) -> u16 {
    let direction = match receiver {
        End::Client => 1,
        End::Server => 0,
    };
    FIRST_PORT + 2 * number + direction
}

fn other(end: End) -> End {
    match end {
        End::Client => End::Server,
        End::Server => End::Client,
    }
}

/// Whether a TCP or UDP socket of this namespace is bound to a port.
fn is_bound(port: u16) -> bool {
    let mark = format!(":{port:04X}");
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
        let table = fs::read_to_string(format!("/proc/self/net/{table}")).unwrap_or_default();
        let mut locals = table.lines().filter_map(|line| line.split_whitespace().nth(1));
        locals.any(|local| local.ends_with(&mark))
    })
}

/// Free in a new network namespace.
const FIRST_PORT: u16 = 47_000;
/// Time for a receiver to listen; one that uses neither TCP nor UDP gets all of it.
const LISTENING: Duration = Duration::from_secs(2);
/// Time for a sender to connect before the start.
const SETTLE: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(10);
/// Time for a program to end after its input has ended.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::document::Pair;

    #[test]
    fn placeholders_stand_for_the_addresses_of_either_end() {
        let pair = |client: &str, server: &str| Pair {
            client: client.parse().unwrap(),
            server: server.parse().unwrap(),
        };
        let routes = vec![pair("10.0.0.1", "10.9.0.1"), pair("10.0.1.1", "10.9.0.1")];
        let external = External {
            spec: ExternalSpec { routes, ..ExternalSpec::default() },
            receivers: Vec::new(),
            senders: Vec::new(),
        };
        let template = "{local} {remote} {locals} {remotes} {routes} {port}";
        assert_eq!(
            external.command(template, End::Client, 5),
            "10.0.0.1 10.9.0.1 10.0.0.1,10.0.1.1 10.9.0.1 10.0.0.1>10.9.0.1,10.0.1.1>10.9.0.1 5"
        );
        assert_eq!(
            external.command(template, End::Server, 5),
            "10.9.0.1 10.0.0.1 10.9.0.1 10.0.0.1,10.0.1.1 10.9.0.1>10.0.0.1,10.9.0.1>10.0.1.1 5"
        );
    }
}
