//! Devices, addresses, routes and rules of a network namespace, by rtnetlink(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use ipnet::IpNet;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use socket2::{Domain, Socket, Type};

use crate::netlink::{Attributes, Message, Verb};
use crate::plan::ADDRESS_V6;

/// `AF_INET` and `AF_INET6`.
pub(crate) const V4: u8 = 2;
pub(crate) const V6: u8 = 10;
/// From `linux/rtnetlink.h` and `linux/if.h`.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;
const UP: u32 = 1;
const MTU: u16 = 4;
const FAMILY_SPECIFIC: u16 = 26;
const ADDRESS_GENERATION: u16 = 8;
const NO_GENERATION: u8 = 1;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const NO_DUPLICATE_DETECTION: u8 = 2;
const DEVICE_INDEX: u16 = 4;
const ROUTE_DESTINATION: u16 = 1;
const ROUTE_TABLE: u16 = 15;
/// From `linux/fib_rules.h`.
const TO_TABLE: u8 = 1;
const GOES_TO: u16 = 1;
const COMES_FROM: u16 = 3;
const PRIORITY: u16 = 6;
const SUPPRESS_PREFIX_LENGTH: u16 = 14;
const RULE_TABLE: u16 = 15;
const RULE_ORIGIN: u16 = 21;
pub(crate) const MAIN_TABLE: u32 = 254;
/// Who has made a route or rule (`RTPROT_KERNEL`): systemd-networkd removes those of other programs when it starts, but
/// not those of the kernel, to which nothing else is done.
const OF_KERNEL: u8 = 2;
const SCOPE_LINK: u8 = 253;
const SCOPE_UNIVERSE: u8 = 0;
const UNICAST: u8 = 1;
/// The loopback device is the first one of each namespace.
pub(crate) const LOOPBACK: u32 = 1;
/// Connections that wait to be accepted; the system has a limit of its own.
const BACKLOG: i32 = 1024;

/// Waits until packets to the IPv6 address are accepted: the kernel installs the route for it some time after it has
/// confirmed the address, and until then drops them. Later than the limit it is not worth waiting.
pub(crate) fn await_v6() {
    const EVERY: Duration = Duration::from_millis(1);
    const MOST: u32 = 1000;
    for _ in 0..MOST {
        let routes = std::fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
        if !has_v6() || routes.lines().any(is_own_route) {
            return;
        }
        std::thread::sleep(EVERY);
    }
}

/// Whether a line of `/proc/net/ipv6_route` is the local route of our address.
fn is_own_route(line: &str) -> bool {
    /// `RTF_LOCAL` of `linux/ipv6_route.h`.
    const LOCAL: u32 = 0x8000_0000;
    let address: String = ADDRESS_V6.octets().iter().map(|octet| format!("{octet:02x}")).collect();
    let fields: Vec<_> = line.split_whitespace().collect();
    let [destination, "80", _, _, _, _, _, _, flags, ..] = fields.as_slice() else { return false };
    *destination == address && u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LOCAL != 0)
}

/// Listeners on loopback for IPv4 and, where the system has it, IPv6, and their common port.
pub(crate) fn listen() -> io::Result<(TcpListener, Option<TcpListener>, u16)> {
    listen_at(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, None)
}

/// As [`listen`], for connections that arrive by a device.
pub(crate) fn listen_on(device: &str) -> io::Result<(TcpListener, Option<TcpListener>, u16)> {
    listen_at(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, Some(device))
}

fn listen_at(
    v4: Ipv4Addr,
    v6: Ipv6Addr,
    device: Option<&str>,
) -> io::Result<(TcpListener, Option<TcpListener>, u16)> {
    let v4 = bind(Domain::IPV4, (v4, 0).into(), device)?;
    let port = v4.local_addr()?.port();
    let v6 = if may_use_v6() { Some(bind(Domain::IPV6, (v6, port).into(), device)?) } else { None };
    Ok((v4, v6, port))
}

fn bind(domain: Domain, address: SocketAddr, device: Option<&str>) -> io::Result<TcpListener> {
    let socket = Socket::new(domain, Type::STREAM, None)?;
    if domain == Domain::IPV6 {
        socket.set_only_v6(true)?;
    }
    if let Some(device) = device {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

pub(crate) fn index_of(device: &str) -> io::Result<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(&any, device)?)
}

/// Whether this host forwards packets that arrive by a device.
pub(crate) fn forwards_v4(device: &str) -> bool {
    is_on(&format!("/proc/sys/net/ipv4/conf/{device}/forwarding"))
}

/// Whether this host forwards IPv6 at all.
pub(crate) fn forwards_v6() -> bool {
    is_on("/proc/sys/net/ipv6/conf/all/forwarding")
}

fn is_on(setting: &str) -> bool {
    std::fs::read_to_string(setting).is_ok_and(|text| !matches!(text.trim(), "" | "0"))
}

/// Whether the device has an IPv6 address that is not link-local.
pub(crate) fn has_wide_v6(device: &str) -> bool {
    /// In `/proc/net/if_inet6`.
    const GLOBAL: &str = "00";
    let list = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
        matches!(fields.as_slice(), [_, _, _, scope, _, name] if *scope == GLOBAL && *name == device)
    })
}

pub(crate) fn has_v6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

