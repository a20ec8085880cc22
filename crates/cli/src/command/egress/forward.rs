//! `manyway forward`: local ports of TCP and UDP that are connected through the server, and ports at the server.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use manyway_egress::{Destination, FlowKind};
use manyway_terminal::{CommandError, ExitCode, json, note, print_line};
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

/// Forwards until Ctrl-C or SIGTERM.
///
/// # Errors
/// A port is taken, the server is not reached, or it refuses.
pub async fn run(global: &GlobalArgs, arguments: &ForwardArgs) -> Result<ExitCode, CommandError> {
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
    announce(
        global,
        ports.iter().map(|port| ("here", &port.rule)).chain(at_server.iter().map(|rule| ("server", rule))),
    )?;
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
fn announce<'a>(
    global: &GlobalArgs,
    rules: impl Iterator<Item = (&'static str, &'a ForwardRule)>,
) -> Result<(), CommandError> {
    if global.json {
        let ports: Vec<_> = rules
            .map(|(side, rule)| {
                json!({
                    "side": side,
                    "listening": address(rule.listen),
                    "destination": rule.destination.to_string(),
                    "protocol": rule.protocol.name(),
                })
            })
            .collect();
        return Ok(json::print(&json!({ "forwards": ports }))?);
    }
    for (side, rule) in rules {
        let at = if side == "server" { "server " } else { "" };
        print_line(&format!("{at}{rule}"))?;
    }
    if !global.quiet {
        note("forwarding until Ctrl-C");
    }
    Ok(())
}
