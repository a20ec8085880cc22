//! Netlink messages, as far as they are needed here (`linux/netlink.h`, `rtnetlink.h`, `if_link.h`, `if_addr.h`).
//!
//! ```text
//! length u32 | kind u16 | flags u16 | sequence u32 | port u32 | header of the kind | attributes, each padded to 4
//!   attribute: length u16 | kind u16 | value
//! ```
//! All in the byte order of the host. Attributes that are unknown or have an unexpected size are skipped, so that
//! kernels of all versions are understood.

use std::net::IpAddr;

use super::super::snapshot::Prefix;

pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const NLMSG_DONE: u16 = 3;
pub(super) const NLM_F_DUMP_INTR: u16 = 0x10;
pub(super) const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
pub(super) const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
pub(super) const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEIGH: u16 = 28;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// The content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    LinkSet(LinkMessage),
    LinkGone,
    AddressSet(AddressMessage),
    AddressGone,
    RouteSet(RouteMessage),
    RouteGone,
    NeighbourSet(NeighbourMessage),
    Other,
}

/// The header of a message, and the error number of those that report one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: u16,
    pub(super) flags: u16,
    /// Positive, as in `errno`; 0 unless `kind` is [`NLMSG_ERROR`].
    pub(super) error: i32,
}

/// The messages in a buffer, up to the first truncated one.
pub(super) fn messages(buffer: &[u8]) -> impl Iterator<Item = (Header, Message)> {
    const HEADER: usize = 16;
    let mut rest = buffer;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(rest, 0)?).ok()?;
        let message = rest.get(..length)?;
        let (kind, flags) = (u16_at(message, 4)?, u16_at(message, 6)?);
        let body = message.get(HEADER..)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        let error = match (kind, u32_at(body, 0)) {
            (NLMSG_ERROR, Some(code)) => code.cast_signed().checked_neg().unwrap_or(i32::MAX),
            (_, _) => 0,
        };
        Some((Header { kind, flags, error }, Message::decode(kind, body)))
    })
}

impl Message {
    fn decode(kind: u16, body: &[u8]) -> Self {
        match kind {
            RTM_NEWLINK => LinkMessage::decode(body).map_or(Self::Other, Self::LinkSet),
            RTM_DELLINK => Self::LinkGone,
            RTM_NEWADDR => AddressMessage::decode(body).map_or(Self::Other, Self::AddressSet),
            RTM_DELADDR => Self::AddressGone,
            RTM_NEWROUTE => RouteMessage::decode(body).map_or(Self::Other, Self::RouteSet),
            RTM_DELROUTE => Self::RouteGone,
            RTM_NEWNEIGH => NeighbourMessage::decode(body).map_or(Self::Other, Self::NeighbourSet),
            _ => Self::Other,
        }
    }
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkMessage {
    pub(super) index: u32,
    pub(super) name: String,
    flags: u32,
    pub(super) mtu: Option<u32>,
    /// Index of the bridge, bond or the like that owns it.
    pub(super) master: Option<u32>,
    /// Its driver's name for its kind.
    pub(super) kind: Option<String>,
    /// The master's name for its kind as a port.
    pub(super) port_kind: Option<String>,
}

impl LinkMessage {
    /// `family u8 | pad | type u16 | index i32 | flags u32 | change u32`
    fn decode(body: &[u8]) -> Option<Self> {
        const AF_UNSPEC: u8 = 0;
        const IFLA_IFNAME: u16 = 3;
        const IFLA_MTU: u16 = 4;
        const IFLA_MASTER: u16 = 10;
        const IFLA_LINKINFO: u16 = 18;
        // A bridge reports its ports in messages of its own family, which lack the rest.
        if *body.first()? != AF_UNSPEC {
            return None;
        }
        let mut link = Self {
            index: u32_at(body, 4)?,
            name: String::new(),
            flags: u32_at(body, 8)?,
            mtu: None,
            master: None,
            kind: None,
            port_kind: None,
        };
        for (kind, value) in attributes(body.get(16..)?) {
            match kind {
                IFLA_IFNAME => link.name = text(value),
                IFLA_MTU => link.mtu = u32_at(value, 0),
                IFLA_MASTER => link.master = u32_at(value, 0).filter(|index| *index != 0),
                IFLA_LINKINFO => link.read_info(value),
                _ => {}
            }
        }
        (link.index != 0 && !link.name.is_empty()).then_some(link)
    }

