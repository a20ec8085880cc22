//! Makes an endpoint and a connection from the options of the command line.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use manyway::congestion;
use manyway::interfaces::{AddressFamily, InterfacePolicy};
use manyway::resolve::Resolver;
use manyway::{
    CarrierChoice, ConnectError, Connection, ConnectionConfig, ConnectionError, Endpoint, EndpointOptions,
    Host, HostPort, Ledger, Locals, StreamConfig, Wire,
};
use manyway_terminal::{CommandError, ExitCode};

use super::error::of_connect;
use super::names::unknown;
use super::paths::reverse_path::advice_for;
use super::short_code::Redeemed;
use super::signal::{close, until_interrupted};
use super::target::{Target, public_name};
use super::{clear, costly, primary};
use crate::args::{GlobalArgs, Memory};
use crate::caps::CapLedger;
use crate::home::Home;

/// Keep-alive interval of a quiet path while a command runs.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Most addresses of rendezvous servers that are used.
const MOST_RENDEZVOUS: usize = 4;
/// The highest path ID where several TCP connections are wanted; a server permits it to any client, since a client that
/// wants fewer paths costs no more by that.
pub const MOST_PATHS: u32 = 31;
/// The application protocol of both ends.
const APPLICATION: &[u8] = b"manyway/1";

/// The settings of every connection of a command.
///
/// # Errors
/// An unknown name, or a value out of its range.
pub fn connection_config(global: &GlobalArgs) -> Result<ConnectionConfig, CommandError> {
    let mut config = global.wire.config();
    if global.memory == Some(Memory::Small) {
        let ConnectionConfig { streams, path_limit, max_datagram, .. } = ConnectionConfig::small();
        (config.streams, config.path_limit, config.max_datagram) = (streams, path_limit, max_datagram);
    } else if global.connections.is_some() {
        // Also for one: a target rate may want more later.
        config.path_limit = MOST_PATHS;
    }
    if let Some(choice) = global.detection {
        config.detection = choice.into();
    }
    config.application = APPLICATION.to_vec();
    config.keep_alive = Some(KEEP_ALIVE);
    config.connect_timeout = global.connect_timeout();
    if let Some(name) = &global.scheduler {
        config.set_scheduler(name).map_err(|error| unknown(error, name, manyway::scheduler::names()))?;
    }
    if let Some(name) = &global.congestion {
        let profiles = congestion::PROFILES.map(|(profile, _)| profile);
        let known = congestion::names().chain(profiles);
        config.set_congestion(name).map_err(|error| unknown(error, name, known))?;
    }
    primary::check(global)?;
    config.pairs = global.pairs.unwrap_or_default();
    if let Some(directory) = &global.qlog {
        let observers = manyway::qlog::directory(directory).map_err(|error| {
            CommandError::new(ExitCode::Failed, format!("{}: {error}", directory.display()))
        })?;
        config.set_observers(observers);
    }
    config.validate().map_err(CommandError::usage)?;
    Ok(config)
}

/// The addresses of the rendezvous servers of the options.
///
/// # Errors
/// If a name has no address.
pub async fn rendezvous(global: &GlobalArgs) -> Result<Vec<SocketAddr>, CommandError> {
    if global.rendezvous.is_empty() {
        return Ok(Vec::new());
    }
    let named = |reason: &dyn Display| CommandError::usage(format!("--rendezvous: {reason}"));
    let resolver = match global.mark {
        Some(mark) => Resolver::marked(mark, interface_policy(global)?),
        None => Resolver::default(),
    };
    let found = resolver.resolve(&global.rendezvous);
    let mut addresses =
        tokio::time::timeout(global.connect_timeout(), until_interrupted(async { Ok(found.await) }))
            .await
            .map_err(|_| named(&"the name server does not answer"))??
            .map_err(|error| named(&error))?;
    addresses.truncate(MOST_RENDEZVOUS);
    Ok(addresses)
}