/// Whether IPv6 can be used now: the kernel may have it, and the administrator may have switched it off.
pub(crate) fn may_use_v6() -> bool {
    has_v6() && std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// Writes a setting of this network; where `/proc/sys` is read-only, as in containers, it stays as it is.
pub(crate) fn set(setting: &str, value: &str) {
    if let Err(error) = std::fs::write(setting, value) {
        tracing::debug!(setting, value, %error, "a setting of the namespace was not changed");
    }
}

/// `struct ifinfomsg`.
fn link(index: u32, flags: u32) -> Vec<u8> {
    let numbers = [index, flags, flags];
    [&[0; 4][..], &numbers.map(u32::to_ne_bytes).concat()].concat()
}

pub(crate) fn link_up(index: u32) -> Message {
    Message::new(NEW_LINK, Verb::Set, &link(index, UP))
}

pub(crate) fn without_link_local(index: u32) -> Message {
    let generation = Attributes::default().with(ADDRESS_GENERATION, &[NO_GENERATION]);
    let families = Attributes::default().with_nested(u16::from(V6), &generation);
    Message::new(NEW_LINK, Verb::Set, &link(index, 0)).with_nested(FAMILY_SPECIFIC, &families)
}

/// `struct ifaddrmsg` with an address of a single host.
pub(crate) fn address(family: u8, index: u32, octets: &[u8]) -> Message {
    let bits = if family == V4 { 32 } else { 128 };
    let fixed = [[family, bits, NO_DUPLICATE_DETECTION, SCOPE_UNIVERSE], index.to_ne_bytes()].concat();
    Message::new(NEW_ADDRESS, Verb::CreateNew, &fixed).with(LOCAL, octets).with(ADDRESS, octets)
}

/// With the largest packet that the device takes.
pub(crate) fn link_up_with(index: u32, mtu: u16) -> Message {
    link_up(index).with(MTU, &u32::from(mtu).to_ne_bytes())
}

/// The default route of a family.
pub(crate) fn default_route(family: u8, index: u32) -> Message {
    let any =
        if family == V4 { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    route(Verb::Create, MAIN_TABLE, IpNet::new_assert(any, 0), index)
}

/// A route of a table to a network, by a device (`struct rtmsg`).
pub(crate) fn route(verb: Verb, table: u32, to: IpNet, device: u32) -> Message {
    let (family, octets) = family_of(to.network());
    let scope = if family == V4 { SCOPE_LINK } else { SCOPE_UNIVERSE };
    let fixed = [family, to.prefix_len(), 0, 0, 0, OF_KERNEL, scope, UNICAST, 0, 0, 0, 0];
    Message::new(NEW_ROUTE, verb, &fixed)
        .with(ROUTE_TABLE, &table.to_ne_bytes())
        .with(ROUTE_DESTINATION, &octets)
        .with(DEVICE_INDEX, &device.to_ne_bytes())
}

/// A rule that looks into a table; default routes of the table may be left out (`struct fib_rule_hdr`).
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) family: u8,
    /// Rules with a lower number come first.
    pub(crate) priority: u32,
    /// Which packets: those that arrive by this device; those of this host by the loopback device.
    pub(crate) from: String,
    /// And go to this network of the family.
    pub(crate) to: Option<IpNet>,
    pub(crate) table: u32,
    pub(crate) leaves_default_out: bool,
}

impl Rule {
    pub(crate) fn create(&self) -> Message {
        let bits = self.to.map_or(0, |to| to.prefix_len());
        let fixed = [self.family, bits, 0, 0, 0, 0, 0, TO_TABLE, 0, 0, 0, 0];
        let mut message = Message::new(NEW_RULE, Verb::CreateNew, &fixed)
            .with(COMES_FROM, format!("{}\0", self.from).as_bytes())
            .with(PRIORITY, &self.priority.to_ne_bytes())
            .with(RULE_TABLE, &self.table.to_ne_bytes())
            .with(RULE_ORIGIN, &[OF_KERNEL]);
        if let Some(to) = self.to {
            message = message.with(GOES_TO, &family_of(to.network()).1);
        }
        if self.leaves_default_out {
            message = message.with(SUPPRESS_PREFIX_LENGTH, &0_u32.to_ne_bytes());
        }
        message
    }
}

/// Deletes one rule of ours with this priority.
pub(crate) fn delete_rule(family: u8, priority: u32) -> Message {
    let fixed = [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    Message::new(DELETE_RULE, Verb::Set, &fixed)
        .with(PRIORITY, &priority.to_ne_bytes())
        .with(RULE_ORIGIN, &[OF_KERNEL])
}

fn family_of(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (V4, v4.octets().to_vec()),
        IpAddr::V6(v6) => (V6, v6.octets().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_route_of_our_address_is_told_from_others() {
        let line = |address: &str, flags: &str| {
            format!("{address} 80 {0} 00 {0} 00000000 00000003 00000000 {flags}  manyway0", "0".repeat(32))
        };
        let own = "fd6d77c419a200000000000000000001";
        assert!(is_own_route(&line(own, "80200001")));
        assert!(!is_own_route(&line(own, "00000001")), "the route to it, not the local one");
        assert!(!is_own_route(&line(&own.replace('1', "2"), "80200001")));
        assert!(!is_own_route("") && !is_own_route(own));
    }
}
