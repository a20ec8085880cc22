//! The network of the namespace: two devices, default routes, and listeners to which TCP is redirected.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use socket2::{Domain, Socket, Type};

use super::netlink::{Attributes, Message, Netlink, Verb};
use super::nftables;
use super::refusal::{Step, StepError};
use crate::kernel;
use crate::plan::{ADDRESS_V4, ADDRESS_V6, DEVICE};

/// `AF_INET` and `AF_INET6`.
const V4: u8 = 2;
const V6: u8 = 10;
/// From `linux/rtnetlink.h` and `linux/if.h`.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const UP: u32 = 1;
const MTU: u16 = 4;
const FAMILY_SPECIFIC: u16 = 26;
const ADDRESS_GENERATION: u16 = 8;
const NO_GENERATION: u8 = 1;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const NO_DUPLICATE_DETECTION: u8 = 2;
const DEVICE_INDEX: u16 = 4;
const MAIN_TABLE: u8 = 254;
const BY_ADMINISTRATOR: u8 = 4;
const SCOPE_LINK: u8 = 253;
const SCOPE_UNIVERSE: u8 = 0;
const UNICAST: u8 = 1;
/// The loopback device is the first one of each namespace.
const LOOPBACK: u32 = 1;
/// Connections that wait to be accepted; the system has a limit of its own.
const BACKLOG: i32 = 1024;

/// Makes the TUN device with addresses and default routes, and sets it and `lo` up.
pub(super) fn make_device(mtu: u16) -> Result<OwnedFd, StepError> {
    let device = kernel::open_tun(DEVICE).map_err(Step::Device.failed())?;
    configure(mtu).map_err(Step::Routes.failed())?;
    Ok(device)
}

fn configure(mtu: u16) -> io::Result<()> {
    let index = index_of_device()?;
    let netlink = Netlink::open(None)?;
    netlink.request([link_up(LOOPBACK)])?;
    if has_v6() {
        // Some systems switch IPv6 off for new devices.
        for place in ["all", "default", DEVICE] {
            set(&format!("/proc/sys/net/ipv6/conf/{place}/disable_ipv6"), "0");
        }
        // No link-local address, which would be announced. Where this is refused, packets of neighbour discovery come
        // out of the device and are dropped.
        let _ = netlink.request([without_link_local(index)]);
    }
    netlink.request([link_up(index).with(MTU, &u32::from(mtu).to_ne_bytes())])?;
    netlink.request([address(V4, index, &ADDRESS_V4.octets()), default_route(V4, index)])?;
    if has_v6() {
        netlink.request([address(V6, index, &ADDRESS_V6.octets()), default_route(V6, index)])?;
    }
    Ok(())
}

/// Lets the command's group send echo requests by ICMP sockets, which need no privilege; new namespaces allow nobody.
pub(super) fn allow_ping(group: u32) {
    set("/proc/sys/net/ipv4/ping_group_range", &format!("{group} {group}"));
}

/// Listens on loopback, and redirects the TCP connections that would leave by the device.
pub(super) fn listen() -> Result<(TcpListener, Option<TcpListener>), StepError> {
    let bound = || {
        let v4 = bind(Domain::IPV4, (Ipv4Addr::LOCALHOST, 0).into())?;
        let port = v4.local_addr()?.port();
        let v6 = if has_v6() { Some(bind(Domain::IPV6, (Ipv6Addr::LOCALHOST, port).into())?) } else { None };
        Ok((v4, v6, port))
    };
    let (v4, v6, port) = bound().map_err(Step::Listeners.failed())?;
    let redirected = index_of_device().and_then(|index| nftables::redirect(index, port));
    redirected.map_err(Step::Redirection.failed())?;
    Ok((v4, v6))
}

fn bind(domain: Domain, address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(domain, Type::STREAM, None)?;
    if domain == Domain::IPV6 {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn index_of_device() -> io::Result<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(&any, DEVICE)?)
}

fn has_v6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

/// Writes a setting of this network; where `/proc/sys` is read-only, as in containers, it stays as it is.
fn set(setting: &str, value: &str) {
    if let Err(error) = std::fs::write(setting, value) {
        tracing::debug!(setting, value, %error, "a setting of the namespace was not changed");
    }
}

/// `struct ifinfomsg`.
fn link(index: u32, flags: u32) -> Vec<u8> {
    let numbers = [index, flags, flags];
    [&[0; 4][..], &numbers.map(u32::to_ne_bytes).concat()].concat()
}

fn link_up(index: u32) -> Message {
    Message::new(NEW_LINK, Verb::Set, &link(index, UP))
}

fn without_link_local(index: u32) -> Message {
    let generation = Attributes::default().with(ADDRESS_GENERATION, &[NO_GENERATION]);
    let families = Attributes::default().with_nested(u16::from(V6), &generation);
    Message::new(NEW_LINK, Verb::Set, &link(index, 0)).with_nested(FAMILY_SPECIFIC, &families)
}

/// `struct ifaddrmsg` with an address of a single host.
fn address(family: u8, index: u32, octets: &[u8]) -> Message {
    let bits = if family == V4 { 32 } else { 128 };
    let fixed = [[family, bits, NO_DUPLICATE_DETECTION, SCOPE_UNIVERSE], index.to_ne_bytes()].concat();
    Message::new(NEW_ADDRESS, Verb::Create, &fixed).with(LOCAL, octets).with(ADDRESS, octets)
}

/// `struct rtmsg`.
fn default_route(family: u8, index: u32) -> Message {
    let scope = if family == V4 { SCOPE_LINK } else { SCOPE_UNIVERSE };
    let fixed = [family, 0, 0, 0, MAIN_TABLE, BY_ADMINISTRATOR, scope, UNICAST, 0, 0, 0, 0];
    Message::new(NEW_ROUTE, Verb::Create, &fixed).with(DEVICE_INDEX, &index.to_ne_bytes())
}
