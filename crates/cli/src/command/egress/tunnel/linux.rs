//! `manyway tunnel` on Linux.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use manyway_capture::{
    Connections, KillSwitch, LARGEST_MTU, RESOLVER, TUNNEL_DEVICE, TUNNEL_MARK, Tun, Tunnel, TunnelConfig,
};
use manyway_terminal::signal::Signal;
use manyway_terminal::{CommandError, ExitCode, json, note};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::super::super::direction::Direction;
use super::super::super::signal::{interrupted, until_interrupted};
use super::super::bond::EgressBond;
use super::super::captured::{Incoming, packets, relay};
use super::super::listening::PAUSE;
use super::super::sites::client::{Site, alone};
use super::checks::check_reverse_path;
use super::guard::{Guard, clear};
use super::tcp::TcpEnd;
use crate::args::{DnsSource, GlobalArgs, TunnelArgs};
use crate::output::opening::Opening;
use crate::serving::notify::{Notice, tell};

pub(super) async fn run(global: &GlobalArgs, arguments: &TunnelArgs) -> Result<ExitCode, CommandError> {
    let Some(server) = &arguments.server else { return clear(global) };
    if arguments.site && arguments.routes.is_empty() {
        return alone(global, server, arguments).await.map(|_| ExitCode::Ok);
    }
    let mut guard = None;
    let ended = tunnel(&marked(global), server, arguments, &mut guard).await;
    if let Some(guard) = guard {
        let is_wish = match &ended {
            Ok(signal) => *signal != Signal::HangUp,
            Err(error) => error.code == ExitCode::Interrupted,
        };
        guard.end(is_wish)?;
    }
    ended.map(|_| ExitCode::Ok)
}

/// Tunnels until a signal, and returns it.
async fn tunnel(
    global: &GlobalArgs,
    server: &str,
    arguments: &TunnelArgs,
    guard: &mut Option<Guard>,
) -> Result<Signal, CommandError> {
    let config = config(arguments);
    let (mut tunnel, connections, tun) = Tunnel::open(config.clone()).map_err(CommandError::failed)?;
    if arguments.kill_switch {
        *guard = Some(Guard::engage(&config)?);
    }
    Direction::Both.tell_what_decides(global);
    let bond = Arc::new(EgressBond::start(global, server).await?);
    let served = match join(arguments, &bond).await {
        Ok(site) => {
            let devices = (connections, Arc::new(tun), site);
            serve(global, arguments, (&mut tunnel, guard), devices, &bond).await
        }
        Err(error) => Err(error),
    };
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
    config.lans.clone_from(&arguments.lans);
    config.resolves_names = arguments.dns == DnsSource::Server;
    config
}

/// Joins the network of the server, if that is asked for.
async fn join(arguments: &TunnelArgs, bond: &EgressBond) -> Result<Option<Site>, CommandError> {
    if !arguments.site {
        return Ok(None);
    }
    until_interrupted(Site::join(bond.bond(), &arguments.announce)).await.map(Some)
}

/// Carries packets between sites until that is useless; for ever without.
async fn between_sites(site: Option<Site>, bond: &EgressBond) -> CommandError {
    match site {
        Some(site) => site.carry(bond.bond()).await,
        None => std::future::pending().await,
    }
}

