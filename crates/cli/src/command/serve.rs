//! `manyway serve`: one server for all verbs.

use std::net::SocketAddr;

use manyway::interfaces::InterfaceWatcher;
use manyway::{
    Connection, Endpoint, EndpointOptions, Host, HostPort, Identity, ServerOptions, Ticket,
    reachable_addresses,
};
use manyway_transfer::{Access, Server, ServerConfig};
use serde_json::json;

use super::error::CommandError;
use super::network::connection_config;
use super::session::NetSession;
use super::signal::{close, interrupted};
use crate::args::{GlobalArgs, ServeArgs};
use crate::output::json;

/// Serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// If the directory can not be served or a port not be bound.
pub async fn run(global: &GlobalArgs, arguments: &ServeArgs) -> Result<(), CommandError> {
    refuse_options_of_clients(global)?;
    let mut config = ServerConfig::default();
    config.application = concat!("manyway ", env!("CARGO_PKG_VERSION")).to_owned();
    if arguments.read_only {
        config.access = Access::ReadOnly;
    }
    let server = Server::new(&arguments.dir, config).map_err(|error| {
        CommandError::new(crate::exit_code::ExitCode::Failed, format!("{}: {error}", arguments.dir.display()))
    })?;
    let advertised = advertised(arguments).await?;
    let (identity, secret) = (Identity::from_seed(&random()?), random()?);
    let mut options = EndpointOptions::default();
    options.connection = connection_config(global)?;
    let mut server_options = ServerOptions::new(identity.clone(), &secret);
    server_options.listen.clone_from(&arguments.listen);
    server_options.advertise = advertised.addresses;
    options.server = Some(server_options);
    let endpoint = Endpoint::bind(options)?;
    let hosts = if advertised.hosts.is_empty() { own_hosts(&endpoint)? } else { advertised.hosts };
    let ticket = Ticket::new(identity.public_key().hash(), secret, hosts).map_err(CommandError::usage)?;
    announce(global, arguments, &endpoint, &ticket)?;
    accept(global, &endpoint, &server).await;
    close(&endpoint, "the server is stopping").await;
    Ok(())
}

fn refuse_options_of_clients(global: &GlobalArgs) -> Result<(), CommandError> {
    if global.interfaces.is_empty() && global.exclude.is_empty() && !global.ipv4 && !global.ipv6 {
        return Ok(());
    }
    Err(CommandError::usage(
        "a server does not choose interfaces, its clients do; leave out -I, --exclude, -4 and -6, and use --listen \
         ADDR:PORT to serve on some addresses only",
    ))
}

async fn accept(global: &GlobalArgs, endpoint: &Endpoint, server: &Server) {
    let stop = interrupted();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            name = &mut stop => {
                if !global.quiet {
                    note(&format!("{name}: closing"));
                }
                return;
            }
            connection = endpoint.accept() => {
                let Some(connection) = connection else { return };
                let server = server.clone();
                tokio::spawn(async move { answer(&server, connection).await });
            }
        }
    }
}

async fn answer(server: &Server, connection: Connection) {
    let from = match connection.info().await {
        Ok(info) => {
            info.paths.first().map(|path| path.statistics.tuple.remote.to_string()).unwrap_or_default()
        }
        Err(_) => return,
    };
    tracing::info!(%from, "client");
    let session = NetSession(connection);
    server.run(&session).await;
    let end = session.0.closed().await;
    tracing::info!(%from, %end, "client gone");
}

/// What `--advertise` names.
#[derive(Debug, Default)]
struct Advertised {
    hosts: Vec<HostPort>,
    addresses: Vec<SocketAddr>,
}

async fn advertised(arguments: &ServeArgs) -> Result<Advertised, CommandError> {
    let mut hosts = Vec::new();
    for text in &arguments.advertise {
        hosts.push(text.parse::<HostPort>().map_err(CommandError::usage)?);
    }
    if hosts.is_empty() {
        return Ok(Advertised::default());
    }
    let mut addresses = manyway::resolve::resolve(&hosts).await.map_err(CommandError::usage)?;
    addresses.truncate(8);
    Ok(Advertised { hosts, addresses })
}

/// Every address at which another host may reach this server, as far as a ticket holds.
pub(super) fn own_hosts(endpoint: &Endpoint) -> Result<Vec<HostPort>, CommandError> {
    let watcher = InterfaceWatcher::new()?;
    let mut addresses = reachable_addresses(endpoint.local_addresses(), watcher.snapshot());
    addresses.truncate(Ticket::MAX_HOSTS);
    Ok(addresses.into_iter().map(HostPort::from).collect())
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], CommandError> {
    let mut bytes = [0; N];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).map_err(|_| {
        CommandError::new(crate::exit_code::ExitCode::Failed, "the system gives no random numbers")
    })?;
    Ok(bytes)
}

/// The ticket to standard output, everything else to standard error.
fn announce(
    global: &GlobalArgs,
    arguments: &ServeArgs,
    endpoint: &Endpoint,
    ticket: &Ticket,
) -> Result<(), CommandError> {
    let listening: Vec<_> =
        endpoint.local_addresses().iter().map(|local| local.address.to_string()).collect();
    if global.json {
        json::print(&json!({ "ticket": ticket.to_string(), "listening": listening }))?;
        return Ok(());
    }
    if ticket.hosts().iter().all(|host| matches!(host.host(), Host::Ip(ip) if ip.is_loopback()))
        && endpoint.local_addresses().iter().any(|local| local.address.ip().is_unspecified())
    {
        note(
            "warning: no interface has an address now, so the ticket works on this host only; start again once one has",
        );
    }
    if !global.quiet {
        let access = if arguments.read_only { "for reading" } else { "for reading and writing" };
        note(&format!("serving {} {access} on UDP {}", arguments.dir.display(), listening.join(", ")));
        let port =
            endpoint.local_addresses().first().map_or(manyway::DEFAULT_PORT, |local| local.address.port());
        note(&format!(
            "a firewall must let UDP port {port} in, for example: nft add rule inet filter input udp dport {port} accept"
        ));
        note("whoever has this ticket may connect, until this server ends:");
    }
    print_ticket(ticket)?;
    if !global.quiet {
        note("on the other side: manyway send FILE… TICKET, manyway get TICKET PATH…, manyway bench TICKET");
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "this is what the user is told")]
fn note(text: &str) {
    eprintln!("{text}");
}

fn print_ticket(ticket: &Ticket) -> Result<(), CommandError> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{ticket}")?;
    out.flush()?;
    Ok(())
}