    fn read_info(&mut self, info: &[u8]) {
        const IFLA_INFO_KIND: u16 = 1;
        const IFLA_INFO_SLAVE_KIND: u16 = 4;
        for (kind, value) in attributes(info) {
            match kind {
                IFLA_INFO_KIND => self.kind = Some(text(value)),
                IFLA_INFO_SLAVE_KIND => self.port_kind = Some(text(value)),
                _ => {}
            }
        }
    }

    pub(super) fn is_up(&self) -> bool {
        const IFF_UP: u32 = 1;
        self.flags & IFF_UP != 0
    }

    pub(super) fn is_running(&self) -> bool {
        const IFF_RUNNING: u32 = 0x40;
        self.flags & IFF_RUNNING != 0
    }

    pub(super) fn is_loopback(&self) -> bool {
        const IFF_LOOPBACK: u32 = 8;
        self.flags & IFF_LOOPBACK != 0
    }
}

/// An address of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressMessage {
    pub(super) interface: u32,
    pub(super) prefix: u8,
    flags: u32,
    /// On a point-to-point link, the remote address.
    pub(super) address: Option<IpAddr>,
    /// The local address, if it differs.
    pub(super) local: Option<IpAddr>,
}

impl AddressMessage {
    /// `family u8 | prefix length u8 | flags u8 | scope u8 | index u32`
    fn decode(body: &[u8]) -> Option<Self> {
        const IFA_ADDRESS: u16 = 1;
        const IFA_LOCAL: u16 = 2;
        const IFA_FLAGS: u16 = 8;
        let mut address = Self {
            interface: u32_at(body, 4)?,
            prefix: *body.get(1)?,
            flags: u32::from(*body.get(2)?),
            address: None,
            local: None,
        };
        for (kind, value) in attributes(body.get(8..)?) {
            match kind {
                IFA_ADDRESS => address.address = ip(value),
                IFA_LOCAL => address.local = ip(value),
                IFA_FLAGS => address.flags = u32_at(value, 0).unwrap_or(address.flags),
                _ => {}
            }
        }
        Some(address)
    }

    /// For IPv6 this marks a temporary address.
    pub(super) fn is_secondary(&self) -> bool {
        const IFA_F_SECONDARY: u32 = 1;
        self.flags & IFA_F_SECONDARY != 0
    }

    pub(super) fn is_tentative(&self) -> bool {
        const IFA_F_OPTIMISTIC: u32 = 4;
        const IFA_F_DADFAILED: u32 = 8;
        const IFA_F_TENTATIVE: u32 = 0x40;
        // RFC 4429: an optimistic address may be used while duplicate address detection runs.
        self.flags & IFA_F_DADFAILED != 0
            || self.flags & (IFA_F_TENTATIVE | IFA_F_OPTIMISTIC) == IFA_F_TENTATIVE
    }

    pub(super) fn is_deprecated(&self) -> bool {
        const IFA_F_DEPRECATED: u32 = 0x20;
        self.flags & IFA_F_DEPRECATED != 0
    }
}

/// A route, possibly over several interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RouteMessage {
    /// Packets may leave by it: not local, not a prohibition, not dead, not a cache entry.
    pub(super) is_unicast: bool,
    pub(super) destination: Prefix,
    pub(super) source: Option<IpAddr>,
    /// The router of a route over one interface.
    pub(super) gateway: Option<IpAddr>,
    pub(super) interfaces: Vec<u32>,
}