/// All interfaces but Manyway's own: what a tunnel carries goes over the others, of whatever command it is.
pub fn without_own_tunnels() -> InterfacePolicy {
    let policy = InterfacePolicy::new();
    #[cfg(target_os = "linux")]
    let policy = policy
        .without_own_tunnel(manyway_capture::TUNNEL_DEVICE)
        .without_own_tunnel(manyway_capture::SITE_DEVICE);
    policy
}

/// The interface policy of the options.
///
/// # Errors
/// An invalid interface name.
pub fn interface_policy(global: &GlobalArgs) -> Result<InterfacePolicy, CommandError> {
    let mut policy = without_own_tunnels();
    for rule in &global.interfaces {
        policy = policy.with(rule.rule.clone());
    }
    for name in &global.exclude {
        if is_network(name) {
            return Err(CommandError::usage(format!(
                "{name:?} is not the name of an interface, which --exclude wants; `manyway tunnel --bypass` leaves out a \
                 network"
            )));
        }
        policy = policy.without(name.parse().map_err(CommandError::usage)?);
    }
    if global.ipv4 {
        policy = policy.only(AddressFamily::V4);
    } else if global.ipv6 {
        policy = policy.only(AddressFamily::V6);
    }
    Ok(policy)
}

fn is_network(text: &str) -> bool {
    text.parse::<IpNet>().is_ok() || text.parse::<IpAddr>().is_ok()
}

/// The ledger of the interfaces with a cap; `None` if there are none.
///
/// # Errors
/// If the counts cannot be stored.
pub fn caps(global: &GlobalArgs) -> Result<Option<Arc<CapLedger>>, CommandError> {
    let rules = global.cap_rules();
    if rules.is_empty() {
        return Ok(None);
    }
    let home = Home::find()?;
    let directory = home.usage_directory();
    CapLedger::open(home, rules, global.desk.clone()).map_err(|error| {
        let text =
            format!("what goes over interfaces with a cap is counted in {}: {error}", directory.display());
        CommandError::new(ExitCode::Failed, text)
    })
}

/// As [`caps`], for an endpoint.
///
/// # Errors
/// As [`caps`].
pub fn ledger(global: &GlobalArgs) -> Result<Option<Arc<dyn Ledger>>, CommandError> {
    Ok(caps(global)?.map(|ledger| ledger as Arc<dyn Ledger>))
}

/// # Errors
/// An option is for TCP, which another one leaves out.
pub fn check_carrier(global: &GlobalArgs) -> Result<(), CommandError> {
    if global.carrier == CarrierChoice::Udp && (global.connections.is_some() || global.via.is_some()) {
        return Err(CommandError::usage(
            "--connections and --via are for TCP, and --carrier udp leaves that out",
        ));
    }
    Ok(())
}

/// The settings of a client's endpoint.
///
/// # Errors
/// As [`connection_config`] and [`interface_policy`].
pub fn client_options(global: &GlobalArgs) -> Result<EndpointOptions, CommandError> {
    let mut options = EndpointOptions::default();
    check_carrier(global)?;
    options.connection = connection_config(global)?;
    options.carriers = global.carriers();
    options.key_log = true;
    options.ledger = ledger(global)?;
    options.locals = Locals::Interfaces(interface_policy(global)?);
    options.mark = global.mark;
    Ok(options)
}

/// As [`connect_on`], to the ports of the server's addresses, for TCP connections of other programs.
///
/// # Errors
/// As [`connect_on`].
pub async fn connect(global: &GlobalArgs, server: &str) -> Result<(Endpoint, Connection), CommandError> {
    connect_with(global, server, (None, None), limit_first_windows).await
}

/// Lets at most 256 KiB of a stream wait at each end until its reader has taken more than half of a window within two round
/// trips.
pub fn limit_first_windows(streams: &mut StreamConfig) {
    // Without a reader, a window and a queue of three eighths of it arrive. That makes the send buffer grow to 2.75 times
    // its size at most; beside it is a queue of half of it.
    const FIRST: u64 = 76 << 10;
    streams.stream_receive_window = streams.stream_receive_window.min(FIRST);
    streams.send_buffer = streams.send_buffer.min(FIRST);
}

