//! Starts a server: what it listens on, and what its clients are told.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use manyway_proto::{
    EndpointConfig, LocalAddress, LocalCandidate, Mmsp1Server, Role, ServerConfig, identity,
};

use super::connections::Connections;
use super::group::Group;
use super::sockets::Sockets;
use super::start::Listening;
use super::tcp::TcpStreams;
use crate::DEFAULT_PORT;
use crate::carriers::CarrierChoice;
use crate::error::BindFailure;
use crate::interfaces::Snapshot;
use crate::interfaces::reachable::reachable_addresses;
use crate::key_log::KeyLog;
use crate::options::{EndpointOptions, check_ports};
use crate::tcp::Camouflage;
use crate::udp::BindError;

/// Ports that are tried for one that is free for UDP and TCP.
const PORTS_TRIED: usize = 16;

/// What a server is started with.
pub(super) struct Serving<'a> {
    pub(super) options: &'a EndpointOptions,
    pub(super) key_log: &'a KeyLog,
    pub(super) snapshot: &'a Snapshot,
    pub(super) sockets: &'a mut Sockets,
    pub(super) tcp: &'a mut TcpStreams,
    pub(super) connections: &'a mut Connections,
    pub(super) group: &'a Group,
    /// Where the first driver of the endpoint listens, unless this is the first.
    pub(super) first: Option<&'a Listening>,
}

impl Serving<'_> {
    /// Listens, if the options say so. Returns the settings of the protocol machine, and whether the server advertises
    /// the addresses of its interfaces by itself.
    pub(super) fn start(self) -> Result<(EndpointConfig, bool), BindFailure> {
        let EndpointOptions { connection, server, mmsp1, reset_key, carriers, .. } = self.options;
        let mut config = EndpointConfig::default();
        config.reset_key = *reset_key;
        config.shard = self.group.shard();
        config.placer = self.group.placer();
        self.sockets.share_ports(config.shard);
        let of_mmsp1 = mmsp1.as_ref().map(|mmsp1| (&mmsp1.listen, &mmsp1.advertise));
        let addresses = server.as_ref().map(|server| (&server.listen, &server.advertise)).or(of_mmsp1);
        let Some((listen_on, advertise)) = addresses else { return Ok((config, false)) };
        if mmsp1.is_some() {
            check_ports(listen_on).map_err(BindFailure::Config)?;
            self.sockets.use_one_port();
        }
        // The first driver accepts TCP connections for all.
        let accepts_tcp = self.first.is_none() && server.is_some() && carriers.choice != CarrierChoice::Udp;
        let mut listen_on = listen_on.clone();
        if let Some(first) = self.first {
            listen_on = first.udp.iter().map(|local| local.address).collect();
        } else if accepts_tcp && mmsp1.is_none() {
            listen_on.iter_mut().for_each(choose_port);
        }
        listen(self.sockets, &listen_on).map_err(BindFailure::Socket)?;
        let listening = self.sockets.listening();
        if accepts_tcp {
            accept_tcp(self.tcp, &listening, carriers.choice)?;
            if let Some(port) = carriers.listen_tls {
                accept_tls(self.tcp, &listening, port)?;
            }
        }
        let candidate = |address| LocalCandidate { address, role: Role::Primary };
        self.connections.listening = listening.iter().copied().map(candidate).collect();
        let mut advertised = advertise.clone();
        if advertise.is_empty() {
            advertised = reachable_addresses(&listening, self.snapshot);
            advertised.truncate(8);
            self.connections.advertised = Some(advertised.clone());
        }
        if let Some(server) = server {
            config.ids = server.ids;
            self.connections.authoriser = Some(Arc::clone(&server.authoriser));
            let mut connection = connection.clone();
            connection.advertised.clone_from(&advertised);
            let authoriser = || Arc::clone(&server.authoriser);
            config.server = Some(ServerConfig {
                tls: self.key_log.server(identity::server_config(&server.identity, authoriser())),
                certificate: server.certificate.as_ref().map(|certificate| {
                    self.key_log.server(identity::certificate_config(certificate, authoriser()))
                }),
                connection: Arc::new(connection),
            });
        }
        config.mmsp1 = mmsp1.as_ref().map(|mmsp1| {
            let mut connection = mmsp1.connection.clone();
            connection.advertised = advertised;
            Mmsp1Server { connection: Arc::new(connection), from: mmsp1.from.clone() }
        });
        Ok((config, advertise.is_empty()))
    }
}

