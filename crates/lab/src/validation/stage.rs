//! Hosts with links between them, and sockets on both.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use manyway_sim::link::{DelayModel, LinkConfig, QueueConfig, QueueLimit};

use crate::emulator::{Emulator, EmulatorReport};
use crate::hosts::Hosts;
use crate::scenario::{Checksum, Ending, Interface, Link, Route, Scenario, Side};
use crate::{LabError, validation::datagrams};

/// One link between two hosts, and a socket at each end.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) near: UdpSocket,
    pub(super) far: UdpSocket,
    // The links are stopped before the hosts are removed.
    emulator: Emulator,
    _hosts: Hosts,
}

impl Stage {
    /// A symmetric link.
    pub(super) fn with(config: &LinkConfig, seed: u64) -> Result<Self, LabError> {
        let scenario = side_by_side(std::slice::from_ref(config));
        let hosts = Hosts::make(&scenario)?;
        let emulator = Emulator::start(&scenario, &hosts, seed)?;
        let at = |side| {
            let without = || LabError::System("the host has no address".into());
            socket(&hosts, side, hosts.addresses(side, 0).first().copied().ok_or_else(without)?)
        };
        let (near, far) = (at(Side::Client)?, at(Side::Server)?);
        let connect = || {
            near.connect(far.local_addr()?)?;
            far.connect(near.local_addr()?)
        };
        connect().map_err(failed)?;
        Ok(Self { near, far, emulator, _hosts: hosts })
    }

    /// Sends from the client.
    pub(super) fn send(&self, load: datagrams::Load) -> Result<Vec<datagrams::Arrived>, LabError> {
        datagrams::send((&self.near, &self.far), load).map_err(failed)
    }

    /// The figures of the link.
    pub(super) fn finish(self) -> Result<EmulatorReport, LabError> {
        self.emulator.finish()
    }
}

/// A UDP socket on a host, with a large receive buffer.
///
/// # Errors
/// The system refuses it.
pub fn socket(hosts: &Hosts, side: Side, address: IpAddr) -> Result<UdpSocket, LabError> {
    let make = || {
        let socket = UdpSocket::bind(SocketAddr::new(address, 0))?;
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)?;
        Ok(socket)
    };
    hosts.inside(side, make)?.map_err(failed)
}

pub(super) fn failed(error: std::io::Error) -> LabError {
    LabError::Io { doing: "sending over a link".into(), error }
}

/// A scenario with these symmetric links, each between interface n of the client and interface n of the server.
pub fn side_by_side(links: &[LinkConfig]) -> Scenario {
    let interface = |name: String| Interface {
        name,
        addresses: Vec::new(),
        mtu: 1500,
        nat: None,
        cost: 0,
        is_for_others: false,
        tcp_packet: None,
        starts_down: false,
    };
    let places = 0..links.len();
    let link = |(place, config): (usize, &LinkConfig)| Link {
        name: format!("link{place}"),
        up: config.clone(),
        down: config.clone(),
        checksum: Checksum::Stale,
    };
    let route = |place| Route {
        name: format!("near{place}"),
        client: place,
        server: place,
        links: vec![place],
        shares: Vec::new(),
    };
    Scenario {
        name: "links".into(),
        title: "Links side by side".into(),
        group: String::new(),
        source: String::new(),
        duration: Duration::from_secs(15),
        client: places.clone().map(|place| interface(format!("near{place}"))).collect(),
        server: places.clone().map(|place| interface(format!("far{place}"))).collect(),
        links: links.iter().enumerate().map(link).collect(),
        routes: places.map(route).collect(),
        cross_routes: Vec::new(),
        traffic: Vec::new(),
        cross_traffic: Vec::new(),
        events: Vec::new(),
        ending: Ending::Complete,
        damage: None,
    }
}

/// A link without a rate limit.
pub fn open(delay: Duration) -> LinkConfig {
    LinkConfig::default()
        .with_delay(DelayModel::constant(delay))
        .with_queue(QueueConfig::drop_tail(QueueLimit::Unlimited))
}

const BUFFER: usize = 64 << 20;