/// Connects to the server of the command line: by a ticket, by its name in `manyway keys list servers`, or by
/// `HOST[:PORT]`. A port replaces those of the server's addresses.
///
/// # Errors
/// If the server is not reached, cannot authenticate, or is not trusted; or the user interrupted.
pub async fn connect_on(
    global: &GlobalArgs,
    server: &str,
    port: Option<u16>,
) -> Result<(Endpoint, Connection), CommandError> {
    connect_by(global, server, port, None).await
}

/// As [`connect_on`]; if the server is the sender of a code, that lets the packets of this host in.
///
/// # Errors
/// As [`connect_on`].
pub async fn connect_by(
    global: &GlobalArgs,
    server: &str,
    port: Option<u16>,
    redeemed: Option<&Redeemed>,
) -> Result<(Endpoint, Connection), CommandError> {
    connect_with(global, server, (port, redeemed), |_| ()).await
}

async fn connect_with(
    global: &GlobalArgs,
    server: &str,
    (port, redeemed): (Option<u16>, Option<&Redeemed>),
    adjust: fn(&mut StreamConfig),
) -> Result<(Endpoint, Connection), CommandError> {
    if global.wire == Wire::Mmsp1 {
        return connect_in_clear(global, server, port).await;
    }
    let target = Target::find(global, server)?;
    let hosts = usable_hosts(global, target.hosts(), port)?;
    let (trust, client) = target.credentials()?;
    let mut options = client_options(global)?;
    options.connection.peer_port = port;
    adjust(&mut options.connection.streams);
    options.connection.rendezvous = rendezvous(global).await?;
    let endpoint = Endpoint::bind(options).map_err(CommandError::failed)?;
    let attempt = async {
        let connected = match redeemed {
            Some(redeemed) => redeemed.connect(&endpoint, &hosts).await,
            None => endpoint.connect_to(&hosts, trust, &client).await,
        };
        connected.map_err(|error| {
            let timed_out = matches!(error, ConnectError::Failed(ConnectionError::ConnectTimeout));
            let explained = target.explain(error);
            if timed_out { with_reverse_path(global, &hosts, explained) } else { explained }
        })
    };
    let connection = match until_interrupted(attempt).await {
        Ok(connection) => connection,
        Err(error) => {
            // Traffic counts even if the attempt failed.
            close(&endpoint, "the client gave up").await;
            return Err(error);
        }
    };
    if let Err(error) = until_interrupted(target.check(global, &connection)).await {
        close(&endpoint, "the server is not trusted").await;
        return Err(error);
    }
    costly::attend(global, &connection);
    primary::attend(global, &connection);
    global.board.add(public_name(server), &connection);
    Ok((endpoint, connection))
}

/// Connects to a server over MMSP/1. Neither end authenticates, and no secret of this host is read.
///
/// # Errors
/// If the server is named by a ticket, or is not reached; or the user interrupted.
async fn connect_in_clear(
    global: &GlobalArgs,
    server: &str,
    port: Option<u16>,
) -> Result<(Endpoint, Connection), CommandError> {
    let hosts = usable_hosts(global, &clear::hosts_of(server)?, port)?;
    let mut options = client_options(global)?;
    options.connection.peer_port = port;
    options.key_log = false;
    let endpoint = Endpoint::bind(options).map_err(CommandError::failed)?;
    let attempt = async {
        let connected = endpoint.connect_mmsp1(&hosts).await;
        connected.map_err(|error| {
            let timed_out = matches!(error, ConnectError::Failed(ConnectionError::ConnectTimeout));
            let told = of_connect(error);
            if timed_out { with_reverse_path(global, &hosts, clear::no_answer(told)) } else { told }
        })
    };
    match until_interrupted(attempt).await {
        Ok(connection) => {
            costly::attend(global, &connection);
            primary::attend(global, &connection);
            global.board.add(public_name(server), &connection);
            Ok((endpoint, connection))
        }
        Err(error) => {
            close(&endpoint, "the client gave up").await;
            Err(error)
        }
    }
}

