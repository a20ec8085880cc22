//! `manyway forward`: local ports of TCP and UDP that are connected through the server, and ports at the server.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use manyway_egress::{Destination, FlowKind};
use manyway_terminal::{CommandError, ExitCode, json};
use serde_json::json;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

use super::super::direction::Direction;
use super::bond::EgressBond;
use super::flows::{FlowSink, Flows, Outgoing};
use super::listening::{carry, listen, listen_udp, reset, run as run_ports, serve, serve_udp};
use super::remote::Remote;
use crate::args::{ForwardArgs, ForwardRule, GlobalArgs, Protocol};
use crate::output::address;
use crate::output::opening::Opening;
use crate::serving::open_files::raise_limit;

/// Forwards until Ctrl-C or SIGTERM.
///
/// # Errors
/// A port is taken, the server is not reached, or it refuses.
pub async fn run(global: &GlobalArgs, arguments: &ForwardArgs) -> Result<ExitCode, CommandError> {
    // Each program, and each peer of a port at the server, has a socket here.
    raise_limit();
    let mut ports = Vec::new();
    for rule in &arguments.local {
        ports.push(Port::open(rule).await?);
    }
    Direction::Both.tell_what_decides(global);
    let bond = Arc::new(EgressBond::start(global, &arguments.server).await?);
    let remote = Remote::start(&bond, &arguments.remote).await?;
    let at_server: Vec<_> = arguments
        .remote
        .iter()
        .zip(remote.addresses())
        .map(|(rule, listen)| ForwardRule { listen, ..rule.clone() })
        .collect();
    let here = ports.iter().map(|port| (Side::Here, &port.rule));
    let rules: Vec<_> = here.chain(at_server.iter().map(|rule| (Side::Server, rule))).collect();
    announce(global, &rules)?;
    let mut work = JoinSet::new();
    if !at_server.is_empty() {
        work.spawn(remote.serve(Arc::clone(&bond)));
    }
    for port in ports {
        work.spawn(port.serve(Arc::clone(&bond)));
    }
    run_ports(global, bond.bond(), work).await
}

/// A port that programs connect to.
struct Port {
    socket: Socket,
    /// With the port that the system chose.
    rule: ForwardRule,
}

enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Port {
    async fn open(rule: &ForwardRule) -> Result<Self, CommandError> {
        let (socket, listen) = match rule.protocol {
            Protocol::Tcp => {
                let listener = listen("-L", rule.listen).await?;
                let address = listener.local_addr()?;
                (Socket::Tcp(listener), address)
            }
            Protocol::Udp => {
                let socket = listen_udp("-L", rule.listen).await?;
                let address = socket.local_addr()?;
                (Socket::Udp(socket), address)
            }
        };
        Ok(Self { socket, rule: ForwardRule { listen, ..rule.clone() } })
    }

    async fn serve(self, bond: Arc<EgressBond>) {
        let destination = self.rule.destination;
        match self.socket {
            Socket::Tcp(listener) => {
                let destination = Arc::new(destination);
                serve(listener, move |socket| {
                    let (bond, destination) = (Arc::clone(&bond), Arc::clone(&destination));
                    async move {
                        match bond.connect(&destination).await {
                            Ok(opened) => carry(socket, opened).await,
                            Err(_) => reset(socket),
                        }
                    }
                })
                .await;
            }
            Socket::Udp(socket) => {
                let socket = Arc::new(socket);
                let flows = Flows::new(bond, FlowKind::Udp, UdpPort(Arc::clone(&socket)));
                serve_udp(socket, |program, payload| {
                    let payload = Bytes::copy_from_slice(payload);
                    flows.pass(program, Outgoing { destination: destination.clone(), payload, dscp: None });
                })
                .await;
            }
        }
    }
}

/// Answers programs from the port that they sent to.
struct UdpPort(Arc<UdpSocket>);

impl FlowSink for UdpPort {
    fn deliver(&self, program: SocketAddr, _: &Destination, payload: &[u8]) {
        // A program that does not read loses datagrams, as on any network.
        let _ = self.0.try_send_to(payload, program);
    }
}

/// One line a port to standard output, the rest to standard error.
fn announce(global: &GlobalArgs, rules: &[(Side, &ForwardRule)]) -> Result<(), CommandError> {
    if global.json {
        let ports: Vec<_> = rules
            .iter()
            .map(|(side, rule)| {
                json!({
                    "side": side.name(),
                    "listening": address(rule.listen),
                    "destination": rule.destination.to_string(),
                    "protocol": rule.protocol.name(),
                })
            })
            .collect();
        return Ok(json::print(&json!({ "forwards": ports }))?);
    }
    opening(rules).print(global.quiet)
}

fn opening(rules: &[(Side, &ForwardRule)]) -> Opening {
    let lines = rules.iter().map(|(side, rule)| match side {
        Side::Here => rule.to_string(),
        Side::Server => format!("{} {rule}", side.name()),
    });
    lines.fold(Opening::default(), Opening::data).message("forwarding until Ctrl-C")
}

/// Where programs connect to a port.
#[derive(Debug, Clone, Copy)]
enum Side {
    Here,
    Server,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Server => "server",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_of_forwarded_ports_fit_every_terminal() {
        let rule = |text: &str| text.parse::<ForwardRule>().unwrap();
        let (web, names, back) = (
            rule("8080:intranet.example.org:80"),
            rule("5353:192.0.2.53:53/udp"),
            rule("0.0.0.0:2222:127.0.0.1:22"),
        );
        let rules = [(Side::Here, &web), (Side::Here, &names), (Side::Server, &back)];
        for width in [80, 120] {
            insta::assert_snapshot!(format!("forward_{width}"), opening(&rules).screen(width));
        }
    }
}
