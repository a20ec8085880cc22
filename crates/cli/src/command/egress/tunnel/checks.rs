//! What of this machine's settings makes a tunnel fail in silence.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use manyway_capture::{ADDRESS_V4, ADDRESS_V6, Connections};
use manyway_terminal::{CommandError, note};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::super::network::interface_policy;
use super::super::super::paths::reverse_path::advice_towards;
use super::super::bond::EgressBond;
use super::super::listening::{PAUSE, reset};
use crate::args::GlobalArgs;

/// Looks for interfaces on which this host drops what the server sends, once the best route to the server is the
/// tunnel's.
pub(super) async fn check_reverse_path(global: &GlobalArgs, bond: &EgressBond) -> Result<(), CommandError> {
    let Some(session) = bond.bond().session().await else { return Ok(()) };
    let Ok(info) = session.0.info().await else { return Ok(()) };
    let peers: Vec<_> = info.paths.iter().map(|path| path.statistics.tuple.remote).collect();
    let advice = advice_towards(&interface_policy(global)?, &peers);
    let commands: Vec<_> = advice.iter().flatten().map(String::as_str).collect();
    if commands.is_empty() {
        return Ok(());
    }
    let text = format!(
        "this host drops the server's packets, since strict reverse-path filtering is on: {}",
        commands.join(", ")
    );
    if commands.len() == advice.len() {
        return Err(CommandError::failed(text));
    }
    note(&text);
    Ok(())
}

/// Connects to an address that exists in the tunnel alone: what this host's own firewall drops would be missed in silence.
pub(super) async fn check_redirection(connections: &Connections, probe: IpAddr) -> Result<(), CommandError> {
    let probe = SocketAddr::new(probe, PROBE_PORT);
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
    let connected = async {
        // The kernel needs a moment until it uses a new IPv6 address.
        while TcpStream::connect(probe).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let both = async { tokio::join!(connected, arrived) };
    if timeout(TEST, both).await.is_ok() {
        return Ok(());
    }
    let addresses: [IpAddr; 2] = match probe {
        SocketAddr::V4(_) => [Ipv4Addr::LOCALHOST.into(), ADDRESS_V4.into()],
        SocketAddr::V6(_) => [Ipv6Addr::LOCALHOST.into(), ADDRESS_V6.into()],
    };
    let [loopback, own] = addresses;
    Err(CommandError::failed(format!(
        "connections of this machine do not arrive in the tunnel: its firewall has to accept TCP from and to the \
         addresses {loopback} and {own} (see `nft list ruleset`)"
    )))
}

/// How long a connection of the machine to itself may take.
const TEST: Duration = Duration::from_secs(3);
const PROBE_PORT: u16 = 9;
