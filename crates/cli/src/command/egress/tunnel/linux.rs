//! `manyway tunnel` on Linux.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_capture::{
    Connections, LARGEST_MTU, PROBE, RESOLVER, TUNNEL_DEVICE, TUNNEL_MARK, Tun, Tunnel, TunnelConfig,
};
use manyway_terminal::{CommandError, ExitCode, json, note};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use super::super::super::direction::Direction;
use super::super::super::signal::interrupted;
use super::super::bond::EgressBond;
use super::super::captured::{datagrams, relay};
use super::super::listening::{PAUSE, reset};
use crate::args::{DnsSource, GlobalArgs, TunnelArgs};

pub(super) async fn run(global: &GlobalArgs, arguments: &TunnelArgs) -> Result<ExitCode, CommandError> {
    let (mut tunnel, connections, tun) = Tunnel::open(config(arguments)).map_err(CommandError::failed)?;
    let global = &marked(global);
    Direction::Both.tell_what_decides(global);
    let bond = Arc::new(EgressBond::start(global, &arguments.server).await?);
    let served = serve(global, arguments, &mut tunnel, (&connections, Arc::new(tun)), &bond).await;
    // First the machine has its own routes again.
    drop(tunnel);
    bond.bond().end("the client is stopping").await;
    served
}

/// The transport's own packets are marked, so that they stay out of the tunnel.
fn marked(global: &GlobalArgs) -> GlobalArgs {
    let mut global = global.clone();
    global.mark = Some(TUNNEL_MARK);
    global
}

fn config(arguments: &TunnelArgs) -> TunnelConfig {
    let mut config = TunnelConfig::default();
    config.mtu = LARGEST_MTU;
    if !arguments.routes.is_empty() {
        config.routes.clone_from(&arguments.routes);
    }
    config.bypass.clone_from(&arguments.bypass);
    config.resolves_names = arguments.dns == DnsSource::Server;
    config
}

async fn serve(
    global: &GlobalArgs,
    arguments: &TunnelArgs,
    tunnel: &mut Tunnel,
    (connections, tun): (&Connections, Arc<Tun>),
    bond: &Arc<EgressBond>,
) -> Result<ExitCode, CommandError> {
    tunnel.take_over().map_err(CommandError::failed)?;
    test_itself(connections).await?;
    announce(global)?;
    let mut relays = JoinSet::new();
    let mut looks = interval(LOOK);
    let (rest, kept, stop) = (datagrams(&tun, bond), bond.bond().keep(), interrupted());
    tokio::pin!(rest, kept, stop);
    loop {
        tokio::select! {
            accepted = connections.accept(), if relays.len() < MOST => match accepted {
                Ok((socket, destination)) => {
                    relays.spawn(relay(Arc::clone(bond), socket, of_program(arguments, destination)));
                }
                Err(error) => {
                    tracing::warn!(reason = %error, "a connection was not taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = relays.join_next() => {}
            _ = looks.tick() => match tunnel.restore() {
                Ok(false) => {}
                Ok(true) => bond.say("the routes of the tunnel were removed by another program, and set again"),
                Err(error) if !tunnel.is_there() => {
                    return Err(CommandError::failed(format!("the device of the tunnel is gone: {error}")));
                }
                Err(error) => tracing::warn!(reason = %error, "a route of the tunnel was not set again yet"),
            },
            never = &mut rest => match never {},
            error = &mut kept => return Err(error),
            signal = &mut stop => {
                if !global.quiet {
                    note(&format!("{}: closing", signal.name()));
                }
                return Ok(ExitCode::Ok);
            }
        }
    }
}

/// Queries for names arrive here whatever name server they are for, if they are redirected.
fn of_program(arguments: &TunnelArgs, destination: SocketAddr) -> SocketAddr {
    let is_query = arguments.dns == DnsSource::Server && destination.port() == DNS;
    if is_query { SocketAddr::from((RESOLVER, DNS)) } else { destination }
}

/// Connects to an address that exists in the tunnel alone: what this host's own firewall drops would be missed in silence.
async fn test_itself(connections: &Connections) -> Result<(), CommandError> {
    let probe = SocketAddr::from((PROBE, PROBE_PORT));
    let arrived = async {
        loop {
            match connections.accept().await {
                Ok((_, destination)) if destination == probe => return,
                // The program may try again.
                Ok((socket, _)) => reset(socket),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    let both = async { tokio::join!(TcpStream::connect(probe), arrived) };
    match timeout(TEST, both).await {
        Ok(_) => Ok(()),
        Err(_) => Err(CommandError::failed(
            "connections of this machine do not arrive in the tunnel: its firewall has to accept TCP from and to the \
             addresses 127.0.0.1 and 198.18.0.1 (see `nft list ruleset`)",
        )),
    }
}

fn announce(global: &GlobalArgs) -> Result<(), CommandError> {
    if global.json {
        return Ok(json::print(&json!({ "tunnel": TUNNEL_DEVICE }))?);
    }
    if !global.quiet {
        note(&format!("the traffic of this machine goes by {TUNNEL_DEVICE} until Ctrl-C"));
    }
    Ok(())
}

/// Connections at the same time; more wait.
const MOST: usize = 4096;
/// How often routes and rules are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a connection of the machine to itself may take.
const TEST: Duration = Duration::from_secs(3);
const PROBE_PORT: u16 = 9;
/// Port of DNS.
const DNS: u16 = 53;