impl RouteMessage {
    /// `family u8 | destination length u8 | source length u8 | tos u8 | table u8 | protocol u8 | scope u8 | type u8 |
    /// flags u32`
    fn decode(body: &[u8]) -> Option<Self> {
        const RTN_UNICAST: u8 = 1;
        const RTNH_F_DEAD: u32 = 1;
        const RTNH_F_LINKDOWN: u32 = 0x10;
        const RTM_F_CLONED: u32 = 0x200;
        const RTA_DST: u16 = 1;
        const RTA_OIF: u16 = 4;
        const RTA_GATEWAY: u16 = 5;
        const RTA_PREFSRC: u16 = 7;
        const RTA_MULTIPATH: u16 = 9;
        let anywhere = match *body.first()? {
            AF_INET => IpAddr::from([0; 4]),
            AF_INET6 => IpAddr::from([0; 16]),
            _ => return None,
        };
        let flags = u32_at(body, 8)?;
        let mut route = Self {
            is_unicast: *body.get(7)? == RTN_UNICAST
                && flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN | RTM_F_CLONED) == 0,
            destination: Prefix { address: anywhere, length: *body.get(1)? },
            source: None,
            gateway: None,
            interfaces: Vec::new(),
        };
        for (kind, value) in attributes(body.get(12..)?) {
            match kind {
                RTA_DST => route.destination.address = ip(value)?,
                RTA_GATEWAY => route.gateway = ip(value),
                RTA_PREFSRC => route.source = ip(value),
                RTA_OIF => route.interfaces.extend(u32_at(value, 0)),
                RTA_MULTIPATH => route.interfaces.extend(next_hops(value)),
                _ => {}
            }
        }
        Some(route)
    }
}

/// A host of a local network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NeighbourMessage {
    pub(super) interface: u32,
    pub(super) address: IpAddr,
    /// Its link address was not found.
    pub(super) is_failed: bool,
}

impl NeighbourMessage {
    /// `family u8 | pad | interface i32 | state u16 | flags u8 | type u8`
    fn decode(body: &[u8]) -> Option<Self> {
        const NDA_DST: u16 = 1;
        const NUD_FAILED: u16 = 0x20;
        // Bridges report their forwarding table as neighbours of another family.
        if !matches!(i32::from(*body.first()?), nix::libc::AF_INET | nix::libc::AF_INET6) {
            return None;
        }
        let (interface, state) = (u32_at(body, 4)?, u16_at(body, 8)?);
        let (_, address) = attributes(body.get(12..)?).find(|(kind, _)| *kind == NDA_DST)?;
        Some(Self { interface, address: ip(address)?, is_failed: state & NUD_FAILED != 0 })
    }
}

/// The interfaces of `length u16 | flags u8 | hops u8 | interface i32 | attributes`, again and again.
fn next_hops(value: &[u8]) -> impl Iterator<Item = u32> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let interface = u32_at(rest.get(..length)?, 4)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(interface)
    })
}

/// The attributes in a buffer, up to the first truncated one.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const HEADER: usize = 4;
    /// The two highest bits describe the encoding of the value, which each kind knows.
    const KIND: u16 = 0x3fff;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & KIND;
        let value = rest.get(HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    bytes.get(place..)?.first_chunk().map(|field| u16::from_ne_bytes(*field))
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(place..)?.first_chunk().map(|field| u32::from_ne_bytes(*field))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Some(IpAddr::from(v4));
    }
    <[u8; 16]>::try_from(value).ok().map(IpAddr::from)
}