/// Replaces port 0 with one that is free for UDP and for TCP: the system alone chooses one that is free for UDP.
fn choose_port(address: &mut SocketAddr) {
    if address.port() != 0 {
        return;
    }
    let wanted = *address;
    let free = || {
        let tcp = std::net::TcpListener::bind(wanted).ok()?;
        let chosen = tcp.local_addr().ok()?;
        std::net::UdpSocket::bind(chosen).ok().map(|_| chosen)
    };
    if let Some(chosen) = std::iter::repeat_with(free).take(PORTS_TRIED).flatten().next() {
        *address = chosen;
    }
}

/// Accepts TCP connections where UDP is listened on. A server that is to use TCP alone must be able to.
fn accept_tcp(
    tcp: &mut TcpStreams,
    listening: &[LocalAddress],
    choice: CarrierChoice,
) -> Result<(), BindFailure> {
    for local in listening {
        match tcp.listen(local.address) {
            Ok(()) => {}
            Err(source) if choice == CarrierChoice::Tcp => {
                return Err(BindFailure::Tcp { address: local.address, source });
            }
            Err(error) => {
                tracing::warn!(address = %local.address, %error, "no TCP here: clients whose UDP is blocked can not connect");
            }
        }
    }
    Ok(())
}

/// Accepts TCP connections with TLS at a port of each address where UDP is listened on.
fn accept_tls(tcp: &mut TcpStreams, listening: &[LocalAddress], port: u16) -> Result<(), BindFailure> {
    let acceptor = Camouflage::acceptor();
    for local in listening {
        let address = SocketAddr::new(local.address.ip(), port);
        let listened = acceptor.as_ref().map_err(|error| io::Error::other(error.to_string()));
        let listened = listened.and_then(|acceptor| tcp.listen_tls(address, acceptor.clone()));
        listened.map_err(|source| BindFailure::Tcp { address, source })?;
    }
    Ok(())
}

/// Listens on `addresses`; if empty, on the default port of each family that this host supports.
fn listen(sockets: &mut Sockets, addresses: &[SocketAddr]) -> Result<(), BindError> {
    if addresses.is_empty() {
        let (v4, v6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
        return listen_where_possible(sockets, [v4, v6].map(|ip| SocketAddr::new(ip, DEFAULT_PORT)));
    }
    addresses.iter().try_for_each(|address| sockets.listen(*address))
}

/// Listens on those of `addresses` that this host supports; fails if that is none.
fn listen_where_possible<const N: usize>(
    sockets: &mut Sockets,
    addresses: [SocketAddr; N],
) -> Result<(), BindError> {
    let mut missing = None;
    for address in addresses {
        match sockets.listen(address) {
            Err(error) if is_missing(&error.source) => {
                tracing::info!(%address, %error, "not listening");
                missing = missing.or(Some(error));
            }
            result => result?,
        }
    }
    missing.filter(|_| sockets.listening().is_empty()).map_or(Ok(()), Err)
}

/// Whether this host lacks that address, or even its family.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    let no_family = if cfg!(any(target_os = "linux", target_os = "android")) {
        97
    } else if cfg!(windows) {
        10047
    } else {
        47
    };
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(no_family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_port_is_free_for_both_carriers() {
        for _ in 0..64 {
            let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            choose_port(&mut address);
            assert_ne!(address.port(), 0);
        }
        let mut given = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
        choose_port(&mut given);
        assert_eq!(given.port(), 7);
    }

    #[tokio::test]
    async fn a_family_that_the_host_lacks_does_not_keep_a_server_from_the_other() {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // Reserved for documentation: no host has it.
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 0));
        let mut sockets = Sockets::default();
        listen_where_possible(&mut sockets, [here, elsewhere]).unwrap();
        assert_eq!(sockets.listening().len(), 1);
        let error = listen_where_possible(&mut Sockets::default(), [elsewhere]).unwrap_err();
        assert_eq!(error.local.address, elsewhere);
        listen(&mut Sockets::default(), &[here, elsewhere]).unwrap_err();
    }
}