/// Those of a server's addresses that `-4` and `-6` allow, at this port if one is named.
///
/// # Errors
/// None is left.
fn usable_hosts(
    global: &GlobalArgs,
    hosts: &[HostPort],
    port: Option<u16>,
) -> Result<Vec<HostPort>, CommandError> {
    let at_port = |host: &HostPort| host.clone().with_port(port.unwrap_or_else(|| host.port()));
    let hosts: Vec<HostPort> = hosts.iter().filter(|host| fits_family(global, host)).map(at_port).collect();
    if hosts.is_empty() {
        let family = if global.ipv4 { "IPv4" } else { "IPv6" };
        return Err(CommandError::usage(format!("the server has no {family} address; leave out -4 or -6")));
    }
    Ok(hosts)
}

/// Adds the host's own reverse-path filter as a possible cause of the missing answer.
fn with_reverse_path(global: &GlobalArgs, hosts: &[HostPort], error: CommandError) -> CommandError {
    let address = |host: &HostPort| manyway::resolve::socket_address(host).ok();
    let peers: Vec<_> = hosts.iter().filter_map(address).collect();
    let commands = interface_policy(global).map(|policy| advice_for(&policy, &peers)).unwrap_or_default();
    if commands.is_empty() {
        return error;
    }
    let text = format!(
        "{error}; or this host drops the answers, since strict reverse-path filtering is on: {}",
        commands.join(", ")
    );
    CommandError { text, ..error }
}

/// Whether `-4` and `-6` allow an address; a name may have either.
fn fits_family(global: &GlobalArgs, host: &HostPort) -> bool {
    match host.host() {
        Host::Ip(ip) => !(global.ipv4 && ip.is_ipv6() || global.ipv6 && ip.is_ipv4()),
        Host::Name(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use manyway::Detection;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn a_network_that_is_excluded_as_an_interface_is_answered_with_the_option_for_networks() {
        for network in ["10.1.0.0/16", "203.0.113.9", "fd00::/8"] {
            let cli = Cli::try_parse_from(["manyway", "tunnel", "mw1x", "--exclude", network]).unwrap();
            let error = interface_policy(&cli.global).unwrap_err();
            assert!(error.code == ExitCode::Usage && error.text.contains("--bypass"), "{error}");
        }
        let cli = Cli::try_parse_from(["manyway", "tunnel", "mw1x", "--exclude", "eth0.7"]).unwrap();
        assert!(interface_policy(&cli.global).is_ok());
    }

    #[test]
    fn little_memory_is_selected_by_a_word() {
        let streams = |arguments: &[&str]| {
            let cli = Cli::try_parse_from([&["manyway", "paths"], arguments].concat()).unwrap();
            let config = connection_config(&cli.global).unwrap();
            (config.streams, config.path_limit)
        };
        assert_eq!(streams(&[]).0, StreamConfig::default());
        assert_eq!(streams(&["--memory", "auto"]), streams(&[]));
        assert_eq!(streams(&["--memory", "small"]), (StreamConfig::small(), 3));
    }

    #[test]
    fn over_mmsp1_the_defaults_are_those_of_the_thesis_and_options_replace_them() {
        let config = |arguments: &[&str]| {
            let cli = Cli::try_parse_from([&["manyway", "paths", "host"], arguments].concat()).unwrap();
            connection_config(&cli.global).unwrap()
        };
        let thesis = config(&["--wire", "mmsp1"]);
        assert_eq!(thesis.detection, Detection::Probes);
        let small = config(&["--wire", "mmsp1", "--memory", "small", "--detection", "fast"]);
        assert_eq!((small.detection, small.streams), (Detection::Fast, StreamConfig::small()));
        assert_eq!(config(&[]).detection, ConnectionConfig::default().detection);
    }
}