fn text(value: &[u8]) -> String {
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        let mut bytes = u32::try_from(body.len() + 16).unwrap().to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(&body);
        bytes
    }

    fn only(bytes: &[u8]) -> Message {
        let mut found = messages(bytes);
        let (_, message) = found.next().unwrap();
        assert!(found.next().is_none());
        message
    }

    #[test]
    fn a_link_is_read_with_its_kind_and_its_bridge() {
        let header = [[0; 4], 7u32.to_ne_bytes(), 0x41u32.to_ne_bytes(), [0; 4]].concat();
        let info = [attribute(1, b"veth\0"), attribute(4, b"bridge\0")].concat();
        let bytes = message(
            RTM_NEWLINK,
            &[
                &header,
                &attribute(3, b"veth0\0"),
                &attribute(4, &1500u32.to_ne_bytes()),
                &attribute(10, &9u32.to_ne_bytes()),
                &attribute(18 | 0x8000, &info),
                &attribute(999, b"unknown"),
            ],
        );
        let Message::LinkSet(link) = only(&bytes) else { panic!("not a link") };
        assert_eq!(
            (link.index, link.name.as_str(), link.mtu, link.master),
            (7, "veth0", Some(1500), Some(9))
        );
        assert_eq!((link.kind.as_deref(), link.port_kind.as_deref()), (Some("veth"), Some("bridge")));
        assert!(link.is_up() && link.is_running() && !link.is_loopback());
    }

    #[test]
    fn long_flags_of_an_address_replace_the_short_ones() {
        let header = [&[AF_INET6, 64, 0, 0][..], &3u32.to_ne_bytes()].concat();
        let address = attribute(1, &std::net::Ipv6Addr::LOCALHOST.octets());
        let read = |flags: u32| {
            let bytes = message(RTM_NEWADDR, &[&header, &address, &attribute(8, &flags.to_ne_bytes())]);
            let Message::AddressSet(address) = only(&bytes) else { panic!("not an address") };
            address
        };
        assert_eq!(read(0).address, Some("::1".parse().unwrap()));
        assert_eq!((read(0).interface, read(0).prefix), (3, 64));
        assert!(read(0x40).is_tentative() && !read(0x44).is_tentative() && read(0x48).is_tentative());
        assert!(read(0x220).is_deprecated() && read(0x301).is_secondary());
    }

    #[test]
    fn a_route_over_two_interfaces_is_two_routes() {
        let header = [&[AF_INET, 0, 0, 0, 254, 3, 0, 1][..], &[0; 4]].concat();
        let hop = |interface: u32| [&8u16.to_ne_bytes()[..], &[0, 0], &interface.to_ne_bytes()].concat();
        let bytes = message(RTM_NEWROUTE, &[&header, &attribute(9, &[hop(4), hop(5)].concat())]);
        let Message::RouteSet(route) = only(&bytes) else { panic!("not a route") };
        assert!(route.is_unicast);
        assert_eq!(route.destination.to_string(), "0.0.0.0/0");
        assert_eq!(route.interfaces, [4, 5]);
    }

    #[test]
    fn a_route_names_its_router() {
        let header = [&[AF_INET, 0, 0, 0, 254, 3, 0, 1][..], &[0; 4]].concat();
        let parts = [attribute(5, &[192, 168, 8, 1]), attribute(4, &7u32.to_ne_bytes())].concat();
        let Message::RouteSet(route) = only(&message(RTM_NEWROUTE, &[&header, &parts])) else {
            panic!("not a route")
        };
        assert_eq!((route.gateway, route.interfaces), (Some("192.168.8.1".parse().unwrap()), vec![7]));
    }

    #[test]
    fn a_neighbour_is_read_with_its_state() {
        let read = |state: u16| {
            let header =
                [&[AF_INET, 0, 0, 0][..], &7u32.to_ne_bytes(), &state.to_ne_bytes(), &[0, 1]].concat();
            only(&message(RTM_NEWNEIGH, &[&header, &attribute(1, &[10, 7, 1, 9])]))
        };
        let neighbour = |is_failed| {
            let address = "10.7.1.9".parse().unwrap();
            Message::NeighbourSet(NeighbourMessage { interface: 7, address, is_failed })
        };
        assert_eq!([read(0x20), read(1)], [neighbour(true), neighbour(false)]);
    }

    #[test]
    fn a_prohibition_is_no_route() {
        let header = [&[AF_INET, 0, 0, 0, 254, 3, 0, 7][..], &[0; 4]].concat();
        let Message::RouteSet(route) = only(&message(RTM_NEWROUTE, &[&header])) else {
            panic!("not a route")
        };
        assert!(!route.is_unicast);
    }

    #[test]
    fn a_refusal_tells_its_number() {
        let bytes = message(NLMSG_ERROR, &[&(-13i32).to_ne_bytes(), &[0; 16]]);
        assert_eq!(messages(&bytes).next().unwrap().0.error, 13);
    }

    /// Attributes of unknown kinds.
    fn unknown_attributes() -> impl Strategy<Value = Vec<u8>> {
        let one = (1000_u16..0x3fff, prop::collection::vec(any::<u8>(), 0..9));
        let one = one.prop_map(|(kind, value)| attribute(kind, &value));
        prop::collection::vec(one, 0..4).prop_map(|all| all.concat())
    }

    proptest! {
        #[test]
        fn any_link_is_read_with_unknown_attributes_between_its_own(
            (index, flags, mtu) in (1..u32::MAX, any::<u32>(), any::<u32>()),
            name in "[a-z0-9]{1,15}",
            master in 1..u32::MAX,
            unknown in unknown_attributes(),
        ) {
            let header = [&[0; 4][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 4]].concat();
            let name_value = [name.as_bytes(), &[0]].concat();
            let known = [
                attribute(3, &name_value),
                attribute(4, &mtu.to_ne_bytes()),
                attribute(10, &master.to_ne_bytes()),
            ];
            let bytes = message(RTM_NEWLINK, &[&header, &unknown, &known.concat(), &unknown]);
            let Message::LinkSet(link) = only(&bytes) else { panic!("not a link") };
            prop_assert_eq!((link.index, link.flags, link.name), (index, flags, name));
            prop_assert_eq!((link.mtu, link.master), (Some(mtu), Some(master)));
        }

        #[test]
        fn any_address_is_read_in_any_order_of_its_attributes(
            (interface, prefix) in (any::<u32>(), any::<u8>()),
            (far, near, long) in (any::<[u8; 4]>(), any::<[u8; 16]>(), any::<u32>()),
            order in any::<bool>(),
        ) {
            let header = [&[AF_INET, prefix, 0, 0][..], &interface.to_ne_bytes()].concat();
            let mut known = [attribute(1, &far), attribute(2, &near), attribute(8, &long.to_ne_bytes())];
            if order {
                known.reverse();
            }
            let bytes = message(RTM_NEWADDR, &[&header, &known.concat()]);
            let Message::AddressSet(address) = only(&bytes) else { panic!("not an address") };
            prop_assert_eq!((address.interface, address.prefix, address.flags), (interface, prefix, long));
            prop_assert_eq!(address.address, Some(IpAddr::from(far)));
            prop_assert_eq!(address.local, Some(IpAddr::from(near)));
        }

        #[test]
        fn any_route_is_read_with_all_its_interfaces(
            destination in any::<[u8; 16]>(),
            length in 0..=128_u8,
            hops in prop::collection::vec(1..u32::MAX, 1..6),
        ) {
            let header = [&[AF_INET6, length, 0, 0, 254, 3, 0, 1][..], &[0; 4]].concat();
            let hop = |interface: &u32| [&8u16.to_ne_bytes()[..], &[0, 0], &interface.to_ne_bytes()].concat();
            let all: Vec<u8> = hops.iter().flat_map(hop).collect();
            let bytes = message(RTM_NEWROUTE, &[&header, &attribute(1, &destination), &attribute(9, &all)]);
            let Message::RouteSet(route) = only(&bytes) else { panic!("not a route") };
            prop_assert_eq!(route.destination.address, IpAddr::from(destination));
            prop_assert_eq!((route.destination.length, route.interfaces), (length, hops));
        }

        #[test]
        fn no_input_makes_the_reader_panic_or_hang(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(messages(&bytes).count() <= 400);
            for kind in 0..40 {
                let whole = message(kind, &[&bytes]);
                prop_assert_eq!(messages(&whole).count(), 1);
            }
        }
    }
}
