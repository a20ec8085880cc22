//! From the options of the command line to an endpoint and a connection.

use std::time::Duration;

use manyway::interfaces::{AddressFamily, InterfacePolicy};
use manyway::{Connection, ConnectionConfig, Endpoint, EndpointOptions, Host, HostPort, Locals, Ticket};

use super::error::CommandError;
use super::signal::until_interrupted;
use crate::args::GlobalArgs;

/// How often a quiet path is asked while a command runs.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What both ends of a connection of this program speak.
const APPLICATION: &[u8] = b"manyway/1";

/// The settings of every connection of a command.
///
/// # Errors
/// A name that does not exist, or a value out of its range.
pub fn connection_config(global: &GlobalArgs) -> Result<ConnectionConfig, CommandError> {
    let mut config = ConnectionConfig::default();
    config.application = APPLICATION.to_vec();
    config.keep_alive = Some(KEEP_ALIVE);
    config.connect_timeout = global.connect_timeout;
    if let Some(name) = &global.scheduler {
        config.set_scheduler(name).map_err(CommandError::usage)?;
    }
    if let Some(name) = &global.congestion {
        config.set_congestion(name).map_err(CommandError::usage)?;
    }
    config.validate().map_err(CommandError::usage)?;
    Ok(config)
}

/// Which interfaces the options allow.
///
/// # Errors
/// A name that no interface can have.
pub fn interface_policy(global: &GlobalArgs) -> Result<InterfacePolicy, CommandError> {
    let mut policy = InterfacePolicy::new();
    for rule in &global.interfaces {
        policy = policy.with(rule.clone());
    }
    for name in &global.exclude {
        policy = policy.without(name.parse().map_err(CommandError::usage)?);
    }
    if global.ipv4 {
        policy = policy.only(AddressFamily::V4);
    } else if global.ipv6 {
        policy = policy.only(AddressFamily::V6);
    }
    Ok(policy)
}

/// The settings of a client's endpoint.
///
/// # Errors
/// As [`connection_config`] and [`interface_policy`].
pub fn client_options(global: &GlobalArgs) -> Result<EndpointOptions, CommandError> {
    let mut options = EndpointOptions::default();
    options.connection = connection_config(global)?;
    options.locals = Locals::Interfaces(interface_policy(global)?);
    Ok(options)
}

/// As [`connect_on`], to the ports that the server names.
///
/// # Errors
/// As [`connect_on`].
pub async fn connect(global: &GlobalArgs, server: &str) -> Result<(Endpoint, Connection), CommandError> {
    connect_on(global, server, None).await
}

/// Connects to the server that the command line names: a ticket. A port replaces those of the server's addresses.
///
/// # Errors
/// If the ticket can not be used, the server is not reached or is not the ticket's, or the user has had enough.
pub async fn connect_on(
    global: &GlobalArgs,
    server: &str,
    port: Option<u16>,
) -> Result<(Endpoint, Connection), CommandError> {
    let ticket = parse_ticket(server)?;
    let mut options = client_options(global)?;
    options.connection.peer_port = port;
    let endpoint = Endpoint::bind(options)?;
    let at_port = |host: &HostPort| HostPort::new(host.host().clone(), port.unwrap_or_else(|| host.port()));
    let hosts: Vec<HostPort> =
        ticket.hosts().iter().filter(|host| fits_family(global, host)).map(at_port).collect();
    if hosts.is_empty() {
        let family = if global.ipv4 { "IPv4" } else { "IPv6" };
        return Err(CommandError::usage(format!("the ticket has no {family} address; leave out -4 or -6")));
    }
    let ticket =
        Ticket::new(*ticket.server_key_hash(), *ticket.secret(), hosts).map_err(CommandError::usage)?;
    let connection = until_interrupted(async { Ok(endpoint.connect(&ticket).await?) }).await?;
    Ok((endpoint, connection))
}

fn parse_ticket(text: &str) -> Result<Ticket, CommandError> {
    text.parse::<Ticket>()
        .map_err(|error| CommandError::usage(format!("the ticket can not be used: {error}")))
}

/// Whether `-4` and `-6` allow an address; a name may have either.
fn fits_family(global: &GlobalArgs, host: &HostPort) -> bool {
    match host.host() {
        Host::Ip(ip) => !(global.ipv4 && ip.is_ipv6() || global.ipv6 && ip.is_ipv4()),
        Host::Name(_) => true,
    }
}
