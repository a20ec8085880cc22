//! The network of the namespace: two devices, default routes, and listeners to which TCP is redirected.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;

use super::refusal::{Step, StepError};
use crate::kernel;
use crate::netlink::Netlink;
use crate::network::{
    LOOPBACK, V4, V6, address, default_route, has_v6, index_of, link_up, link_up_with, set,
    without_link_local,
};
use crate::nftables::redirection;
use crate::plan::{ADDRESS_V4, ADDRESS_V6, DEVICE};

/// Makes the TUN device with addresses and default routes, and sets it and `lo` up.
pub(super) fn make_device(mtu: u16) -> Result<OwnedFd, StepError> {
    let device = kernel::open_tun(DEVICE).map_err(Step::Device.failed())?;
    configure(mtu).map_err(Step::Routes.failed())?;
    Ok(device)
}

fn configure(mtu: u16) -> io::Result<()> {
    let index = index_of(DEVICE)?;
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
    netlink.request([link_up_with(index, mtu)])?;
    netlink.request([address(V4, index, &ADDRESS_V4.octets()), default_route(V4, index)])?;
    if has_v6() {
        netlink.request([address(V6, index, &ADDRESS_V6.octets()), default_route(V6, index)])?;
    }
    Ok(())
}

/// Lets the command's group send echo requests by ICMP sockets, which need no privilege: a new namespace allows no
/// group to.
pub(super) fn allow_ping(group: u32) {
    set("/proc/sys/net/ipv4/ping_group_range", &format!("{group} {group}"));
}

/// Listens on loopback, and redirects the TCP connections that would leave by the device.
pub(super) fn listen() -> Result<(TcpListener, Option<TcpListener>), StepError> {
    let (v4, v6, port) = crate::network::listen().map_err(Step::Listeners.failed())?;
    let redirected = index_of(DEVICE).and_then(|index| redirection::redirect(index, port));
    redirected.map_err(Step::Redirection.failed())?;
    Ok((v4, v6))
}