async fn serve(
    global: &GlobalArgs,
    arguments: &TunnelArgs,
    (tunnel, guard): (&mut Tunnel, &mut Option<Guard>),
    (connections, tun, site): (Connections, Arc<Tun>, Option<Site>),
    bond: &Arc<EgressBond>,
) -> Result<Signal, CommandError> {
    let mut relays = JoinSet::new();
    let mut carry = |incoming| carry_one(&mut relays, (arguments, bond), incoming);
    let tcp = until_interrupted(async {
        check_reverse_path(global, bond).await?;
        TcpEnd::take_over(tunnel, connections, &tun, bond, &mut carry).await
    })
    .await?;
    if guard.is_none() {
        // That of a tunnel before this one.
        KillSwitch::lift().map_err(CommandError::failed)?;
    }
    announce(global, arguments, site.as_ref())?;
    let mut looks = interval(LOOK);
    let (rest, kept, stop) = (packets(&tun, bond, tcp.stack()), bond.bond().keep(), interrupted());
    let sites = between_sites(site, bond);
    tokio::pin!(rest, kept, stop, sites);
    loop {
        tokio::select! {
            accepted = tcp.accept(), if relays.len() < MOST => match accepted {
                Ok(incoming) => carry_one(&mut relays, (arguments, bond), incoming),
                Err(error) => {
                    tracing::warn!(reason = %error, "accept failed");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = relays.join_next() => {}
            () = networks_changed(guard.as_mut()) => follow(guard.as_mut()),
            _ = looks.tick() => {
                follow(guard.as_mut());
                look_after(tunnel, bond)?;
            }
            never = &mut rest => match never {},
            error = &mut kept => return Err(error),
            error = &mut sites => return Err(error),
            signal = &mut stop => {
                if !global.quiet {
                    note(&format!("{}: closing", signal.name()));
                }
                return Ok(signal);
            }
        }
    }
}

/// Carries a connection of a program in a task of its own.
fn carry_one(
    relays: &mut JoinSet<()>,
    (arguments, bond): (&TunnelArgs, &Arc<EgressBond>),
    incoming: Incoming,
) {
    let destination = of_program(arguments, incoming.destination());
    relays.spawn(relay(Arc::clone(bond), incoming, destination));
}

/// Puts back what other programs have removed.
fn look_after(tunnel: &Tunnel, bond: &EgressBond) -> Result<(), CommandError> {
    match tunnel.restore() {
        Ok(false) => {}
        Ok(true) => bond.say("the routes of the tunnel were removed by another program, and set again"),
        Err(error) if !tunnel.is_there() => {
            return Err(CommandError::failed(format!("the device of the tunnel is gone: {error}")));
        }
        Err(error) => tracing::warn!(reason = %error, "a route of the tunnel was not set again yet"),
    }
    Ok(())
}

async fn networks_changed(guard: Option<&mut Guard>) {
    match guard {
        Some(guard) => guard.changed().await,
        None => std::future::pending().await,
    }
}

fn follow(guard: Option<&mut Guard>) {
    if let Some(guard) = guard {
        guard.follow();
    }
}

/// Queries for names arrive here whatever name server they are for, if they are redirected.
fn of_program(arguments: &TunnelArgs, destination: SocketAddr) -> SocketAddr {
    let is_query = arguments.dns == DnsSource::Server && destination.port() == DNS;
    if is_query { SocketAddr::from((RESOLVER, DNS)) } else { destination }
}

fn announce(global: &GlobalArgs, arguments: &TunnelArgs, site: Option<&Site>) -> Result<(), CommandError> {
    tell(Notice::Ready);
    if global.json {
        let mut facts = site.map_or_else(|| json!({}), Site::facts);
        if let Value::Object(facts) = &mut facts {
            facts.insert("tunnel".to_owned(), TUNNEL_DEVICE.into());
        }
        return Ok(json::print(&facts)?);
    }
    let of_site = site.map(Site::lines).unwrap_or_default();
    opening(&arguments.routes, &arguments.lans, of_site).print(global.quiet)
}

fn opening(routes: &[IpNet], lans: &[String], of_site: Vec<String>) -> Opening {
    let routes: Vec<_> = routes.iter().map(ToString::to_string).collect();
    let to = if routes.is_empty() { String::new() } else { format!(" to {}", routes.join(", ")) };
    let first = format!("the traffic of this machine{to} goes by {TUNNEL_DEVICE} until Ctrl-C");
    let of_lans = lans.iter().map(|lan| {
        format!(
            "that of hosts behind {lan} does, too; a firewall has to accept their connections (`ct status dnat`), and \
             to forward between {lan} and {TUNNEL_DEVICE}"
        )
    });
    of_lans.chain(of_site).fold(Opening::default().message(first), Opening::message)
}

/// Connections at the same time; more wait.
const MOST: usize = 4096;
/// How often routes and rules are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Port of DNS.
const DNS: u16 = 53;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::egress::sites::client::{not_used, site_lines};
    use crate::command::egress::sites::networks::Unusable;

    #[test]
    fn the_first_lines_of_a_tunnel_fit_every_terminal() {
        let networks =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpNet>>();
        let route = "192.168.0.0/16".parse().unwrap();
        let taken = Unusable::Taken { route, interface: "eth0".to_owned() };
        let of_site = site_lines(
            (&networks(&["10.77.0.2/24"]), &networks(&["10.77.0.0/24", "192.168.9.0/24"])),
            &networks(&["192.168.7.0/24"]),
            &[not_used(&networks(&["192.168.1.0/24"])[0], &taken)],
        );
        for width in [80, 120] {
            let all = opening(&[], &["lan0".to_owned()], Vec::new()).screen(width);
            let some = opening(&networks(&["198.51.100.0/24"]), &[], of_site.clone()).screen(width);
            insta::assert_snapshot!(format!("tunnel_{width}"), format!("{all}\n\n{some}"));
        }
    }
}
