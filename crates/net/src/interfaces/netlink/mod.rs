//! The interfaces as Linux reports them by netlink (rtnetlink(7)).

mod message;
mod neighbours;
mod socket;

use std::collections::BTreeMap;
use std::io;
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;

use self::message::{AddressMessage, LinkMessage, Message, RouteMessage};
pub(super) use self::neighbours::NeighbourSource;
use self::socket::{Dump, NetlinkSocket};
use super::snapshot::{
    AddressState, Interface, InterfaceAddress, InterfaceKind, LinkState, Route, Snapshot, kind_by_name,
};
use super::source::{Hint, InterfaceSource};

/// A host with more routes is an internet router. Then every interface counts as leading everywhere: reading all routes
/// at each change would cost too much.
const MAX_ROUTES: usize = 16 * 1024;

/// Reads links, addresses and routes from the kernel, and subscribes to changes.
#[derive(Debug)]
pub(super) struct NetlinkSource {
    news: AsyncFd<NetlinkSocket>,
    buffer: Vec<u8>,
    /// There are too many routes to read.
    many_routes: bool,
}

impl NetlinkSource {
    /// Subscribes to changes.
    pub(super) fn new() -> io::Result<Self> {
        let news = NetlinkSocket::subscribe(socket::INTERFACES)?;
        Ok(Self { news, buffer: vec![0; socket::BUFFER], many_routes: false })
    }
}

impl InterfaceSource for NetlinkSource {
    fn snapshot(&mut self) -> io::Result<Snapshot> {
        let mut links = Vec::new();
        let mut addresses = Vec::new();
        let mut routes = Vec::new();
        let mut too_many = self.many_routes;
        let mut collect = |message: Message| match message {
            Message::LinkSet(link) => links.push(link),
            Message::AddressSet(address) => addresses.push(address),
            Message::RouteSet(found) if found.is_unicast && !too_many => {
                routes.extend(found.routes());
                too_many = routes.len() > MAX_ROUTES;
            }
            Message::RouteSet(_)
            | Message::LinkGone
            | Message::AddressGone
            | Message::RouteGone
            | Message::NeighbourSet(_)
            | Message::Other => {}
        };
        socket::dump(Dump::Links, &mut self.buffer, &mut collect)?;
        socket::dump(Dump::Addresses, &mut self.buffer, &mut collect)?;
        if !self.many_routes {
            socket::dump(Dump::Routes, &mut self.buffer, &mut collect)?;
        }
        self.many_routes = too_many;
        Ok(assemble(links, addresses, (!too_many).then_some(routes)))
    }

    fn poll_hint(&mut self, context: &mut Context<'_>) -> Poll<Hint> {
        // Without messages the slow poll remains.
        while let Poll::Ready(received) = socket::poll_receive(&self.news, &mut self.buffer, context) {
            // Messages came faster than they were read, and some are lost.
            let Ok(length) = received else { return Poll::Ready(Hint::Lost) };
            let bytes = self.buffer.get(..length).unwrap_or_default();
            if let Some(hint) = hint_of(bytes, self.many_routes) {
                return Poll::Ready(hint);
            }
        }
        Poll::Pending
    }
}

/// The most urgent hint of several messages.
fn hint_of(bytes: &[u8], ignore_routes: bool) -> Option<Hint> {
    let hint = |message: Message| match message {
        Message::LinkSet(link) if link.state() == LinkState::Up => Some(Hint::Gained),
        Message::LinkSet(_) | Message::LinkGone | Message::AddressGone => Some(Hint::Lost),
        Message::AddressSet(_) => Some(Hint::Gained),
        Message::RouteSet(route) => (!ignore_routes && route.is_unicast).then_some(Hint::Gained),
        Message::RouteGone => (!ignore_routes).then_some(Hint::Lost),
        Message::NeighbourSet(_) | Message::Other => None,
    };
    message::messages(bytes).filter_map(|(_, message)| hint(message)).max()
}

fn assemble(links: Vec<LinkMessage>, addresses: Vec<AddressMessage>, routes: Option<Vec<Route>>) -> Snapshot {
    let names: BTreeMap<u32, String> = links.iter().map(|link| (link.index, link.name.clone())).collect();
    let mut interfaces: BTreeMap<u32, Interface> = BTreeMap::new();
    for link in links {
        let interface = Interface {
            state: link.state(),
            kind: kind_of(&link),
            part_of: link.whole(&names),
            mtu: link.mtu,
            ..Interface::new(link.index, link.name)
        };
        interfaces.insert(link.index, interface);
    }
    for message in addresses {
        if let Some(interface) = interfaces.get_mut(&message.interface)
            && let Some(address) = message.address()
        {
            interface.addresses.push(address);
        }
    }
    Snapshot::new(interfaces.into_values().collect(), routes)
}

fn kind_of(link: &LinkMessage) -> InterfaceKind {
    if link.is_loopback() {
        return InterfaceKind::Loopback;
    }
    match link.kind.as_deref() {
        Some("tun") => match kind_by_name(&link.name) {
            Some(tunnel @ InterfaceKind::Tunnel { .. }) => tunnel,
            Some(InterfaceKind::Loopback | InterfaceKind::Ordinary | InterfaceKind::Tun) | None => {
                InterfaceKind::Tun
            }
        },
        Some(
            kind @ ("wireguard" | "amneziawg" | "ovpn" | "ovpn-dco" | "ipip" | "sit" | "gre" | "gretap"
            | "erspan" | "ip6tnl" | "ip6gre" | "ip6gretap" | "ip6erspan" | "vti" | "vti6" | "xfrm"
            | "vxlan" | "geneve" | "bareudp" | "gtp" | "amt" | "batadv" | "macsec" | "nlmon"),
        ) => InterfaceKind::Tunnel { kind: kind.into() },
        Some(_) | None => InterfaceKind::Ordinary,
    }
}

impl LinkMessage {
    fn state(&self) -> LinkState {
        match (self.is_up(), self.is_running()) {
            (false, _) => LinkState::Down,
            (true, false) => LinkState::NoCarrier,
            (true, true) => LinkState::Up,
        }
    }

    /// The bridge or bond that owns this link. A routing domain (VRF) also owns links, but they keep their addresses.
    fn whole(&self, names: &BTreeMap<u32, String>) -> Option<String> {
        let master = self.master?;
        if self.port_kind.as_deref() == Some("vrf") {
            return None;
        }
        Some(names.get(&master).cloned().unwrap_or_else(|| format!("interface {master}")))
    }
}

impl AddressMessage {
    fn address(&self) -> Option<InterfaceAddress> {
        let address = self.local.or(self.address)?;
        let state = if self.is_tentative() {
            AddressState::Tentative
        } else if self.is_deprecated() {
            AddressState::Deprecated
        } else {
            AddressState::Ready
        };
        let temporary = address.is_ipv6() && self.is_secondary();
        Some(InterfaceAddress { state, temporary, ..InterfaceAddress::new(address, self.prefix) })
    }
}

impl RouteMessage {
    fn routes(self) -> impl Iterator<Item = Route> {
        let (destination, source, gateway) = (self.destination, self.source, self.gateway);
        let route = move |interface| Route { source, gateway, ..Route::new(interface, destination) };
        self.interfaces.into_iter().map(route)
    }
}
